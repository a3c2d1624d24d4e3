"""Importing the package: quick, and without the libraries that only parts of it need."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

LIBRARIES = {
    "dynamax",
    "hmmlearn",
    "jax",
    "matplotlib",
    "networkx",
    "pandas",
    "pgmpy",
    "polars",
    "pomegranate",
    "pyagrum",
    "scipy",
    "sklearn",
    "torch",
}
USE = """
zhat.generate.ising(3, 3).marginals()
zhat.ops.log_partition(zhat.generate.chain(3, 4))
fitted = zhat.fit({"a": [0, 0, 1], "b": [0, None, 1]}, missing="em")
repr(fitted), fitted._repr_html_()
zhat.sklearn.MarkovRandomField().fit([["a", 1], ["b", 2]]).transform([["a", None]])
"""


@pytest.mark.parametrize("program", ["import zhat", f"import zhat, zhat.sklearn, zhat.bridges\n{USE}"])
def test_no_library_is_imported_that_is_not_needed(program: str) -> None:
    program += f"\nimport sys, json; print(json.dumps(sorted({LIBRARIES!r} & set(sys.modules))))"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert json.loads(result.stdout) == []


def test_the_time_of_an_import() -> None:
    """Processor time without NumPy, of the fastest of five imports; slow machines take longer for both."""
    program = """
import time
start = time.process_time()
import numpy
between = time.process_time()
import zhat
print(between - start, time.process_time() - between)
"""
    command = [sys.executable, "-c", program]
    runs = [subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(5)]
    of_numpy, own = (min(map(float, times)) for times in zip(*map(str.split, runs), strict=True))
    assert own < max(0.15, 2 * of_numpy), runs


@pytest.mark.skipif(sys.platform == "win32", reason="peak memory is read differently")
def test_large_arrays_are_not_copied() -> None:
    """Peak memory of log Z of an array of 256 MiB, above that of the array."""
    program = """
import resource, sys, numpy as np, zhat
unit = 1 if sys.platform == "darwin" else 1024
array = np.zeros((1 << 13, 1 << 12))
array += 0.5
zhat.ops.log_partition_and_gradient(zhat.generate.chain(3, 4))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
table = zhat.Sparse(np.zeros(1 << 12), np.arange(1 << 12), np.arange((1 << 12) + 1))
model = zhat.Chain(array, table)
assert np.shares_memory(model.emissions, array)
assert np.isclose(model.log_partition().value, (1 << 12) + 12 * np.log(2))
print(unit * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before))
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) < 1 << 27
