"""Times one library on one problem, in a process of its own, and prints one line of JSON."""

import os
import resource
import sys
from collections.abc import Callable

import numpy as np

from common import peer
from common.libraries import repeated
from problem import Problem, parsed, random_problem

# log Z of each sequence, and the gradient of their sum with respect to transitions, by name, and emissions.
Result = tuple[np.ndarray, dict[str, np.ndarray], np.ndarray]
Loader = Callable[[Problem], Callable[[], Result]]


def peak_bytes() -> int:
    """The peak of the resident memory so far."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main(loaders: dict[str, dict[str, Loader]]) -> None:
    """The command line `PEER CASE THREADS CALLS SECONDS` of every peer.

    `loaders` are those of each peer by form of transitions. A loader prepares a problem and returns a
    function that solves it. The first call, in which a library may compile, is not timed. Then calls are
    timed until CALLS are done or SECONDS have passed.
    """
    name, case, threads, calls, seconds = sys.argv[1:6]
    try:
        form = parsed(case)[0]
        if form not in loaders[name]:
            raise peer.NotOfferedError(f"no {form} transitions")
        problem = random_problem(case, int(threads))
        peer.tell(times(loaders[name][form], problem, int(calls), float(seconds)))
    except Exception as error:  # any error of a library is a result here
        peer.tell({"status": peer.status_of(error)})
    os._exit(0)


def times(loader: Loader, problem: Problem, calls: int, seconds: float) -> dict:
    """Solves the problem once for the result, then repeatedly for the times."""
    solve = loader(problem)
    base = peak_bytes()
    log_z, transitions, emissions = solve()
    tables = list(transitions.values())
    answer = {
        "value": float(log_z[0]),
        "transition_gradient_max": max(float(np.abs(table).max()) for table in tables),
        "transition_gradient_sum": sum(float(np.sum(table, dtype=np.float64)) for table in tables),
        "emission_gradient_sum": float(np.sum(emissions, dtype=np.float64)),
    }
    del log_z, transitions, tables, emissions
    figures = repeated(solve, calls, seconds)
    return answer | figures | {"base_bytes": base, "model_bytes": problem.bytes}
