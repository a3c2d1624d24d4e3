"""States, sets of states and likelihoods as evidence, against sums over all states."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import zhat

NAMES = ["sky", "rain", "wet"]
STATES = [["blue", "grey", "dark"], ["no", "yes"], None]


def weather() -> zhat.FactorGraph:
    rng = np.random.default_rng(5)
    factors = [
        ((0, 1), rng.normal(size=(3, 2))),
        ((1, 2), rng.normal(size=(2, 4))),
        ((2, 0), rng.normal(size=(4, 3))),
    ]
    return zhat.FactorGraph([3, 2, 4], factors, names=NAMES, state_names=STATES)


def summed(model: zhat.FactorGraph, weights: list[Any]) -> tuple[float, list[Any]]:
    """log Z and marginals of a model with one list of weights per variable, by plain sums."""
    beliefs = [np.zeros(n) for n in model.cardinalities]
    total = 0.0
    for state in itertools.product(*map(range, model.cardinalities)):
        weight = math.exp(model.score(state)) * math.prod(w[s] for w, s in zip(weights, state, strict=True))
        total += weight
        for belief, s in zip(beliefs, state, strict=True):
            belief[s] += weight
    return math.log(total), [belief / total for belief in beliefs]


@pytest.mark.parametrize(
    ("given", "weights"),
    [
        ({"sky": {"grey", "dark"}}, [[0, 1, 1], [1, 1], [1] * 4]),
        ({0: {1, 2}}, [[0, 1, 1], [1, 1], [1] * 4]),
        ({"sky": frozenset(["dark", 0])}, [[1, 0, 1], [1, 1], [1] * 4]),
        ({"rain": [0.8, 0.2]}, [[1] * 3, [0.8, 0.2], [1] * 4]),
        ({"rain": np.array([3, 0], np.int32)}, [[1] * 3, [3, 0], [1] * 4]),
        (
            {"wet": np.array([0.5, 0.0, 2.0, 0.25], np.float32)[::-1]},
            [[1] * 3, [1, 1], [0.25, 2.0, 0.0, 0.5]],
        ),
        ({"wet": (1, 2, 3, 4), "rain": "yes", "sky": {"blue", "dark"}}, [[1, 0, 1], [0, 1], [1, 2, 3, 4]]),
        ({"rain": {"yes"}}, [[1] * 3, [0, 1], [1] * 4]),
        ({"rain": {"yes", "no"}}, [[1] * 3, [1, 1], [1] * 4]),
    ],
)
def test_sets_and_likelihoods_multiply_the_weights(given: Any, weights: list[Any]) -> None:
    model = weather()
    log_z, beliefs = summed(model, weights)
    assert model.log_partition(given=given).value == pytest.approx(log_z, abs=1e-12)
    found = model.condition(given).marginals().value.by_name()
    for name, belief in zip(NAMES, beliefs, strict=True):
        np.testing.assert_allclose(found[name], belief, atol=1e-12)


def test_evidence_in_steps_multiplies_and_is_recorded() -> None:
    model = weather()
    twice = model.condition({"rain": [0.8, 0.2]}).condition({"rain": [0.5, 0.1], "sky": "grey"})
    log_z, _ = summed(model, [[0, 1, 0], [0.4, 0.02], [1] * 4])
    assert twice.log_partition().value == pytest.approx(log_z, abs=1e-12)
    assert twice.evidence == {0: 1}
    assert twice.uncertain_evidence == [1, 1]
    assert repr(twice) == "FactorGraph(3 variables, 2 to 4 states, 6 factors, 1 observed, 2 uncertain)"
    assert zhat.FactorGraph.__reduce__(twice)[0](*zhat.FactorGraph.__reduce__(twice)[1]) == twice
    assert model.condition({"rain": {"yes", "no"}}) == model


def test_impossible_evidence_is_named() -> None:
    equal = zhat.FactorGraph([2, 3], [((0, 1), [[1, 0, 0], [0, 1, 1]])], log=False, names=["a", "b"])
    with pytest.raises(zhat.ImpossibleEvidenceError, match=r"a = 0 and b = 1\|2 exclude each other"):
        equal.marginals(given={"a": 0, "b": {1, 2}})
    with pytest.raises(zhat.ImpossibleEvidenceError, match=r"a = 1 and b = 0 exclude each other"):
        equal.marginals(given={"a": [0, 0.5], "b": [3, 0, 0]})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rain": [0.8, 0.2, 0.1]}, "evidence: variable rain has 2 states, but 3 likelihoods are given"),
        ({"rain": [0.8, -0.2]}, r"evidence\['rain'\]: entry 1 is -0.2; a weight is 0 or more"),
        ({"rain": [0.8, math.nan]}, "likelihood 1 of variable rain has the logarithm NaN"),
        ({"rain": [0.8, math.inf]}, "likelihood 1 of variable rain has the logarithm inf"),
        ({"rain": [0.0, 0.0]}, "the likelihoods of variable rain are all 0; one must be positive"),
        ({"rain": []}, r"evidence\['rain'\]: expected one likelihood for each state, found .* shape \(0,\)"),
        ({"rain": [[0.8, 0.2]]}, r"found an array of shape \(1, 2\)"),
        ({"rain": ["yes", "no"]}, "values of type <U3 cannot be used"),
        ({"rain": [True, False]}, "values of type bool cannot be used"),
        ({"rain": np.ma.masked_array([1.0, 2.0], [True, False])}, "masked"),
        ({"rain": set()}, r"evidence\['rain'\]: the set of states is empty; name at least one"),
        ({"rain": {"yes", "maybe"}}, "variable `rain` has no state `maybe`"),
        ({"rain": {0, 2}}, "variable rain has 2 states, so there is no state 2"),
        ({"rain": {0.5}}, "expected an integer, found 0.5"),
        ({"rain": "yes|no"}, "variable `rain` has no state `yes|no`"),
        ({"snow": {0}}, "there is no variable `snow`"),
        ({7: [1, 2]}, "there is no variable 7; there are 3"),
        ({"rain": 0.5}, "expected an integer"),
    ],
)
def test_bad_evidence_is_refused(given: Any, message: str) -> None:
    with pytest.raises(zhat.InputError, match=message):
        weather().log_partition(given=given)


def test_chains_take_sets_and_likelihoods() -> None:
    rng = np.random.default_rng(7)
    emissions, transitions = rng.normal(size=(4, 3)), rng.normal(size=(3, 3))
    chain = zhat.Chain(emissions, transitions)
    likelihood = np.array([0.5, 0.0, 2.0])
    given: dict[int, Any] = {0: {0, 2}, 2: likelihood, 3: 1}
    total, at = 0.0, np.zeros(3)
    for path in itertools.product(range(3), repeat=4):
        if path[0] == 1 or path[3] != 1:
            continue
        score = sum(emissions[t, s] for t, s in enumerate(path))
        score += sum(transitions[a, b] for a, b in itertools.pairwise(path))
        weight = math.exp(score) * likelihood[path[2]]
        total += weight
        at[path[2]] += weight
    answer = chain.marginals(given=given)
    assert chain.log_partition(given=given).value == pytest.approx(math.log(total), abs=1e-12)
    np.testing.assert_allclose(answer.value[2], at / total, atol=1e-12)
    batch = zhat.Chain(emissions[None].repeat(2, 0), transitions)
    both = batch.log_partition(given={(1, place): known for place, known in given.items()}).value
    np.testing.assert_allclose(both, [chain.log_partition().value, math.log(total)], atol=1e-12)
    with pytest.raises(zhat.InputError, match="the chain has 3 states, but 2 likelihoods are given"):
        chain.condition({0: [1, 2]})


def test_trees_and_pairwise_graphs_take_sets_and_likelihoods() -> None:
    nodes = np.array([[0.0, 1.0], [0.5, 0.0]])
    graph = zhat.PairwiseGraph(nodes, [(0, 1)], [[1.0, 0.0], [0.0, 2.0]])
    weights = np.exp(nodes[0][:, None] + nodes[1] + [[1.0, 0.0], [0.0, 2.0]]) * np.array([0.3, 0.6])
    found = graph.marginals(given={1: [0.3, 0.6]}).value
    np.testing.assert_allclose(found[0], weights.sum(1) / weights.sum(), atol=1e-12)
    tree = zhat.DependencyTree(np.zeros((2, 2)), np.log([3.0, 5.0]), single_root=True)
    # Two trees: word 0 below the root (weight 3) or word 1 (weight 5).
    assert tree.log_partition(given={0: [0.5, 1.0, 2.0]}).value == pytest.approx(math.log(3 * 0.5 + 5 * 2))
    assert tree.log_partition(given={1: {0, 2}}).value == pytest.approx(math.log(5))
    parse = zhat.Hypertree(np.log([[1.0, 2.0]]), symbol_names=["N", "V"])
    assert parse.log_partition(given={0: {"V"}}).value == pytest.approx(math.log(2))
    assert parse.log_partition(given={0: [0.5, 0.25]}).value == pytest.approx(math.log(1.0))


def test_other_kinds_name_the_evidence_that_they_take() -> None:
    ranking = zhat.generate.space("permutation", size=3)
    with pytest.raises(zhat.InputError):
        ranking.log_partition(given={0: [1, 2]})
