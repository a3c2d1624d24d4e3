"""Models of other libraries as models of zhat, and back. Each library is imported when it is needed."""

from __future__ import annotations

from .dynamax import from_dynamax, to_dynamax
from .hmmlearn import from_hmmlearn, to_hmmlearn
from .networkx import from_networkx, to_networkx
from .pgmpy import from_pgmpy, to_pgmpy
from .pomegranate import from_pomegranate, to_pomegranate
from .pyagrum import from_pyagrum, to_pyagrum

__all__ = [
    "from_dynamax",
    "from_hmmlearn",
    "from_networkx",
    "from_pgmpy",
    "from_pomegranate",
    "from_pyagrum",
    "to_dynamax",
    "to_hmmlearn",
    "to_networkx",
    "to_pgmpy",
    "to_pomegranate",
    "to_pyagrum",
]
