"""Times one library on one problem, in a process of its own, and prints one line of JSON."""

import os
import statistics
import sys
import time
from collections.abc import Callable

import torch

from common import peer
from problem import Problem, random_problem

# The log-likelihood of all sequences together, and the tensors with gradients, the transitions last.
Likelihood = Callable[[], torch.Tensor]
Loader = Callable[[Problem], tuple[Likelihood, tuple[torch.Tensor, ...]]]

CALLS = 5  # timed calls for each one of `--reps`


def main(loaders: dict[str, Loader]) -> None:
    """The command line `PEER CASE THREADS CALLS SECONDS` of every peer.

    A loader prepares a problem and returns the log-likelihood as a function without arguments, emissions and
    the transition scores.
    """
    name, case, threads, calls, seconds = sys.argv[1:6]
    try:
        torch.set_num_threads(int(threads))
        problem = random_problem(case, int(threads))
        peer.tell(times(*loaders[name](problem), CALLS * int(calls), float(seconds)))
    except Exception as error:  # any error of a library is a result here
        peer.tell({"status": peer.status_of(error)})
    os._exit(0)


def times(likelihood: Likelihood, leaves: tuple[torch.Tensor, ...], calls: int, seconds: float) -> dict:
    """Solves the problem once for the result, then repeatedly for the median time."""

    def solve() -> torch.Tensor:
        for leaf in leaves:
            leaf.grad = None
        value = likelihood()
        value.backward()
        return value

    answer = {"value": float(solve()), "gradient_max": float(leaves[-1].grad.abs().max())}
    cpu: list[float] = []
    started = time.perf_counter()
    while not cpu or (len(cpu) < calls and time.perf_counter() - started < seconds):
        clock = time.process_time()
        solve()
        cpu.append(time.process_time() - clock)
    return answer | {"cpu_median": statistics.median(cpu), "calls": len(cpu)}


def tensors(problem: Problem) -> tuple[torch.Tensor, ...]:
    """Start, end, emissions and transitions, with gradients."""
    arrays = (problem.start, problem.end, problem.emissions, problem.transitions)
    return tuple(torch.tensor(array, requires_grad=True) for array in arrays)


def module(crf: torch.nn.Module, problem: Problem) -> tuple[Likelihood, tuple[torch.Tensor, ...]]:
    """A module with the parameters of pytorch-crf, with the batch first."""
    with torch.no_grad():
        crf.start_transitions.copy_(torch.tensor(problem.start))
        crf.end_transitions.copy_(torch.tensor(problem.end))
        crf.transitions.copy_(torch.tensor(problem.transitions))
    emissions, tags = torch.tensor(problem.emissions, requires_grad=True), torch.tensor(problem.tags)
    leaves = (crf.start_transitions, crf.end_transitions, emissions, crf.transitions)
    return lambda: crf(emissions, tags), leaves


def chain(library, problem: Problem) -> tuple[Likelihood, tuple[torch.Tensor, ...]]:
    """A distribution with the arguments of torch-struct: a table for each pair of positions."""
    leaves = start, end, emissions, transitions = tensors(problem)
    tags, size = torch.tensor(problem.tags), problem.transitions.shape[0]
    pairs = torch.nn.functional.one_hot(tags[:, 1:] * size + tags[:, :-1], size * size)
    event = pairs.unflatten(-1, (size, size)).to(torch.float32)

    def likelihood() -> torch.Tensor:
        first, last = start + emissions[:, 0], end.expand(len(tags), size)
        edges = transitions.t() + emissions[:, 1:, :, None]
        edges = torch.cat([edges[:, :1] + first[:, None, None, :], edges[:, 1:]], 1)
        edges = torch.cat([edges[:, :-1], edges[:, -1:] + last[:, None, :, None]], 1)
        return library.LinearChainCRF(edges).log_prob(event).sum()

    return likelihood, leaves
