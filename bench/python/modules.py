"""Training steps of PyTorch: the log-likelihood of the tags, and its gradient by `backward`."""

from collections.abc import Callable

import torch

from problem import Problem
from timing import Step

# The log-likelihood of all sequences together.
Likelihood = Callable[[], torch.Tensor]


def step(likelihood: Likelihood, leaves: tuple[torch.Tensor, ...], threads: int) -> Step:
    """The value and its gradient with respect to the last one of the leaves, the transitions."""
    torch.set_num_threads(threads)

    def solve() -> tuple[torch.Tensor, torch.Tensor]:
        for leaf in leaves:
            leaf.grad = None
        value = likelihood()
        value.backward()
        return value.detach(), leaves[-1].grad

    return solve


def tensors(problem: Problem) -> tuple[torch.Tensor, ...]:
    """Start, end, emissions and transitions, with gradients."""
    arrays = (problem.start, problem.end, problem.emissions, problem.transitions)
    return tuple(torch.tensor(array, requires_grad=True) for array in arrays)


def module(crf: torch.nn.Module, problem: Problem) -> Step:
    """A module with the parameters of pytorch-crf, with the batch first."""
    with torch.no_grad():
        crf.start_transitions.copy_(torch.tensor(problem.start))
        crf.end_transitions.copy_(torch.tensor(problem.end))
        crf.transitions.copy_(torch.tensor(problem.transitions))
    emissions, tags = torch.tensor(problem.emissions, requires_grad=True), torch.tensor(problem.tags)
    leaves = (crf.start_transitions, crf.end_transitions, emissions, crf.transitions)
    return step(lambda: crf(emissions, tags), leaves, problem.threads)


def chain(library, problem: Problem) -> Step:
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

    return step(likelihood, leaves, problem.threads)
