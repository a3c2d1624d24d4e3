"""`Hmm` as a scikit-learn estimator: its own checks, clones, pipelines and searches."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import zhat

# The rows of a sequence depend on each other, which these checks exclude.
ORDER = "rows are steps of a sequence, so a row's state depends on the other rows"
EXPECTED = {
    "check_methods_sample_order_invariance": ORDER,
    "check_methods_subset_invariance": ORDER,
    "check_fit_score_takes_y": "the second argument is lengths, as in hmmlearn; y can be given by name",
}


def all_checks() -> list[Any]:
    with warnings.catch_warnings():
        # The estimator does not inherit from BaseEstimator, because scikit-learn is optional.
        warnings.filterwarnings("ignore", message=".*does not inherit from.*BaseEstimator")
        marked = parametrize_with_checks([zhat.Hmm(2)], expected_failed_checks=lambda _: EXPECTED)
        checks = list(marked.args[1])
    return [check for check in checks if "check_array_api_input" not in str(check[-1])]


def name_of(value: Any) -> str | None:
    function = getattr(value, "func", value)
    return function.__name__ if hasattr(function, "__name__") else type(value).__name__


@pytest.mark.filterwarnings("ignore:.*does not inherit from.*BaseEstimator")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:Hmm")
@pytest.mark.parametrize(("estimator", "check"), all_checks(), ids=name_of)
def test_the_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


def test_few_checks_are_expected_to_fail() -> None:
    assert len(EXPECTED) <= 5
    assert len(all_checks()) > 30


def test_clones_pipelines_and_searches() -> None:
    X = np.concatenate([np.random.default_rng(1).normal(size=(80, 2)), np.full((40, 2), 5.0)])
    X[80:] += np.random.default_rng(2).normal(size=(40, 2))
    model = zhat.Hmm(2, covariance="full")
    assert clone(model).get_params() == model.get_params()
    states = make_pipeline(StandardScaler(), model).fit(X).predict(X)
    assert states[0] != states[-1]
    search = GridSearchCV(zhat.Hmm(tol=1e-3), {"n_components": [1, 2]}, cv=3).fit(X)
    assert search.best_params_["n_components"] in (1, 2)
