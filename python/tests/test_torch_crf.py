"""`zhat.torch.CRF`: enumeration, and pytorch-crf."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import zhat

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed; zhat.torch is not tested")
zt: Any = pytest.importorskip("zhat.torch")

# PyTorch warns of how pytorch-crf uses it.
pytestmark = pytest.mark.filterwarnings("ignore:where received a uint8 condition tensor")

LENGTHS = [4, 1, 3]


def module(tags: int = 3, seed: int = 1, **options: Any) -> Any:
    """A CRF in double precision with parameters that are not symmetric."""
    crf = zt.CRF(tags, **options).double()
    rng = np.random.default_rng(seed)
    for parameter in crf.parameters():
        parameter.data = torch.tensor(rng.normal(size=tuple(parameter.shape)))
    return crf


def batch(tags: int = 3, seed: int = 2) -> tuple[Any, Any, Any]:
    """Emissions, tags and mask, with the batch first."""
    rng = np.random.default_rng(seed)
    size = (len(LENGTHS), max(LENGTHS))
    mask = torch.arange(size[1]) < torch.tensor(LENGTHS)[:, None]
    return torch.tensor(rng.normal(size=(*size, tags))), torch.tensor(rng.integers(tags, size=size)), mask


def paths(crf: Any, emissions: Any, length: int) -> dict[tuple[int, ...], float]:
    """The scores of all lists of tags of one sequence."""
    start, end, table = (
        p.detach().numpy() for p in (crf.start_transitions, crf.end_transitions, crf.transitions)
    )
    own = emissions.detach().numpy()
    return {
        path: start[path[0]]
        + end[path[-1]]
        + sum(own[t, state] for t, state in enumerate(path))
        + sum(table[pair] for pair in itertools.pairwise(path))
        for path in itertools.product(range(len(start)), repeat=length)
    }


def log_z(scores: dict[tuple[int, ...], float]) -> float:
    return float(np.logaddexp.reduce(list(scores.values())))


def close(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(
        found.detach().numpy() if torch.is_tensor(found) else found, expected, rtol=1e-9, atol=1e-9
    )


def test_likelihoods_and_best_tags_by_enumeration() -> None:
    crf, (emissions, tags, mask) = module(batch_first=True), batch()
    values, best = crf(emissions, tags, mask, reduction="none"), crf.decode(emissions, mask)
    ranked, marginals = crf.k_best(emissions, 5, mask), crf.marginals(emissions, mask)
    for b, length in enumerate(LENGTHS):
        scores = paths(crf, emissions[b], length)
        total = log_z(scores)
        close(values[b], scores[tuple(tags[b, :length].tolist())] - total)
        order = sorted(scores, key=scores.__getitem__, reverse=True)
        assert best[b] == list(order[0])
        assert [own for own, _ in ranked[b]] == [list(path) for path in order[:5]]
        close([value for _, value in ranked[b]], [scores[path] - total for path in order[:5]])
        expected = np.zeros((4, 3))
        for path, score in scores.items():
            expected[range(length), path] += np.exp(score - total)
        close(marginals[b], expected)


def test_the_time_axis_is_first_by_default() -> None:
    crf, (emissions, tags, mask) = module(), batch()
    other = module(batch_first=True)
    turned = (emissions.transpose(0, 1), tags.T, mask.T)
    for reduction in ("none", "sum", "mean", "token_mean"):
        close(crf(*turned, reduction=reduction), other(emissions, tags, mask, reduction=reduction).detach())
    assert crf.decode(turned[0], turned[2]) == other.decode(emissions, mask)
    close(crf.marginals(turned[0], turned[2]), other.marginals(emissions, mask).detach().transpose(0, 1))


def test_gradients() -> None:
    crf, (emissions, tags, mask) = module(batch_first=True), batch()

    def loss(emissions: Any, *_: Any) -> Any:
        return crf(emissions, tags, mask, reduction="none"), crf(
            emissions, tags, None, reduction="token_mean"
        )

    given = (emissions.requires_grad_(), *crf.parameters())
    assert torch.autograd.gradcheck(loss, given)
    assert torch.autograd.gradcheck(lambda own, *_: crf.marginals(own, mask), given)


@pytest.mark.parametrize("form", ["pairs", "table"])
def test_forbidden_transitions(form: str) -> None:
    pairs = [(0, 2), (1, 1)]
    table = torch.zeros(3, 3, dtype=torch.bool)
    table[0, 2] = table[1, 1] = True
    crf = module(batch_first=True, forbidden=pairs if form == "pairs" else table)
    emissions, _, mask = batch()
    tags = torch.tensor([[0, 1, 2, 2], [2, 0, 0, 0], [0, 2, 1, 0]])
    values, ranked = crf(emissions, tags, mask, reduction="none"), crf.k_best(emissions, 100, mask)
    for b, length in enumerate(LENGTHS):
        scores = paths(crf, emissions[b], length)
        for path in scores:
            if set(pairs) & set(itertools.pairwise(path)):
                scores[path] = -np.inf
        close(values[b], scores[tuple(tags[b, :length].tolist())] - log_z(scores))
        assert len(ranked[b]) == sum(score > -np.inf for score in scores.values())
        assert all(not set(pairs) & set(itertools.pairwise(own)) for own, _ in ranked[b])
    assert values[2] == -np.inf
    values[:2].sum().backward()
    gradient = crf.transitions.grad
    assert gradient[0, 2] == gradient[1, 1] == 0
    assert not gradient.isnan().any()
    assert (gradient != 0).sum() == 7


def test_forbidden_starts_and_ends() -> None:
    # Tags 0 O, 1 B, 2 I: a sequence does not start with I, and I does not follow O; here it also ends with O.
    crf = module(batch_first=True, forbidden=[(None, 2), (0, 2), (1, None), (2, None)])
    emissions = torch.zeros(1, 3, 3, dtype=torch.float64)
    emissions[..., 2] = 50.0
    assert crf.decode(emissions) == [[1, 2, 0]]
    marginals = crf.marginals(emissions)
    assert marginals[0, 0, 2] == marginals[0, 2, 1] == marginals[0, 2, 2] == 0
    close(marginals.sum(-1), np.ones((1, 3)))
    assert set(crf.state_dict()) == {"start_transitions", "end_transitions", "transitions"}


def test_no_allowed_tags_at_all() -> None:
    crf = module(2, batch_first=True, forbidden=[(None, 0), (None, 1)])
    emissions = torch.zeros(2, 2, 2, dtype=torch.float64)
    assert crf.k_best(emissions, 2) == [[], []]
    with pytest.raises(zhat.ZeroPartitionError):
        crf.decode(emissions)


def test_one_tag_and_one_step() -> None:
    crf = module(1)
    emissions = torch.tensor([[[0.5]]], dtype=torch.float64)
    close(crf(emissions, torch.tensor([[0]])), 0.0)
    assert crf.decode(emissions) == [[0]]
    assert crf.k_best(emissions, 3) == [[([0], 0.0)]]


def test_tags_after_the_end_are_not_read() -> None:
    crf, (emissions, tags, mask) = module(batch_first=True), batch()
    value = crf(emissions, tags, mask)
    close(crf(emissions, tags.masked_fill(~mask, -100), mask), value.detach())
    close(crf(emissions, tags, mask.to(torch.uint8)), value.detach())


def test_learning_lowers_the_loss() -> None:
    torch.manual_seed(3)
    crf = zt.CRF(3, batch_first=True)
    emissions, tags, mask = batch()
    emissions = emissions.float()
    optimizer = torch.optim.SGD(crf.parameters(), lr=0.1)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = -crf(emissions, tags, mask, reduction="mean")
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses == sorted(losses, reverse=True)


# Beside pytorch-crf.


def peer() -> Any:
    return pytest.importorskip("torchcrf", reason="PyTorch comparison: pytorch-crf is not installed")


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_beside_pytorch_crf(batch_first: bool, masked: bool, dtype: str) -> None:
    theirs = peer().CRF(3, batch_first=batch_first).to(getattr(torch, dtype))
    own = zt.CRF(3, batch_first=batch_first).to(getattr(torch, dtype))
    own.load_state_dict(theirs.state_dict())
    theirs.load_state_dict(own.state_dict())
    assert list(own.state_dict()) == list(theirs.state_dict())
    emissions, tags, mask = batch()
    emissions = emissions.to(getattr(torch, dtype))
    if not batch_first:
        emissions, tags, mask = emissions.transpose(0, 1), tags.T, mask.T
    given = mask if masked else None
    tolerance = 1e-9 if dtype == "float64" else 1e-4
    for reduction in ("none", "sum", "mean", "token_mean"):
        gradients = []
        for crf in (own, theirs):
            leaf = emissions.clone().requires_grad_()
            crf.zero_grad()
            value = crf(leaf, tags, given, reduction=reduction)
            value.sum().backward()
            gradients.append([value, leaf.grad, *(parameter.grad.clone() for parameter in crf.parameters())])
        for found, wanted in zip(*gradients, strict=True):
            assert found.shape == wanted.shape
            assert found.dtype == wanted.dtype
            torch.testing.assert_close(found, wanted, rtol=tolerance, atol=tolerance)
    assert own.decode(emissions, given) == theirs.decode(emissions, given)
    assert "num_tags=3" in repr(own)


def test_parameters_are_drawn_as_in_pytorch_crf() -> None:
    torch.manual_seed(5)
    own = zt.CRF(4)
    torch.manual_seed(5)
    theirs = peer().CRF(4)
    for name, parameter in theirs.named_parameters():
        assert torch.equal(own.get_parameter(name), parameter)


GOOD = batch()
GAP = GOOD[2].clone()
GAP[2] = torch.tensor([True, False, True, False])
EMPTY = GOOD[2].clone()
EMPTY[1] = False


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda crf: crf(GOOD[0], GOOD[1], GAP), "mask: .* sequence 2 has a gap"),
        (lambda crf: crf.decode(GOOD[0], EMPTY), "mask: .* sequence 1 is empty"),
        (lambda crf: crf(GOOD[0], GOOD[1], GOOD[2].T), "mask: found shape"),
        (lambda crf: crf(GOOD[0], GOOD[1].T), "tags: found shape"),
        (lambda crf: crf(GOOD[0], GOOD[1] + 1), "tags: found 3, expected tags from 0 to 2"),
        (lambda crf: crf(GOOD[0], GOOD[1].double()), "tags: found torch.float64"),
        (lambda crf: crf(GOOD[0][..., :2], GOOD[1]), "emissions: found 2 tags, expected 3"),
        (lambda crf: crf(GOOD[0][0], GOOD[1]), "emissions: found"),
        (lambda crf: crf(GOOD[0], GOOD[1], GOOD[2], "max"), "reduction: expected one of none, sum"),
        (lambda crf: crf(GOOD[0] * float("nan"), GOOD[1]), "emissions"),
        (lambda crf: crf(GOOD[0].to("meta"), GOOD[1]), r"emissions: is on the device meta; .* call .cpu\(\)"),
        (lambda crf: crf(GOOD[0], GOOD[1].to("meta")), "tags: is on the device meta"),
        (lambda crf: crf(GOOD[0], GOOD[1], GOOD[2].to("meta")), "mask: is on the device meta"),
        (lambda crf: crf.decode(GOOD[0].to("meta")), "emissions: is on the device meta"),
        (lambda crf: crf.marginals(GOOD[0], GOOD[2].to("meta")), "mask: is on the device meta"),
        (lambda crf: crf.to("meta").decode(GOOD[0]), "transitions: is on the device meta"),
        (lambda crf: crf(GOOD[0], GOOD[1], GOOD[2].double()), "mask: found torch.float64"),
        (lambda crf: crf(GOOD[0], GOOD[1], [True] * 4), "mask: found list"),
        (lambda crf: crf.k_best(GOOD[0], 0), "k: expected"),
        (lambda _: zt.CRF(0), "num_tags: expected"),
        (lambda _: zt.CRF(2, forbidden=[(0, 2)]), r"forbidden\[0\]"),
        (lambda _: zt.CRF(2, forbidden=[(None, None)]), r"forbidden\[0\]: expected a pair"),
        (lambda _: zt.CRF(2, forbidden=torch.zeros(3, 3, dtype=torch.bool)), "forbidden: found"),
    ],
)
def test_bad_input(call: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(zhat.InputError, match=message):
        call(module(batch_first=True))
