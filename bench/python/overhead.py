"""Time per call of `zhat.ops` and `zhat.torch` on a chain with two states and two positions.

    python bench/python/overhead.py [CALLS]

The sums of such a chain take no time, so these are the costs of a call. `native` is the compiled function
alone, with its arguments prepared; the last column is the median above it.
"""

import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
import zhat
from zhat import _zhat
from zhat.runtime import run

BATCH = 10  # calls between two readings of the clock


def median(call: Callable[[], object], calls: int) -> float:
    """The median time of a call in microseconds, of groups of calls."""
    for _ in range(100):
        call()
    times = []
    for _ in range(max(1, calls // BATCH)):
        start = time.perf_counter()
        for _ in range(BATCH):
            call()
        times.append((time.perf_counter() - start) / BATCH)
    return 1e6 * statistics.median(times)


def arrays() -> dict[str, Callable[[], object]]:
    """Calls with NumPy arrays, the compiled function first."""
    emissions, transitions = np.zeros((2, 2)), np.array([[0.5, -0.5], [0.0, 1.0]])
    chain, how = zhat.Chain(emissions, transitions), run(0, None, None, None, None)
    return {
        "native": lambda: _zhat.forward("log_partition", [chain._native], ("exact", "{}"), None, how),
        "zhat.ops.log_partition(chain)": lambda: zhat.ops.log_partition(chain),
        "zhat.ops.log_partition(Chain(…))": lambda: zhat.ops.log_partition(
            zhat.Chain(emissions, transitions)
        ),
        "chain.log_partition()": chain.log_partition,
    }


def tensors() -> dict[str, Callable[[], object]]:
    """Calls with tensors, whose models are always built."""
    import torch
    import zhat.torch as zt

    torch.set_num_threads(1)
    emissions = torch.zeros(2, 2, dtype=torch.float64)
    transitions = torch.tensor([[0.5, -0.5], [0.0, 1.0]], dtype=torch.float64)
    leaf = emissions.clone().requires_grad_()

    def step() -> None:
        leaf.grad = None
        zt.log_partition(zt.Chain(leaf, transitions)).backward()

    return {
        "zhat.torch.log_partition(Chain(…))": lambda: zt.log_partition(zt.Chain(emissions, transitions)),
        "the same with a gradient": lambda: zt.log_partition(zt.Chain(leaf, transitions)),
        "the same and backward()": step,
    }


def main() -> None:
    """Prints one line per call."""
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    found = arrays()
    try:
        found |= tensors()
    except ImportError:
        print("PyTorch is not installed", file=sys.stderr)
    print(f"{'median of a call':36} {'µs':>8} {'above native':>14}")
    native = 0.0
    for name, call in found.items():
        took = median(call, calls)
        native = took if name == "native" else native
        print(f"{name:36} {took:8.1f} {took - native:14.1f}")


if __name__ == "__main__":
    main()
