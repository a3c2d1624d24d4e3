"""hmmlearn: the same likelihoods, posteriors and paths, and the same parameters both ways."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from bridge_hmms import KINDS, assert_equal, observations, random_hmm

import zhat

hmm: Any = pytest.importorskip("hmmlearn.hmm", reason="hmmlearn is not installed")

LENGTHS = (7, 1, 12)


def weight(model: Any, steps: Any, path: Any) -> float:
    """The joint log-probability of sequences and paths."""
    found = model._compute_log_likelihood(steps)[np.arange(len(steps)), path].sum()
    for own in np.split(path, np.cumsum(LENGTHS)[:-1]):
        found += np.log(model.startprob_[own[0]]) + np.log(model.transmat_[own[:-1], own[1:]]).sum()
    return float(found)


@pytest.mark.parametrize("kind", KINDS)
def test_models_both_ways(kind: str) -> None:
    model = random_hmm(kind)
    steps = observations(model, LENGTHS)
    other = model.to_hmmlearn()
    back = zhat.from_hmmlearn(other)
    for own in (model, back):
        likelihood, posteriors = other.score_samples(steps, LENGTHS)
        found, ours = own.score_samples(steps, LENGTHS)
        np.testing.assert_allclose(found, likelihood, rtol=1e-10)
        np.testing.assert_allclose(ours, posteriors, rtol=0, atol=1e-9)
        score, path = other.decode(steps, LENGTHS)
        found, states = own.decode(steps, LENGTHS)
        np.testing.assert_allclose(found, score, rtol=1e-10)
        # Paths may differ where several have the same probability.
        for one in (states, path):
            np.testing.assert_allclose(weight(other, steps, one), score, rtol=1e-10)
    if kind == "mixture-tied":
        # hmmlearn has one matrix per state, so the matrices are those of a model with full ones.
        assert back.covariance == "full"
        np.testing.assert_allclose(back.covars_, np.broadcast_to(model.covars_, back.covars_.shape))
    else:
        assert_equal(back, model)


@pytest.mark.parametrize("form", ["spherical", "diag", "full", "tied"])
def test_fitted_models(form: str) -> None:
    steps = observations(random_hmm("mixture-full"), LENGTHS * 6)
    for other in (
        hmm.GaussianHMM(2, form, n_iter=3, random_state=1, algorithm="map").fit(steps),
        hmm.GMMHMM(2, 2, covariance_type=form, n_iter=3, random_state=1, algorithm="map").fit(steps),
    ):
        model = zhat.from_hmmlearn(other)
        np.testing.assert_allclose(model.predict_proba(steps), other.predict_proba(steps), rtol=0, atol=1e-9)
        np.testing.assert_array_equal(model.predict(steps), other.predict(steps))
        assert model.algorithm == "map"
        np.testing.assert_allclose(
            zhat.from_hmmlearn(model.to_hmmlearn()).score(steps), other.score(steps), rtol=1e-10
        )


def test_mixtures_with_a_tied_matrix_per_state() -> None:
    random = np.random.default_rng(4)
    other = hmm.GMMHMM(2, 2, covariance_type="tied")
    other.startprob_, other.transmat_ = np.array([0.3, 0.7]), np.array([[0.9, 0.1], [0.2, 0.8]])
    other.weights_, other.means_ = random.dirichlet([1, 1], 2), random.normal(size=(2, 2, 2))
    other.covars_ = np.array([[[2.0, 0.5], [0.5, 1.0]], [[1.0, -0.2], [-0.2, 3.0]]])
    steps = random.normal(size=(9, 2))
    np.testing.assert_allclose(
        zhat.from_hmmlearn(other).predict_proba(steps), other.predict_proba(steps), atol=1e-9
    )


def test_models_that_cannot_be_converted() -> None:
    with pytest.raises(zhat.InputError, match=r"model: expected a CategoricalHMM, .* found MultinomialHMM"):
        zhat.from_hmmlearn(hmm.MultinomialHMM(2))
    with pytest.raises(zhat.InputError, match="GaussianHMM has no `startprob_`; fit it"):
        zhat.from_hmmlearn(hmm.GaussianHMM(2))
    with pytest.raises(zhat.NotFittedError):
        zhat.Hmm(2).to_hmmlearn()
    durations = [[0.5, 0.5], [0.2, 0.8]]
    semi = zhat.Hmm.from_parameters(
        [0.5, 0.5], [[0.0, 1.0], [1.0, 0.0]], rates=[[1.0], [2.0]], durations=durations
    )
    with pytest.raises(zhat.InputError, match="hmmlearn has no hidden Markov models with durations"):
        semi.to_hmmlearn()
