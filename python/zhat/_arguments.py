"""Checks and conversion of arguments for the native module; errors name the argument."""

from __future__ import annotations

import json
import math
import operator
import os
import sys
import warnings
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from .errors import InputError

FilePath: TypeAlias = "str | os.PathLike[str]"

LARGE = 64 << 20
"""Copies of arguments of more bytes than this have a warning."""


def integer(name: str, value: object, low: int = 0, high: int = 2**63 - 1) -> int:
    """An integer between `low` and `high`."""
    if type(value) is int:
        number = value
    else:
        unmasked(name, value)
        try:
            number = int(operator.index(value))  # type: ignore[arg-type]
        except TypeError:
            raise InputError(f"{name}: expected an integer, found {value!r}") from None
    if not low <= number <= high:
        raise InputError(f"{name}: expected an integer between {low} and {high}, found {number}")
    return number


def integers(name: str, values: Iterable[object]) -> list[int]:
    """A list of nonnegative integers."""
    return [integer(f"{name}[{i}]", value) for i, value in enumerate(_iterable(name, values))]


def texts(name: str, values: Iterable[object]) -> list[str]:
    """A list of strings."""
    return [text(f"{name}[{i}]", value) for i, value in enumerate(_iterable(name, values))]


def text(name: str, value: object) -> str:
    """A string that can be encoded as UTF-8."""
    if not isinstance(value, str):
        raise InputError(f"{name}: expected a text, found {value!r}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{name}: {error}") from None
    return value


def real(name: str, value: object) -> float:
    """A real number."""
    if type(value) is not float:
        unmasked(name, value)
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name}: expected a number, found {value!r}") from None


def settings(options: Mapping[str, object]) -> str:
    """The options of a method as JSON; a non-finite number becomes a string, which is out of every range."""
    try:
        return json.dumps(
            {name: _finite(value) for name, value in options.items()}, allow_nan=False, default=_plain
        )
    except (TypeError, ValueError) as error:
        raise InputError(f"options: {error}") from None


def _finite(value: object) -> object:
    """Converts a non-finite number to a string."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def log_table(name: str, values: ArrayLike, log: bool) -> NDArray[np.float64]:
    """A row-major table of logarithms."""
    table = np.require(_array(name, values), np.float64, ["C_CONTIGUOUS", "ALIGNED"])
    if log:
        return table
    negative = table.ravel() < 0
    if negative.any():
        at = int(negative.argmax())
        raise InputError(f"{name}: entry {at} is {table.flat[at]}; a weight is 0 or more")
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(table))


def scores(name: str, values: ArrayLike, dtype: np.dtype[Any] | None = None) -> NDArray[Any]:
    """An array in this precision, or in its own; not copied if it already has the right type and layout."""
    array = _array(name, values)
    if dtype is None:
        dtype = np.dtype(np.float32 if array.dtype == np.float32 else np.float64)
    return in_place(name, array, dtype)


def in_place(name: str, array: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """The same array if it is C-contiguous, aligned and of this type; otherwise a copy that is."""
    with np.errstate(over="ignore"):  # too large numbers become infinite and are refused later
        made = np.require(array, dtype, ["C_CONTIGUOUS", "ALIGNED"])
    if made.nbytes > LARGE and not np.may_share_memory(made, array):
        reason = "is not C-contiguous"
        if array.dtype != dtype:
            reason = f"has the type {array.dtype}"
        elif array.flags.c_contiguous:
            reason = "is not aligned"
        warn_of_copy(name, made.nbytes, f"the array {reason}; a C-contiguous array of {dtype}")
    return made


def warn_of_copy(name: str, size: int, reason: str) -> None:
    """Warns that an argument was copied: it names the reason and what is used in place."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == "zhat":
        frame, level = frame.f_back, level + 1
    message = f"{name}: copied {size >> 20} MiB, because {reason} is used in place"
    warnings.warn(message, UserWarning, stacklevel=level)


def unmasked(name: str, values: object) -> None:
    """Refuses masked entries, because NumPy would pass on the values behind the mask."""
    parts = values if isinstance(values, (list, tuple)) else (values,)
    if any(np.ma.is_masked(part) for part in parts):
        raise InputError(
            f"{name}: has masked entries, which have no meaning here; fill them with numbers first, "
            "such as values.filled(-numpy.inf) for states that are not allowed"
        )


def _array(name: str, values: ArrayLike) -> NDArray[Any]:
    unmasked(name, values)
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise InputError(f"{name}: not an array: {error}") from None
    if array.dtype.kind not in "fiu":
        raise InputError(f"{name}: values of type {array.dtype} cannot be used; expected real numbers")
    return array


def _iterable(name: str, values: Iterable[object]) -> Iterable[object]:
    """The values, if they are iterable and not a string by mistake."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise InputError(f"{name}: expected a list, found {values!r}")
    unmasked(name, values)
    return values


def _plain(value: object) -> object:
    """Converts a NumPy number to a Python number."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"expected numbers, texts and lists of them, found {value!r}")


def precision(dtype: DTypeLike) -> bool:
    """True for double precision, False for single precision; an error for any other type."""
    known = np.dtype(dtype)
    if known not in (np.float32, np.float64):
        raise InputError(f"dtype: expected float32 or float64, found {known}")
    return bool(known == np.float64)
