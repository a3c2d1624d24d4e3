"""Tensors of every type, layout and shape: the right answer, or an error that names the argument."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from arrays import FINITE, MODELS, shapes, with_entry
from torch_models import torch, zt

import zhat

PLACES = [(name, argument) for name, (_, arrays, _) in MODELS.items() for argument in arrays]


def built(name: str, **changed: Any) -> Any:
    make, arrays, other = MODELS[name]
    given = {key: torch.tensor(array) for key, array in arrays.items()}
    return zt.Model(make, **{**given, **changed}, **other)


def asked(model: Any) -> list[Any]:
    """Log Z and its gradient with respect to all parameters."""
    return [zt.log_partition(model), *(own for own in zt.marginals(model) if own is not None)]


WANTED = {name: asked(built(name)) for name in MODELS}


class Own(torch.Tensor):  # type: ignore[misc]
    """A subclass, as other libraries have."""


def inference(tensor: Any) -> Any:
    with torch.inference_mode():
        return tensor.clone()


# Other forms of the same numbers.
SAME: dict[str, Callable[[Any], Any]] = {
    "columns first": lambda a: a.transpose(0, -1).contiguous().transpose(0, -1),
    "strided": lambda a: torch.stack([a, torch.full_like(a, torch.nan)], -1)[..., 0],
    "with an offset": lambda a: torch.cat([torch.full_like(a[:1], torch.nan), a])[1:],
    "negated view": lambda a: torch._neg_view(-a),
    "imaginary part": lambda a: torch.complex(a, -a).conj().imag,
    "parameter": torch.nn.Parameter,
    "subclass": lambda a: a.as_subclass(Own),
    "inference tensor": inference,
    "array": lambda a: a.numpy(),
    "list": lambda a: a.tolist(),
    "half": lambda a: a.half(),
    "bfloat16": lambda a: a.bfloat16(),
}


@pytest.mark.parametrize("form", SAME)
@pytest.mark.parametrize(("name", "argument"), PLACES)
def test_other_forms_of_the_same_numbers(name: str, argument: str, form: str) -> None:
    given = SAME[form](torch.tensor(MODELS[name][1][argument]))
    model = built(name, **{argument: given})
    # The first parameter sets the precision; a gradient has the type of its parameter.
    least = 1e-12 if next(iter(model.tensors.values())).dtype is torch.float64 else 1e-5
    for own, want in zip(asked(model), WANTED[name], strict=True):
        tolerance = max(least, 4 * torch.finfo(own.dtype).eps)
        np.testing.assert_allclose(own.detach().double().numpy(), want, rtol=tolerance, atol=tolerance)


# Objects that are no tensors of real numbers.
FOREIGN: dict[str, Callable[[Any], Any]] = {
    "text": lambda a: "scores",
    "object": lambda a: object(),
    "dict": lambda a: {"a": 1.0},
    "function": lambda a: len,
    "ragged": lambda a: [[0.0, 1.0], [2.0]],
    "texts": lambda a: a.numpy().astype(str),
    "integers": lambda a: a.long(),
    "bools": lambda a: a > 0,
    "complex": lambda a: a + 1j,
    "meta": lambda a: a.to("meta"),
    "sparse": lambda a: a.to_sparse(),
}


@pytest.mark.parametrize("form", FOREIGN)
@pytest.mark.parametrize(("name", "argument"), PLACES)
def test_foreign_objects(name: str, argument: str, form: str) -> None:
    given = FOREIGN[form](torch.tensor(MODELS[name][1][argument]))
    with pytest.raises(zhat.InputError, match=f"^{argument}: "):
        built(name, **{argument: given})


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300, -1e300])
@pytest.mark.parametrize(("name", "argument"), PLACES)
def test_numbers_that_are_not_finite(name: str, argument: str, value: float) -> None:
    given = torch.tensor(with_entry(value)(MODELS[name][1][argument]), requires_grad=True)
    model = built(name, **{argument: given})
    if np.isnan(value) or value == np.inf or (argument in FINITE and not np.isfinite(value)):
        with pytest.raises(zhat.InputError, match=argument):
            zt.log_partition(model)
        return
    try:
        found = zt.log_partition(model)
    except zhat.InputError as error:
        assert "too large" in str(error)  # noqa: PT017
        assert abs(value) == 1e300
        return
    found.sum().backward()
    assert not torch.isnan(found).any()
    assert not torch.isnan(given.grad).any()
    assert (given.grad[torch.isneginf(given)] == 0).all()


@pytest.mark.parametrize(("name", "argument"), PLACES)
def test_other_shapes(name: str, argument: str) -> None:
    known = MODELS[name][1]
    for array in shapes(known[argument]):
        try:
            found = asked(built(name, **{argument: torch.tensor(array)}))
        except zhat.InputError as error:
            words = str(error)
            assert any(word in words for word in (*known, "lengths", "edges")), f"{array.shape}: {words}"
            continue
        assert all(torch.isfinite(own).all() for own in found), array.shape


@pytest.mark.parametrize("states", ["text", 3, None, [[0, 1, 2]], 0.5, True, "real", "meta", "shape", "high"])
def test_states(states: Any) -> None:
    given = {
        "real": torch.zeros(2, 3),
        "meta": torch.zeros(2, 3, dtype=torch.long, device="meta"),
        "shape": torch.zeros(2, 4, dtype=torch.long),
        "high": torch.full((2, 3), 4),
    }
    with pytest.raises(zhat.InputError, match="states: "):
        zt.log_prob(built("chain"), given.get(states, states) if isinstance(states, str) else states)


@pytest.mark.parametrize("count", [-1, 1.5, "3", None, torch.tensor(1.5)])
def test_numbers_of_states(count: Any) -> None:
    for ask in (zt.sample, zt.k_best, zt.relaxed_sample):
        with pytest.raises(zhat.InputError, match=r"^[nk]: expected an integer"):
            ask(built("chain"), count)


@pytest.mark.parametrize("temperature", [0.0, -1.0, np.nan, np.inf, "warm", None])
def test_temperatures(temperature: Any) -> None:
    with pytest.raises(zhat.InputError, match="temperature"):
        zt.relaxed_sample(built("chain"), 1, temperature)


@pytest.mark.parametrize("seed", [-1, 1.5, "3", None])
def test_seeds(seed: Any) -> None:
    for ask in (zt.sample, zt.relaxed_sample):
        with pytest.raises(zhat.InputError, match="seed: expected an integer"):
            ask(built("chain"), seed=seed)


def test_no_gradients_where_none_are_asked_for() -> None:
    model = built("chain", emissions=torch.zeros(2, 3, 4, requires_grad=True))
    with torch.no_grad():
        assert not zt.log_partition(model).requires_grad
    with torch.inference_mode():
        assert not zt.log_partition(model).requires_grad
    assert zt.log_partition(model).requires_grad
    assert not zt.best(model).states.requires_grad
    # Integers and frozen parameters get none.
    frozen = built("chain", transitions=torch.zeros(4, 4, requires_grad=True))
    zt.log_partition(frozen).sum().backward()
    assert frozen.tensors["transitions"].grad is not None
    assert frozen.tensors["emissions"].grad is None


def test_modules_are_copied_and_stored() -> None:
    crf = zt.CRF(3, batch_first=True, forbidden=[(0, 1)])
    emissions, tags = torch.randn(2, 4, 3), torch.zeros(2, 4, dtype=torch.long)
    want = crf(emissions, tags)
    for other in (copy.deepcopy(crf), pickle.loads(pickle.dumps(crf))):
        torch.testing.assert_close(other(emissions, tags), want, rtol=0, atol=0)
    doubled = copy.deepcopy(crf).double()
    torch.testing.assert_close(doubled(emissions.double(), tags).float(), want)
