"""Answers as tables: columns by name, and frames of pandas and polars made of them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Columns: TypeAlias = "dict[str, Any]"
"""Arrays or lists of equal length by name."""


class Tabular:
    """A value that can be converted to a frame."""

    @abstractmethod
    def _columns(self) -> Columns:
        """The columns of the table."""

    def to_pandas(self) -> Any:
        """The value as a `pandas.DataFrame`; see `Answer.to_pandas` for the columns."""
        return library("pandas", "frames").DataFrame(self._columns())

    def to_polars(self) -> Any:
        """The value as a `polars.DataFrame`, with the columns of `to_pandas`."""
        polars = library("polars", "frames")

        def series(name: str, values: Any) -> Any:
            column = polars.Series(name, values)
            return column.fill_nan(None) if column.dtype.is_float() else column

        return polars.DataFrame([series(name, values) for name, values in self._columns().items()])


def library(name: str, extra: str | None = None) -> Any:
    """Imports a library that is not required by the package, or only by one of its extras."""
    try:
        return import_module(name)
    except ImportError as error:
        root = name.partition(".")[0]
        together = "" if extra is None else f', or pip install "zhat[{extra}]"'
        message = f"this needs {root}: pip install {root}{together}"
        raise ImportError(message, name=root) from error


def unused(name: str, others: Iterable[str]) -> str:
    """The name, followed by underscores if it is already that of another column.

    >>> unused("score", ["a", "score"])
    'score_'
    """
    taken = set(others)
    while name in taken:
        name += "_"
    return name


def array_columns(values: NDArray[Any], axes: Sequence[str]) -> Columns:
    """One row per entry of an array: its index along every axis, and its probability."""
    places = np.indices(values.shape)
    return {
        **{name: place.ravel() for name, place in zip(axes, places, strict=True)},
        "probability": np.asarray(values, dtype=np.float64).ravel(),
    }


def ragged_columns(values: NDArray[Any], axes: Sequence[str], lengths: Sequence[int]) -> Columns:
    """The same for a batch of sequences, without the positions after the end of each."""
    columns = array_columns(values, axes)
    inside = np.arange(values.shape[1]) < np.asarray(lengths)[:, np.newaxis]
    kept = np.repeat(inside.ravel(), values.shape[2])
    return {name: column[kept] for name, column in columns.items()}


def span_columns(values: NDArray[Any], axes: Sequence[str], lengths: Sequence[int]) -> Columns:
    """One row per span and symbol of each sentence: the expected number of nodes."""
    columns = array_columns(values, axes)
    ends = np.asarray(lengths)[columns["sentence"]] if "sentence" in columns else lengths[0]
    kept = (columns["first"] <= columns["last"]) & (columns["last"] < ends)
    columns["expected"] = columns.pop("probability")
    return {name: column[kept] for name, column in columns.items()}


def stacked(tables: Sequence[Columns], name: str, keys: Iterable[Any] | None = None) -> Columns:
    """Tables on top of each other, with a column that says from which one each row is."""
    places = list(range(len(tables)) if keys is None else keys)
    counts = [len(next(iter(table.values()))) for table in tables]
    columns: Columns = {name: np.repeat(np.asarray(places, dtype=np.int64), counts)}
    for column in max(tables, key=len, default={}):
        columns[column] = np.concatenate([np.asarray(table[column]) for table in tables if column in table])
    return columns
