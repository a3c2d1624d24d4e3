"""Pairwise graphs with cycles as tensors: every query, by enumeration."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from torch_models import torch, zt

import zhat

EDGES = [(0, 1), (2, 1), (0, 2), (3, 2)]  # a triangle and a leaf
STATES = torch.tensor(list(itertools.product(range(3), repeat=4)))
FORMS = {
    "shared": {"interactions": (3, 3)},
    "per edge": {"interactions": (4, 3, 3)},
    "factored": {"left": (3, 2), "right": (3, 2)},
    "tied": {"left": (3, 2)},
}


def parameters(form: str, seed: int = 5) -> list[Any]:
    """Node scores and those of the form, as leaves."""
    random = np.random.default_rng(seed)
    shapes = [(4, 3), *FORMS[form].values()]
    return [torch.tensor(random.normal(size=shape), requires_grad=True) for shape in shapes]


def model(form: str, tensors: list[Any]) -> Any:
    nodes, *others = tensors
    given = dict(zip(FORMS[form], others, strict=True))
    return zt.Model(zhat.PairwiseGraph, nodes=nodes, edges=EDGES, **given)


def scores(form: str, tensors: list[Any]) -> Any:
    """The scores of all states, by a loop over variables and edges."""
    nodes, *others = tensors
    total = sum(nodes[v, STATES[:, v]] for v in range(4))
    for e, (i, j) in enumerate(EDGES):
        table = others[0] if form in ("shared", "per edge") else others[0] @ others[-1].T
        table = table[e] if table.dim() == 3 else table
        total = total + table[STATES[:, i], STATES[:, j]]
    return total


@pytest.mark.parametrize("form", FORMS)
def test_log_partition_and_its_gradients(form: str) -> None:
    ours, theirs = parameters(form), parameters(form)
    value, want = zt.log_partition(model(form, ours)), torch.logsumexp(scores(form, theirs), 0)
    torch.testing.assert_close(value, want, rtol=1e-12, atol=1e-12)
    value.backward()
    want.backward()
    for own, expected in zip(ours, theirs, strict=True):
        torch.testing.assert_close(own.grad, expected.grad, rtol=1e-10, atol=1e-10)
    found = [own for own in zt.marginals(model(form, ours)) if own is not None]
    for own, expected in zip(found, theirs, strict=True):
        torch.testing.assert_close(own, expected.grad, rtol=1e-10, atol=1e-10)
    assert torch.autograd.gradgradcheck(lambda *own: zt.log_partition(model(form, [*own])), ours)


@pytest.mark.parametrize("form", ["shared", "per edge"])
def test_entropy(form: str) -> None:
    tensors = parameters(form)
    own = torch.log_softmax(scores(form, tensors), 0)
    torch.testing.assert_close(zt.entropy(model(form, tensors)), -(own.exp() * own).sum())


@pytest.mark.parametrize("form", FORMS)
def test_best_and_k_best(form: str) -> None:
    tensors = parameters(form)
    graph, ranked = model(form, tensors), torch.sort(scores(form, tensors), descending=True)
    best, several = zt.best(graph), zt.k_best(graph, 5)
    assert best.states.tolist() == STATES[ranked.indices[0]].tolist()
    assert several.states.tolist() == STATES[ranked.indices[:5]].tolist()
    torch.testing.assert_close(several.scores, ranked.values[:5])
    (own,) = torch.autograd.grad(best.scores, tensors[0])
    assert own.argmax(1).tolist() == best.states.tolist()
    assert zt.k_best(graph, 100).states[81:].eq(-1).all()
    probabilities = zt.log_prob(graph, STATES).exp()
    torch.testing.assert_close(probabilities, torch.softmax(scores(form, tensors), 0))


@pytest.mark.parametrize("form", FORMS)
def test_samples(form: str) -> None:
    """Frequencies of all states within six standard deviations; false alarms have probability below 1e-6."""
    tensors, n = parameters(form), 20_000
    drawn = zt.sample(model(form, tensors), n, seed=3)
    assert torch.equal(drawn, zt.sample(model(form, tensors), n, seed=3))
    place = (drawn * torch.tensor([27, 9, 3, 1])).sum(1)
    found = torch.bincount(place, minlength=81).double()
    want = n * torch.softmax(scores(form, tensors), 0).detach()
    assert ((found - want).abs() <= 6 * (want + 1).sqrt() + 6).all()


def test_forbidden_states() -> None:
    nodes, table = parameters("shared")
    closed = table.detach().clone()
    closed[0, 1] = -torch.inf
    leaves = [nodes, closed.requires_grad_()]
    value = zt.log_partition(model("shared", leaves))
    torch.testing.assert_close(value, torch.logsumexp(scores("shared", leaves), 0))
    value.backward()
    assert leaves[1].grad[0, 1] == 0
    nothing = model("shared", [nodes, torch.full((3, 3), -torch.inf, dtype=torch.float64)])
    assert zt.log_partition(nothing) == -torch.inf
    assert zt.best(nothing).states.tolist() == [-1] * 4
    assert zt.sample(nothing, 2).tolist() == [[-1] * 4] * 2


def test_methods() -> None:
    """Methods of pairwise graphs are used as they are, those of factor graphs for the factor graph."""
    tensors = [own.detach() for own in parameters("shared")]
    graph = zhat.PairwiseGraph(tensors[0].numpy(), EDGES, tensors[1].numpy())
    loopy = zt.log_partition(model("shared", tensors), method="bp").item()
    assert loopy == graph.log_partition(method="bp").value
    exact = zt.log_partition(model("shared", tensors), method="elimination").item()
    assert exact == pytest.approx(graph.to_factor_graph().log_partition().value, abs=1e-12)
    assert abs(loopy - exact) > 1e-6


def test_single_precision() -> None:
    doubles = [own.detach() for own in parameters("per edge")]
    floats = [own.float().requires_grad_() for own in doubles]
    value = zt.log_partition(model("per edge", floats))
    assert value.dtype is torch.float32
    value.backward()
    assert floats[1].grad.dtype is torch.float32
    torch.testing.assert_close(
        value.double(), zt.log_partition(model("per edge", doubles)), rtol=1e-6, atol=0
    )
