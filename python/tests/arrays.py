"""Arguments of models, and arrays altered in many ways, for `test_arguments.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import zhat

Array = NDArray[Any]
RANDOM = np.random.default_rng(26)


def real(*shape: int) -> Array:
    """Scores that half precision and whole numbers cannot confuse: multiples of 1/4."""
    return np.round(4 * RANDOM.normal(size=shape)) / 4


# Models with all parameters that they may have together; integers and settings are not altered.
MODELS: dict[str, tuple[Callable[..., Any], dict[str, Any], dict[str, Any]]] = {
    "chain": (
        zhat.Chain,
        {"emissions": real(2, 3, 4), "transitions": real(4, 4), "start": real(4), "end": real(4)},
        {"lengths": [3, 2]},
    ),
    "chain by step": (zhat.Chain, {"emissions": real(3, 4), "transitions": real(2, 4, 4)}, {}),
    "factored chain": (zhat.Chain, {"emissions": real(3, 4), "left": real(4, 2), "right": real(4, 2)}, {}),
    "low-rank chain": (
        zhat.Chain,
        {"emissions": real(3, 4), "log_left": real(4, 2), "log_right": real(4, 2)},
        {},
    ),
    "segments": (
        zhat.SemiMarkov,
        {"emissions": real(2, 3, 4), "transitions": real(4, 4), "segments": real(2, 4), "start": real(4)},
        {},
    ),
    "dependency trees": (
        zhat.DependencyTree,
        {"arcs": real(2, 3, 3), "roots": real(2, 3)},
        {"lengths": [3, 2]},
    ),
    "trees": (
        zhat.Hypertree,
        {"words": real(2, 3, 2), "rules": real(2, 4, 4), "roots": real(2), "spans": real(2, 3, 3, 2)},
        {},
    ),
    "low-rank rules": (
        zhat.Hypertree,
        {"words": real(3, 2), "rule_heads": real(2, 2), "rule_left": real(4, 2), "rule_right": real(4, 2)},
        {},
    ),
    "pairwise graph": (
        zhat.PairwiseGraph,
        {"nodes": real(3, 2), "interactions": real(2, 2, 2)},
        {"edges": [(0, 1), (2, 1)]},
    ),
}
# Where the parameter −∞ has no meaning: finite numbers only.
FINITE = {"left", "right"}


def unaligned(array: Array) -> Array:
    """The same numbers at an odd address."""
    memory = np.zeros(array.nbytes + 1, np.uint8)
    made = memory[1:].view(array.dtype).reshape(array.shape)
    made[...] = array
    return made


def read_only(array: Array) -> Array:
    made = array.copy()
    made.flags.writeable = False
    return made


def strided(array: Array) -> Array:
    """Every second number of an array that is not a number elsewhere."""
    wide = np.full((*array.shape, 2), np.nan)
    wide[..., 0] = array
    return wide[..., 0]


class Exporter:
    """An object with an array, as tensors of other libraries are."""

    def __init__(self, array: Array) -> None:
        self.array = array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return self.array if dtype is None else self.array.astype(dtype)


# Other forms of the same numbers, which have to give the same answer.
SAME: dict[str, Callable[[Array], Any]] = {
    "list": lambda a: a.tolist(),
    "columns first": np.asfortranarray,
    "strided": strided,
    "reversed": lambda a: np.ascontiguousarray(a[..., ::-1])[..., ::-1],
    "reversed rows": lambda a: np.ascontiguousarray(a[::-1])[::-1],
    "transposed twice": lambda a: np.ascontiguousarray(a.T).T,
    "unaligned": unaligned,
    "read-only": read_only,
    "other byte order": lambda a: a.astype(a.dtype.newbyteorder()),
    "half": lambda a: a.astype(np.float16),
    "long": lambda a: a.astype(np.longdouble),
    "subclass": lambda a: a.view(np.ma.MaskedArray),
    "memory view": lambda a: memoryview(a.copy()),
    "exporter": Exporter,
}

# Objects that are no arrays of real numbers.
FOREIGN: dict[str, Callable[[Array], Any]] = {
    "text": lambda a: "scores",
    "bytes": lambda a: b"scores",
    "object": lambda a: object(),
    "dict": lambda a: {"a": 1.0},
    "set": lambda a: {1.0, 2.0},
    "generator": lambda a: (x for x in a),
    "function": lambda a: len,
    "ragged": lambda a: [[0.0, 1.0], [2.0]],
    "texts": lambda a: a.astype(str),
    "objects": lambda a: a.astype(object),
    "bools": lambda a: a > 0,
    "complex": lambda a: a + 1j,
    "dates": lambda a: a.astype("datetime64[s]"),
    "records": lambda a: np.zeros(a.shape, [("x", float)]),
    "masked": lambda a: np.ma.masked_array(a, mask=np.ones(a.shape, bool)),
    "number": lambda a: 3.0,
}


def with_entry(value: float) -> Callable[[Array], Array]:
    """Replaces a number that all models read, and not one below or on the diagonal of spans or arcs."""

    def altered(array: Array) -> Array:
        made = array.copy()
        made[(*[0] * (array.ndim - 2), *[1, 0][-array.ndim :])] = value
        return made

    return altered


def shapes(array: Array) -> list[Array]:
    """Arrays of other shapes: one axis more or less, an axis longer, shorter or empty."""
    found = [array[None], array[..., None], array[0], array.ravel(), np.zeros((0,)), np.zeros(())]
    for axis in range(array.ndim):
        found.append(np.concatenate([array, array], axis))
        found.append(np.take(array, range(array.shape[axis] - 1), axis))
        found.append(np.take(array, [], axis))
    found.append(np.zeros((1,) * 6))
    return [own for own in found if own.shape != array.shape]
