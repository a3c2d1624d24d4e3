"""Structured predictors as scikit-learn estimators: its own checks, pipelines, grid search, scorers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from estimators import checked
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.metrics import average_precision_score, f1_score, hamming_loss, make_scorer
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import zhat

RANDOM = np.random.default_rng(8)
X = RANDOM.normal(size=(90, 5))
Y = (X[:, :3] + 0.7 * RANDOM.normal(size=(90, 3)) > 0).astype(int)
RANKS = np.argsort(np.argsort(-X[:, :3] + RANDOM.normal(size=(90, 3)), axis=1), axis=1) + 1
NODES = np.where(Y[:, 0], np.where(Y[:, 1], "a/b", "a"), "c")

# The checks expect one number per row of every estimator that accepts a vector `y`.
SHAPE = "predicts ranks, one column per item, also if it is trained on the first items"
EXPECTED = {"LabelRanker": {"check_estimator_sparse_array": SHAPE, "check_estimator_sparse_matrix": SHAPE}}


# The checks of PartitionPredictor are in test_sklearn.py.
@checked(
    [
        zhat.LabelSetClassifier(),
        zhat.HierarchyClassifier(),
        zhat.LabelRanker(),
        zhat.LabelRanker(partial=True),
    ],
    EXPECTED,
)
def test_the_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize(
    ("model", "y"),
    [
        (zhat.LabelSetClassifier(pairs="chow-liu", alpha=0.01), Y),
        (zhat.LabelRanker(model="precedence", decision="kendall"), RANKS),
        (zhat.HierarchyClassifier(alpha=0.01), NODES),
    ],
    ids=["labels", "rankings", "hierarchy"],
)
def test_pipelines_grid_search_and_clones(model: Any, y: Any) -> None:
    copied = clone(model)
    assert copied.get_params() == model.get_params()
    assert copied is not model
    with pytest.raises(NotFittedError):
        copied.predict(X)
    with pytest.raises(zhat.NotFittedError):
        copied.predict(X)
    name = type(model).__name__.lower()
    pipeline = make_pipeline(StandardScaler(), model)
    folds = KFold(3)
    scores = cross_val_score(pipeline, X, y, cv=folds)
    assert scores.shape == (3,)
    assert scores.mean() > 0.2
    search = GridSearchCV(pipeline, {f"{name}__alpha": [1e-3, 1e-1, 1e3]}, cv=folds).fit(X, y)
    assert search.best_params_[f"{name}__alpha"] < 1e3
    assert search.best_estimator_[-1].alpha == search.best_params_[f"{name}__alpha"]
    assert search.predict(X).shape[0] == 90
    parallel = GridSearchCV(model, {"alpha": [1e-2]}, cv=folds, n_jobs=2).fit(X, y)
    np.testing.assert_array_equal(
        parallel.best_estimator_.parameters_, clone(model).set_params(alpha=1e-2).fit(X, y).parameters_
    )
    assert cross_val_predict(model, X, y, cv=folds).shape[0] == 90


def test_scorers_of_scikit_learn() -> None:
    model = zhat.LabelSetClassifier(alpha=0.01)
    assert is_classifier(model)
    scores = {
        scoring: cross_val_score(model, X, Y, scoring=scoring, cv=3).mean()
        for scoring in ("accuracy", "f1_micro", "f1_macro", "average_precision", "roc_auc")
    }
    assert scores["accuracy"] == pytest.approx(cross_val_score(model, X, Y, cv=3).mean())
    assert all(0.3 < value < 1.0 for value in scores.values())
    loss = make_scorer(hamming_loss, greater_is_better=False)
    assert cross_val_score(model.set_params(decision="hamming"), X, Y, scoring=loss, cv=3).mean() > -0.4


def test_measures_are_those_of_scikit_learn() -> None:
    model = zhat.LabelSetClassifier(pairs="all", alpha=0.01).fit(X, Y)
    measures = model.evaluate(X, Y).measures
    chosen = model.predict(X, decision="hamming")
    assert measures["hamming_loss"] == pytest.approx(hamming_loss(Y, chosen))
    assert measures["micro_f1"] == pytest.approx(f1_score(Y, chosen, average="micro"))
    assert measures["macro_f1"] == pytest.approx(f1_score(Y, chosen, average="macro"))
    area = average_precision_score(Y, model.predict_proba(X), average="micro")
    assert measures["au_prc"] == pytest.approx(area)
    assert measures["subset_accuracy"] == pytest.approx(model.score(X, Y))


def test_repr_shows_the_parameters_that_were_set() -> None:
    assert repr(zhat.LabelSetClassifier()) == "LabelSetClassifier()"
    assert repr(zhat.LabelRanker(alpha=0.1, model="mallows")) == "LabelRanker(model='mallows', alpha=0.1)"
