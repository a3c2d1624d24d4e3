"""States as tensors: scores, best states, samples and relaxed samples of `zhat.torch`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from torch_models import CASES, Case, Enumerated, torch, zt

import zhat

WITH_STATES = [name for name, case in CASES.items() if case.kind is not zhat.PairwiseGraph]
"""Pairwise graphs have no best states and no samples."""


def native(case: Case, tensors: list[Any]) -> Any:
    """The same model of NumPy arrays."""
    arrays = [tensor.detach().numpy() for tensor in tensors]
    other = {name: own.numpy() if isinstance(own, torch.Tensor) else own for name, own in case.other.items()}
    if case.kind is zhat.FactorGraph:
        return zhat.FactorGraph(other["cardinalities"], zip(other["scopes"], arrays, strict=True))
    return case.kind(**dict(zip(case.real, arrays, strict=True)), **other)


def native_score(case: Case, model: Any, state: Any, b: int) -> float:
    """The score of a state by the library; −inf for heads that are no tree."""
    if case.kind is zhat.DependencyTree:
        heads = [pair[0] for pair in state] if case.other.get("labelled") else state
        if not is_tree(heads, case.other.get("projective", True), case.other.get("single_root", False)):
            return -math.inf
        labels = [pair[1] for pair in state] if case.other.get("labelled") else None
        return float(model.score(heads, labels, b))
    if case.kind is zhat.SemiMarkov:
        return float(model.score([tuple(row) for row in state], b))
    if case.kind in (zhat.Chain, zhat.Hypertree):
        return float(model.score(state, b))
    return float(model.score(state))


def is_tree(heads: list[int], projective: bool, single_root: bool) -> bool:
    for word in range(1, len(heads) + 1):
        above, steps = word, 0
        while above and steps <= len(heads):
            above, steps = heads[above - 1], steps + 1
        if above:
            return False
    spans = [sorted((d + 1, h)) for d, h in enumerate(heads)]
    crossing = any(a < c < b < d for a, b in spans for c, d in spans)
    return not (projective and crossing) and not (single_root and heads.count(0) != 1)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("zeros", [0.0, 0.3])
def test_scores_are_those_of_the_library(name: str, zeros: float) -> None:
    case = CASES[name]
    tensors = case.tensors(zeros=zeros)
    found = zt.score(case.model(*tensors), case.padded()).detach().numpy()
    model, found = native(case, tensors), found if case.batch else found[np.newaxis]
    for b, own in enumerate(case.states):
        want = [native_score(case, model, state, b) for state in own]
        np.testing.assert_allclose(found[b, : len(own)], want, rtol=1e-12, atol=1e-12)
        assert (found[b, len(own) :] == -math.inf).all()


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("zeros", [0.0, 0.3])
def test_log_probabilities(name: str, zeros: float) -> None:
    case = CASES[name]
    ours, oracle = case.tensors(zeros=zeros), case.tensors(zeros=zeros)
    found = zt.log_prob(case.model(*ours), case.padded())
    want = Enumerated(case, *oracle)
    torch.testing.assert_close(found.exp(), want.probabilities.view(found.shape), rtol=1e-10, atol=1e-12)
    total = torch.where(torch.isneginf(found), 0.0, found).sum()
    wanted = torch.where(want.possible, want.log_probabilities, 0.0).sum()
    first, second = (
        torch.autograd.grad(value, tensors, materialize_grads=True)
        for value, tensors in ((total, ours), (wanted, oracle))
    )
    for own, expected in zip(first, second, strict=True):
        torch.testing.assert_close(own, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", WITH_STATES)
@pytest.mark.parametrize("zeros", [0.0, 0.3])
def test_best_states(name: str, zeros: float) -> None:
    case = CASES[name]
    tensors = case.tensors(zeros=zeros)
    every = zt.score(case.model(*tensors), case.padded())
    states, scores = zt.best(case.model(*tensors))
    torch.testing.assert_close(scores, every.amax(-1), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(zt.score(case.model(*tensors), states), scores)
    gradients = torch.autograd.grad(scores.sum(), tensors, allow_unused=True)
    assert all(own is None or own.isfinite().all() for own in gradients)
    k = 5
    states, scores = zt.k_best(case.model(*tensors), k)
    want = torch.full((*every.shape[:-1], k), -torch.inf, dtype=every.dtype)
    most = min(k, every.shape[-1])
    want[..., :most] = every.sort(-1, descending=True).values[..., :most]
    torch.testing.assert_close(scores, want, rtol=1e-10, atol=1e-10)
    rows = states.flatten(2 if case.batch else 1)
    assert ((rows == -1).all(-1) == torch.isneginf(scores)).all()


def padded(state: Any, rows: int) -> tuple[int, ...]:
    """The numbers of a state with this many rows, the last of them −1."""
    full = torch.full((rows, *state.shape[1:]), -1)
    full[: len(state)] = state
    return tuple(full.flatten().tolist())


@pytest.mark.parametrize("name", WITH_STATES)
def test_samples(name: str) -> None:
    """Every count is within five standard deviations: a false alarm in 1e-6 per state."""
    case, n = CASES[name], 4000
    model = case.model()
    drawn, again = zt.sample(model, n, seed=3), zt.sample(model, n, seed=3)
    assert torch.equal(drawn, again)
    assert not torch.equal(drawn, zt.sample(model, n, seed=4)) or name == "one state"
    every, p = case.padded(), Enumerated(case, *case.tensors()).probabilities.detach()
    every, p = (own if case.batch else own.unsqueeze(0) for own in (every, p))
    drawn = drawn if case.batch else drawn.unsqueeze(0)
    for b in range(len(every)):
        # States are as long as the longest one drawn, and may be shorter than the longest one of all.
        wide = max(drawn.shape[2], every.shape[2])
        keys = [padded(own, wide) for own in drawn[b]]
        total = 0
        for state, own in zip(every[b], p[b].tolist(), strict=True):
            key = padded(state, wide)
            count = keys.count(key) if own > 0 else 0
            total += count
            assert abs(count - n * own) <= 5 * math.sqrt(n * own * (1 - own)) + 1e-9
        assert total == n


def test_items_without_a_state() -> None:
    emissions = torch.zeros(2, 3, 2)
    emissions[1, 1] = -torch.inf
    for other in ({}, {"segments": torch.zeros(2, 2)}):
        chain = zt.Chain(emissions, torch.zeros(2, 2), **other)
        for states in (zt.best(chain).states[1], zt.k_best(chain, 2).states[1], zt.sample(chain, 3)[1]):
            assert (states == -1).all()
        assert zt.best(chain).scores[1] == zt.k_best(chain, 2).scores[1, 0] == -torch.inf
        single = zt.Chain(emissions[1], torch.zeros(2, 2), **other)
        assert zt.best(single).scores == -torch.inf
        assert (zt.sample(single, 2) == -1).all()
        assert zt.log_prob(single, zt.best(single).states) == -torch.inf


RELAXED = [
    "chain",
    "steps",
    "segments",
    "projective",
    "any tree",
    "labelled",
    "trees",
    "listed rules",
    "spans",
]


@pytest.mark.parametrize("name", RELAXED)
def test_relaxed_samples(name: str) -> None:
    case = CASES[name]
    tensors = case.tensors()
    soft, hard = zt.relaxed_sample(case.model(*tensors), 3, 0.5, seed=2)
    parts = soft if isinstance(soft, tuple) else (soft,)
    samples, _ = zhat.ops.relaxed_sample(native(case, tensors), 3, 0.5, seed=2)
    torch.testing.assert_close(parts[0].detach(), torch.tensor(samples.soft))
    assert hard.dtype is torch.int64
    assert hard.shape[: 1 + case.batch] == parts[0].shape[: 1 + case.batch]
    scores = zt.score(case.model(*tensors), hard)
    assert scores.isfinite().all()
    if name == "chain":
        used = hard >= 0
        assert (parts[0].argmax(-1)[used] == hard[used]).all()
        assert (hard[1, :, 1:] == -1).all()

    def value(*tensors: Any) -> Any:
        return zt.relaxed_sample(case.model(*tensors), 2, 0.7, seed=1)[0]

    assert torch.autograd.gradcheck(value, tensors)


def test_relaxed_samples_have_no_second_derivatives() -> None:
    tensors = CASES["chain"].tensors()
    soft, _ = zt.relaxed_sample(CASES["chain"].model(*tensors))
    (first, *_) = torch.autograd.grad(soft.square().sum(), tensors, create_graph=True)
    with pytest.raises(zhat.InputError, match="first derivatives"):
        first.sum().backward()


@pytest.mark.parametrize(
    ("states", "message"),
    [
        (torch.zeros(3), "states: has values of type torch.float32"),
        (torch.zeros(2, 2, 2, 2, 2, dtype=torch.long), "states: found shape"),
        (torch.zeros(2, 4, dtype=torch.long), "states: found shape"),
        (torch.full((2, 3), 2), "states: found 2, expected numbers below 2"),
        ([0, 1], "states: expected a tensor of integers, found list"),
    ],
)
def test_states_that_cannot_be_scored(states: Any, message: str) -> None:
    with pytest.raises(zhat.InputError, match=message):
        zt.score(CASES["chain"].model(), states)
