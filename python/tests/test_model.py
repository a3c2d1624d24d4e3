"""Building, reading, saving, comparing and copying models."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle import Oracle, small_models

import zhat

TABLE = np.arange(6.0).reshape(2, 3)


def graph(values: Any, **options: Any) -> zhat.FactorGraph:
    return zhat.FactorGraph([2, 3], [((0, 1), values)], **options)


def test_models_return_their_arguments() -> None:
    model = zhat.FactorGraph(np.array([2, 3]), [([1, 0], TABLE.T), ((), 7), ([1], [0, -np.inf, 2])])
    assert model.cardinalities == (2, 3)
    assert (model.n_variables, model.n_factors) == (2, 3)
    assert [scope for scope, _ in model.factors] == [(1, 0), (), (1,)]
    for (_, got), want in zip(model.factors, (TABLE.T, np.array(7.0), [0, -np.inf, 2]), strict=True):
        np.testing.assert_array_equal(got, want)
        assert got.dtype == np.float64
    assert model.names is None
    assert model.state_names is None
    assert model.evidence == {}


def test_factors_are_copies() -> None:
    model = graph(TABLE)
    model.factors[0][1][:] = 0
    np.testing.assert_array_equal(model.factors[0][1], TABLE)


def test_any_layout_gives_the_same_model() -> None:
    wide = np.zeros((4, 9))
    wide[::2, ::3] = TABLE
    raw = np.zeros(6 * 8 + 1, dtype=np.uint8)
    raw[1:] = TABLE.view(np.uint8).ravel()
    layouts = {
        "flat": TABLE.ravel(),
        "list": TABLE.tolist(),
        "Fortran": np.asfortranarray(TABLE),
        "strided": wide[::2, ::3],
        "negative strides": TABLE[::-1, ::-1].copy()[::-1, ::-1],
        "transposed": TABLE.T.copy().T,
        "big-endian": TABLE.astype(">f8"),
        "misaligned": raw[1:].view(np.float64).reshape(2, 3),
        "read-only": np.frombuffer(TABLE.tobytes()).reshape(2, 3),
    }
    for name, layout in layouts.items():
        assert graph(layout) == graph(TABLE), name
    row = np.broadcast_to(np.arange(3.0), (2, 3))
    assert graph(row) == graph(row.copy())
    assert graph(np.broadcast_to(1.5, (2, 3))) == graph(np.full(6, 1.5))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "g", "i1", "i4", "i8", "u1", "u8"])
def test_any_real_type_is_converted(dtype: str) -> None:
    assert graph(TABLE.astype(dtype)) == graph(TABLE)


@pytest.mark.parametrize("dtype", ["?", "c8", "c16", "O", "U3", "S3", "M8[s]", "m8[s]"])
def test_other_types_are_refused_by_name(dtype: str) -> None:
    values = np.zeros((2, 3), dtype=dtype)
    with pytest.raises(zhat.InputError, match=r"factors\[0\]: values of type") as caught:
        graph(values)
    assert str(values.dtype) in str(caught.value)


def test_bad_factors_are_named() -> None:
    def message(factors: Any, **options: Any) -> str:
        with pytest.raises(zhat.InputError) as caught:
            zhat.FactorGraph([2, 3], factors, **options)
        assert caught.value.kind in ("model", "argument")
        return str(caught.value)

    assert "entry 1; it must be finite or -inf" in message([((0,), [0, np.nan])])
    assert "the log value inf at entry 0" in message([((0,), [np.inf, 0])])
    assert "factor 1 has 4 values, but its scope [0, 1] needs 6" in message(
        [((0,), [0, 0]), ((0, 1), np.zeros((2, 2)))]
    )
    assert "shape [3, 2], but its scope [0, 1] needs [2, 3]" in message([((0, 1), np.zeros((3, 2)))])
    assert "shape [1, 2], but its scope [0] needs [2]" in message([((0,), np.zeros((1, 2)))])
    assert "names variable 0 twice" in message([((0, 0), np.zeros(4))])
    assert "names variable 2, but the variables are 0 to 1" in message([((2,), [0])])
    assert "factors[0] scope[1]: expected an integer between 0 and" in message([((0, -1), [0])])
    assert "factors[0] scope[0]: expected an integer, found 0.5" in message([((0.5,), [0])])
    assert "factors[0] scope: expected a list, found 0" in message([(0, [0, 0])])
    assert "factors[0]: expected a pair" in message([7])
    assert "factors[0]: not an array" in message([((0,), [[1], [1, 2]])])
    assert "values of type object" in message([((0,), None)])
    assert "entry 1 is -0.5; a weight is 0 or more" in message([((0,), [1, -0.5])], log=False)
    assert "it must be finite or -inf" in message([((0,), [1, np.nan])], log=False)
    assert "it must be finite or -inf" in message([((0,), [1, np.inf])], log=False)


@pytest.mark.parametrize("sizes", [[-1], [2.0], ["2"], [2**64], "22", 5, [None], [0]])
def test_bad_cardinalities_are_errors(sizes: Any) -> None:
    with pytest.raises(zhat.InputError, match=r"cardinalities|0 states"):
        zhat.FactorGraph(sizes)


def test_weights_are_turned_into_logarithms() -> None:
    model = graph([[1, 2, 0], [0, 4, 0.5]], log=False)
    want = np.log(2) * np.array([[0, 1, -np.inf], [-np.inf, 2, -1]])
    np.testing.assert_allclose(model.factors[0][1], want)


def test_names() -> None:
    model = graph(TABLE, names=["a", "b"], state_names=[["no", "yes"], None])
    assert model.names == ("a", "b")
    assert model.state_names == (("no", "yes"), ())
    assert graph(TABLE, names=["a", "b"]).state_names == ((), ())
    assert graph(TABLE, state_names=[None, "xyz"[:0]] if False else [None, ["x", "y", "z"]]).names == (
        "x0",
        "x1",
    )
    bad: list[tuple[dict[str, Any], str]] = [
        ({"names": ["a"]}, "2 variables, but 1 names"),
        ({"names": ["a", "a"]}, "two variables have the name `a`"),
        ({"names": ["a", 1]}, r"names\[1\]: expected a text, found 1"),
        ({"names": ["a", "\ud800"]}, r"names\[1\]: 'utf-8' codec"),
        ({"names": "ab"}, "names: expected a list"),
        ({"state_names": [["s"], None]}, "has 2 states, but 1 state names"),
        ({"state_names": [["s", "s"], None]}, "two states named `s`"),
        ({"state_names": [["s", 0], None]}, r"state_names\[0\]\[1\]: expected a text"),
        ({"state_names": []}, "0 lists of state names"),
    ]
    for options, message in bad:
        with pytest.raises(zhat.InputError, match=message):
            graph(TABLE, **options)


def test_scores() -> None:
    model = graph(TABLE)
    scores = Oracle.of(model).scores
    for state in np.ndindex(2, 3):
        assert model.score(state) == scores[state]
    assert model.score(np.array([1, 2])) == 5
    assert zhat.FactorGraph([]).score([]) == 0
    bad: list[Any] = [[1], [1, 2, 0], [1, 3], [-1, 0], [0.0, 1], 3, "01", np.zeros((2, 2), dtype=int)]
    for state in bad:
        with pytest.raises(zhat.InputError, match="state"):
            model.score(state)


def test_conditioning_by_number_and_name() -> None:
    model = graph(TABLE, names=["a", "b"], state_names=[["no", "yes"], None])
    want = model.condition({0: 1})
    assert want.evidence == {0: 1}
    assert want.cardinalities == model.cardinalities
    assert want.log_partition().value == pytest.approx(np.log(np.exp(TABLE[1]).sum()))
    for evidence in ({"a": "yes"}, {"a": 1}, {0: "yes"}, {np.int64(0): np.int32(1)}, {"x0": "1"}):
        assert model.condition(evidence) == want  # type: ignore[arg-type]
    assert model.condition({}) == model
    bad: list[tuple[Any, str]] = [
        ({"c": 0}, "no variable `c`"),
        ({"a": "maybe"}, "variable `a` has no state `maybe`"),
        ({0: 2}, "variable a has 2 states, so there is no state 2"),
        ({7: 0}, "no variable 7"),
        ({7: "yes"}, "no variable 7"),
        ({-1: 0}, "found -1"),
        ({"\ud800": 0}, "evidence: 'utf-8' codec"),
        ({0: 1, "a": 1}, "given twice"),
        ({0: 1.5}, "expected an integer, found 1.5"),
        ({0: None}, "expected an integer, found None"),
        ([(0, 1)], "expected a dict"),
    ]
    for evidence, message in bad:
        with pytest.raises(zhat.InputError, match=message):
            model.condition(evidence)


@pytest.mark.parametrize("name", small_models())
def test_copies_are_equal(name: str, tmp_path: Path) -> None:
    model = small_models()[name]
    path = tmp_path / "model.zhat"
    model.save(path)
    copies = [pickle.loads(pickle.dumps(model)), copy.copy(model), copy.deepcopy(model), zhat.read(path)]
    for other in copies:
        assert other == model
        assert other is not model
        assert hash(other) == hash(model)
        assert other.names == model.names
    assert len({model, *copies}) == 1


def test_different_models_are_not_equal() -> None:
    named = graph(TABLE, names=["a", "b"])
    models = [graph(TABLE), graph(TABLE + 1), named, named.condition({0: 1}), zhat.FactorGraph([2, 3])]
    for i, a in enumerate(models):
        for j, b in enumerate(models):
            assert (a == b) == (i == j)
    assert graph(TABLE) != "a model"
    assert pickle.loads(pickle.dumps(models[3])).evidence == {0: 1}


def test_models_are_saved_and_read(tmp_path: Path) -> None:
    model = graph(TABLE)
    text = tmp_path / "model.uai"
    model.save(str(text))
    assert text.read_text().startswith("MARKOV\n2\n2 3\n")
    assert zhat.read(str(text)).log_partition().value == pytest.approx(model.log_partition().value)
    (tmp_path / "model.evid").write_text("1 0 1")
    given = zhat.read(text, tmp_path / "model.evid")
    assert given.evidence == {0: 1}
    assert zhat.read(text, evidence=str(tmp_path / "model.evid")) == given
    text.rename(tmp_path / "renamed.txt")
    assert zhat.read(tmp_path / "renamed.txt").n_factors == 1


def test_a_dash_is_an_ordinary_file_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    graph(TABLE).save("a.zhat")
    Path("a.zhat").rename("-")
    assert zhat.read("-") == graph(TABLE)
    with pytest.raises(zhat.InputError, match="the extension selects the format"):
        graph(TABLE).save("-")


def test_info() -> None:
    model = zhat.generate.ising(rows=3, columns=4, seed=1).condition({0: 1})
    info = model.info()
    assert (info["kind"], info["form"], info["evidence"]) == ("factor-graph", "markov", 1)
    assert (info["variables"], info["factors"], info["largest_domain"]) == (12, 30, 2)
    assert info["log2_states"] == pytest.approx(12)
    assert info["bytes"] > 8 * info["values"]
    assert info["zeros"] == 1
    assert info["width"] == 3
    assert info["barren"] == 0
    assert zhat.generate.bayes(variables=9).info()["barren"] == 9
    rows = [method for method in zhat.methods() if method.kind == "factor-graph"]
    catalogue = {method.name: set(method.queries) for method in rows}
    assert {name: set(costs) for name, costs in info["methods"].items()} == catalogue
    for method, costs in info["methods"].items():
        for cost in costs.values():
            assert set(cost) == {"can", "bytes", "seconds", "guarantee"}
            # The published quadrature would take far too long here.
            assert cost["can"] is (method != "sccq-published")
    small = model.info(memory=1)
    assert not any(cost["can"] for costs in small["methods"].values() for cost in costs.values())
    assert not model.info(time="0s")["methods"]["enumeration"]["log_partition"]["can"]
    large = zhat.generate.ising(rows=70, columns=70).info()
    assert large["width"] is None
    assert large["methods"]["enumeration"]["map"]["seconds"] == np.inf
    assert large["methods"]["importance"]["log_partition"]["can"]


def test_queries_share_a_cache_that_can_be_cleared() -> None:
    model = zhat.generate.ising(rows=4, columns=4, seed=3)
    assert model._native.cache_len == 0
    value = model.log_partition(method="elimination").value
    prepared = model._native.cache_len
    assert prepared > 0
    assert model.log_partition(method="elimination", seed=1).value == value
    model.marginals(method="elimination")
    assert model._native.cache_len == prepared
    assert model.condition({0: 1})._native.cache_len == 0
    assert model == zhat.generate.ising(rows=4, columns=4, seed=3)
    model.clear_cache()
    assert model._native.cache_len == 0
    assert model.log_partition(method="elimination").value == value


def test_representations_of_models() -> None:
    model = graph(TABLE, names=["a<b", "c"]).condition({0: 1})
    assert repr(model) == "FactorGraph(2 variables, 2 to 3 states, 2 factors, 1 observed)"
    assert repr(zhat.FactorGraph([])) == "FactorGraph(0 variables, 1 state in all, 0 factors)"
    html = model._repr_html_()
    assert html.startswith("<table>")
    assert "a&lt;b, c" in html
    assert "1 observed" in html
    assert "names" not in zhat.FactorGraph([2])._repr_html_()
