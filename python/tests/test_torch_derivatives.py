"""Derivatives of `zhat.torch` against sums over all states, and against finite differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from torch_models import CASES, Case, Enumerated, torch, zt

WITH_ENTROPY = [name for name in CASES if name != "factored graph"]
"""All cases but one: the entropy of a factored graph is an error."""


def weighted(values: Any) -> Any:
    """A sum with different weights by item, without items of −inf."""
    weights = torch.linspace(1.0, -0.5, values.numel(), dtype=values.dtype).view(values.shape)
    return (weights * torch.where(torch.isneginf(values), 0.0, values)).sum()


def directions(tensors: list[Any], seed: int) -> list[Any]:
    random = np.random.default_rng(seed)
    return [torch.tensor(random.normal(size=tensor.shape)) for tensor in tensors]


def derivatives(value: Any, tensors: list[Any], order: int) -> list[list[Any]]:
    """The gradient and further derivatives along random directions; zero for a parameter that is not used."""
    how = {"create_graph": True, "materialize_grads": True}
    found = [list(torch.autograd.grad(value, tensors, **how))]
    for seed in range(1, order):
        along = directions(tensors, seed)
        pairing = sum((a * b).sum() for a, b in zip(along, found[-1], strict=True))
        found.append(list(torch.autograd.grad(pairing, tensors, **how)))
    return found


def check(case: Case, name: str, zeros: float, order: int, tolerance: float) -> None:
    ours, oracle = case.tensors(zeros=zeros), case.tensors(zeros=zeros)
    value = getattr(zt, name)(case.model(*ours))
    want = getattr(Enumerated(case, *oracle), name).view(value.shape)
    torch.testing.assert_close(value, want, rtol=1e-10, atol=1e-10)
    pairs = zip(
        derivatives(weighted(value), ours, order), derivatives(weighted(want), oracle, order), strict=True
    )
    for k, (found, expected) in enumerate(pairs):
        for tensor, own, wanted in zip(ours, found, expected, strict=True):
            assert not own.isnan().any()
            forbidden = torch.isneginf(tensor)
            assert (own[forbidden] == 0).all()
            wanted = torch.where(forbidden, 0.0, wanted)
            torch.testing.assert_close(
                own, wanted, rtol=tolerance, atol=tolerance, msg=lambda m, k=k: f"{k + 1}: {m}"
            )


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("zeros", [0.0, 0.3])
def test_log_partition(name: str, zeros: float) -> None:
    check(CASES[name], "log_partition", zeros, 3, 1e-8)


@pytest.mark.parametrize("name", WITH_ENTROPY)
@pytest.mark.parametrize("zeros", [0.0, 0.3])
def test_entropy(name: str, zeros: float) -> None:
    check(CASES[name], "entropy", zeros, 2, 1e-8)


@pytest.mark.parametrize("name", CASES)
def test_marginals_are_the_gradient_and_have_one(name: str) -> None:
    case = CASES[name]
    ours, oracle = case.tensors(), case.tensors()
    found = zt.marginals(case.model(*ours))
    if hasattr(found, "factors"):
        tensors = list(found.factors)
    else:
        assert {field for field, own in found._asdict().items() if own is not None} == set(case.real)
        tensors = [getattr(found, field) for field in case.real]
    how = {"create_graph": True, "materialize_grads": True}
    want = torch.autograd.grad(Enumerated(case, *oracle).log_partition.sum(), oracle, **how)
    along = directions(ours, 3)
    for own, expected in zip(tensors, want, strict=True):
        torch.testing.assert_close(own, expected, rtol=1e-10, atol=1e-10)
    pairing = sum((a * own).sum() for a, own in zip(along, tensors, strict=True))
    wanted = sum((a * b).sum() for a, b in zip(along, want, strict=True))
    how = {"materialize_grads": True}
    pairs = zip(
        torch.autograd.grad(pairing, ours, **how), torch.autograd.grad(wanted, oracle, **how), strict=True
    )
    for own, expected in pairs:
        torch.testing.assert_close(own, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", WITH_ENTROPY)
@pytest.mark.parametrize("operation", ["cross_entropy", "kl"])
def test_divergences(name: str, operation: str) -> None:
    case = CASES[name]
    ours, oracle = [case.tensors(seed=7), moved(case)], [case.tensors(seed=7), moved(case)]
    value = getattr(zt, operation)(*(case.model(*own) for own in ours))
    p, q = (Enumerated(case, *own) for own in oracle)
    want = -(p.probabilities * q.log_probabilities).sum(-1) - (p.entropy if operation == "kl" else 0.0)
    torch.testing.assert_close(value, want.view(value.shape), rtol=1e-9, atol=1e-9)
    found, wanted = (
        derivatives(weighted(own), [*both[0], *both[1]], 2)
        for own, both in ((value, ours), (want.view(value.shape), oracle))
    )
    for k in range(2):
        for own, expected in zip(found[k], wanted[k], strict=True):
            torch.testing.assert_close(own, expected, rtol=1e-8, atol=1e-8)


def moved(case: Case) -> list[Any]:
    """Other parameters of the same shapes."""
    return [(0.5 * own + 0.1).detach().requires_grad_() for own in case.tensors()]


CHECKED = [
    "chain",
    "segments",
    "projective",
    "any tree",
    "trees",
    "low rank",
    "low-rank rules",
    "factors",
    "edges",
]


@pytest.mark.parametrize("name", CHECKED)
@pytest.mark.parametrize("operation", ["log_partition", "entropy"])
def test_finite_differences_of_values(name: str, operation: str) -> None:
    case = CASES[name]

    def value(*tensors: Any) -> Any:
        return getattr(zt, operation)(case.model(*tensors))

    assert torch.autograd.gradcheck(value, case.tensors())
    assert torch.autograd.gradgradcheck(value, case.tensors())


@pytest.mark.parametrize("name", CHECKED)
def test_finite_differences_of_marginals(name: str) -> None:
    case = CASES[name]

    def value(*tensors: Any) -> Any:
        found = zt.marginals(case.model(*tensors))
        return (
            tuple(found.factors)
            if hasattr(found, "factors")
            else tuple(own for own in found if own is not None)
        )

    assert torch.autograd.gradcheck(value, case.tensors())
    assert torch.autograd.gradgradcheck(value, case.tensors())


@pytest.mark.parametrize("operation", [zt.cross_entropy, zt.kl])
def test_finite_differences_of_divergences(operation: Any) -> None:
    case = CASES["chain"]
    own, other = case.tensors(), moved(case)

    def value(*tensors: Any) -> Any:
        return operation(case.model(*tensors[: len(own)]), case.model(*tensors[len(own) :]))

    assert torch.autograd.gradcheck(value, (*own, *other))
    assert torch.autograd.gradgradcheck(value, (*own, *other))


@pytest.mark.parametrize("scale", [1e-200, 1e-8, 1.0, 1e8, 1e200])
def test_second_derivatives_at_every_scale_of_the_direction(scale: float) -> None:
    case = CASES["chain"]
    ours = case.tensors()
    first = torch.autograd.grad(zt.log_partition(case.model(*ours)).sum(), ours, create_graph=True)
    along = directions(ours, 4)
    one, scaled = (
        torch.autograd.grad(
            sum((c * a * b).sum() for a, b in zip(along, first, strict=True)), ours, retain_graph=True
        )
        for c in (1.0, scale)
    )
    for own, want in zip(scaled, one, strict=True):
        torch.testing.assert_close(own / scale, want, rtol=1e-10, atol=1e-10)


def test_third_derivatives_of_a_strong_long_chain() -> None:
    """Strong couplings make the derivatives grow; the oracle is the same recursion in PyTorch."""
    random = np.random.default_rng(5)
    arrays = [3 * random.normal(size=(30, 4)), 3 * random.normal(size=(4, 4))]
    ours, oracle = ([torch.tensor(a, requires_grad=True) for a in arrays] for _ in range(2))

    def forward(emissions: Any, transitions: Any) -> Any:
        message = emissions[0]
        for row in emissions[1:]:
            message = torch.logsumexp(message[:, None] + transitions, 0) + row
        return torch.logsumexp(message, 0)

    found = derivatives(zt.log_partition(zt.Chain(*ours)), ours, 3)
    want = derivatives(forward(*oracle), oracle, 3)
    for k, tolerance in enumerate((1e-10, 1e-10, 1e-8)):
        largest = max(own.abs().max() for own in want[k])
        for own, expected in zip(found[k], want[k], strict=True):
            assert (own - expected).abs().max() <= tolerance * largest


def test_fourth_derivatives_are_an_error() -> None:
    case = CASES["chain"]
    ours = case.tensors()
    third = derivatives(zt.log_partition(case.model(*ours)).sum(), ours, 3)[2]
    with pytest.raises(zt.model.InputError, match="fourth derivatives"):
        torch.autograd.grad(third[0].sum(), ours)


def test_second_derivatives_of_estimates_are_an_error() -> None:
    emissions = torch.randn(3, 8, dtype=torch.float64, requires_grad=True)
    chain = zt.Chain(emissions, torch.zeros(8, 8))
    value = zt.log_partition(chain, method="randomized", states=4)
    (first,) = torch.autograd.grad(value, emissions, create_graph=True)
    with pytest.raises(zt.model.InputError, match="method: second derivatives"):
        first[0, 0].backward()


@pytest.mark.parametrize("name", ["chain", "segments", "projective", "trees", "factors"])
def test_models_without_a_state(name: str) -> None:
    case = CASES[name]
    tensors = case.tensors()
    with torch.no_grad():
        # Without arcs, every word may still depend on the root.
        tensors[list(case.real).index("roots") if name == "projective" else 0].fill_(-torch.inf)
    for operation in (zt.log_partition, zt.entropy):
        value = operation(case.model(*tensors))
        assert torch.isneginf(value).all()
        gradients = torch.autograd.grad(value.sum(), tensors, create_graph=True)
        assert all((own == 0).all() for own in gradients)
        pairing = sum((own * 2.0).sum() for own in gradients)
        assert all((own == 0).all() for own in torch.autograd.grad(pairing, tensors))


def test_weights_that_are_not_finite() -> None:
    emissions = torch.zeros(2, 3, 2, dtype=torch.float64, requires_grad=True)
    with torch.no_grad():
        emissions[1, 0] = -torch.inf
    value = zt.log_partition(zt.Chain(emissions, torch.zeros(2, 2)))
    # The second item has no path, so its weight does not matter.
    (gradient,) = torch.autograd.grad(value, emissions, torch.tensor([1.0, torch.nan]), retain_graph=True)
    assert gradient[0].sum() == pytest.approx(3)
    assert (gradient[1] == 0).all()
    (gradient,) = torch.autograd.grad(value, emissions, torch.tensor([torch.inf, 1.0]))
    assert gradient.isnan().all()
