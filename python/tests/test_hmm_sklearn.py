"""`Hmm` as a scikit-learn estimator: its own checks, clones, pipelines and searches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from estimators import checked
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import zhat

# The rows of a sequence depend on each other, which these checks exclude.
ORDER = "rows are steps of a sequence, so a row's state depends on the other rows"
EXPECTED = {
    "Hmm": {
        "check_methods_sample_order_invariance": ORDER,
        "check_methods_subset_invariance": ORDER,
        "check_fit_score_takes_y": "the second argument is lengths, as in hmmlearn; y can be given by name",
    }
}


@pytest.mark.filterwarnings("ignore:Hmm")
@checked([zhat.Hmm(2)], EXPECTED)
def test_the_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


def test_clones_pipelines_and_searches() -> None:
    X = np.concatenate([np.random.default_rng(1).normal(size=(80, 2)), np.full((40, 2), 5.0)])
    X[80:] += np.random.default_rng(2).normal(size=(40, 2))
    model = zhat.Hmm(2, covariance="full")
    assert clone(model).get_params() == model.get_params()
    states = make_pipeline(StandardScaler(), model).fit(X).predict(X)
    assert states[0] != states[-1]
    search = GridSearchCV(zhat.Hmm(tol=1e-3), {"n_components": [1, 2]}, cv=3).fit(X)
    assert search.best_params_["n_components"] in (1, 2)
