"""Times one library on one problem, in a process of its own, and prints one line of JSON."""

import os
import resource
import sys
from collections.abc import Callable

import numpy as np

from common import peer
from common.libraries import repeated
from problem import Problem, problem_of

# The marginals of all variables, in the order of the model.
Loader = Callable[[Problem], Callable[[], list[np.ndarray]]]


def peak_bytes() -> int:
    """The peak of the resident memory so far."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main(loaders: dict[str, Loader]) -> None:
    """The command line `PEER CASE THREADS CALLS SECONDS` of every peer.

    The first call is not timed. Then calls are timed until CALLS are done or SECONDS have passed.
    """
    name, case, threads, calls, seconds = sys.argv[1:6]
    try:
        problem = problem_of(case, int(threads))
        solve = loaders[name](problem)
        base = peak_bytes()
        answer = {"value": [np.asarray(marginal).tolist() for marginal in solve()]}
        figures = repeated(solve, int(calls), float(seconds))
        peer.tell(answer | figures | {"base_bytes": base, "model_bytes": 0})
    except Exception as error:  # any error of a library is a result here
        peer.tell({"status": peer.status_of(error)})
    os._exit(0)
