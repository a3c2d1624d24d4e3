"""Fields and representations of answers."""

from __future__ import annotations

import copy
import dataclasses
import math
import pickle
from typing import Any

import numpy as np
import pytest

import zhat

MODEL = zhat.FactorGraph(
    [2, 3],
    [((0, 1), [[0.0, 1.0, 2.0], [0.5, -np.inf, -1.0]])],
    names=["rain", "wind"],
    state_names=[["no", "yes"], None],
)


def test_an_exact_number() -> None:
    answer = MODEL.log_partition(method="elimination")
    want = math.log(sum(map(math.exp, [0, 1, 2, 0.5, -1])))
    assert answer.value == pytest.approx(want, abs=1e-14)
    assert type(answer.value) is float
    assert float(answer) == answer.value
    assert answer.log10 == pytest.approx(want / math.log(10), abs=1e-14)
    assert (answer.query, answer.method) == ("log_partition", "elimination")
    assert answer.guarantee == zhat.Guarantee("exact", "exact")
    assert repr(answer.guarantee) == "Guarantee(kind='exact')"
    assert answer.diagnostics["seconds"] >= 0
    assert 0 < answer.diagnostics["rounding"] < 1e-12
    assert answer.diagnostics["stopped_early"] is False
    assert (answer.diagnostics["width"], answer.diagnostics["barren"]) == (0, 2)
    assert MODEL.map(method="elimination").diagnostics["width"] == 1
    assert answer.forecast["guarantee"] == "exact"
    assert answer.forecast["bytes"] > 0
    assert answer.forecast["seconds"] >= 0
    assert MODEL.map(method="elimination").forecast["seconds"] > 0


def test_marginals_are_views_of_one_array() -> None:
    answer = MODEL.marginals()
    beliefs = answer.value
    assert isinstance(beliefs, list)
    assert [len(vector) for vector in beliefs] == [2, 3]
    assert all(vector.base is beliefs.flat and vector.dtype == np.float64 for vector in beliefs)
    assert beliefs.flat.sum() == pytest.approx(2)
    assert list(beliefs.by_name()) == ["rain", "wind"]
    assert beliefs.by_name()["wind"] is beliefs[1]
    with pytest.raises(TypeError, match="marginals is not a number"):
        float(answer)
    with pytest.raises(AttributeError, match="log10"):
        _ = answer.log10
    assert list(zhat.FactorGraph([2]).marginals().value.by_name()) == ["x0"]
    assert zhat.FactorGraph([]).marginals().value == []


def test_factor_marginals_are_views_of_one_array() -> None:
    model = zhat.FactorGraph(
        [2, 3, 2], [((2, 0), [[0.0, 1.0], [2.0, -np.inf]]), ((), 1.5), ((1,), [0, 0, 0])]
    )
    answer = model.factor_marginals()
    tables = answer.value
    assert answer.query == "factor_marginals"
    assert isinstance(tables, list)
    assert [table.shape for table in tables] == [(2, 2), (), (3,)]
    assert tables.scopes == ((2, 0), (), (1,))
    assert all(np.shares_memory(table, tables.flat) and table.dtype == np.float64 for table in tables)
    assert tables[0][1, 1] == 0
    assert float(tables[1]) == 1
    np.testing.assert_allclose(tables[0].sum(axis=0), model.marginals().value[0], atol=1e-15)
    given = model.condition({0: 1}).factor_marginals().value
    assert given.scopes == ((2,), (), (1,), (0,))
    assert given[0].tolist() == [1, 0]
    assert given[3].tolist() == [0, 1]
    assert repr(answer).startswith("factor_marginals: 3 factors, 8 probabilities; exact")
    again = pickle.loads(pickle.dumps(answer)).value
    assert np.shares_memory(again[0], again.flat)
    np.testing.assert_array_equal(again[0], tables[0])
    assert zhat.FactorGraph([2]).factor_marginals().value == []
    with pytest.raises(zhat.ImpossibleEvidenceError):
        model.condition({0: 1, 2: 1}).factor_marginals()


def test_the_best_state() -> None:
    best = MODEL.map().value
    assert best.state.tolist() == [0, 2]
    assert best.state.dtype == np.int64
    assert best.score == 2
    assert best.by_name() == {"rain": "no", "wind": "2"}
    assert zhat.FactorGraph([2]).map().value.by_name() == {"x0": "0"}


def test_samples() -> None:
    drawn = MODEL.sample(7).value
    assert drawn.states.shape == (7, 2)
    assert drawn.states.dtype == np.int64
    assert (drawn.law, drawn.log_weights, drawn.distance) == ("exact", None, None)
    assert MODEL.sample().value.states.shape == (1, 2)
    assert MODEL.sample(0).value.states.shape == (0, 2)
    assert zhat.FactorGraph([]).sample(3).value.states.shape == (3, 0)
    weighted = MODEL.sample(7, method="importance").value
    assert weighted.law == "weighted"
    assert weighted.log_weights is not None
    assert weighted.log_weights.shape == (7,)
    assert np.array_equal(MODEL.sample(7, seed=5).value.states, MODEL.sample(7, seed=5).value.states)
    assert not np.array_equal(MODEL.sample(99, seed=5).value.states, MODEL.sample(99, seed=6).value.states)


def test_kinds_of_guarantee() -> None:
    model = zhat.generate.ising(rows=4, columns=4)
    unbiased = model.log_partition(method="importance", samples=1000, replicates=10, confidence=0.9).guarantee
    assert (unbiased.kind, unbiased.replicates, unbiased.confidence) == ("unbiased", 10, 0.9)
    assert unbiased.relative_std_error is not None
    assert 0 < unbiased.relative_std_error < 1
    assert unbiased.low is not None
    assert (unbiased.high, unbiased.reason) == (None, None)
    assert str(unbiased).startswith("unbiased, standard error ")
    assert "at least" in str(unbiased)
    assert "90% confidence" in str(unbiased)
    interval = model.map(method="importance").guarantee
    assert (interval.kind, interval.confidence) == ("bounds", 1)
    assert str(interval).startswith("certified between ")
    assert repr(interval).startswith("Guarantee(kind='bounds', low=")
    heuristic = model.entropy(method="importance").guarantee
    assert heuristic.kind == "heuristic"
    assert heuristic.reason is not None
    assert (heuristic.low, heuristic.confidence) == (None, None)
    assert str(heuristic) == f"heuristic: {heuristic.reason}"


def test_answers_are_immutable() -> None:
    answer = MODEL.map()
    for target, field in ((answer, "value"), (answer.guarantee, "kind"), (answer.value, "score")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(target, field, 1)


def test_answers_as_text() -> None:
    assert repr(MODEL.log_partition()).startswith("log_partition: 2.574")
    assert "; exact (elimination, " in repr(MODEL.log_partition(method="elimination"))
    assert repr(MODEL.marginals()).startswith("marginals: 2 variables, 5 probabilities; exact")
    assert repr(MODEL.map()).startswith("map: score 2 at [0 2]; exact")
    assert repr(MODEL.sample(3)).startswith("sample: 3 states of 2 variables, law exact; exact")
    long = zhat.FactorGraph([2] * 500).map()
    assert len(repr(long)) < 200


def test_answers_in_notebooks() -> None:
    html = MODEL.log_partition(method="elimination")._repr_html_()
    assert html.startswith("<table>")
    for text in ("log_partition", "2.574", "guarantee", "exact", "elimination"):
        assert text in html
    stopped = zhat.generate.ising().log_partition(method="importance", samples=10**12, time=0.01)
    assert stopped.diagnostics["stopped_early"]
    assert "result so far" in stopped._repr_html_()
    # Even parity of every three neighbours leaves 4 of 2^60 states, which uniform draws miss.
    even = np.where(np.indices((2, 2, 2)).sum(axis=0) % 2 == 0, 0, -np.inf)
    parity = zhat.FactorGraph([2] * 60, [((v, v + 1, v + 2), even) for v in range(58)])
    with pytest.warns(RuntimeWarning, match="weight 0"):
        missed = parity.log_partition(method="importance", proposal="uniform", samples=64)
    assert missed.value == -np.inf
    assert (missed.guarantee.low, missed.guarantee.relative_std_error) == (None, None)
    assert "every sample had weight 0" in missed._repr_html_()
    assert parity.log_partition().value == pytest.approx(np.log(4))


@pytest.mark.parametrize("query", [zhat.log_partition, zhat.marginals, zhat.map, zhat.sample])
def test_answers_are_copied_and_pickled(query: Any) -> None:
    answer = query(MODEL)
    for other in (pickle.loads(pickle.dumps(answer)), copy.deepcopy(answer)):
        assert repr(other) == repr(answer)
        assert other.guarantee == answer.guarantee
    beliefs = pickle.loads(pickle.dumps(MODEL.marginals())).value
    assert all(vector.base is beliefs.flat for vector in beliefs)
    np.testing.assert_array_equal(beliefs.by_name()["wind"], MODEL.marginals().value[1])


def test_printed_bounds_are_rounded_outward():
    from decimal import Decimal

    for seed in range(5):
        grid = zhat.generate.ising(rows=3, columns=3, coupling=1.0, seed=seed)
        lower, upper = grid.log_partition(method="mean-field"), grid.log_partition(method="trw")
        both = grid.log_partition(method="wmb", i_bound=2)
        assert repr(lower).startswith("log_partition: ≥ ")
        assert repr(upper).startswith("log_partition: ≤ ")
        assert "≥ " in lower._repr_html_()
        low = Decimal(str(lower.guarantee).removeprefix("certified at least "))
        high = Decimal(str(upper.guarantee).removeprefix("certified at most "))
        assert low <= Decimal(lower.guarantee.low)
        assert high >= Decimal(upper.guarantee.high)
        words = str(both.guarantee).split()
        low, high = Decimal(words[2]), Decimal(words[4])
        assert low <= Decimal(both.guarantee.low)
        assert high >= Decimal(both.guarantee.high)
        assert repr(both).startswith(f"log_partition: between {low} and {high}; certified (wmb, ")
