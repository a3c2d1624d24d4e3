"""Times one library on one problem, in a process of its own, and prints one line of JSON."""

import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from common import peer
from problem import Problem, random_problem

# One step: the log-likelihood of all sequences together, and its gradient with respect to the transitions.
Step = Callable[[], tuple[Any, Any]]
Loader = Callable[[Problem], Step]

CALLS = 5  # timed calls for each one of `--reps`


def main(loaders: dict[str, Loader]) -> None:
    """The command line `PEER CASE THREADS CALLS SECONDS` of every peer.

    A loader prepares a problem and returns the step that is timed.
    """
    name, case, threads, calls, seconds = sys.argv[1:6]
    try:
        problem = random_problem(case, int(threads))
        peer.tell(times(loaders[name](problem), CALLS * int(calls), float(seconds)))
    except Exception as error:  # any error of a library is a result here
        peer.tell({"status": peer.status_of(error)})
    os._exit(0)


def times(solve: Step, calls: int, seconds: float) -> dict:
    """Solves the problem once for the result, then repeatedly for the median time."""
    value, gradient = solve()
    answer = {"value": float(value), "gradient_max": float(abs(gradient).max())}
    cpu: list[float] = []
    started = time.perf_counter()
    while not cpu or (len(cpu) < calls and time.perf_counter() - started < seconds):
        clock = time.process_time()
        solve()
        cpu.append(time.process_time() - clock)
    return answer | {"cpu_median": statistics.median(cpu), "calls": len(cpu)}
