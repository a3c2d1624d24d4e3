"""Times one library on one problem, in a process of its own, and prints one line of JSON."""

import os
import resource
import sys
from collections.abc import Callable

import numpy as np

from common import peer
from common.libraries import repeated
from problem import Problem, random_problem

# log Z of each sentence or the log-probability of the best tree, and gradients by the name of the array.
Result = tuple[np.ndarray, dict[str, np.ndarray]]
Loader = Callable[[Problem], Callable[[], Result]]


def peak_bytes() -> int:
    """The peak of the resident memory so far."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main(loaders: dict[str, dict[str, Loader]]) -> None:
    """The command line `PEER CASE THREADS CALLS SECONDS` of every peer.

    `loaders` are those of each peer by kind of problem. A loader prepares a problem and returns a function
    that solves it. The first call, in which a library may compile, is not timed. Then calls are timed until
    CALLS are done or SECONDS have passed.
    """
    name, case, threads, calls, seconds = sys.argv[1:6]
    try:
        problem = random_problem(case, int(threads))
        if problem.kind not in loaders[name]:
            raise peer.NotOfferedError(f"no {problem.kind}")
        peer.tell(times(loaders[name][problem.kind], problem, int(calls), float(seconds)))
    except Exception as error:  # any error of a library is a result here
        peer.tell({"status": peer.status_of(error)})
    os._exit(0)


def times(loader: Loader, problem: Problem, calls: int, seconds: float) -> dict:
    """Solves the problem once for the result, then repeatedly for the times."""
    solve = loader(problem)
    base = peak_bytes()
    log_z, gradients = solve()
    answer = {
        "value": float(np.sum(log_z, dtype=np.float64)),
        "gradient_norm": float(
            np.sqrt(sum(np.sum(np.square(g, dtype=np.float64)) for g in gradients.values()))
        ),
    }
    del log_z, gradients
    figures = repeated(solve, calls, seconds)
    return answer | figures | {"base_bytes": base, "model_bytes": problem.bytes}
