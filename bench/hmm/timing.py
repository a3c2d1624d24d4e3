"""Times one library on one problem, in a process of its own, and prints one line of JSON."""

import os
import resource
import sys
from collections.abc import Callable

from common import peer
from common.libraries import repeated
from problem import Problem, random_problem

# The log-likelihood at the beginning of the last step.
Loader = Callable[[Problem], Callable[[], float]]


def peak_bytes() -> int:
    """The peak of the resident memory so far."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main(loaders: dict[str, Loader]) -> None:
    """The command line `PEER CASE THREADS CALLS SECONDS` of every peer.

    The first call, in which a library may compile, is not timed. Then calls are timed until CALLS are done or
    SECONDS have passed.
    """
    name, case, threads, calls, seconds = sys.argv[1:6]
    try:
        problem = random_problem(case, int(threads))
        solve = loaders[name](problem)
        base = peak_bytes()
        answer = {"value": solve()}
        figures = repeated(solve, int(calls), float(seconds))
        model = problem.transitions.nbytes + problem.observations.nbytes
        peer.tell(answer | figures | {"base_bytes": base, "model_bytes": model})
    except Exception as error:  # any error of a library is a result here
        peer.tell({"status": peer.status_of(error)})
    os._exit(0)
