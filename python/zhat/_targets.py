"""The targets of structured predictors: sets of labels, nodes of hierarchies, rankings, partitions."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .errors import InputError
from .learning import _is_missing

Native: TypeAlias = "tuple[str, int, NDArray[np.int64], NDArray[np.uint32]]"


@dataclass(frozen=True)
class Observed:
    """The observed structures of some rows, and the names of labels, nodes, items or elements."""

    native: Native
    classes: NDArray[Any]
    rows: int
    binary: bool = False
    """Whether `y` is a vector of two classes; the structures are then sets of one label, the second class."""

    @property
    def names(self) -> list[str]:
        """The names of labels, nodes, items or elements in files."""
        return [str(plain(name)) for name in (self.classes[-1:] if self.binary else self.classes)]


def as_classes(values: Sequence[Any]) -> NDArray[Any]:
    """Names as an array: of texts or integers if all are, otherwise of objects."""
    for kind in (str, int):
        if values and all(isinstance(value, kind) and not isinstance(value, bool) for value in values):
            return np.array(values)
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def plain(value: Any) -> Any:
    """A NumPy scalar as a Python value; whole floats as integers."""
    value = value.item() if isinstance(value, np.generic) else value
    return int(value) if isinstance(value, float) and value.is_integer() else value


def in_order(values: Iterable[Any]) -> list[Any]:
    """Distinct values, sorted; by their text if they cannot be compared."""
    distinct = list(dict.fromkeys(values))
    try:
        return sorted(distinct)
    except TypeError:
        return sorted(distinct, key=str)


def is_collection(row: object) -> bool:
    """Whether an entry of `y` is a collection of names."""
    return isinstance(row, Collection) and not isinstance(row, (str, bytes))


def array_like(y: Any) -> Any:
    """An array, if the object can be converted to one but is no sequence."""
    convertible = hasattr(y, "__array__") and not hasattr(y, "__iter__")
    return np.asarray(y) if convertible else y


def refuse_continuous(labels: NDArray[Any], expected: str) -> None:
    """Refuses labels that are not finite, or not whole."""
    if labels.dtype.kind == "f":
        if not np.isfinite(labels).all():
            row = int(np.argmin(np.isfinite(labels)))
            what = "NaN" if np.isnan(labels[row]) else "infinity or a value too large for dtype('float64')"
            raise InputError(f"Input y contains {what}. It is in row {row}")
        if (labels != np.floor(labels)).any():
            raise InputError(f"Unknown label type: continuous. y: expected {expected}")


def distinct(labels: NDArray[Any]) -> NDArray[Any]:
    """The classes in order."""
    try:
        return np.unique(labels)
    except TypeError:
        raise InputError("y: expected classes of one type") from None


def binary(y: Any, classes: NDArray[Any] | None) -> Observed:
    """A vector of one or two classes."""
    array = np.asarray(y)
    refuse_continuous(array, "two classes, or structures")
    if classes is None:
        classes = distinct(array)
        if len(classes) > 2:
            raise InputError(
                "Only binary classification is supported. The type of the target is multiclass: y has "
                f"{len(classes)} classes; a structure per row is a row of a matrix or a collection of names"
            )
    known = np.isin(array, classes)
    if not known.all():
        row = int(np.argmin(known))
        raise InputError(f"y: row {row}: the model does not know the class {plain(array[row])!r}")
    chosen = (array == classes[-1]).astype(np.int64)
    native = ("sets", 1, np.cumsum(chosen), np.zeros(int(chosen.sum()), dtype=np.uint32))
    return Observed(native, classes, len(array), True)


def named_rows(y: Any) -> list[list[Any]] | None:
    """The names of every row, if `y` has one collection of names per row; none if it is a matrix."""
    if hasattr(y, "tocsr") or hasattr(y, "columns"):
        return None
    if isinstance(y, np.ndarray) and (y.ndim != 1 or y.dtype.kind not in "O"):
        return None
    rows = list(y)
    if not rows or not all(is_collection(row) for row in rows):
        return None
    by_name = any(
        isinstance(row, (set, frozenset)) or any(isinstance(name, str) for name in row) for row in rows
    )
    lengths = {len(row) for row in rows}
    return [[plain(name) for name in row] for row in rows] if by_name or len(lengths) > 1 else None


def required(name: str, y: Any) -> None:
    """Refuses a missing `y`."""
    if y is None:
        raise InputError(f"{name} requires y to be passed, but the target y is None")


def matrix(y: Any, classes: NDArray[Any] | None, what: str) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """A matrix with one column per label, node or item, in the order of the classes if they are known."""
    columns = None
    if hasattr(y, "columns"):
        columns = [plain(name) for name in y.columns]
        y = y.to_numpy()
    elif hasattr(y, "tocsr"):
        y = y.toarray()
    masked = isinstance(y, np.ma.MaskedArray)
    try:
        array: Any = (y if masked else np.asarray(y)).astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"y: expected a matrix of numbers with one column per {what}, or names: {error}"
        ) from None
    if masked:
        array = array.filled(np.nan)
    if array.ndim != 2 or array.shape[1] == 0:
        raise InputError(
            f"y: expected a matrix with one column per {what}, found an array of shape {array.shape}"
        )
    infinite = np.isinf(array)
    if infinite.any():
        row = int(np.argwhere(infinite)[0][0])
        raise InputError(
            f"Input y contains infinity or a value too large for dtype('float64'). It is in row {row}"
        )
    if classes is None:
        return array, as_classes(list(range(array.shape[1])) if columns is None else columns)
    if array.shape[1] != len(classes):
        raise InputError(
            f"y: has {array.shape[1]} columns, expected {len(classes)}: one per {what} of the model"
        )
    if columns is not None and columns != list(classes):
        place = {str(name): i for i, name in enumerate(columns)}
        missing = next((name for name in classes if str(name) not in place), None)
        if missing is not None:
            raise InputError(f"y: there is no column for the {what} {plain(missing)!r} of the model")
        array = array[:, [place[str(name)] for name in classes]]
    return array, classes


def places_of(classes: Iterable[Any]) -> dict[Hashable, int]:
    """The place of every name."""
    return {plain(name): i for i, name in enumerate(classes)}


def place(name: Any, places: Mapping[Hashable, int], row: int, what: str) -> int:
    """The place of a name, or an error with its row."""
    found = places.get(name, places.get(str(name)))
    if found is None:
        raise InputError(f"y: row {row}: the model does not know the {what} {name!r}")
    return found


def sets_of(members: Sequence[Sequence[int]], classes: NDArray[Any]) -> Observed:
    """Sets given by the places of their members."""
    ends = np.cumsum([len(row) for row in members], dtype=np.int64)
    flat = np.array([member for row in members for member in row], dtype=np.uint32)
    return Observed(("sets", len(classes), ends, flat), classes, len(members))


def indicators(array: NDArray[np.float64], classes: NDArray[Any]) -> Observed:
    """Sets given by zeros and ones."""
    wrong = (array != 0) & (array != 1)
    if wrong.any():
        row, column = (int(at) for at in np.argwhere(wrong)[0])
        found = array[row, column]
        if np.isnan(found):
            raise InputError(f"Input y contains NaN. It is in row {row}, column {plain(classes[column])!r}")
        raise InputError(
            f"y: row {row}, column {plain(classes[column])!r} is {plain(found)}, expected 0 or 1"
        )
    rows, members = np.nonzero(array)
    ends = np.searchsorted(rows, np.arange(array.shape[0]), side="right").astype(np.int64)
    return Observed(("sets", len(classes), ends, members.astype(np.uint32)), classes, array.shape[0])


def sparse_indicators(y: Any, classes: NDArray[Any] | None, what: str) -> Observed:
    """Sets given by the entries of a sparse matrix, which stays sparse."""
    csr = y.tocsr().copy()
    csr.sum_duplicates()
    csr.eliminate_zeros()
    if not (csr.data == 1).all():
        at = int(np.argmax(csr.data != 1))
        row = int(np.searchsorted(csr.indptr[1:], at, side="right"))
        raise InputError(f"y: row {row}, column {int(csr.indices[at])} is {csr.data[at]}, expected 0 or 1")
    if classes is None:
        classes = as_classes(list(range(csr.shape[1])))
    if csr.shape[1] != len(classes):
        raise InputError(
            f"y: has {csr.shape[1]} columns, expected {len(classes)}: one per {what} of the model"
        )
    ends, members = csr.indptr[1:].astype(np.int64), csr.indices.astype(np.uint32)
    return Observed(("sets", len(classes), ends, members), classes, csr.shape[0])


def label_sets(y: Any, classes: NDArray[Any] | None, one_dimensional: bool) -> Observed:
    """Label sets: a matrix of zeros and ones, dense or sparse, or one collection of labels per row.

    `one_dimensional` says whether the model was trained on a vector of classes.
    """
    y = array_like(y)
    if hasattr(y, "tocsr"):
        return sparse_indicators(y, classes, "label")
    rows = named_rows(y)
    if (
        rows is None
        and not hasattr(y, "columns")
        and np.ndim(y) == 1
        and (classes is None or one_dimensional)
    ):
        return binary(y, classes)
    if rows is None:
        return indicators(*matrix(y, classes, "label"))
    own = as_classes(in_order(name for row in rows for name in row)) if classes is None else classes
    if len(own) == 0:
        raise InputError("y: there are no labels")
    places = places_of(own)
    return sets_of([[place(name, places, i, "label") for name in row] for i, row in enumerate(rows)], own)


def rankings(y: Any, classes: NDArray[Any] | None, partial: bool) -> Observed:
    """Rankings: a matrix of ranks, one order of items per row, or the first item of every row.

    A vector of first items is partial in any case.
    """
    y = array_like(y)
    rows = named_rows(y)
    if rows is None and not hasattr(y, "columns") and np.ndim(y) == 1:
        rows, partial = [[plain(item)] for item in y], True
        gap = next((i for i, row in enumerate(rows) if _is_missing(row[0])), None)
        if gap is not None:
            raise InputError(f"Input y contains NaN. It is in row {gap}")
    if rows is None:
        array, own = matrix(y, classes, "item")
    else:
        own = as_classes(in_order(item for row in rows for item in row)) if classes is None else classes
        places = places_of(own)
        # Items that are not in the list come after those that are.
        array = np.empty((len(rows), len(own)))
        for i, row in enumerate(rows):
            array[i] = len(row) + 1 if len(row) < len(own) else np.nan
            found = [place(item, places, i, "item") for item in row]
            if len(set(found)) < len(found):
                raise InputError(f"y: row {i} has an item twice")
            array[i, found] = np.arange(1, len(found) + 1)
    n = len(own)
    if n < 2:
        raise InputError(f"y: there must be 2 items or more, found {n} item: 1 class has no order")
    wrong = ~np.isnan(array) & ((array != np.floor(array)) | (array < 1) | (array > n))
    if wrong.any():
        at, column = (int(at) for at in np.argwhere(wrong)[0])
        found_rank = plain(array[at, column])
        raise InputError(
            f"y: row {at}, item {plain(own[column])!r} has the rank {found_rank}, expected a whole number "
            f"from 1 to {n}, or NaN for an item without a rank"
        )
    ranks = np.where(np.isnan(array), 0, array).astype(np.uint32)
    if not partial:
        _refuse_partial(ranks, own)
    return Observed(("ranks", n, np.zeros(0, dtype=np.int64), ranks.ravel()), own, len(ranks))


def _refuse_partial(ranks: NDArray[np.uint32], items: NDArray[Any]) -> None:
    ordered = np.sort(ranks, axis=1)
    wrong = (ordered != np.arange(1, len(items) + 1)).any(axis=1)
    if wrong.any():
        row = int(wrong.argmax())
        found = [plain(rank) if rank else "none" for rank in ranks[row]]
        listed = ", ".join(f"{plain(item)!r} {rank}" for item, rank in zip(items, found, strict=True))
        raise InputError(
            f"y: row {row} is no permutation, its ranks are {listed}; partial=True accepts ties and items "
            "without a rank"
        )


def partitions(y: Any, classes: NDArray[Any] | None) -> Observed:
    """Partitions: a matrix with the name or number of the block of every element."""
    columns = [plain(name) for name in y.columns] if hasattr(y, "columns") else None
    array = np.asarray(y.to_numpy() if columns is not None else y, dtype=object)
    if array.ndim != 2 or array.shape[1] == 0:
        raise InputError(
            f"y: expected a matrix with one column per element, found an array of shape {array.shape}"
        )
    if classes is None:
        classes = as_classes(list(range(array.shape[1])) if columns is None else columns)
    if array.shape[1] != len(classes):
        raise InputError(f"y: has {array.shape[1]} columns, expected {len(classes)}: one per element")
    blocks = np.empty(array.shape, dtype=np.uint32)
    for i, row in enumerate(array):
        seen: dict[Any, int] = {}
        for j, name in enumerate(row):
            if _is_missing(name):
                raise InputError(f"y: row {i}, element {plain(classes[j])!r} has no block")
            blocks[i, j] = seen.setdefault(name, len(seen))
    native = ("blocks", len(classes), np.zeros(0, dtype=np.int64), blocks.ravel())
    return Observed(native, classes, len(blocks))
