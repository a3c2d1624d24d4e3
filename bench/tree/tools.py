"""The peers, and which of them are installed."""

import importlib.metadata
from dataclasses import dataclass


@dataclass(frozen=True)
class Peer:
    """A name in the table, its file in `peers/`, and the Python package it needs."""

    name: str
    script: str
    package: str

    @property
    def version(self) -> str | None:
        """The version of the package, or `None` if it is not installed."""
        try:
            return f"{self.package} {importlib.metadata.version(self.package)}"
        except importlib.metadata.PackageNotFoundError:
            return None


ZHAT = Peer("zhat", "zhat", "zhat")
PEERS = (
    Peer("torch-struct", "torch_struct", "torch-struct"),
    Peer("nltk-viterbi", "nltk", "nltk"),
    Peer("nltk-inside-chart", "nltk", "nltk"),
)
"""The libraries that are compared, one file each: `python -m peers.FILE PEER CASE THREADS CALLS SECONDS`.

A file passes loaders for each of its peers to `timing.main`, which describes loaders.
"""
