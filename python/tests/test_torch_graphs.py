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


# Divergences of two graphs.


def own_log_probabilities(form: str, tensors: list[Any]) -> Any:
    return torch.log_softmax(scores(form, tensors), 0)


def called(ask: Any, compiled: bool) -> Any:
    torch._dynamo.reset()
    return torch.compile(ask, fullgraph=True, backend="aot_eager") if compiled else ask


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("operation", [zt.cross_entropy, zt.kl])
@pytest.mark.parametrize("form", ["shared", "per edge"])
def test_divergences_need_the_same_edges(form: str, operation: Any, compiled: bool) -> None:
    def ask(edges: Any, *tensors: Any) -> Any:
        p, q = (
            zt.Model(zhat.PairwiseGraph, nodes=nodes, interactions=table, edges=own)
            for nodes, table, own in zip(
                tensors[::2], tensors[1::2], (torch.tensor(EDGES), edges), strict=True
            )
        )
        return operation(p, q)

    call, same = called(ask, compiled), torch.tensor(EDGES)
    ours, theirs = parameters(form, 5), parameters(form, 6)
    own, other = own_log_probabilities(form, ours), own_log_probabilities(form, theirs)
    want = (own.exp() * ((own if operation is zt.kl else 0.0) - other)).sum()
    torch.testing.assert_close(call(same, *ours, *theirs), want, rtol=1e-10, atol=1e-10)
    turned = same.clone()
    turned[1] = turned[1].flip(0)
    with pytest.raises(zhat.InputError, match=r"q: edges\[1\] is \[1, 2\], expected \[2, 1\] as in p"):
        call(turned, *ours, *theirs)


FACTORS: list[Any] = [((0, 1), torch.ones(2, 2)), ((1, 2), torch.eye(2)), ((3,), torch.zeros(3))]


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("operation", [zt.cross_entropy, zt.kl])
@pytest.mark.parametrize(
    ("sizes", "factors", "message"),
    [
        (
            [2, 2, 2, 3],
            [FACTORS[0], ((0, 2), torch.eye(2)), FACTORS[2]],
            r"q: scopes\[1\] is \[0, 2\], expected",
        ),
        (
            [2, 2, 2, 3],
            [FACTORS[0], ((2, 1), torch.eye(2)), FACTORS[2]],
            r"q: scopes\[1\] is \[2, 1\], expected",
        ),
        ([2, 2, 2, 3], FACTORS[:2], "q: has 2 scopes, expected 3 as in p"),
        ([2, 2, 2, 3, 2], FACTORS, "q: has 5 cardinalities, expected 4 as in p"),
        ([2, 2, 2, 4], [*FACTORS[:2], ((3,), torch.zeros(4))], r"q: cardinalities\[3\] is 4, expected 3"),
    ],
)
def test_divergences_need_the_same_factors(
    operation: Any, sizes: list[int], factors: Any, message: str, compiled: bool
) -> None:
    """While compiling, PyTorch has an error of its own, with the message in it."""

    def ask(*tables: Any) -> Any:
        given = zip([scope for scope, _ in factors], tables, strict=True)
        p = zt.Model(zhat.FactorGraph, cardinalities=[2, 2, 2, 3], factors=FACTORS)
        return operation(p, zt.Model(zhat.FactorGraph, cardinalities=sizes, factors=given))

    with pytest.raises(Exception if compiled else zhat.InputError, match=message):
        called(ask, compiled)(*(table for _, table in factors))


def test_divergences_need_the_same_form() -> None:
    shared, edges = model("shared", parameters("shared")), model("per edge", parameters("per edge"))
    with pytest.raises(zhat.InputError, match=r"q: interactions has shape \(4, 3, 3\), expected \(3, 3\)"):
        zt.kl(shared, edges)
    with pytest.raises(zhat.InputError, match="q: has nodes and left and edges, expected nodes and inter"):
        zt.kl(shared, model("tied", parameters("tied")))


def test_methods_of_entropy_and_divergences() -> None:
    """With loopy belief propagation, from its own log Z and marginals; it differs from the exact value."""
    ours, theirs = ([own.detach() for own in parameters("per edge", seed)] for seed in (5, 6))
    p, q = model("per edge", ours), model("per edge", theirs)
    first, second = (zhat.PairwiseGraph(own[0].numpy(), EDGES, own[1].numpy()) for own in (ours, theirs))
    found = first.factor_marginals(method="bp").value
    log_p, log_q = (own.log_partition(method="bp").value for own in (first, second))

    def expected(tensors: list[Any]) -> float:
        nodes, table = (own.numpy() for own in tensors)
        return float((found.nodes * nodes).sum() + (found.interactions * table).sum())

    entropy, cross = log_p - expected(ours), log_q - expected(theirs)
    assert zt.entropy(p, method="bp").item() == pytest.approx(entropy, rel=1e-12)
    assert zt.cross_entropy(p, q, method="bp").item() == pytest.approx(cross, rel=1e-12)
    assert zt.kl(p, q, method="bp").item() == pytest.approx(cross - entropy, rel=1e-9)
    assert abs(zt.kl(p, q).item() - (cross - entropy)) > 1e-6
    chain = zt.Chain(torch.zeros(3, 2), torch.zeros(2, 2))
    with pytest.raises(zhat.InputError, match="method: divergences of a chain are exact"):
        zt.kl(chain, chain, method="randomized")
    assert zt.kl(chain, chain, method="exact", threads=1) == 0


@pytest.mark.parametrize("operation", [zt.log_partition, zt.entropy])
def test_graphs_have_no_proposals(operation: Any) -> None:
    with pytest.raises(zhat.InputError, match=r"scores: are for a proposal .* a pairwise-graph has none"):
        operation(model("shared", parameters("shared")), scores=torch.zeros(4, 3))
