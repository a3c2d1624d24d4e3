"""Inputs of `Hmm`: observations, lengths of sequences, names of columns and choices."""

from __future__ import annotations

import json
import math
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ._arguments import real, text
from ._inputs import _check_shape, _matrix
from .errors import InputError

if TYPE_CHECKING:
    from .hidden_markov import Hmm

EMISSIONS = ("categorical", "gaussian", "poisson", "mixture")
COVARIANCES = ("spherical", "diagonal", "full", "tied")
DURATIONS = ("geometric", "free", "negative-binomial")
FIXED = ("start", "transitions", "emissions", "durations")


def observations(model: Hmm, X: Any, training: bool) -> NDArray[np.float64]:
    """The observations as numbers; symbols as their places in `symbols_`."""
    if hasattr(X, "tocsr"):
        raise TypeError("X: sparse matrices cannot be used; expected a dense array, such as X.toarray()")
    choice("emissions", model.emissions, EMISSIONS)
    array = np.asarray(X)
    if model.emissions != "categorical" or array.dtype.kind in "fiub":
        values = _matrix(X)
        if model.emissions == "categorical" and not training and hasattr(model, "symbols_"):
            raise InputError(f"X: expected the symbols {model.symbols_.tolist()}, found numbers")
    else:
        return _symbols(model, array, training)
    bad = np.isinf(values) if model.missing else ~np.isfinite(values)
    if bad.any():
        row, place = (int(at) for at in np.argwhere(bad)[0])
        found = "infinity" if np.isinf(values[row, place]) else "NaN"
        hint = "" if model.missing or found == "infinity" else ", or missing=True for missing values"
        raise InputError(f"X: row {row}, column {place} is {found}; expected a finite number{hint}")
    return values


def _symbols(model: Hmm, array: NDArray[Any], training: bool) -> NDArray[np.float64]:
    if array.ndim == 1:
        array = array.reshape(-1, 1)
    _check_shape(array)
    if array.shape[1] != 1:
        raise InputError(f"X: symbols are one column, found {array.shape[1]}")
    column = array[:, 0].astype(str)
    if training:
        model.symbols_ = np.unique(column)
    elif not hasattr(model, "symbols_"):
        raise InputError("X: expected whole numbers, found texts")
    places = np.searchsorted(model.symbols_, column)
    known = model.symbols_[np.minimum(places, len(model.symbols_) - 1)] == column
    if not known.all():
        row = int(np.argmin(known))
        raise InputError(f"X: row {row}: the model has no symbol {str(column[row])!r}")
    return np.ascontiguousarray(places.reshape(-1, 1), dtype=np.float64)


def sequence_lengths(lengths: Any, rows: int) -> list[int]:
    """The lengths of the sequences; a `y` of scikit-learn is ignored with a warning."""
    if lengths is None:
        return [rows]
    given = np.asarray(lengths)
    if given.ndim == 1 and given.dtype.kind in "iu" and int(given.sum()) == rows and (given > 0).all():
        return [int(length) for length in given]
    if given.shape[:1] == (rows,) and rows > 1:
        warnings.warn(
            "Hmm: the second argument has one entry per row and is not a list of lengths; it is ignored, as "
            "scikit-learn's y, and all rows are one sequence. Pass targets as y=",
            UserWarning,
            stacklevel=4,
        )
        return [rows]
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise InputError("lengths: expected a list of whole numbers")
    if (given <= 0).any():
        raise InputError(f"lengths: expected numbers of at least 1, found {int(given.min())}")
    raise InputError(f"lengths: add up to {int(given.sum())}, but X has {rows} rows")


def choice(name: str, value: object, known: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in known:
        raise InputError(f"{name}: expected one of {', '.join(known)}, found {value!r}")


def finite(name: str, value: object) -> float:
    number = real(name, value)
    if not math.isfinite(number):
        raise InputError(f"{name}: expected a finite number, found {number}")
    return number


def column_names(X: Any) -> list[str] | None:
    """The names of the columns of a frame, if all are texts."""
    library = type(X).__module__.partition(".")[0]
    if library not in ("pandas", "polars") or not hasattr(X, "columns"):
        return None
    names = list(X.columns)
    kinds = {type(name).__name__ for name in names}
    if len(kinds) > 1 and "str" in kinds:
        raise TypeError(
            "Feature names are only supported if all input features have string names, but your input has "
            f"{sorted(kinds)} as feature name / column name types. Convert them all to strings, such as by "
            "X.columns = X.columns.astype(str)"
        )
    return [text("X", name) for name in names] if kinds == {"str"} else None


def per_state(values: NDArray[np.float64], states: int, family: str, name: str) -> NDArray[np.float64]:
    """Means and covariances of mixtures with one axis for states and one for components."""
    options = json.loads(family)["mixture"]
    if name == "covariances" and options["covariance"] == "tied":
        return values
    return values.reshape(states, options["components"], *values.shape[1:])
