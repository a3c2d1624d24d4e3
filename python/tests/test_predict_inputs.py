"""Inputs, targets, files and budgets of structured predictors."""

from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys
import threading
import time
from pathlib import Path
from signal import SIGINT, default_int_handler, signal
from typing import Any

import numpy as np
import pytest
from program import COMMAND
from scipy import sparse

import zhat

DATA = os.environ.get("ZHAT_DATA")
RANDOM = np.random.default_rng(4)
X = RANDOM.normal(size=(60, 4))
Y = (X[:, :3] + 0.5 * RANDOM.normal(size=(60, 3)) > 0).astype(int)
RANKS = np.argsort(np.argsort(-X[:, :3], axis=1), axis=1) + 1
NODES = np.where(X[:, 0] > 0, np.where(X[:, 1] > 0, "a/b", "a/c"), np.where(X[:, 2] > 0, "d", "d/e"))
BLOCKS = np.column_stack([np.zeros(60, int), Y[:, 0], Y[:, 1] * 2])
ESTIMATORS: list[tuple[Any, Any]] = [
    (zhat.LabelSetClassifier(pairs="chow-liu"), Y),
    (zhat.LabelRanker(), RANKS),
    (zhat.HierarchyClassifier(), NODES),
    (zhat.PartitionPredictor(), BLOCKS),
]
EACH = pytest.mark.parametrize(("model", "y"), ESTIMATORS, ids=[type(m).__name__ for m, _ in ESTIMATORS])


def fitted(model: Any, y: Any, x: Any = X, **options: Any) -> Any:
    return copy.deepcopy(model).set_params(**options).fit(x, y)


@EACH
def test_sparse_inputs_are_those_of_dense_arrays(model: Any, y: Any) -> None:
    x = np.where(RANDOM.random(X.shape) < 0.2, X, 0.0)
    for scaling, tolerance in (("max", 0.0), ("none", 0.0), ("standard", 1e-9)):
        dense = fitted(model, y, x, scaling=scaling, alpha=0.01)
        for kind in (sparse.csr_matrix, sparse.csr_array, sparse.csc_array, sparse.coo_array):
            other = fitted(model, y, kind(x), scaling=scaling, alpha=0.01)
            np.testing.assert_allclose(other.parameters_, dense.parameters_, atol=tolerance, rtol=0)
            np.testing.assert_allclose(other.predict_proba(kind(x)), dense.predict_proba(x), atol=1e-9)
    # Entries may be given in several parts.
    twice = sparse.coo_array(([1.0, 2.0, 4.0], ([0, 0, 1], [1, 1, 0])), shape=(2, 4))
    whole = np.array([[0.0, 3.0, 0, 0], [4.0, 0, 0, 0]])
    np.testing.assert_allclose(dense.predict_proba(twice), dense.predict_proba(whole), atol=1e-12)


def test_unit_rows() -> None:
    rows = X / np.linalg.norm(X, axis=1, keepdims=True)
    one = zhat.LabelSetClassifier(scaling="unit", gap=1e-12).fit(X, Y)
    two = zhat.LabelSetClassifier(scaling="none", gap=1e-12).fit(rows, Y)
    np.testing.assert_allclose(one.predict_proba(7.0 * X), two.predict_proba(rows), atol=1e-6)


def test_a_large_sparse_matrix_is_not_densified() -> None:
    """A dense copy would take 320 GB."""
    columns = 400_000
    x = sparse.random_array((100_000, columns), density=1e-6, format="csr", rng=np.random.default_rng(1))
    y = np.asarray((x.sum(axis=1) > 0.4).astype(int)).reshape(-1, 1)
    model = zhat.LabelSetClassifier(max_iter=2, memory="2GiB", gap=1.0).fit(x, y)
    assert model.n_features_in_ == columns
    assert model.predict(x).shape == y.shape


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames(library: str) -> None:
    """Categories are one-hot, missing values are the mean and an indicator, numbers are standardised."""
    frames = pytest.importorskip(library)
    size = np.where(RANDOM.random(60) < 0.2, np.nan, X[:, 0])
    colours: list[str | None] = [["red", "blue", "green"][i] for i in RANDOM.integers(0, 3, 60)]
    colours[7] = colours[20] = None
    frame = frames.DataFrame({"size": size, "colour": colours, "old": X[:, 1] > 0, "count": np.arange(60)})
    model = zhat.LabelSetClassifier(gap=1e-13).fit(frame, frames.DataFrame({"u": Y[:, 0], "v": Y[:, 1]}))
    assert model.feature_names_in_.tolist() == ["size", "colour", "old", "count"]
    assert model.classes_.tolist() == ["u", "v"]

    def standard(values: np.ndarray) -> np.ndarray:
        return (values - np.nanmean(values)) / np.nanstd(values)

    hot = np.array([[c == level for level in ("blue", "green", "red")] for c in colours], dtype=float)
    missing = np.array([c is None for c in colours], dtype=float)
    encoded = np.column_stack(
        [
            np.nan_to_num(standard(size)),
            np.isnan(size),
            hot,
            missing,
            standard(X[:, 1] > 0),
            standard(np.arange(60.0)),
        ]
    )
    want = zhat.LabelSetClassifier(gap=1e-13, scaling="none").fit(encoded, Y[:, :2])
    np.testing.assert_allclose(model.parameters_, want.parameters_, atol=1e-5)
    assert model.objective_ == pytest.approx(want.objective_, rel=1e-11)
    np.testing.assert_allclose(model.predict_proba(frame), want.predict_proba(encoded), atol=1e-5)
    other = frames.DataFrame({"size": [1.0], "colour": ["pink"], "old": [True], "count": [3]})
    with pytest.raises(
        zhat.InputError, match="row 0: column colour: the model does not know the category 'pink'"
    ):
        model.predict(other)
    with pytest.raises(ValueError, match=r"now missing:\n- old"):
        model.predict(frames.DataFrame({"size": [1.0], "colour": ["red"], "count": [3]}))
    with pytest.raises(ValueError, match="same order"):
        model.predict(frames.DataFrame({"colour": ["red"], "size": [1.0], "old": [True], "count": [3]}))
    words = frames.DataFrame({"size": ["big"], "colour": ["red"], "old": [True], "count": [3]})
    with pytest.raises(zhat.InputError, match="column size is categorical"):
        model.predict(words)


def test_pandas_types() -> None:
    pandas = pytest.importorskip("pandas")
    plain = pandas.DataFrame({"a": [1.0, 2.0, np.nan, 4.0] * 5, "b": list("xyxy") * 5})
    y = [[0], [1], [1], [0]] * 5
    want = zhat.LabelSetClassifier().fit(plain, y).parameters_
    others = [
        plain.assign(b=plain["b"].astype("category")),
        plain.assign(a=pandas.array([1, 2, None, 4] * 5, dtype="Int64")),
        plain.assign(a=pandas.Series([1, 2, None, 4] * 5, dtype=object)),
        plain.assign(b=plain["b"].astype("string")),
    ]
    for frame in others:
        np.testing.assert_array_equal(zhat.LabelSetClassifier().fit(frame, y).parameters_, want)
    with pytest.raises(zhat.InputError, match="column b has type datetime64"):
        zhat.LabelSetClassifier().fit(plain.assign(b=pandas.Timestamp("2020-01-01")), y)
    numbered = zhat.LabelSetClassifier().fit(plain[["a"]].set_axis([0], axis=1), y)
    assert not hasattr(numbered, "feature_names_in_")


def test_masked_and_missing_numbers() -> None:
    holes = X.copy()
    holes[3, 1] = holes[8, 2] = np.nan
    one = zhat.LabelSetClassifier().fit(holes, Y)
    two = zhat.LabelSetClassifier().fit(np.ma.masked_invalid(holes), Y)
    assert (one.parameters_ == two.parameters_).all()
    assert len(one.parameters_) == (4 + 2 + 1) * 3
    complete = one.predict_proba(X)
    assert complete.shape == (60, 3)


def test_forms_of_label_sets() -> None:
    names = np.array(["x", "y", "z"])
    lists = [list(names[row == 1]) for row in Y]
    want = zhat.LabelSetClassifier().fit(X, Y)
    for y in (lists, [set(row) for row in lists], [tuple(row) for row in lists]):
        model = zhat.LabelSetClassifier().fit(X, y)
        assert model.classes_.tolist() == ["x", "y", "z"]
        assert (model.parameters_ == want.parameters_).all()
        assert model.score(X, y) == want.score(X, Y)
        np.testing.assert_array_equal(model.log_prob(X, y), want.log_prob(X, Y))
        assert model.predict_structures(X[:1])[0].structure == tuple(names[want.predict(X[:1])[0] == 1])
    for y in (Y.astype(bool), Y.tolist(), sparse.csr_array(Y), sparse.csc_matrix(Y), Y.astype(float)):
        model = zhat.LabelSetClassifier().fit(X, y)
        assert (model.parameters_ == want.parameters_).all()
        assert model.score(X, y) == want.score(X, Y)
    numbers = zhat.LabelSetClassifier().fit(X, [{0, 2} if row[0] else {1} for row in Y])
    assert numbers.classes_.tolist() == [0, 1, 2]
    assert want.pairs_ == []
    assert zhat.LabelSetClassifier(pairs=[(2, 0)]).fit(X, Y).pairs_ == [(0, 2)]
    assert len(zhat.LabelSetClassifier(pairs="chow-liu").fit(X, lists).pairs_) == 2
    assert len(zhat.LabelSetClassifier(pairs="chow-liu+1").fit(X, lists).pairs_) == 3


def test_forms_of_hierarchies() -> None:
    want = zhat.HierarchyClassifier().fit(X, NODES)
    assert want.classes_.tolist() == ["a", "a/b", "a/c", "d", "d/e"]
    assert want.hierarchy_ == {"a": None, "a/b": "a", "a/c": "a", "d": None, "d/e": "d"}
    paths = ["a", "a/b", "a/c", "d", "d/e"]
    matrix = np.array([[path == node or node.startswith(path + "/") for path in paths] for node in NODES])
    given = zhat.HierarchyClassifier(hierarchy=paths)
    for y in (
        list(NODES),
        [[node] for node in NODES],
        [{node} for node in NODES],
        matrix,
        sparse.csr_array(matrix),
    ):
        model = copy.deepcopy(given).fit(X, y)
        assert (model.parameters_ == want.parameters_).all()
        assert model.score(X, y) == want.score(X, NODES)
    pandas = pytest.importorskip("pandas")
    frame = zhat.HierarchyClassifier().fit(X, pandas.DataFrame(matrix.astype(int), columns=paths))
    assert (frame.parameters_ == want.parameters_).all()
    # Several paths in a row, a row without nodes, and numbers as nodes.
    several = [["a/b", "d"], [], "a/c@d/e", *NODES[3:]]
    model = zhat.HierarchyClassifier().fit(X, several)
    assert model.log_prob(X[:3], several[:3]).shape == (3,)
    numbers = zhat.HierarchyClassifier(hierarchy={1: None, 2: 1, 3: 1}).fit(X, np.where(Y[:, 0], 2, 3))
    assert numbers.classes_.tolist() == [1, 2, 3]
    assert (numbers.predict(X)[:, 0] >= numbers.predict(X)[:, 1:].max(axis=1)).all()
    proba = want.predict_proba(X)
    assert (proba[:, 0] >= proba[:, 1:3].max(axis=1)).all()


@EACH
def test_pickles_files_and_copies(model: Any, y: Any, tmp_path: Path) -> None:
    made = fitted(model, y)
    want = made.predict_proba(X)
    for other in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made)):
        np.testing.assert_array_equal(other.predict_proba(X), want)
        assert other.get_params() == made.get_params()
        assert other.history_ == made.history_
    path = tmp_path / "m.zhat"
    made.save(path)
    loaded = type(made).load(path)
    np.testing.assert_array_equal(loaded.predict_proba(X), want)
    assert loaded.gap_ == made.gap_
    assert loaded.alpha == made.alpha_
    assert loaded.classes_.tolist() == made.classes_.tolist()
    assert loaded.predict_structures(X[:2])[0].structure == made.predict_structures(X[:2])[0].structure
    other_kind = zhat.LabelRanker if not isinstance(made, zhat.LabelRanker) else zhat.PartitionPredictor
    with pytest.raises(zhat.InputError, match="is a predictor of the space"):
        other_kind.load(path)
    with pytest.raises(zhat.MissingFileError):
        type(made).load(tmp_path / "none.zhat")
    zhat.generate.tree(variables=3).save(tmp_path / "tree.zhat")
    with pytest.raises(zhat.InputError, match="predictor"):
        type(made).load(tmp_path / "tree.zhat")


def test_files_are_shared_with_the_program(tmp_path: Path) -> None:
    rows = "".join(
        ",".join(map(repr, [*x, *y])) + "\n" for x, y in zip(X.tolist(), RANKS.tolist(), strict=True)
    )
    (tmp_path / "t.csv").write_text("A1,A2,A3,A4,L1,L2,L3\n" + rows)

    def program(*arguments: str) -> str:
        command = [*COMMAND, "structured", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    program("train", "t.csv", "--space", "ranking", "-o", "m.zhat")
    pandas = pytest.importorskip("pandas")
    table = pandas.read_csv(tmp_path / "t.csv")
    names = [f"A{i}" for i in range(1, 5)]
    own = zhat.LabelRanker().fit(table[names], table[["L1", "L2", "L3"]])
    loaded = zhat.LabelRanker.load(tmp_path / "m.zhat")
    np.testing.assert_array_equal(loaded.parameters_, own.parameters_)
    assert loaded.feature_names_in_.tolist() == names
    own.save(tmp_path / "p.zhat")
    assert (tmp_path / "p.zhat").read_bytes() == (tmp_path / "m.zhat").read_bytes()
    told = json.loads(program("predict", "t.csv", "-m", "p.zhat", "--json"))
    found = own.predict_structures(table[names])
    for row, one in zip(told["rows"], found, strict=True):
        assert row["predictions"][0]["prediction"] == ">".join(one.structure)
        assert row["predictions"][0]["log_probability"] == pytest.approx(one.log_probability, abs=1e-12)
    measured = json.loads(program("eval", "t.csv", "-m", "p.zhat", "--json"))["measures"]
    assert own.evaluate(table[names], table[["L1", "L2", "L3"]]).measures == pytest.approx(measured)


@EACH
def test_training_resumes_from_a_checkpoint(model: Any, y: Any, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    options = {"gap": 0.0, "keep_every": 0.0}

    def made(steps: int, **more: Any) -> Any:
        with pytest.warns(UserWarning, match="certified gap"):
            return fitted(model, y, max_iter=steps, **options, **more)

    whole = made(9)
    made(4, checkpoint=kept)
    resumed = made(9, checkpoint=str(kept))
    np.testing.assert_array_equal(resumed.parameters_, whole.parameters_)
    assert [step.step for step in resumed.history_] == [5, 6, 7, 8, 9]
    assert resumed.objective_ == whole.objective_
    assert not whole.converged_
    with pytest.raises(zhat.InputError, match="checkpoint"):
        fitted(model, y, X + 1, max_iter=9, checkpoint=kept, **options)


@EACH
def test_results_do_not_depend_on_threads(model: Any, y: Any) -> None:
    one, two = (fitted(model, y, threads=threads) for threads in (1, 2))
    np.testing.assert_array_equal(one.parameters_, two.parameters_)
    np.testing.assert_array_equal(one.sample(X, 3), two.sample(X, 3))
    assert (one.sample(X, 3) != copy.deepcopy(one).set_params(seed=1).sample(X, 3)).any()


def test_the_penalty_is_chosen_by_cross_validation() -> None:
    model = zhat.LabelSetClassifier(alpha=[1.0, 1e-2, 1e-4]).fit(X, Y)
    losses = dict(model.candidates_)
    assert set(losses) == {1.0, 1e-2, 1e-4}
    assert losses[model.alpha_] == min(losses.values())
    same = zhat.LabelSetClassifier(alpha=model.alpha_).fit(X, Y)
    np.testing.assert_array_equal(model.parameters_, same.parameters_)
    assert len(zhat.LabelSetClassifier(alpha="auto", folds=2).fit(X, Y).candidates_) == 7


def test_fourier_features() -> None:
    x = RANDOM.normal(size=(200, 2))
    y = ((x**2).sum(axis=1, keepdims=True) < 1).astype(int)
    plain = zhat.LabelSetClassifier().fit(x, y)
    curved = zhat.LabelSetClassifier(fourier=100, gamma=0.5, alpha=1e-4).fit(x, y)
    assert curved.score(x, y) > plain.score(x, y) + 0.1
    assert len(curved.parameters_) == 101


@pytest.mark.parametrize("method", ["sampled", "online"])
def test_sampled_and_online_training(method: str) -> None:
    best = zhat.LabelSetClassifier(pairs="all", alpha=0.1, gap=1e-12).fit(X, Y)
    samples, steps = (4, 8) if method == "sampled" else (1, 20)
    with pytest.warns(UserWarning, match="certified gap"):
        model = zhat.LabelSetClassifier(
            pairs="all", alpha=0.1, gap=1e-9, method=method, samples=samples, max_iter=steps
        ).fit(X, Y)
    assert model.confidence_ == (0.95 if method == "sampled" else 1.0)
    # The objective and the gap are those of the returned parameters.
    loss = -model.log_prob(X, Y).mean() + 0.1 * float(model.parameters_ @ model.parameters_)
    assert model.objective_ == pytest.approx(loss, rel=1e-12)
    assert model.objective_ == model.history_[-1].objective
    assert all(step.certified for step in model.history_)
    assert best.objective_ - 1e-12 <= model.objective_ < 3 * np.log(2)  # that of θ = 0
    assert model.objective_ - best.objective_ <= model.gap_
    assert model.n_iter_ == steps
    assert (model.regret_ is None) == (method == "sampled")
    if model.regret_ is not None:
        assert model.regret_.steps == 60 * steps
        assert model.regret_.measured <= model.regret_.sample_bound
    with pytest.raises(zhat.InputError, match="plackett-luce has exact gradients only"):
        zhat.LabelRanker(method=method).fit(X, RANKS)


def test_online_training_of_partial_rankings_has_no_bound() -> None:
    """The losses of ties before other items are not convex, so that nothing is proved about the regret."""
    ranks = np.where(RANKS == 2, 1, RANKS)
    model = zhat.LabelRanker(partial=True, method="online", samples=0, max_iter=2, alpha=0.1)
    with pytest.warns(UserWarning, match="certified gap"):
        model.fit(X, ranks)
    assert model.regret_ is not None
    assert model.regret_.confidence == 0.0
    assert model.regret_.sample_bound == model.regret_.radius_bound == np.inf
    assert model.gap_ == model.objective_


def test_dense_label_graphs_are_sampled() -> None:
    """All pairs of 20 labels are too many for exact sums in training; predictions state their guarantees."""
    random = np.random.default_rng(5)
    x = random.normal(size=(12, 2))
    y = (random.random((12, 20)) < 0.3).astype(int)
    with pytest.warns(UserWarning, match="certified gap"):
        model = zhat.LabelSetClassifier(pairs="all", method="sampled", alpha=5.0, max_iter=2).fit(x, y)
    assert not model.exact_
    assert np.isnan(model.objective_)
    assert np.isfinite(model.gap_)
    assert model.confidence_ == 0.95
    one = model.predict_structures(x[:1])[0]
    assert one.guarantee.words
    assert one.choice.words
    assert -20 * np.log(2) < one.log_probability < 0
    restored = pickle.loads(pickle.dumps(model))
    assert np.isnan(restored._predictor.training[2])


@pytest.mark.parametrize("kind", ["ranking", "partition"])
def test_twenty_items_and_elements_are_sampled(kind: str) -> None:
    """Twenty items or elements are too many for exact sums; predictions state their guarantees."""
    random = np.random.default_rng(6)
    x = random.normal(size=(6, 1))
    options: dict[str, Any] = {"method": "sampled", "samples": 4, "alpha": 0.5, "max_iter": 4}
    model: Any
    if kind == "ranking":
        y = np.array([np.argsort(np.argsort(np.arange(20) + 2 * random.random(20))) + 1 for _ in range(6)])
        model = zhat.LabelRanker(model="precedence", **options)
    else:
        y = np.tile(np.arange(20) % 4, (6, 1))
        y[np.arange(6), random.integers(20, size=6)] = 4
        model = zhat.PartitionPredictor(**options)
    with pytest.raises(zhat.OverBudgetError, match="sampled gradients would work"):
        type(model)(**{**model.get_params(), "method": "batch"}).fit(x, y)
    with pytest.warns(UserWarning, match="certified gap"):
        model.fit(x, y)
    assert not model.exact_
    assert model.confidence_ == 0.95
    one = model.predict_structures(x[:1])[0]
    assert one.guarantee.words
    assert one.choice.words
    tables, errors = model.predict_proba(x[:2], return_guarantees=True)
    table = tables[0]
    assert table.shape == (20, 20)
    assert all(error.kind == "exact" or error.low == 0.0 < error.high < 0.2 for error in errors)
    logs, guarantees = model.log_prob(x, y, return_guarantees=True)
    assert len(guarantees) == 6
    for log, own in zip(logs, guarantees, strict=True):
        assert own.kind == "exact" or own.low <= log <= own.high
        assert own.kind == "exact" or own.confidence >= 0.99
    found = model.evaluate(x, y)
    loss = found.measures["log_loss"]
    assert loss == pytest.approx(-logs.mean(), abs=0.5)
    assert found.log_loss.kind == "exact" or found.log_loss.low <= loss <= found.log_loss.high
    assert found.marginals_error.words
    if kind == "ranking":
        np.testing.assert_allclose(table + table.T + np.eye(20), 1)
        assert table[0, 19] > 0.5
    else:
        np.testing.assert_allclose(table, table.T)
        assert table[0, 4] > table[0, 5]
    assert (logs < 0).all()
    assert model.sample(x[:1], 3).shape[-1] == 20


def endless(**options: Any) -> zhat.LabelSetClassifier:
    """Online training does not stop by itself."""
    return zhat.LabelSetClassifier(method="online", samples=0, gap=0.0, max_iter=10**9, **options)


def test_budgets_and_progress() -> None:
    started = time.monotonic()
    with pytest.warns(UserWarning, match="more time would help"):
        model = endless(time=0.5).fit(X, Y)
    assert time.monotonic() - started < 1.1 * 0.5 + 2  # a busy machine
    assert model.n_iter_ == len(model.history_) >= 1
    assert np.isfinite(model.gap_)
    with pytest.raises(zhat.OverBudgetError, match="first step"):
        endless(time=1e-9).fit(X, Y)
    with pytest.raises(zhat.OverBudgetError):
        zhat.LabelRanker(model="positions", memory=1000).fit(X, RANKS)
    seen: list[str] = []
    zhat.LabelSetClassifier(alpha=[1.0, 0.1], progress=lambda *news: seen.append(news[0])).fit(X, Y)
    assert set(seen) <= {"training", "choosing λ"}

    def enough(phase: str, done: int, total: int) -> None:
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        endless(progress=enough).fit(X, Y)


def test_control_c_stops_training() -> None:
    before = signal(SIGINT, default_int_handler)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), SIGINT))
    timer.start()
    started = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            endless().fit(X, Y)
    finally:
        timer.join()
        signal(SIGINT, before)
    assert time.monotonic() - started < 3
    assert zhat.LabelSetClassifier().fit(X, Y).converged_


def refused(message: str, model: Any, x: Any, y: Any, error: type[Exception] = zhat.InputError) -> None:
    with pytest.raises(error, match=message):
        model.fit(x, y)


def test_bad_inputs() -> None:
    model = zhat.LabelSetClassifier()
    endless = X.copy()
    endless[2, 3] = np.inf
    refused(r"row 2, column x3 is infinity", model, endless, Y)
    refused(r"row 2, column x3 is infinity", model, sparse.csr_array(endless), Y)
    refused("X has 60 rows and y has 59", model, X, Y[:-1])
    refused("X has 59 rows and y has 60", model, X[:-1], Y)
    refused("0 sample", model, X[:0], Y[:0])
    refused("0 feature", model, X[:, :0], Y)
    refused("Reshape your data", model, X[:, 0], Y)
    refused("Complex data", model, X + 1j, Y)
    refused("columns of categories are accepted in frames", model, np.array([["a"]] * 60, dtype=object), Y)
    refused("y is None", model, X, None)
    with pytest.raises(zhat.NotFittedError, match="not fitted"):
        zhat.LabelSetClassifier().predict(X)
    ready = zhat.LabelSetClassifier().fit(X, Y)
    with pytest.raises(zhat.InputError, match="X has 3 features, but LabelSetClassifier is expecting 4"):
        ready.predict(X[:, :3])
    with pytest.raises(zhat.InputError, match="has 2 columns, expected 3"):
        ready.log_prob(X, Y[:, :2])
    constant = zhat.LabelSetClassifier().fit(np.ones((60, 2)), Y)
    np.testing.assert_allclose(constant.predict_proba(np.ones((1, 2)))[0], Y.mean(axis=0), atol=0.01)
    single = zhat.LabelSetClassifier(pairs="all").fit(X[:1], Y[:1])
    np.testing.assert_array_equal(single.predict(X[:1]), Y[:1])


def test_bad_targets() -> None:
    labels, ranker, tree = zhat.LabelSetClassifier(), zhat.LabelRanker(), zhat.HierarchyClassifier()
    refused("row 1, column 0 is 2, expected 0 or 1", labels, X[:2], [[0, 1], [2, 1]])
    refused("y contains NaN. It is in row 0, column 1", labels, X[:2], [[0, np.nan], [0, 1]])
    refused("there are no labels", labels, X[:2], [set(), set()])
    refused("row 0, column 1 is 3, expected 0 or 1", labels, X[:1], sparse.csr_array([[0, 3]]))
    refused("multiclass", labels, X[:3], ["a", "b", "c"])
    ready = zhat.LabelSetClassifier().fit(X[:2], [["a"], ["b"]])
    with pytest.raises(zhat.InputError, match="row 1: the model does not know the label 'c'"):
        ready.log_prob(X[:2], [["a"], ["c"]])
    refused(
        "row 1 is no permutation, its ranks are 0 1, 1 1, 2 3; partial=True",
        ranker,
        X[:2],
        [[1, 2, 3], [1, 1, 3]],
    )
    refused("row 0, item 2 has the rank 4", ranker, X[:1], [[1, 2, 4]])
    refused("row 0, item 0 has the rank 1.5", ranker, X[:1], [[1.5, 2, 4]])
    refused("its ranks are 0 1, 1 none", ranker, X[:1], [[1, np.nan]])
    refused("2 items or more", ranker, X[:1], [[1]])
    refused("row 0 has an item twice", ranker, X[:1], [["a", "a"]])
    refused("up to 16|16 items", zhat.LabelRanker(model="positions"), X[:1], [np.arange(1, 18)], zhat.Error)
    refused(
        "row 0 contains node 'a/b' without its parent 'a'",
        tree.set_params(hierarchy=["a/b"]),
        X[:1],
        [[0, 1]],
    )
    refused("row 1: the model does not know the node 'c'", tree, X[:2], ["a", "c"])
    refused(
        "node 'a' is its own ancestor: trees only",
        tree.set_params(hierarchy={"a": "b", "b": "a"}),
        X[:1],
        ["a"],
    )
    refused("parents .* trees only", tree.set_params(hierarchy={"a": None, "b": ["a", "c"]}), X[:1], ["a"])
    refused("the parent 'c' of node 'b' is no node", tree.set_params(hierarchy={"b": "c"}), X[:1], ["b"])
    refused("expected paths", tree.set_params(hierarchy=["a//b"]), X[:1], ["a"])
    refused("row 0, element 1 has no block", zhat.PartitionPredictor(), X[:1], [[0, None]])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 0.0}, "alpha: expected a number above 0"),
        ({"alpha": [1.0, -1.0]}, "alpha: expected a number above 0"),
        ({"alpha": "best"}, 'alpha: .* "auto"'),
        ({"alpha": float("nan")}, "alpha: expected a finite number"),
        ({"gap": -1.0}, "gap"),
        ({"max_iter": 0}, "max_iter"),
        ({"batch": 0}, "batch"),
        ({"failure": 1.0}, "failure"),
        ({"step_share": 0.0}, "share"),
        ({"folds": 1}, "folds"),
        ({"method": "newton"}, "method: expected one of batch, sampled, online"),
        ({"scaling": "log"}, "scaling: expected one of"),
        ({"fourier": 0}, "fourier"),
        ({"gamma": 1.0}, "gamma: is the parameter of Fourier features"),
        ({"pairs": "tree"}, "pairs: expected"),
        ({"pairs": "chow-liu+x"}, "pairs: expected"),
        ({"pairs": [(0, 9)]}, "pairs: there is no label 9"),
        ({"pairs": [(1, 1)]}, "pairs: .* no pair of two labels"),
        ({"decision": "kendall"}, 'decision: expected "most-probable", "hamming" or "f1"'),
        ({"seed": -1}, "seed"),
        ({"threads": 0}, "threads"),
        ({"memory": "much"}, "memory"),
        ({"time": "long"}, "time"),
    ],
)
def test_bad_parameters(options: dict[str, Any], message: str) -> None:
    refused(message, zhat.LabelSetClassifier(**options), X, Y)
    with pytest.raises(ValueError, match="Invalid parameter 'penalty'"):
        zhat.LabelSetClassifier().set_params(penalty=1)


def test_scikit_learn_is_not_needed() -> None:
    """Neither scikit-learn nor SciPy nor a frame library is imported, also not by training and prediction."""
    code = (
        "import sys, zhat\n"
        "model = zhat.LabelSetClassifier().fit([[0.0], [1.0]], [[0], [1]])\n"
        "model.predict([[1.0]])\n"
        "assert not {'sklearn', 'scipy', 'pandas', 'polars'} & set(sys.modules)\n"
        "try:\n    zhat.LabelRanker().predict([[1.0]])\n"
        "except zhat.NotFittedError as error:\n    assert isinstance(error, (ValueError, AttributeError))\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.skipif(DATA is None, reason="the data sets need ZHAT_DATA")
def test_label_ranking_data() -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.read_csv(Path(DATA or "", "data/label-ranking/iris.csv"))
    x, y = table.filter(regex="^A"), table.filter(regex="^L")
    model = zhat.LabelRanker(alpha=1e-3).fit(x[::2], y[::2])
    assert model.score(x[1::2], y[1::2]) > 0.75
    assert model.predict(x).shape == y.shape


def test_data_sets_are_read(tmp_path: Path) -> None:
    attributes = {"a": "numeric", "c": "{u,v}", "p": "{0,1}", "q": "{0,1}"}
    declared = "".join(f"@attribute {name} {kind}\n" for name, kind in attributes.items())
    arff = f"@relation t\n{declared}@data\n"
    (tmp_path / "t.arff").write_text(arff + "1.5,u,1,0\n?,v,1,1\n")
    (tmp_path / "t.xml").write_text('<labels><label name="p"></label><label name="q"></label></labels>')
    mulan = zhat.read_examples(tmp_path / "t.arff")
    assert (mulan.classes, mulan.y.tolist()) == (["p", "q"], [[1, 0], [1, 1]])
    assert mulan.X["c"].tolist() == ["u", "v"]
    assert np.isnan(mulan.X["a"][1])
    assert zhat.LabelSetClassifier().fit(mulan.X, mulan.y).n_features_in_ == 2
    (tmp_path / "t.svm").write_text("0,2 1:0.5 3:1\n1 2:2\n")
    libsvm = zhat.read_examples(tmp_path / "t.svm")
    assert libsvm.X.toarray().tolist() == [[0.5, 0, 1], [0, 2, 0]]
    assert (libsvm.classes, libsvm.y.tolist()) == (["0", "1", "2"], [[1, 0, 1], [0, 1, 0]])
    (tmp_path / "h.csv").write_text("x,class\n1,a/b@c\n2,a\n")
    tree = zhat.read_examples(tmp_path / "h.csv", "hierarchy")
    assert tree.hierarchy == {"a": None, "a/b": "a", "c": None}
    model = zhat.HierarchyClassifier(hierarchy=tree.hierarchy).fit(tree.X, tree.y)
    assert model.predict_structures(tree.X)[0].structure == ("a/b", "c")
    (tmp_path / "r.csv").write_text("A1,L1,L2,L3\n1,1,,2\n2,1,1,2\n")
    ranks = zhat.read_examples(tmp_path / "r.csv", "ranking", partial=True)
    np.testing.assert_array_equal(ranks.y, [[1, np.nan, 2], [1, 1, 2]])
    with pytest.raises(zhat.InputError, match="line 2: column L2"):
        zhat.read_examples(tmp_path / "r.csv", "ranking")
    with pytest.raises(zhat.InputError, match="space: expected labels"):
        zhat.read_examples(tmp_path / "r.csv", "orders")
    (tmp_path / "b.csv").write_text("x,u,v,w\n1,one,two,one\n")
    blocks = zhat.read_examples(tmp_path / "b.csv", "partition", labels=["u", "v", "w"])
    assert blocks.y.tolist() == [[0, 1, 0]]


@pytest.mark.skipif(DATA is None, reason="the data sets need ZHAT_DATA")
def test_emotions() -> None:
    """A tree of pairs is better in log-loss and subset accuracy than independent labels."""
    folder = Path(DATA or "", "data/multilabel/emotions")
    train, test = (
        zhat.read_examples(folder / f"emotions-{part}.arff", xml=folder / "emotions.xml")
        for part in ("train", "test")
    )
    assert train.y.shape == (391, 6)
    measures = [
        zhat.LabelSetClassifier(pairs=pairs, alpha=0.01, gap=1e-4)
        .fit(train.X, train.y)
        .evaluate(test.X, test.y)
        .measures
        for pairs in ("none", "chow-liu")
    ]
    # Frequencies of the labels, without inputs.
    shares = train.y.mean(axis=0)
    without = -np.where(test.y, np.log(shares), np.log1p(-shares)).sum(axis=1).mean()
    assert measures[1]["log_loss"] < measures[0]["log_loss"] < without
    assert measures[1]["subset_accuracy"] > measures[0]["subset_accuracy"]
