"""Large tensors: used in place, or copied with a warning that names the argument."""

from __future__ import annotations

import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest
from torch_models import torch, zt

struct: Any = pytest.importorskip("zhat.torch.struct")

STATES, STEPS = 1 << 11, 1 << 12  # STEPS × STATES doubles are 64 MiB
PATTERN = {"indptr": torch.arange(STATES + 1), "indices": torch.arange(STATES)}


def chain(emissions: Any) -> Any:
    return zt.Chain(emissions, torch.zeros(STATES, dtype=emissions.dtype), **PATTERN)


@pytest.mark.parametrize(
    ("emissions", "reason"),
    [
        (torch.zeros(1, dtype=torch.float64).expand(STEPS + 1, STATES), "is not contiguous"),
        (torch._neg_view(torch.zeros(STEPS + 1, STATES, dtype=torch.float64)), "is a negated view"),
    ],
)
def test_a_large_copy_has_a_warning(emissions: Any, reason: str) -> None:
    with pytest.warns(
        UserWarning, match=f"^emissions: copied 64 MiB, because the tensor {reason}; a contiguous"
    ):
        value = zt.log_partition(chain(emissions))
    assert value.item() == pytest.approx(np.log(STATES))


def test_other_parameters_have_the_precision_of_the_first() -> None:
    model = zt.Chain(torch.zeros(2, 3000, dtype=torch.float64), torch.zeros(3000, 3000))
    with pytest.warns(
        UserWarning, match="^transitions: copied 68 MiB, because the tensor has the type torch.fl"
    ):
        zt.log_partition(model)


def test_no_warning_without_a_large_copy() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        zt.log_partition(chain(torch.zeros(STEPS + 1, STATES, dtype=torch.float64)))
        # Short numbers are always computed in single precision.
        zt.log_partition(chain(torch.zeros(2 * STEPS + 1, STATES, dtype=torch.bfloat16)))
        # The potentials of a distribution have the next state first, those of a chain last.
        assert struct.LinearChainCRF(torch.zeros(1, 70, 500, 500)).partition.shape == (1,)


def test_a_module_with_the_time_first() -> None:
    emissions = torch.zeros(300, 1000, 60)
    with pytest.warns(
        UserWarning, match="^emissions: copied 68 MiB, because the time axis is first; with batch_f"
    ):
        zt.CRF(60).marginals(emissions)


@pytest.mark.skipif(sys.platform == "win32", reason="peak memory is read differently")
def test_a_tensor_of_one_gibibyte_is_not_copied() -> None:
    """Peak memory of log Z above that before; zeros that nobody writes to take no memory."""
    program = """
import resource, sys, numpy as np, torch, zhat.torch as zt
unit = 1 if sys.platform == "darwin" else 1024
states, steps = 1 << 13, 1 << 14
def ask(emissions):
    n = emissions.shape[1]
    pattern = {"indptr": torch.arange(n + 1), "indices": torch.arange(n)}
    chain = zt.Chain(emissions, torch.zeros(n, dtype=torch.float64), **pattern)
    return zt.log_partition(chain, checkpoint=True).item()  # without the messages of all positions
ask(torch.zeros(2, 3, dtype=torch.float64))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
emissions = torch.from_numpy(np.zeros((steps, states)))
assert emissions.nbytes == 1 << 30
assert np.isclose(ask(emissions), 13 * np.log(2))
print(unit * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before))
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) < 1 << 28
