"""`MarkovRandomField` against enumeration: likelihoods, imputation, samples, categories and bins."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from oracle import Oracle

import zhat
from zhat.sklearn import MarkovRandomField

RANDOM = np.random.default_rng(9)
MESSY = [
    ["b", 10, 0.5],
    ["a", 9, 0.5],
    ["b", 10, 2.5],
    ["c", 9, 0.5],
    ["b", 9, 0.5],
    ["a", 10, 2.5],
    ["b", 9, 2.5],
]


def joint(model: MarkovRandomField) -> np.ndarray[Any, Any]:
    """The probabilities of all rows, by enumeration; the axes are in the order of `categories_`."""
    graph = model.model_
    assert graph.state_names is not None
    found = Oracle.of(graph).probabilities
    for axis, (values, names) in enumerate(zip(model.categories_, graph.state_names, strict=True)):
        written = [str(int(v)) if isinstance(v, float) and v.is_integer() else str(v) for v in values]
        found = np.take(found, [names.index(name) for name in written], axis=axis)
    return found


def rows_with_gaps(model: MarkovRandomField) -> list[list[Any]]:
    return [list(row) for row in product(*([*values, None] for values in model.categories_))]


def places(model: MarkovRandomField, row: list[Any]) -> tuple[Any, ...]:
    """The index of the given values of a row; a gap is a whole axis."""
    return tuple(
        slice(None) if value is None else list(values).index(value)
        for values, value in zip(model.categories_, row, strict=True)
    )


@pytest.mark.parametrize("structure", ["independent", "chow-liu", "complete", [("x0", 2)]])
@pytest.mark.parametrize("l2", [None, 0.0, 0.1])
def test_likelihoods_and_imputation_are_those_of_enumeration(structure: Any, l2: float | None) -> None:
    model = MarkovRandomField(structure, l2=l2, iterations=5000, tolerance=1e-5).fit(MESSY)
    p = joint(model)
    assert [values.tolist() for values in model.categories_] == [["a", "b", "c"], [9, 10], [0.5, 2.5]]
    rows = rows_with_gaps(model)
    found = model.score_samples(rows)
    with np.errstate(divide="ignore"):
        want = [np.log(p[places(model, row)].sum()) for row in rows]
    np.testing.assert_allclose(found, want, rtol=0, atol=1e-9)
    assert model.score(rows[:-1]) == pytest.approx(np.mean(want[:-1]), abs=1e-9)
    assert found[-1] == pytest.approx(0.0, abs=1e-12)
    possible = [row for row, log in zip(rows, want, strict=True) if log > -50]
    filled = model.transform(possible)
    for row, whole in zip(possible, filled, strict=True):
        part = np.asarray(p[places(model, row)])
        gaps = [v for v in range(3) if row[v] is None]
        assert [whole[v] for v in range(3) if v not in gaps] == [value for value in row if value is not None]
        for axis, v in enumerate(gaps):
            marginal = part.sum(axis=tuple(i for i in range(len(gaps)) if i != axis))
            chosen = marginal[list(model.categories_[v]).index(whole[v])]
            assert chosen >= marginal.max() * (1 - 1e-9)


def test_zeros_are_impossible_rows() -> None:
    table = [["a", "x"], ["a", "x"], ["b", "y"], ["b", "z"]]
    model = MarkovRandomField(l2=0.0).fit(table)
    found = model.score_samples([["a", "x"], ["a", "y"], ["b", None]])
    np.testing.assert_allclose(found, [np.log(0.5), -np.inf, np.log(0.5)], atol=1e-9)
    assert model.score([["a", "x"], ["b", "x"]]) == -np.inf
    assert model.transform([[None, "z"], ["a", None]]).tolist() == [["b", "z"], ["a", "x"]]


@pytest.mark.parametrize(
    "table", [[["a"]], [["a", 1]], [["a"], ["b"], ["a"]], [["a", 1], ["a", 2]], [[0.5, 2.5]] * 3]
)
def test_one_row_column_or_category(table: Any) -> None:
    model = MarkovRandomField().fit(table)
    p = joint(model)
    want = [np.log(p[places(model, row)]) for row in table]
    np.testing.assert_allclose(model.score_samples(table), want, atol=1e-9)
    assert np.asarray(model.transform(table)).tolist() == table
    empty = [[None] * len(table[0])]
    assert model.transform(empty).tolist()[0] in [list(row) for row in product(*model.categories_)]
    assert model.sample(4).shape == (4, len(table[0]))


def test_the_model_is_that_of_fit() -> None:
    table = {"a": ["x", "y", "x", None, "y", "y"], "b": [3, 3, 4, 4, 3, 3]}
    model = MarkovRandomField([("a", "b")], l2=0.2, start="zero", optimizer="fista", tolerance=1e-9)
    columns = np.array([table["a"], table["b"]], dtype=object).T
    names = {0: "x0", 1: "x1"}
    with pytest.raises(zhat.InputError, match="no column 'a'"):
        model.fit(columns)
    model.set_params(structure=[(0, 1)]).fit(columns)
    same = zhat.fit(table, [(0, 1)], l2=0.2, start="zero", optimizer="fista", tolerance=1e-9)
    assert model.model_.names == tuple(names.values())
    assert model.model_.state_names == same.model.state_names
    assert model.fitted_.dropped == same.dropped == 1
    for (_, one), (_, two) in zip(model.model_.factors, same.model.factors, strict=True):
        np.testing.assert_array_equal(one, two)


def test_methods_have_options() -> None:
    """The method and its options are used in training, likelihoods and imputation."""
    table = RANDOM.integers(0, 3, size=(200, 5))
    table[:, 1] = np.where(RANDOM.random(200) < 0.7, table[:, 0], table[:, 1])
    options = {"method": "importance", "seed": 5, "iterations": 3}
    model = MarkovRandomField("chow-liu+2", method_options={"samples": 300}, **options)
    with pytest.warns(UserWarning, match="stopped after 3 iterations"):
        model.fit(table)
    same = zhat.fit(table, "chow-liu+2", samples=300, **options)
    assert model.fitted_.log_likelihood.value == same.log_likelihood.value
    assert model.fitted_.log_likelihood.method == "importance"
    gaps = table[:20].astype(float)
    gaps[::2, 0] = np.nan
    del options["iterations"]
    rows, mean = zhat.score(model.model_, gaps, samples=300, **options)
    assert mean.method == "importance"
    assert mean.guarantee.kind != "exact"
    whole = ~np.isnan(rows)
    np.testing.assert_array_equal(model.score_samples(gaps)[whole], rows[whole])
    assert np.isfinite(model.score_samples(gaps)).all()
    imputed = zhat.impute(model.model_, gaps, samples=300, **options)
    np.testing.assert_array_equal(model.transform(gaps)[:, 0], [float(state) for state in imputed["x0"]])


def test_samples_have_the_distribution_of_the_model() -> None:
    """A chi-squared test of all joint states at a false-alarm rate of 1e-6."""
    from scipy.stats import chi2

    model = MarkovRandomField("complete", l2=0.05, seed=3).fit(MESSY)
    p = joint(model)
    count = 50_000
    drawn = model.sample(count)
    assert drawn.dtype == object
    observed = np.zeros_like(p)
    for v, values in enumerate(model.categories_):
        assert set(drawn[:, v]) <= set(values)
    codes = [
        np.array([list(values).index(cell) for cell in drawn[:, v]])
        for v, values in enumerate(model.categories_)
    ]
    np.add.at(observed, tuple(codes), 1)
    assert p.min() * count > 5
    statistic = ((observed - count * p) ** 2 / (count * p)).sum()
    assert statistic < chi2.isf(1e-6, p.size - 1)
    assert (model.sample(50) == model.sample(50, seed=3)).all()
    assert (model.sample(50) != model.sample(50, seed=4)).any()


def test_values_that_training_did_not_have() -> None:
    table = [["a", 1], ["b", 2], ["a", 1], ["b", 1]]
    model = MarkovRandomField().fit(table)
    message = "row 2: column x0 has the value 'c', which is not one of its 2 categories"
    for query in (model.score_samples, model.transform, model.score):
        with pytest.raises(zhat.InputError, match=message):
            query([["a", 1], [None, 2], ["c", 2]])
    with pytest.raises(zhat.InputError, match=r"row 0: column x1 has the value 3.*bins=10"):
        model.transform([["a", 3]])
    model.set_params(handle_unknown="ignore")
    assert model.transform([["c", None], [None, 7], ["a", None]]).tolist() == [["c", 1], ["a", 7], ["a", 1]]
    np.testing.assert_array_equal(model.score_samples([["c", 2]]), model.score_samples([[None, 2]]))


def test_values_of_rows_that_are_dropped() -> None:
    """Training leaves out incomplete rows, so a value that only they have is not a category."""
    table = [["a", 1], ["b", 2], ["a", 1], ["b", 1], ["c", None], [None, 3]]
    model = MarkovRandomField().fit(table)
    assert [values.tolist() for values in model.categories_] == [["a", "b"], [1, 2]]
    assert model.fitted_.rows == 4
    assert model.fitted_.dropped == 2
    with pytest.raises(zhat.InputError, match="row 4: column x0 has the value 'c'"):
        model.transform(table)
    model = MarkovRandomField(handle_unknown="ignore")
    assert model.fit_transform(table).tolist() == [*table[:4], ["c", 1], ["a", 3]]
    assert model.model_ == zhat.fit(np.array(table, dtype=object)).model


def test_training_with_the_values_that_are_there() -> None:
    """Expectation-maximisation: the model of `zhat.fit`, and every row takes part."""
    table = [["a", 1], ["b", 2], ["a", 1], ["b", 1], ["c", None], [None, 3], [None, None]]
    model = MarkovRandomField(missing="em", l2=0.1).fit(table)
    assert [values.tolist() for values in model.categories_] == [["a", "b", "c"], [1, 2, 3]]
    assert (model.fitted_.rows, model.fitted_.incomplete, model.fitted_.dropped) == (6, 2, 1)
    assert (np.diff(model.fitted_.history) <= 0).all()
    assert model.model_ == zhat.fit(np.array(table, dtype=object), missing="em", l2=0.1).model
    p = joint(model)
    # Every column has its share of the values that are there, up to the penalty.
    assert p.sum(axis=1)[2] > 0.1
    assert p.sum(axis=0)[2] > 0.1
    want = [np.log(p[places(model, row)].sum()) for row in table]
    np.testing.assert_allclose(model.score_samples(table), want, atol=1e-9)
    assert model.transform(table)[:4].tolist() == table[:4]
    with pytest.raises(zhat.InputError, match=r"every row has a missing value.*em"):
        MarkovRandomField().fit(table[4:])
    with pytest.raises(zhat.InputError, match="column x0 has no values"):
        MarkovRandomField(missing="em").fit([[None, 1], [None, 2]])
    with pytest.raises(zhat.InputError, match="missing: expected one of"):
        MarkovRandomField(missing="marginal").fit(table)


def test_sums_that_do_not_fit_the_memory() -> None:
    """Rows whose exact sum exceeds the budget are scored by the method of the estimator."""
    columns = 24
    table = RANDOM.integers(0, 3, size=(60, columns))
    pairs = [(i, j) for j in range(columns) for i in range(j)]
    model = MarkovRandomField(pairs, method="bp", l2=0.5, iterations=3, memory="50MB")
    with pytest.warns(UserWarning, match="stopped after 3 iterations"):
        model.fit(table)
    gaps = table[:3].astype(float)
    gaps[0] = np.nan
    gaps[1, 1:] = np.nan
    found = model.score_samples(gaps)
    assert found[0] == 0.0
    assert np.isfinite(found).all()
    assert found[2] == zhat.score(model.model_, table[2:3], method="bp")[0][0]


def test_missing_as_a_category() -> None:
    table = np.array([[1.0, np.nan], [1.0, np.nan], [2.0, 5.0], [2.0, 6.0], [2.0, np.nan], [1.0, 5.0]])
    model = MarkovRandomField("complete", missing="state").fit(table)
    assert model.fitted_.rows == 6
    assert model.model_.state_names == (("1", "2"), ("5", "6", "(missing)"))
    p = Oracle.of(model.model_).probabilities
    np.testing.assert_allclose(model.score_samples(table[:3]), np.log([p[0, 2], p[0, 2], p[1, 0]]), atol=1e-9)
    np.testing.assert_array_equal(model.transform(table), table)
    share = p[:, 2].sum()
    drawn = model.sample(400)
    # Five standard errors: a false-alarm rate below 1e-6.
    assert abs(np.isnan(drawn[:, 1]).mean() - share) < 5 * np.sqrt(share * (1 - share) / 400)
    # A gap in a column that had none in training is an ordinary missing value.
    assert model.transform([[np.nan, 6.0]]).tolist() == [[2.0, 6.0]]


def test_refused_gaps() -> None:
    model = MarkovRandomField(missing="refuse").fit([["a", 1], ["b", 2]])
    with pytest.raises(zhat.InputError, match="row 1: column x1 has no value"):
        model.score_samples([["a", 1], ["b", None]])
    with pytest.raises(zhat.InputError, match="row 0: column x0 has no value"):
        model.fit([[None, 1]])


@pytest.mark.parametrize("bins", [2, 5, 16])
def test_bins_have_equal_shares_and_medians(bins: int) -> None:
    column = np.exp(RANDOM.normal(size=400))
    table = np.column_stack([column, RANDOM.integers(0, 2, size=400)])
    model = MarkovRandomField(bins=bins).fit(table)
    edges = model.bin_edges_[0]
    assert edges is not None
    assert model.bin_edges_[1] is None
    assert len(edges) == bins - 1
    own = (column[:, np.newaxis] >= edges).sum(axis=1)
    shares = np.bincount(own) / 400
    assert (np.abs(shares - 1 / bins) <= 1 / 400).all()
    for i, middle in enumerate(model.categories_[0]):
        inside = np.sort(column[own == i])
        assert middle == inside[(len(inside) - 1) // 2]
    # The probability of a number is that of its bin, and numbers outside of the training data have one too.
    gaps = table.copy()
    gaps[:, 1] = np.nan
    p = joint_of_bins(model)
    np.testing.assert_allclose(model.score_samples(gaps), np.log(p.sum(axis=1))[own], atol=1e-9)
    outside = model.score_samples([[-1e9, np.nan], [1e9, np.nan]])
    np.testing.assert_allclose(outside, np.log(p.sum(axis=1))[[0, -1]], atol=1e-9)
    gaps[:, 0], gaps[:, 1] = np.nan, table[:, 1]
    best = p.argmax(axis=0)
    np.testing.assert_array_equal(
        model.transform(gaps)[:, 0], model.categories_[0][best[table[:, 1].astype(int)]]
    )
    assert set(model.sample(50)[:, 0]) <= set(model.categories_[0])


def joint_of_bins(model: MarkovRandomField) -> np.ndarray[Any, Any]:
    """The probabilities of all states, with the bins of the first column in ascending order."""
    names = model.model_.state_names
    assert names is not None
    lows = [float(name[1:].partition(",")[0]) for name in names[0]]
    return np.take(Oracle.of(model.model_).probabilities, np.argsort(lows), axis=0)


def test_a_frequent_number_has_its_own_bin() -> None:
    column = np.array([0] * 90 + list(range(1, 11)))
    model = MarkovRandomField(bins=4).fit(column[:, np.newaxis])
    assert model.bin_edges_[0] is not None
    assert model.bin_edges_[0].tolist() == [1.0]
    assert model.categories_[0].tolist() == [0, 5]
    assert model.transform(column[:, np.newaxis]).dtype == column.dtype
    # Text and few numbers stay as they are.
    mixed = [[str(i), i % 3] for i in range(9)]
    assert MarkovRandomField(bins=4).fit(mixed).bin_edges_ == [None, None]
    listed = MarkovRandomField(bins=2).fit([[i, "a"] for i in range(8)] + [[None, "a"]])
    assert listed.categories_[0].tolist() == [1, 5]
    with pytest.raises(zhat.InputError, match="column x0: expected numbers"):
        listed.transform([["3", "a"]])


def test_masked_entries_are_missing() -> None:
    table = np.ma.masked_array([[1, 10], [2, 20], [1, 10], [2, 99]], mask=[[0, 0], [0, 0], [0, 0], [0, 1]])
    model = MarkovRandomField().fit(table)
    assert [values.tolist() for values in model.categories_] == [[1.0, 2.0], [10.0, 20.0]]
    np.testing.assert_array_equal(model.transform(table), [[1, 10], [2, 20], [1, 10], [2, 20]])
