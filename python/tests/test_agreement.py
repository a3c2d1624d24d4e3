"""Every method on every small model, against enumeration in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import Oracle, small_models

import zhat

MODELS = small_models()
KNOWN = MODELS["grid"].info()["methods"]
EXACT = sorted(
    name for name, costs in KNOWN.items() if all(cost["guarantee"] == "exact" for cost in costs.values())
)


def test_models_cover_zero_and_positive_partition_functions() -> None:
    zero = [Oracle.of(model).is_zero for model in MODELS.values()]
    assert any(zero)
    assert zero.count(False) > 50
    assert {"elimination", "enumeration"} <= set(EXACT)


@pytest.mark.parametrize("method", ["auto", *EXACT])
@pytest.mark.parametrize("name", MODELS)
def test_exact_methods_agree_with_enumeration(name: str, method: str) -> None:
    model, oracle = MODELS[name], Oracle.of(MODELS[name])
    knows_factors = method == "auto" or "factor_marginals" in KNOWN[method]
    if oracle.is_zero:
        queries = [zhat.log_partition, zhat.marginals, zhat.entropy, zhat.map, zhat.sample]
        for query in [*queries, zhat.factor_marginals] if knows_factors else queries:
            with pytest.raises(zhat.ZeroPartitionError, match="zero partition"):
                query(model, method=method)
        return
    z = zhat.log_partition(model, method=method)
    assert z.guarantee.kind == "exact"
    allowance = z.diagnostics["rounding"] + 1e-12 * (1 + abs(oracle.log_partition))
    assert abs(z.value - oracle.log_partition) <= allowance

    beliefs = zhat.marginals(model, method=method).value
    assert len(beliefs) == model.n_variables
    for got, want in zip(beliefs, oracle.marginals, strict=True):
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-9)

    if knows_factors:
        tables = zhat.factor_marginals(model, method=method).value
        assert len(tables) == model.n_factors
        for got, (scope, values) in zip(tables, model.factors, strict=True):
            assert got.shape == values.shape
            np.testing.assert_allclose(got, oracle.factor_marginal(scope), rtol=0, atol=1e-9)

    assert zhat.entropy(model, method=method).value == pytest.approx(oracle.entropy, abs=1e-8)

    best = zhat.map(model, method=method).value
    assert best.score == pytest.approx(oracle.best, abs=allowance)
    assert model.score(best.state) == best.score

    drawn = zhat.sample(model, 20, method=method).value
    assert drawn.law == "exact"
    assert drawn.states.shape == (20, model.n_variables)
    assert all(model.score(state) > -np.inf for state in drawn.states)


@pytest.mark.parametrize("name", MODELS)
def test_estimates_keep_their_guarantees(name: str) -> None:
    model, oracle = MODELS[name], Oracle.of(MODELS[name])
    if oracle.is_zero:
        return
    z = zhat.log_partition(model, method="importance", samples=4000, confidence=1 - 1e-9)
    assert z.guarantee.kind == "unbiased"
    if np.isfinite(z.value):
        assert z.guarantee.low is not None
        assert z.guarantee.low <= oracle.log_partition
    best = zhat.map(model, method="importance", samples=4000)
    assert best.guarantee.kind == "bounds"
    assert best.guarantee.confidence == 1
    assert best.guarantee.low is not None
    assert best.guarantee.high is not None
    assert best.guarantee.low <= oracle.best <= best.guarantee.high


def test_estimates_of_z_are_unbiased() -> None:
    model = zhat.generate.ising(rows=3, columns=3, coupling=0.4, seed=5)
    truth = Oracle.of(model).log_partition
    seeds = range(400)
    logs = [model.log_partition(method="importance", samples=64, seed=seed).value for seed in seeds]
    ratios = np.exp(np.array(logs) - truth)
    # A z-test at five standard errors: a false-alarm rate of 1 in 2 million.
    assert abs(ratios.mean() - 1) <= 5 * ratios.std(ddof=1) / np.sqrt(len(ratios))


@pytest.mark.parametrize("method", EXACT)
def test_samples_follow_the_model(method: str) -> None:
    model = zhat.generate.random(variables=3, factors=3, arity=2, seed=6)
    expected = 20_000 * Oracle.of(model).probabilities.ravel()
    states = model.sample(20_000, method=method, seed=1).value.states
    counts = np.bincount(states @ [4, 2, 1], minlength=8)
    # χ² with 7 degrees of freedom exceeds 45.7 with probability 10⁻⁷.
    assert np.sum((counts - expected) ** 2 / expected) < 45.7


def test_weighted_samples_follow_the_model() -> None:
    model = zhat.generate.random(variables=4, factors=5, arity=2, seed=7)
    answer = model.sample(50_000, method="importance", proposal="uniform")
    drawn = answer.value
    assert drawn.law == "weighted"
    assert drawn.log_weights is not None
    weights = np.exp(drawn.log_weights - Oracle.of(model).log_partition)
    # Tests the mean weight and the weighted frequency of a state of one variable at five standard errors.
    want = Oracle.of(model).marginals[0][1]
    for terms, truth in ((weights, 1.0), (weights * (drawn.states[:, 0] == 1), want)):
        assert abs(terms.mean() - truth) <= 5 * terms.std(ddof=1) / np.sqrt(len(terms))
