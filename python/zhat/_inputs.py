"""The inputs of structured predictors: arrays, SciPy sparse matrices, pandas and polars frames."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from . import _zhat
from .errors import InputError
from .learning import _factorized, _is_missing

Columns: TypeAlias = "list[tuple[str, list[str] | None]]"
"""Names of columns, and the categories of categorical ones."""


@dataclass(frozen=True)
class Table:
    """The inputs of some rows."""

    native: _zhat.Inputs
    columns: Columns
    names: list[str] | None
    """The names of the columns of a frame, if all are texts."""


def table(x: Any, known: Columns | None = None) -> Table:
    """Converts inputs; `known` are the columns of a trained model, in the same order."""
    if hasattr(x, "tocsr"):
        return _sparse(x, known)
    library = type(x).__module__.partition(".")[0]
    if library in ("pandas", "polars") and hasattr(x, "columns"):
        return _frame(x, library, known)
    cells = _matrix(x)
    columns = _numeric(cells.shape[1], known)
    _refuse_infinite(cells, columns)
    return Table(_zhat.Inputs.dense(columns, cells), columns, None)


def _numeric(width: int, known: Columns | None) -> Columns:
    """Columns of numbers; those of a model keep their names."""
    if known is None:
        return [(f"x{i}", None) for i in range(width)]
    for name, levels in known:
        if levels is not None:
            raise InputError(f"X: column {name} of the model is categorical; expected a frame")
    return known


def _matrix(x: Any) -> NDArray[np.float64]:
    """A two-dimensional array of numbers; masked entries are missing."""
    masked = isinstance(x, np.ma.MaskedArray)
    array = x if masked else np.asarray(x)
    _check_shape(array)
    if array.dtype.kind == "c":
        raise InputError("X: Complex data not supported; expected real numbers")
    if array.dtype.kind not in "fiubO":
        raise InputError(f"X: values of type {array.dtype} cannot be used; expected numbers, or a frame")
    try:
        numbers: Any = array.astype(np.float64, copy=False)
    except ValueError as error:
        raise InputError(f"X: {error}; columns of categories are accepted in frames") from None
    if masked:
        numbers = numbers.filled(np.nan)
    return np.require(numbers, np.float64, ["C_CONTIGUOUS", "ALIGNED"])


def _check_shape(array: Any) -> None:
    shape = array.shape
    if len(shape) != 2:
        raise InputError(
            f"X: Expected 2D array, got {len(shape)}D array instead. Reshape your data: array.reshape(-1, 1) "
            "makes a column of it and array.reshape(1, -1) a row"
        )
    for count, unit in zip(shape, ("sample", "feature"), strict=True):
        if count == 0:
            raise InputError(f"X: has 0 {unit}(s) (shape={shape}) while a minimum of 1 is required.")


def _refuse_infinite(cells: NDArray[np.float64], columns: Columns) -> None:
    infinite = np.isinf(cells)
    if infinite.any():
        row, column = (int(at) for at in np.argwhere(infinite)[0])
        raise InputError(
            f"X: row {row}, column {columns[column][0]} is infinity; expected a finite number, or NaN for a "
            "missing value"
        )


def _sparse(x: Any, known: Columns | None) -> Table:
    _check_shape(x)
    if x.dtype.kind == "c":
        raise InputError("X: Complex data not supported; expected real numbers")
    matrix = x.tocsr()
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    columns = _numeric(x.shape[1], known)
    values = np.ascontiguousarray(matrix.data, dtype=np.float64)
    indices = np.ascontiguousarray(matrix.indices, dtype=np.int64)
    ends = np.ascontiguousarray(matrix.indptr[1:], dtype=np.int64)
    infinite = np.isinf(values)
    if infinite.any():
        at = int(infinite.argmax())
        row = int(np.searchsorted(ends, at, side="right"))
        raise InputError(
            f"X: row {row}, column {columns[indices[at]][0]} is infinity; expected a finite number"
        )
    return Table(_zhat.Inputs.sparse(columns, ends, indices, values), columns, None)


def _frame(frame: Any, library: str, known: Columns | None) -> Table:
    _check_shape(frame)
    names = list(frame.columns)
    texts = [str(name) for name in names]
    if len(set(texts)) != len(texts):
        twice = next(name for i, name in enumerate(texts) if name in texts[:i])
        raise InputError(f"X: there are two columns {twice}")
    kinds = {type(name).__name__ for name in names}
    if len(kinds) > 1 and any(isinstance(name, str) for name in names):
        raise TypeError(
            "Feature names are only supported if all input features have string names, but your input has "
            f"{sorted(kinds)} as feature name / column name types. Convert them all to strings, such as by "
            "X.columns = X.columns.astype(str)"
        )
    cells = np.empty(frame.shape, dtype=np.float64)
    columns: Columns = []
    for i, name in enumerate(texts):
        column = frame.iloc[:, i] if library == "pandas" else frame[name]
        numbers = _numbers(column, library)
        own = None if known is None else known[i][1]
        if numbers is not None and own is None:
            cells[:, i] = numbers
            columns.append((name if known is None else known[i][0], None))
            continue
        if known is not None and own is None:
            raise InputError(f"X: column {name} is categorical; the model expects numbers")
        levels, codes = _categories(column, name, own)
        cells[:, i] = np.where(codes < 0, np.nan, codes)
        columns.append((name if known is None else known[i][0], levels))
    _refuse_infinite(cells, columns)
    all_texts = all(isinstance(name, str) for name in names)
    return Table(_zhat.Inputs.dense(columns, cells), columns, texts if all_texts else None)


def _numbers(column: Any, library: str) -> NDArray[np.float64] | None:
    """A column as numbers with NaN for missing values; none if it is categorical."""
    dtype = column.dtype
    if library == "polars":
        if not (dtype.is_numeric() or str(dtype) == "Boolean"):
            return None
        import polars

        return np.asarray(column.cast(polars.Float64).fill_null(np.nan).to_numpy(), dtype=np.float64)
    kind = getattr(dtype, "kind", "O")
    if str(dtype) != "category" and kind in "biuf":
        return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
    if kind == "c":
        raise InputError("X: Complex data not supported; expected real numbers")
    if kind == "O" and str(dtype) == "object":
        values = [np.nan if _is_missing(value) else value for value in column]
        if all(isinstance(value, (int, float, np.number, np.bool_)) for value in values):
            return np.array(values, dtype=np.float64)
    return None


def _categories(column: Any, name: str, known: list[str] | None) -> tuple[list[str], NDArray[np.int64]]:
    """The categories in alphabetical order, or those of the model, and a code for every row."""
    kind = str(column.dtype).lower()
    if any(word in kind for word in ("date", "time", "duration", "list", "struct", "array")):
        raise InputError(f"X: column {name} has type {column.dtype}; expected numbers or categories")
    values, codes = _factorized(column)
    levels = sorted(values) if known is None else known
    place = {level: code for code, level in enumerate(levels)}
    unknown = next((value for value in values if value not in place), None)
    if unknown is not None:
        row = int(np.argmax(codes == values.index(unknown)))
        raise InputError(f"X: row {row}: column {name}: the model does not know the category {unknown!r}")
    translation = np.array([place[value] for value in values] + [-1], dtype=np.int64)
    return levels, translation[codes]


def check_features(name: str, x: Any, width: int, names: NDArray[np.object_] | None) -> None:
    """Checks that inputs have the columns of the training data, with the messages of scikit-learn."""
    library = type(x).__module__.partition(".")[0]
    own = None
    if library in ("pandas", "polars") and hasattr(x, "columns"):
        own = list(x.columns)
        if not all(isinstance(column, str) for column in own):
            own = None
    if own is not None and names is None:
        warnings.warn(
            f"X has feature names, but {name} was fitted without feature names", UserWarning, stacklevel=4
        )
    elif own is None and names is not None:
        warnings.warn(
            f"X does not have valid feature names, but {name} was fitted with feature names",
            UserWarning,
            stacklevel=4,
        )
    elif own is not None and names is not None and own != list(names):
        raise InputError(_differences(own, list(names)))
    shape = getattr(x, "shape", None)
    shape = np.asarray(x, dtype=object).shape if shape is None else shape
    if len(shape) == 2 and shape[1] != width:
        raise InputError(f"X has {shape[1]} features, but {name} is expecting {width} features as input")


def _differences(found: list[str], expected: list[str]) -> str:
    message = "The feature names should match those that were passed during fit.\n"
    unexpected = sorted(set(found) - set(expected))
    missing = sorted(set(expected) - set(found))

    def listed(names: list[str]) -> str:
        return "".join(f"- {name}\n" for name in names[:5]) + ("- ...\n" if len(names) > 5 else "")

    if unexpected:
        message += "Feature names unseen at fit time:\n" + listed(unexpected)
    if missing:
        message += "Feature names seen at fit time, yet now missing:\n" + listed(missing)
    if not (unexpected or missing):
        message += "Feature names must be in the same order as they were in fit.\n"
    return message
