"""Answers for chains and semi-Markov chains, against enumeration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sequence_oracle import SequenceOracle, small_chains, small_semi_markov_chains, total_gradient

import zhat

MODELS: dict[str, zhat.Chain | zhat.SemiMarkov] = {
    **{f"chain, {name}": model for name, model in small_chains().items()},
    **{f"semi-Markov, {name}": model for name, model in small_semi_markov_chains().items()},
}


def tolerance(model: zhat.Chain | zhat.SemiMarkov, answer: zhat.Answer[Any]) -> float:
    """The rounding allowance of the answer plus that of the oracle, which uses double precision."""
    return float(answer.diagnostics["rounding"]) + 1e-9


def oracles(model: zhat.Chain | zhat.SemiMarkov) -> list[SequenceOracle]:
    return [SequenceOracle(model, b) for b in range(len(model.lengths))]


def each(model: zhat.Chain | zhat.SemiMarkov, value: Any) -> list[Any]:
    """The values of the sequences as a list; a single sequence has one value."""
    return [value] if model.batch is None else list(value)


def asked(
    model: zhat.Chain | zhat.SemiMarkov, ask: Callable[[], zhat.Answer[Any]]
) -> zhat.Answer[Any] | None:
    """The answer, or `None` if no sequence has a positive weight and the query raises an error."""
    if all(oracle.best == -np.inf for oracle in oracles(model)):
        with pytest.raises(zhat.ZeroPartitionError):
            ask()
        return None
    return ask()


@pytest.mark.parametrize("name", MODELS)
def test_log_partition_and_entropy(name: str) -> None:
    model = MODELS[name]
    answer = asked(model, model.log_partition)
    if answer is None:
        return
    assert isinstance(answer.value, float if model.batch is None else np.ndarray)
    want = [oracle.log_partition for oracle in oracles(model)]
    np.testing.assert_allclose(each(model, answer.value), want, rtol=0, atol=tolerance(model, answer))
    entropy = model.entropy()
    want = [oracle.entropy for oracle in oracles(model)]
    np.testing.assert_allclose(each(model, entropy.value), want, rtol=0, atol=tolerance(model, entropy))


@pytest.mark.parametrize("name", MODELS)
def test_marginals_and_gradients(name: str) -> None:
    model = MODELS[name]
    answer = asked(model, model.factor_marginals)
    if answer is None:
        return
    want = total_gradient(model)
    atol = tolerance(model, answer) * (1 + max(float(abs(array).max(initial=0)) for array in want.values()))
    nodes = model.marginals()
    assert nodes.value.shape == model.emissions.shape
    assert nodes.value.dtype == model.dtype
    np.testing.assert_allclose(nodes.value, want["emissions"].reshape(model.emissions.shape), atol=atol)
    gradient = answer.value.arrays()
    assert gradient.keys() == want.keys()
    for parameter, array in gradient.items():
        own = getattr(model, parameter)
        assert array.dtype == model.dtype
        assert array.shape == own.shape, parameter
        np.testing.assert_allclose(array, want[parameter].reshape(own.shape), atol=atol, err_msg=parameter)


@pytest.mark.parametrize("name", MODELS)
def test_best_and_k_best(name: str) -> None:
    model = MODELS[name]
    answer = asked(model, model.map)
    if answer is None:
        return
    ranked = model.k_best(4)
    atol = tolerance(model, answer)
    bests = zip(each(model, answer.value), each(model, ranked.value), oracles(model), strict=True)
    for b, (best, list_of_best, oracle) in enumerate(bests):
        if oracle.best == -np.inf:
            assert best.score == -np.inf
            assert list_of_best == []
            continue
        assert abs(best.score - oracle.best) <= atol
        assert len(best.states) == model.lengths[b]
        own = best.states if isinstance(model, zhat.Chain) else best.segments
        assert abs(model.score(own, b) - best.score) <= atol  # type: ignore[arg-type]
        want = np.sort(oracle.scores[oracle.scores > -np.inf])[::-1][:4]
        np.testing.assert_allclose([one.score for one in list_of_best], want, atol=atol)


@pytest.mark.parametrize("name", MODELS)
def test_samples_are_possible(name: str) -> None:
    model = MODELS[name]
    answer = asked(model, lambda: model.sample(20, seed=3))
    if answer is None:
        return
    drawn = answer.value
    assert drawn.log_weights is None
    if isinstance(model, zhat.Chain):
        assert drawn.segments is None
        for b, (rows, oracle) in enumerate(zip(each(model, drawn.states), oracles(model), strict=True)):
            if oracle.best == -np.inf:
                assert len(rows) == 0
                continue
            assert rows.shape == (20, model.lengths[b])
            assert all(model.score(row, b) > -np.inf for row in rows)
    else:
        assert drawn.states is None
        for b, (rows, oracle) in enumerate(zip(each(model, drawn.segments), oracles(model), strict=True)):
            assert len(rows) == (0 if oracle.best == -np.inf else 20)
            assert all(model.score(row, b) > -np.inf for row in rows)


def test_the_distribution_of_samples() -> None:
    """χ² test against the oracle with 26 degrees of freedom: the false-alarm rate at 84.6 is below 10⁻⁶."""
    model = zhat.generate.chain(states=3, steps=3, seed=5)
    oracle, n = SequenceOracle(model, 0), 40_000
    codes = model.sample(n, seed=1).value.states @ [9, 3, 1]
    counts = np.bincount(codes, minlength=27)
    expected = n * oracle.probabilities
    assert ((counts - expected) ** 2 / expected).sum() < 84.6


@pytest.mark.parametrize("name", MODELS)
def test_log_z_given_evidence_sums_the_paths_that_agree(name: str) -> None:
    model = MODELS[name]
    last, state = len(model.lengths) - 1, model.n_states - 1
    position = model.lengths[last] - 1
    key: Any = position if model.batch is None else (last, position)
    given = model.condition({key: state})
    oracle = SequenceOracle(model, last)
    agree = [states[-1][0] == state for states in oracle.states]
    oracle.scores = np.where(agree, oracle.scores, -np.inf)
    if all(one.best == -np.inf for one in oracles(given)):
        with pytest.raises(zhat.ImpossibleEvidenceError):
            given.log_partition()
        return
    answer = asked(given, given.log_partition)
    if answer is not None:
        got = each(given, answer.value)[last]
        np.testing.assert_allclose(got, oracle.log_partition, rtol=0, atol=tolerance(given, answer))
