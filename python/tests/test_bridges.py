"""Bridges as a whole: nothing is imported before it is needed, and a missing library is named."""

from __future__ import annotations

import doctest
import subprocess
import sys

import pytest
from bridge_hmms import random_hmm

import zhat
from zhat.bridges import networkx

LIBRARIES = ["dynamax", "hmmlearn", "jax", "networkx", "pgmpy", "pomegranate", "pyagrum"]
GRAPH = zhat.FactorGraph([2], [((0,), [0.5, 0.5])], log=False)


def test_importing_the_package_imports_no_other_library() -> None:
    program = f"import sys, zhat, zhat.bridges; print(sorted({set(LIBRARIES)} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"


@pytest.mark.parametrize("library", [library for library in LIBRARIES if library != "jax"])
def test_a_missing_library_is_named(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    calls = {
        "dynamax": [random_hmm("poisson").to_dynamax],
        "hmmlearn": [lambda: zhat.from_hmmlearn(None), random_hmm("poisson").to_hmmlearn],
        "networkx": [lambda: zhat.from_networkx(None), GRAPH.to_networkx],
        "pgmpy": [lambda: zhat.from_pgmpy(None), GRAPH.to_pgmpy],
        "pomegranate": [
            lambda: zhat.from_pomegranate(None),
            random_hmm("poisson").to_pomegranate,
            lambda: zhat.bridges.to_pomegranate(zhat.bridges._graph.declared_network(GRAPH)),
        ],
        "pyagrum": [lambda: zhat.from_pyagrum(None), GRAPH.to_pyagrum],
    }
    for call in calls[library]:
        with pytest.raises(ImportError, match=f"this needs {library}: pip install {library}$"):
            call()


def test_examples_in_docstrings() -> None:
    pytest.importorskip("networkx", reason="networkx is not installed")
    result = doctest.testmod(networkx)
    assert result.attempted > 0
    assert result.failed == 0
