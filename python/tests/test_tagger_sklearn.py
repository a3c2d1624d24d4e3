"""`Tagger` as a scikit-learn estimator: its own checks, tables, clones, searches and pickles."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pandas
import polars
import pytest
import scipy.sparse
from estimators import checked
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import zhat
from zhat.errors import InputError

WORDS = [["the", "dog"], ["a", "cat", "sleeps"], ["dogs", "sleep"], ["the", "cat"], ["a", "dog", "barks"]] * 3
TAGS = [["D", "N"], ["D", "N", "V"], ["N", "V"], ["D", "N"], ["D", "N", "V"]] * 3

RANDOM = np.random.default_rng(24)
X = RANDOM.normal(size=(120, 3))
Y = np.where(X[:, 0] > 0.3, 10, np.where(X[:, 1] > 0, 9, 1))


@checked([zhat.Tagger()], {})
def test_the_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize(
    "labels",
    [
        Y,
        Y.astype(np.float32),
        Y == 10,
        np.array(["b", "a", "c"])[1 * (Y > 1) + (Y > 9)],
        Y.astype(str).astype(object),
    ],
    ids=["int", "float", "bool", "text", "object"],
)
def test_labels_keep_their_type_and_order(labels: Any) -> None:
    model = zhat.Tagger(l2=0.01).fit(X, labels)
    assert isinstance(model.classes_, np.ndarray)
    np.testing.assert_array_equal(model.classes_, np.unique(labels))
    predicted, shares = model.predict(X), model.predict_proba(X)
    assert predicted.dtype == labels.dtype == model.classes_.dtype
    assert predicted.shape == (120,)
    assert shares.shape == (120, len(model.classes_))
    np.testing.assert_array_equal(model.classes_[shares.argmax(axis=1)], predicted)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    assert model.score(X, labels) == np.mean(predicted == labels) > 0.9
    logs = model.log_probabilities(X, labels)
    places = np.searchsorted(model.classes_, labels)
    np.testing.assert_allclose(np.exp(logs), shares[np.arange(120), places])
    assert model.evaluate(X, labels).accuracy == model.score(X, labels)
    marginals = model.predict_marginals(X)[0][0]
    assert list(marginals) == model.classes_.tolist()
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), predicted)


def test_a_table_gives_logistic_regression() -> None:
    # The bias is penalised like the other weights, so the other model gets a column of ones.
    model = zhat.Tagger(l2=0.5, tol=1e-12, all_possible=True).fit(X, Y)
    ones = np.column_stack([X, np.ones(len(X))])
    other = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-10, max_iter=1000).fit(ones, Y)
    np.testing.assert_allclose(model.predict_proba(X), other.predict_proba(ones), atol=1e-4)


def test_all_forms_of_a_table_are_the_same() -> None:
    values = np.where(np.abs(X) < 0.3, 0.0, X)
    model = zhat.Tagger(l2=0.1).fit(values, Y)
    expected = model.predict_proba(values)
    for form in (scipy.sparse.csr_matrix, scipy.sparse.coo_array, np.asfortranarray, np.ndarray.tolist):
        other = zhat.Tagger(l2=0.1).fit(form(values), Y.tolist())
        np.testing.assert_array_equal(other.predict_proba(form(values)), expected)
    names = ["a", "b", "c"]
    for frame in (pandas.DataFrame(values, columns=names), polars.DataFrame(values, schema=names)):
        named = zhat.Tagger(l2=0.1).fit(frame, Y)
        assert named.feature_names_in_.tolist() == names
        assert named.n_features_in_ == 3
        np.testing.assert_array_equal(named.predict_proba(frame), expected)
        assert {weight.feature for weight in named.top_features(99) if not weight.transition} == {
            *names,
            "(bias)",
        }
        with pytest.raises(InputError, match="feature names should match"):
            named.predict(frame[["a", "c", "b"]])
        with pytest.warns(UserWarning, match="valid feature names"):
            np.testing.assert_array_equal(named.predict_proba(values), expected)


def test_early_stopping_and_files(tmp_path: Any) -> None:
    model = zhat.Tagger(l2=0.01).fit(X[:80], Y[:80], X[80:], Y[80:])
    assert model.score(X[80:], Y[80:]) > 0.8
    model.save(tmp_path / "table.zhat")
    # A file has labels as texts.
    read = zhat.Tagger.read(tmp_path / "table.zhat")
    np.testing.assert_array_equal(read.predict(X), model.predict(X).astype(str))
    # A row is a sentence of one token with these attributes.
    row = {f"x{i}": value for i, value in enumerate(X[0])}
    assert model.predict([[{**row, "(bias)": 1.0}]]) == [[str(model.predict(X[:1])[0])]]


@pytest.mark.parametrize(
    ("table", "labels", "message"),
    [
        (np.full((3, 2), np.nan), [0, 1, 0], "column x0 is NaN"),
        (scipy.sparse.csr_matrix([[0.0, np.inf], [1.0, 0.0]]), [0, 1], "row 0, column x1 is infinity"),
        (np.ones((3, 2)), [0, 1], "X has 3 rows and y has 2"),
        (np.ones((3, 2)), [[0, 1], [1, 0], [1, 1]], "one label per row"),
        (np.ones((3, 2)), [0.5, 1.5, 2.5], "Unknown label type: continuous"),
        (np.ones((3, 2)), ["a", "", "b"], "a tag is empty"),
        (np.ones(3), [0, 1, 0], "Expected 2D array"),
        ([[1.0, 2.0], [3.0]], [0, 1], "X: "),
        (pandas.DataFrame({"a": ["x", "y"]}), [0, 1], "column a is not numeric"),
        (np.ones((3, 2)), None, "requires y"),
    ],
)
def test_bad_tables(table: Any, labels: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        zhat.Tagger().fit(table, labels)


def test_tables_and_words_are_not_mixed() -> None:
    with pytest.raises(InputError, match="needs words"):
        zhat.Tagger(objective="joint").fit(X, Y)
    for objective in ("conditional", "joint"):
        model = zhat.Tagger(objective=objective, l2=0.1).fit(WORDS, TAGS)
        with pytest.raises(InputError, match="trained with words"):
            model.predict(X)
    model = zhat.Tagger(l2=0.1).fit(X, Y)
    with pytest.raises(InputError, match="trained with attributes"):
        model.predict(WORDS)
    with pytest.raises(InputError, match="known"):
        model.predict(X, [["1"]] * 120)
    # A model that is fitted again with sentences has nothing left of the table.
    model.fit(WORDS, TAGS)
    assert model.classes_ == ["D", "N", "V"]
    assert not hasattr(model, "n_features_in_")


def test_pipelines_of_tables() -> None:
    pipeline = make_pipeline(StandardScaler(), zhat.Tagger())
    search = GridSearchCV(pipeline, {"tagger__l2": [0.1, 1e4]}, cv=3).fit(X, Y)
    assert search.best_params_ == {"tagger__l2": 0.1}
    assert cross_val_score(pipeline, X, Y, cv=3, scoring="roc_auc_ovr").mean() > 0.9


def test_parameters_stay_as_they_were_given() -> None:
    model = zhat.Tagger(l2=0.1, optimizer="sgd", max_iter=3)
    before = dict(model.get_params())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert model.fit(WORDS, TAGS) is model
    assert model.get_params() == before
    assert set(vars(model)) - set(before) == {"_native", "classes_", "n_iter_", "objective_", "steps_"}
    assert is_classifier(model)
    copied = clone(model)
    assert copied.get_params() == before
    with pytest.raises(NotFittedError):
        copied.predict(WORDS)


def test_fits_are_repeated_and_pickled() -> None:
    model = zhat.Tagger(l2=0.1).fit(WORDS, TAGS)
    first = model.predict_proba(WORDS)
    again = model.fit(WORDS, TAGS).predict_proba(WORDS)
    restored = pickle.loads(pickle.dumps(model))
    for a, b, c in zip(first, again, restored.predict_proba(WORDS), strict=True):
        assert (a == b).all()
        assert (a == c).all()
    # The order and the number of the sentences do not matter.
    assert model.predict(WORDS[::-1]) == model.predict(WORDS)[::-1]
    assert [model.predict([one])[0] for one in WORDS] == model.predict(WORDS)


def test_searches_and_cross_validation() -> None:
    folds = KFold(3)
    model = zhat.Tagger(l2=0.1)
    assert cross_val_score(model, WORDS, TAGS, cv=folds).mean() > 0.9
    search = GridSearchCV(model, {"l2": [0.1, 1e4]}, cv=folds).fit(WORDS, TAGS)
    assert search.best_params_ == {"l2": 0.1}
    assert search.predict([["the", "dog"]]) == [["D", "N"]]
