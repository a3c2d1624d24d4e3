"""Columns of categories: cells of arrays and frames, their codes, and bins of numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._hmm_inputs import column_names
from ._inputs import _check_shape
from .errors import InputError
from .learning import MISSING_STATE, _is_missing, _state_names

Codes = NDArray[np.int64]
"""One code per row; a negative one is not a category."""

MISSING, UNKNOWN = -1, -2


@dataclass(frozen=True)
class Cells:
    """The columns of an array or a frame, and the names of the columns if all are texts."""

    columns: list[NDArray[Any]]
    names: list[str] | None

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.columns[0])

    def of(self, rows: NDArray[np.bool_]) -> Cells:
        """The cells of some rows."""
        return Cells([column[rows] for column in self.columns], self.names)

    @property
    def labels(self) -> list[str]:
        """The names of the columns, by default x0, x1, …"""
        return self.names or [f"x{j}" for j in range(len(self.columns))]


def cells(x: Any) -> Cells:
    """The columns of an array, a list of rows, or a frame of pandas or polars."""
    if hasattr(x, "tocsr"):
        raise TypeError("X: sparse matrices cannot be used; expected a dense array, such as X.toarray()")
    library = type(x).__module__.partition(".")[0]
    if library in ("pandas", "polars") and hasattr(x, "columns"):
        _check_shape(x)
        names = column_names(x)
        twice = next((name for i, name in enumerate(names or []) if name in (names or [])[:i]), None)
        if twice is not None:
            raise InputError(f"X: there are two columns named {twice!r}")
        series = (x.iloc[:, j] for j in range(x.shape[1])) if library == "pandas" else x.get_columns()
        own = [np.asarray(column.to_numpy()) for column in series]
        return _checked(Cells(own, names))
    array = _array(x)
    return _checked(Cells([array[:, j] for j in range(array.shape[1])], None))


def _array(x: Any) -> NDArray[Any]:
    """A two-dimensional array; masked entries are missing, and lists with texts keep their numbers."""
    try:
        array: Any = x if isinstance(x, np.ma.MaskedArray) else np.asarray(x)
        if not hasattr(x, "dtype") and array.dtype.kind in "US":
            array = np.asarray(x, dtype=object)
    except ValueError as error:
        raise InputError(f"X: not an array: {error}") from None
    _check_shape(array)
    if not isinstance(array, np.ma.MaskedArray):
        return np.asarray(array)
    number = array.dtype.kind in "fiu"
    made: Any = array.astype(np.float64 if number else object)
    return np.asarray(made.filled(np.nan if number else None))


def _checked(given: Cells) -> Cells:
    for name, column in zip(given.labels, given.columns, strict=True):
        if column.dtype.kind == "c":
            raise InputError("X: Complex data not supported; expected categories")
        if column.dtype.kind not in "fiubOUSM":
            raise InputError(f"X: column {name} has type {column.dtype}; expected texts, numbers or dates")
        infinite = np.isinf(column) if column.dtype.kind == "f" else np.zeros(0, dtype=bool)
        if infinite.any():
            raise InputError(
                f"X: row {int(infinite.argmax())}, column {name} is infinity; expected a finite number, or "
                "NaN for a missing value"
            )
    return given


def distinct(column: NDArray[Any]) -> tuple[NDArray[Any], Codes]:
    """The different values in ascending order, and the place of every row's value, or `MISSING`."""
    codes = np.full(len(column), MISSING, dtype=np.int64)
    if column.dtype.kind in "fiub":
        known = ~np.isnan(column) if column.dtype.kind == "f" else np.ones(len(column), dtype=bool)
        values, codes[known] = np.unique(column[known], return_inverse=True)
        return values, codes
    places: dict[Any, int] = {}
    for row, value in enumerate(column.tolist() if column.dtype.kind in "US" else column):
        try:
            code = places.get(value)
        except TypeError:
            kind = type(value).__name__
            raise TypeError(f"X: row {row}: argument must be a string or a number, not {kind!r}") from None
        if code is None and not _is_missing(value):
            code = places.setdefault(value, len(places))
        if code is not None:
            codes[row] = code
    found = list(places)
    order = _in_order(found)
    rank = np.empty(len(found) + 1, dtype=np.int64)
    rank[order], rank[MISSING] = np.arange(len(found)), MISSING
    return objects(found[i] for i in order), rank[codes]


def _in_order(values: list[Any]) -> list[int]:
    """The places of the values in ascending order; values of different types are ordered by type."""
    try:
        return sorted(range(len(values)), key=lambda i: values[i])
    except TypeError:
        return sorted(range(len(values)), key=lambda i: (type(values[i]).__name__, str(values[i])))


def objects(values: Iterable[Any]) -> NDArray[Any]:
    """A one-dimensional array of Python objects."""
    given = list(values)
    array = np.empty(len(given), dtype=object)
    for i, value in enumerate(given):  # a slice would take tuples apart
        array[i] = value
    return array


def _numbers(column: NDArray[Any]) -> NDArray[np.float64] | None:
    """A column as numbers, with NaN for missing values; none if it has anything else."""
    if column.dtype.kind in "fiu":
        return column.astype(np.float64)
    if column.dtype.kind != "O":
        return None
    values = [np.nan if _is_missing(value) else value for value in column]
    plain = (int, float, np.integer, np.floating)
    if all(isinstance(value, plain) and not isinstance(value, bool) for value in values):
        return np.array(values, dtype=np.float64)
    return None


@dataclass(frozen=True)
class Categories:
    """The categories of a column.

    With `edges`, category i is the bin of the numbers from `edges[i − 1]` to below `edges[i]`, and its value
    is the median of the training values in the bin. With `gap`, a missing value is one more category.
    """

    name: str
    values: NDArray[Any]
    edges: NDArray[np.float64] | None
    gap: bool

    @property
    def states(self) -> list[str]:
        """The names of the categories in a model."""
        if self.edges is None:
            names = _state_names(self.values)
        else:
            ends = ["-inf", *(str(float(edge)) for edge in self.edges), "inf"]
            names = [f"{'(' if a == '-inf' else '['}{a}, {b})" for a, b in pairwise(ends)]
        return [*names, MISSING_STATE] if self.gap else names

    @classmethod
    def of(
        cls,
        name: str,
        column: NDArray[Any],
        weights: NDArray[np.int64] | None,
        bins: int | None,
        gap: bool,
    ) -> Categories:
        """The categories that occur in a column, or bins of about equal weight."""
        values, codes = distinct(column)
        gap = gap and bool((codes < 0).any())
        if bins is not None and len(values) > bins:
            numbers = _numbers(values)
            if numbers is not None:
                known = codes >= 0
                counts = np.bincount(codes[known], None if weights is None else weights[known])
                return cls._binned(name, values, numbers, counts, bins, gap)
        own = cls(name, values, None, gap)
        names = own.states
        if len(set(names)) < len(names):
            twice = next(state for i, state in enumerate(names) if state in names[:i])
            raise InputError(f"X: column {name} has two different values that are both written {twice!r}")
        return own

    @classmethod
    def _binned(
        cls,
        name: str,
        values: NDArray[Any],
        numbers: NDArray[np.float64],
        counts: NDArray[Any],
        bins: int,
        gap: bool,
    ) -> Categories:
        """Puts every value into the bin of the middle of its rows, so a frequent value has its own bin."""
        ends = np.cumsum(counts.astype(np.int64))
        middle = 2 * ends - counts.astype(np.int64)
        first = np.flatnonzero(np.diff(middle * bins // (2 * ends[-1]), prepend=-1))
        before = np.append(0, ends)[first]
        after = np.append(before[1:], ends[-1])
        medians = np.searchsorted(ends, before + (after - before + 1) // 2, side="left")
        return cls(name, values[medians], numbers[first[1:]], gap)

    def codes(self, column: NDArray[Any], refuse: bool) -> Codes:
        """The codes of a column; a value that is not a category is an error, or `UNKNOWN`."""
        if self.edges is not None:
            numbers = _numbers(column)
            if numbers is None:
                raise InputError(f"X: column {self.name}: expected numbers, as in the training data")
            codes = np.searchsorted(self.edges, numbers, side="right").astype(np.int64)
            codes[np.isnan(numbers)] = MISSING
        else:
            values, found = distinct(column)
            places = {value: code for code, value in enumerate(self.values.tolist())}
            own = [places.get(value, UNKNOWN) for value in values.tolist()]
            codes = np.array([*own, MISSING], dtype=np.int64)[found]
            if refuse and (codes == UNKNOWN).any():
                row = int(np.argmax(codes == UNKNOWN))
                value = values.tolist()[found[row]]
                raise InputError(
                    f"X: row {row}: column {self.name} has the value {value!r}, which is not one of its "
                    f"{len(self.values)} categories{self._hint(column)}"
                )
        if self.gap:
            codes[codes == MISSING] = len(self.values)
        return codes

    def _hint(self, column: NDArray[Any]) -> str:
        number = ", bins=10 makes intervals of numbers" if _numbers(column) is not None else ""
        return f'; handle_unknown="ignore" leaves such values in place{number}'

    def decoded(self, codes: Codes) -> NDArray[Any]:
        """The values of codes; a missing value is NaN among numbers, and otherwise None."""
        if not self.gap or not (codes == len(self.values)).any():
            return self.values[codes]
        number = self.values.dtype.kind in "fiu"
        values = self.values.astype(np.float64 if number else object)
        return np.append(values, np.array([np.nan if number else None], dtype=values.dtype))[codes]


def filled(column: NDArray[Any], gaps: NDArray[np.bool_], values: NDArray[Any]) -> NDArray[Any]:
    """The column with `values` in the place of its gaps, in its own type if that can hold them."""
    if not gaps.any():
        return column
    # Only numbers with a decimal point and objects can be missing.
    kind = column.dtype if column.dtype.kind == "f" and values.dtype.kind in "fiu" else np.dtype(object)
    made = column.astype(kind)
    made[gaps] = values.astype(kind)
    return made
