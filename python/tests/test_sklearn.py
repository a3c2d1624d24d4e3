"""`zhat.sklearn`: its estimators in scikit-learn's checks, pipelines, searches and containers."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from estimators import checked
from sklearn.base import clone, is_classifier
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.validation import check_is_fitted

import zhat
import zhat.sklearn
from zhat.sklearn import MarkovRandomField

RANDOM = np.random.default_rng(26)


def weather(rows: int, gaps: float = 0.0) -> pd.DataFrame:
    """Columns that depend on each other in different ways: two, three and two values."""
    random = np.random.default_rng(rows)
    sky = random.choice(["clear", "grey", "dark"], size=rows, p=[0.5, 0.3, 0.2])
    rain = np.where(random.random(rows) < np.where(sky == "dark", 0.9, 0.15), "yes", "no")
    wet = np.where(random.random(rows) < np.where(rain == "yes", 0.95, 0.1), "yes", "no")
    table = pd.DataFrame({"sky": sky, "rain": rain, "wet": wet})
    return table.mask(random.random(table.shape) < gaps)


TABLE = weather(300)
GAPS = weather(200, 0.2)

BINNED = MarkovRandomField("chow-liu+2", bins=3, missing="state", handle_unknown="ignore")
UNSEEN = "rows of weight 0 have numbers that training did not have; handle_unknown and bins accept them"
SHAPE = "predict_proba has one probability per pair of elements, where the checks expect one per class"
EXPECTED = {
    "MarkovRandomField": {"check_sample_weight_equivalence_on_dense_data": UNSEEN},
    "PartitionPredictor": {"check_estimator_sparse_array": SHAPE, "check_estimator_sparse_matrix": SHAPE},
}


# The others have tests of their own: test_predict_sklearn.py, test_hmm_sklearn.py and test_tagger_sklearn.py.
@checked([MarkovRandomField(), zhat.PartitionPredictor()], EXPECTED)
def test_the_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


@checked([BINNED], {})
def test_the_checks_of_scikit_learn_with_bins(estimator: Any, check: Any) -> None:
    check(estimator)


def test_the_estimators_are_those_of_the_package() -> None:
    for name in zhat.sklearn.__all__:
        estimator = getattr(zhat.sklearn, name)
        assert getattr(zhat, name, MarkovRandomField) is estimator
        made = estimator()
        copied = clone(made)
        assert copied is not made
        assert copied.get_params() == made.get_params()
        assert repr(made) == f"{name}()"
        assert isinstance(pickle.loads(pickle.dumps(made)), estimator)
        with pytest.raises(NotFittedError):
            check_is_fitted(made)


WITHOUT = """
import sys
from importlib.abc import MetaPathFinder

class Blocked(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("sklearn", "pandas", "polars", "torch"):
            raise ImportError(name)

sys.meta_path.insert(0, Blocked())
import zhat.sklearn

X = [["a", "u", 1.5], ["a", "u", 2.5], ["b", "v", 1.5], ["b", "v", None]]
model = zhat.sklearn.MarkovRandomField(bins=2).set_output(transform="default")
print(model.fit_transform(X).tolist()[3][:2], model.score(X) < 0, model.sample(2).shape)
try:
    model.set_output(transform="pandas").transform(X)
except ImportError as error:
    print(error)
try:
    zhat.sklearn.MarkovRandomField().sample()
except zhat.NotFittedError as error:
    print(type(error).__name__)
print(sorted(name for name in ("sklearn", "pandas", "polars", "torch") if name in sys.modules))
"""


def test_scikit_learn_is_not_needed() -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", WITHOUT], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    first, second, third, last = ran.stdout.splitlines()
    assert first == "['b', 'v'] True (2, 3)"
    assert "pip install pandas" in second
    assert (third, last) == ("NotFittedError", "[]")


def test_the_parameters_are_those_of_fit() -> None:
    own = inspect.signature(MarkovRandomField).parameters
    fit = inspect.signature(zhat.fit).parameters
    assert set(own) - set(fit) == {"bins", "handle_unknown", "method_options"}
    # The others describe files and frames, which pipelines prepare, and Bayesian networks.
    networks = {"pseudo_count", "equivalent_sample_size"}
    assert set(fit) - set(own) - networks == {"table", "header", "encoding", "ignore", "options"}
    for name in set(own) & set(fit):
        assert own[name].default == fit[name].default, name


def test_pipelines_and_grid_searches() -> None:
    """A classifier after the imputation, with parameters of both chosen by cross-validation."""
    table = weather(240)
    y = np.where((table.rain == "yes") ^ (np.random.default_rng(3).random(240) < 0.1), "umbrella", "hat")
    X = table.mask(np.random.default_rng(4).random(table.shape) < 0.15)
    pipeline = Pipeline(
        [
            ("fill", MarkovRandomField(handle_unknown="ignore")),
            ("encode", OneHotEncoder(handle_unknown="ignore")),
            ("classify", LogisticRegression()),
        ]
    )
    choices = {"fill__structure": ["independent", "chow-liu"], "classify__C": [1e-4, 1.0]}
    search = GridSearchCV(pipeline, choices, cv=KFold(4), error_score="raise").fit(X, y)
    assert search.best_params_["classify__C"] == 1.0
    assert search.score(X, y) > 0.8
    # The same steps by hand.
    for structure in choices["fill__structure"]:
        steps = clone(pipeline).set_params(fill__structure=structure).fit(X, y)
        model = zhat.fit(X, structure).model
        filled = zhat.impute(model, X)
        assert not filled.isna().any(axis=None)
        encoder = OneHotEncoder().fit(filled)
        classifier = LogisticRegression().fit(encoder.transform(filled), y)
        new = GAPS[:20]
        want = classifier.predict_proba(encoder.transform(zhat.impute(model, new)))
        np.testing.assert_allclose(steps.predict_proba(new), want, rtol=0, atol=1e-9)
    names = steps[:2].get_feature_names_out().tolist()
    assert names == ["sky_clear", "sky_dark", "sky_grey", "rain_no", "rain_yes", "wet_no", "wet_yes"]
    assert "MarkovRandomField" in steps._repr_html_()


def test_a_search_by_likelihood_finds_the_structure() -> None:
    """`score` is the held-out log-likelihood, also of rows with gaps."""
    folds = KFold(5)
    search = GridSearchCV(
        MarkovRandomField(), {"structure": ["independent", "chow-liu"]}, cv=folds, error_score="raise"
    )
    assert search.fit(GAPS).best_params_ == {"structure": "chow-liu"}
    scores = cross_val_score(MarkovRandomField(), TABLE, cv=folds)
    for score, (train, test) in zip(scores, folds.split(TABLE), strict=True):
        model = zhat.fit(TABLE.iloc[train]).model
        assert score == pytest.approx(zhat.score(model, TABLE.iloc[test])[1].value, abs=1e-12)
    parallel = GridSearchCV(MarkovRandomField(), {"l2": [0.01]}, cv=2, n_jobs=2).fit(TABLE)
    assert parallel.best_estimator_.model_ == MarkovRandomField(l2=0.01).fit(TABLE).model_


@pytest.mark.parametrize("missing", ["drop", "state"])
def test_pickles_and_clones(missing: str) -> None:
    model = MarkovRandomField(missing=missing, bins=4).set_output(transform="polars").fit(GAPS)
    restored = pickle.loads(pickle.dumps(model))
    assert restored.model_ == model.model_
    assert restored.transform(GAPS).equals(model.transform(GAPS))
    np.testing.assert_array_equal(restored.score_samples(GAPS), model.score_samples(GAPS))
    assert repr(restored.fitted_) == repr(model.fitted_)
    copied = clone(model)
    assert copied.get_params() == model.get_params()
    with pytest.raises(NotFittedError):
        copied.transform(GAPS)
    with pytest.raises(zhat.NotFittedError):
        copied.sample()
    assert isinstance(copied.fit(GAPS).transform(GAPS), pl.DataFrame)
    assert not is_classifier(model)


def test_weights_are_counts_of_rows() -> None:
    weights = np.random.default_rng(5).integers(0, 4, size=len(GAPS))
    repeated = GAPS.loc[np.repeat(GAPS.index, weights)]
    for options in ({}, {"missing": "state"}):
        one = MarkovRandomField(**options).fit(GAPS, sample_weight=weights)
        two = MarkovRandomField(**options).fit(repeated)
        assert one.model_ == two.model_
        assert one.fitted_.rows == two.fitted_.rows
        assert one.score(GAPS, sample_weight=weights) == pytest.approx(two.score(repeated), abs=1e-12)
    pipeline = make_pipeline(MarkovRandomField()).fit(GAPS, markovrandomfield__sample_weight=weights)
    assert pipeline[0].model_ == MarkovRandomField().fit(repeated).model_
    search = GridSearchCV(MarkovRandomField(), {"l2": [0.1]}, cv=2).fit(GAPS, sample_weight=weights)
    assert search.best_estimator_.model_ == MarkovRandomField(l2=0.1).fit(repeated).model_
    numbers = np.random.default_rng(6).normal(size=(200, 2))
    one = MarkovRandomField(bins=5).fit(numbers, sample_weight=weights)
    two = MarkovRandomField(bins=5).fit(np.repeat(numbers, weights, axis=0))
    for edges, others in zip(one.bin_edges_, two.bin_edges_, strict=True):
        assert edges is not None
        np.testing.assert_array_equal(edges, others)
    assert one.model_ == two.model_


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.full(200, 0.5), "row 0 has weight 0.5, expected a whole number"),
        (np.full(200, -1.0), "row 0 has weight -1.0"),
        (np.zeros(200), "every weight is zero"),
        (np.ones(3), "shape"),
        (np.full(200, 1e15), "weights add up to 2e\\+17 rows"),
    ],
)
def test_weights_that_cannot_be_used(weights: Any, message: str) -> None:
    with pytest.raises((zhat.InputError, zhat.OverBudgetError), match=message):
        MarkovRandomField().fit(GAPS, sample_weight=weights)


def test_arrays_are_the_default_output() -> None:
    model = MarkovRandomField().fit(TABLE)
    found = model.transform(GAPS)
    assert isinstance(found, np.ndarray)
    assert found.dtype == object
    assert model.get_feature_names_out().tolist() == ["sky", "rain", "wet"]
    assert model.feature_names_in_.tolist() == ["sky", "rain", "wet"]
    numbers = RANDOM.integers(0, 3, size=(50, 2))
    plain = MarkovRandomField().fit(numbers)
    assert plain.get_feature_names_out().tolist() == ["x0", "x1"]
    assert plain.get_feature_names_out(["a", "b"]).tolist() == ["a", "b"]
    assert plain.transform(numbers).dtype == numbers.dtype
    assert plain.transform(numbers.astype(np.float32)).dtype == np.float32


@pytest.mark.parametrize("how", ["set_output", "config"])
@pytest.mark.parametrize("container", ["pandas", "polars"])
def test_frames(container: str, how: str) -> None:
    model = MarkovRandomField().fit(TABLE)
    plain = model.transform(GAPS)
    given = GAPS.set_index(np.arange(len(GAPS)) * 10 + 3)
    if how == "config":
        with sklearn.config_context(transform_output=container):
            found = model.transform(given)
    else:
        found = model.set_output(transform=None).set_output(transform=container).transform(given)
    assert list(found.columns) == ["sky", "rain", "wet"]
    np.testing.assert_array_equal(found.to_numpy(), plain)
    if container == "pandas":
        assert found.index.equals(given.index)
    else:
        assert isinstance(found, pl.DataFrame)
    both = ColumnTransformer([("fill", MarkovRandomField(), ["sky", "rain"])], remainder="passthrough")
    table = weather(40)
    passed = table if container == "pandas" else pl.DataFrame(table.to_dict("list"))
    made = both.set_output(transform=container).fit_transform(passed)
    assert list(made.columns) == ["fill__sky", "fill__rain", "remainder__wet"]


def test_columns_of_frames_keep_their_types() -> None:
    frame = pd.DataFrame(
        {
            "whole": pd.array([1, 2, None, 1, 2, 1], dtype="Int64"),
            "text": pd.array(["a", "b", "b", None, "b", "a"], dtype="string"),
            "level": pd.Categorical(["low", "high", "high", "low", None, "low"], categories=["low", "high"]),
            "flag": pd.array([True, False, False, True, False, None], dtype="boolean"),
            "day": pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-02", "2024-01-01", None, None]),
            "real": [0.5, 1.5, 1.5, 0.5, 1.5, np.nan],
        }
    )
    model = MarkovRandomField(missing="state").set_output(transform="pandas").fit(frame)
    pd.testing.assert_frame_equal(model.transform(frame), frame)
    assert isinstance(model.sample(3), pd.DataFrame)
    whole = frame.iloc[:2].loc[np.repeat([0, 1], [5, 6])].reset_index(drop=True)
    model = MarkovRandomField().set_output(transform="pandas").fit(whole)
    found = model.transform(frame)
    assert found.dtypes.equals(frame.dtypes)
    want = whole.iloc[[0, 5, 5, 0, 5, 0]].reset_index(drop=True)
    pd.testing.assert_frame_equal(found, want)
    columns = pl.DataFrame({"a": ["x", None, "y"], "b": [1, 1, None], "c": [0.5, 0.5, 2.0]})
    training = pl.DataFrame({"a": ["x", "x", "y"], "b": [1, 1, 2], "c": [0.5, 0.5, 2.0]})
    model = MarkovRandomField().set_output(transform="polars").fit(training)
    found = model.transform(columns)
    assert found.schema == columns.schema
    assert found.rows() == [("x", 1, 0.5), ("x", 1, 0.5), ("y", 2, 2.0)]


def test_what_cannot_be_used_is_refused() -> None:
    model = MarkovRandomField()
    for options, message in (
        ({"bins": 1}, "bins: expected an integer between 2"),
        ({"handle_unknown": "missing"}, 'handle_unknown: expected "error" or "ignore"'),
        ({"missing": "keep"}, "missing: expected"),
        ({"method_options": 3}, "method_options: expected a dict"),
        ({"method_options": {"sampels": 3}}, "sampels"),
        ({"method_options": {"l2": 3}}, "method_options: 'l2' is not an option of a method"),
        ({"method_options": {3: 3}}, "method_options: expected a text, found 3"),
        ({"method": "magic"}, "magic"),
        ({"structure": [("sky", "snow")]}, "snow"),
        ({"most_states": 2}, "column sky has 3 different values, more than most_states = 2"),
        ({"missing": "refuse"}, "row 1: column sky has no value"),
    ):
        with pytest.raises(zhat.InputError, match=message):
            clone(model).set_params(**options).fit(GAPS)
    twice = pd.DataFrame([["a", "b"]], columns=["x", "x"])
    for X, message in (
        (twice, "two columns named 'x'"),
        (np.array([[1.0, np.inf]]), "row 0, column x1 is infinity"),
        ([[1, "a"], ["1", "b"]], "column x0 has two different values that are both written '1'"),
        ([[1, 2], [3]], "X"),
        (np.zeros((2, 2), dtype=[("a", int)]), "column x0 has type"),
        ([[None], [None]], "every row has a missing value"),
        ([[1, None], [None, 2]], "every row has a missing value"),
    ):
        with pytest.raises(zhat.InputError, match=message):
            MarkovRandomField().fit(X)
    with pytest.raises(zhat.InputError, match="transform: expected one of default, pandas, polars"):
        model.set_output(transform="arrow")
    with pytest.raises(zhat.InputError, match="n_samples"):
        MarkovRandomField().fit(TABLE).sample(0)


def test_a_fit_that_does_not_converge_warns() -> None:
    with pytest.warns(ConvergenceWarning, match="stopped after 2 iterations"):
        model = MarkovRandomField("complete", iterations=2, tolerance=1e-12).fit(TABLE)
    assert (model.n_iter_, model.converged_) == (2, False)
