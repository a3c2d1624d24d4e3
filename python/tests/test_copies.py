"""Large arguments: used in place, or copied with a warning that names the argument."""

from __future__ import annotations

import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest

import zhat

STATES, STEPS = 1 << 11, 1 << 12  # STEPS × STATES doubles are 64 MiB
TABLE = zhat.Sparse(np.zeros(STATES), np.arange(STATES), np.arange(STATES + 1))


@pytest.mark.parametrize(
    ("emissions", "reason"),
    [
        (np.broadcast_to(0.0, (STEPS + 1, STATES)), "is not C-contiguous; a C-contiguous array of float64"),
        (np.zeros((STATES, STEPS + 1)).T, "is not C-contiguous"),
        (np.zeros((STEPS + 1, STATES), np.int16), "has the type int16"),
        (np.zeros((STEPS + 1, STATES), ">f8"), "has the type >f8"),
        (
            np.zeros(8 * (STEPS + 1) * STATES + 1, np.uint8)[1:].view(np.float64).reshape(STEPS + 1, STATES),
            "is not aligned",
        ),
    ],
)
def test_a_large_copy_has_a_warning(emissions: Any, reason: str) -> None:
    with pytest.warns(
        UserWarning, match=f"^emissions: copied 64 MiB, because the array {reason}.* in place"
    ) as found:
        zhat.Chain(emissions, TABLE)
    assert len(found) == 1
    assert found[0].filename == __file__


def test_other_parameters_have_the_precision_of_the_first() -> None:
    table = np.zeros((3000, 3000), np.float32)
    with pytest.warns(
        UserWarning, match="^transitions: copied 68 MiB, because the array has the type float32"
    ):
        zhat.Chain(np.zeros((2, 3000)), table)
    zhat.Chain(np.zeros((2, 3000), np.float32), table)


def test_no_warning_without_a_large_copy() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = zhat.Chain(np.zeros((STEPS + 1, STATES)), TABLE)
        zhat.Chain(np.broadcast_to(0.0, (STEPS, STATES)), TABLE)  # 64 MiB are not more than 64 MiB
        zhat.Chain(np.zeros((STATES, 1)).T.astype(np.float32), TABLE)
        # Parameters of a model are views of its memory.
        again = zhat.Chain(model.emissions, TABLE)
    assert np.shares_memory(again.emissions, model.emissions)


@pytest.mark.skipif(sys.platform == "win32", reason="peak memory is read differently")
def test_an_array_of_one_gibibyte_is_not_copied() -> None:
    """Peak memory of log Z above that before; zeros that nobody writes to take no memory."""
    program = """
import resource, sys, numpy as np, zhat
unit = 1 if sys.platform == "darwin" else 1024
zhat.ops.log_partition_and_gradient(zhat.generate.chain(3, 4))
states, steps = 1 << 13, 1 << 14
table = zhat.Sparse(np.zeros(states), np.arange(states), np.arange(states + 1))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
array = np.zeros((steps, states))
assert array.nbytes == 1 << 30
model = zhat.Chain(array, table)
assert np.shares_memory(model.emissions, array)
assert np.isclose(model.log_partition().value, 13 * np.log(2))
print(unit * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before))
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) < 1 << 28
