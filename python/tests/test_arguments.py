"""Arrays of every type, layout and shape: the right answer, or an error that names the argument."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from arrays import FINITE, FOREIGN, MODELS, SAME, Array, shapes, with_entry

import zhat

PLACES = [(name, argument) for name, (_, arrays, _) in MODELS.items() for argument in arrays]


def built(name: str, **changed: Any) -> Any:
    make, arrays, other = MODELS[name]
    return make(**{**arrays, **changed}, **other)


def asked(model: Any) -> list[Array]:
    """Log Z, and its gradient where there is one."""
    if isinstance(model, zhat.PairwiseGraph):
        return [np.asarray(model.log_partition(method="exact").value)]
    value, gradient = zhat.ops.log_partition_and_gradient(model)
    return [np.asarray(value), *(own for own in vars(gradient).values() if own is not None)]


WANTED = {name: asked(built(name)) for name in MODELS}


@pytest.mark.parametrize("form", SAME)
@pytest.mark.parametrize(("name", "argument"), PLACES)
def test_other_forms_of_the_same_numbers(name: str, argument: str, form: str) -> None:
    array = MODELS[name][1][argument]
    given = SAME[form](array)
    for own, want in zip(asked(built(name, **{argument: given})), WANTED[name], strict=True):
        np.testing.assert_allclose(own, want, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(array, np.asarray(SAME["list"](array)))


@pytest.mark.parametrize(("name", "argument"), PLACES)
def test_single_precision(name: str, argument: str) -> None:
    """The first array decides the precision; another is converted."""
    array = MODELS[name][1][argument].astype(np.float32)
    for own, want in zip(asked(built(name, **{argument: array})), WANTED[name], strict=True):
        np.testing.assert_allclose(own, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint16])
@pytest.mark.parametrize(("name", "argument"), PLACES)
def test_whole_numbers(name: str, argument: str, dtype: Any) -> None:
    array = np.abs(np.round(MODELS[name][1][argument]))
    want = asked(built(name, **{argument: array}))
    found = asked(built(name, **{argument: array.astype(dtype)}))
    for own, other in zip(found, want, strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("form", FOREIGN)
@pytest.mark.parametrize(("name", "argument"), PLACES)
def test_foreign_objects(name: str, argument: str, form: str) -> None:
    given = FOREIGN[form](MODELS[name][1][argument])
    with pytest.raises(zhat.InputError, match=argument):
        built(name, **{argument: given})


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300, -1e300])
@pytest.mark.parametrize(("name", "argument"), PLACES)
def test_numbers_that_are_not_finite(name: str, argument: str, value: float) -> None:
    given = with_entry(value)(MODELS[name][1][argument])
    refused = np.isnan(value) or value == np.inf or (argument in FINITE and not np.isfinite(value))
    if refused:
        with pytest.raises(zhat.InputError, match=argument):
            asked(built(name, **{argument: given}))
        return
    try:
        found = asked(built(name, **{argument: given}))
    except zhat.InputError as error:
        assert "too large" in str(error)  # noqa: PT017
        assert abs(value) == 1e300
        return
    for own in found:
        assert not np.isnan(own).any()


@pytest.mark.parametrize(("name", "argument"), PLACES)
def test_other_shapes(name: str, argument: str) -> None:
    """Another shape is an error that names an argument, or a model of another size, such as fewer steps."""
    known = MODELS[name][1]
    for given in shapes(known[argument]):
        try:
            found = asked(built(name, **{argument: given}))
        except zhat.InputError as error:
            words = str(error)
            assert any(word in words for word in (*known, "lengths", "edges")), f"{given.shape}: {words}"
            continue
        assert all(np.isfinite(own).all() for own in found), given.shape


@pytest.mark.parametrize(
    "lengths",
    [[3], [3, 2, 1], [4, 2], [3, 0], [-1, 2], [1.5, 2], ["3", 2], [None, 2], 3, "32", [[3, 2]], [np.nan, 2]],
)
@pytest.mark.parametrize("name", ["chain", "dependency trees"])
def test_lengths(name: str, lengths: Any) -> None:
    make, arrays, _ = MODELS[name]
    with pytest.raises(zhat.InputError, match="length"):
        asked(make(**arrays, lengths=lengths))


@pytest.mark.parametrize("lengths", [(3, 2), np.array([3, 2], np.uint8), np.array([3, 2])[::1], iter([3, 2])])
def test_lengths_of_any_kind(lengths: Any) -> None:
    make, arrays, _ = MODELS["chain"]
    for own, want in zip(asked(make(**arrays, lengths=lengths)), WANTED["chain"], strict=True):
        np.testing.assert_array_equal(own, want)


@pytest.mark.parametrize("form", FOREIGN)
def test_tables_of_factor_graphs(form: str) -> None:
    table = np.array([[0.5, -0.25], [1.0, 0.0]])
    with pytest.raises(zhat.InputError, match=r"factors\[1\]|factor 1 "):
        zhat.FactorGraph([2, 2], [((0,), [0.0, 1.0]), ((0, 1), FOREIGN[form](table))])


@pytest.mark.parametrize("form", SAME)
def test_forms_of_tables_of_factor_graphs(form: str) -> None:
    table = np.array([[0.5, -0.25], [1.0, 0.0]])
    want = zhat.FactorGraph([2, 2], [((0, 1), table)]).log_partition().value
    assert zhat.FactorGraph([2, 2], [((0, 1), SAME[form](table))]).log_partition().value == want


@pytest.mark.parametrize(
    "cotangent", [np.nan, np.inf, [1.0, 2.0, 3.0], [[1.0, 2.0]], "one", None, 1j, object()]
)
def test_cotangents(cotangent: Any) -> None:
    _, tape = zhat.ops.log_partition(built("chain"))
    with pytest.raises(zhat.InputError, match="cotangent"):
        tape.vjp(cotangent)
