"""Inputs of `Tagger`: sentences of tokens, and tables, whose rows are sentences of one token."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from . import _zhat
from ._arguments import real
from ._estimator import conversion_warning
from ._hmm_inputs import column_names
from ._inputs import _check_shape, _matrix, _numbers
from ._targets import array_like, distinct, plain, refuse_continuous, required
from .errors import InputError

Token: TypeAlias = "str | Mapping[str, Any] | Sequence[str]"
"""A word, attributes with values or weights, or a list of attributes."""
Attributes: TypeAlias = list[tuple[str, float]]

BIAS = "(bias)"
"""The attribute that every row of a table has."""


@dataclass(frozen=True)
class Encoded:
    """The attributes of all tokens, and the words if the tokens are words."""

    attributes: list[list[Attributes]]
    words: list[list[str]] | None = None

    @property
    def vocabulary(self) -> list[str]:
        """The distinct words in the order of their first occurrence."""
        return list(dict.fromkeys(word for sentence in self.words or [] for word in sentence))


def _weighted(name: str, value: Any, found: Attributes) -> None:
    """Adds the attributes of an entry of a dictionary, as python-crfsuite reads it."""
    if isinstance(value, str):
        found.append((f"{name}:{value}", 1.0))
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            _weighted(f"{name}:{key}", inner, found)
    elif isinstance(value, list | tuple | set | frozenset):
        found.extend(
            (f"{name}:{item}", 1.0)
            for item in (sorted(value) if isinstance(value, set | frozenset) else value)
        )
    else:
        found.append((name, real(name, value) if not isinstance(value, bool | np.bool_) else float(value)))


def _attributes(token: Token) -> Attributes:
    """The attributes of a token with their weights."""
    if isinstance(token, Mapping):
        found: Attributes = []
        for name, value in token.items():
            _weighted(str(name), value, found)
        return found
    if isinstance(token, Iterable):
        return [(str(name), 1.0) for name in token]
    raise InputError(f"X: expected a word, a dictionary or a list of attributes, found {token!r}")


def encoded(X: Iterable[Sequence[Token]], nearest: int | None, ends: int = 0) -> Encoded:
    """The attributes of sentences; those of words are of the `nearest` words, and none if it is None."""
    if isinstance(X, str | Mapping):
        raise InputError("X: expected a list of sentences, each a list of tokens")
    all_words: bool | None = None
    attributes: list[list[Attributes]] = []
    words: list[list[str]] = []
    for number, sentence in enumerate(X):
        if isinstance(sentence, str | Mapping):
            raise InputError(f"X: sentence {number + 1} is not a list of tokens")
        tokens = list(sentence)
        of_words = [isinstance(token, str) for token in tokens]
        if any(of_words) and not all(of_words):
            raise InputError(f"X: sentence {number + 1} has words and tokens with attributes")
        if tokens and all_words not in (None, of_words[0]):
            raise InputError(f"X: sentence {number + 1} has other tokens than those before it")
        if tokens:
            all_words = of_words[0]
        if tokens and all_words:
            if nearest is None:
                raise InputError("X: the tagger was trained with attributes, not with words")
            words.append([str(token) for token in tokens])
            attributes.append(_zhat.word_attributes(words[-1], nearest, ends))
        else:
            words.append([])
            attributes.append([_attributes(token) for token in tokens])
    return Encoded(attributes, words if all_words else None)


def only_words(name: str, X: Iterable[Sequence[Token]]) -> list[list[str]]:
    """The sentences of a joint tagger, whose tokens are words."""
    found = []
    for number, sentence in enumerate(X):
        if isinstance(sentence, str | Mapping):
            raise InputError(f"{name}: sentence {number + 1} is not a list of tokens")
        for token in sentence:
            if not isinstance(token, str):
                raise InputError(
                    f"{name}: sentence {number + 1}: a joint tagger needs words, found {token!r}; "
                    'objective="conditional" works with attributes'
                )
        found.append([str(token) for token in sentence])
    return found


def _tags(y: Iterable[Sequence[str | None]], gaps: bool) -> list[list[str | None]]:
    required("Tagger", y)
    found: list[list[str | None]] = []
    for number, tags in enumerate(y):
        if isinstance(tags, str):
            raise InputError(f"y: sentence {number + 1} is not a list of tags")
        for tag in tags:
            if not isinstance(tag, str) and not (gaps and tag is None):
                raise InputError(f"y: sentence {number + 1}: expected tags as text, found {tag!r}")
        found.append([None if tag is None else str(tag) for tag in tags])
    return found


def texts(y: Iterable[Sequence[str]]) -> list[list[str]]:
    """The tags of sentences."""
    return cast("list[list[str]]", _tags(y, False))


def texts_with_gaps(y: Iterable[Sequence[str | None]]) -> list[list[str | None]]:
    """The tags of sentences, None where they are not observed."""
    return _tags(y, True)


def known_tags(tags: Iterable[Sequence[str | None]]) -> list[list[str | None]]:
    """The tags of sentences, None where they are not known."""
    return [[None if tag is None else str(tag) for tag in own] for own in tags]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | complex | np.number | np.bool_)


def is_table(X: Any) -> bool:
    """Whether an input is a frame, a sparse matrix, or numbers in an array or in lists."""
    if hasattr(X, "tocsr") or hasattr(X, "columns"):
        return True
    if isinstance(X, np.ndarray):
        if X.dtype != object or X.ndim != 2:
            return X.dtype.kind in "fiubc"
        return any(_is_number(value) for value in X.flat)
    if not isinstance(X, list | tuple):
        return False
    for row in X:
        if _is_number(row):
            return True
        if not isinstance(row, list | tuple | np.ndarray):
            return False
        if len(row) > 0:
            return _is_number(row[0])
    return False


@dataclass(frozen=True)
class Rows:
    """The rows of a table as sentences of one token, whose attributes are the columns and a bias."""

    attributes: list[list[Attributes]]
    width: int
    names: list[str] | None
    """The names of the columns of a frame, if all are texts."""


def rows(X: Any, columns: Sequence[str] | None = None) -> Rows:
    """The rows of a table; `columns` are the names that the columns had in training.

    Entries that are 0 have no attribute, so that sparse and dense matrices are the same to the tagger.
    """
    names = column_names(X)
    if hasattr(X, "tocsr"):
        _check_shape(X)
        if X.dtype.kind == "c":
            raise InputError("X: Complex data not supported; expected real numbers")
        csr = X.tocsr()
        width, starts, places = X.shape[1], csr.indptr, csr.indices
        values = np.asarray(csr.data, dtype=np.float64)
    else:
        cells = _cells(X)
        filled, places = np.nonzero(cells)
        width, values = cells.shape[1], cells[filled, places]
        starts = np.searchsorted(filled, np.arange(len(cells) + 1))
    titles = list(columns) if columns is not None else names or [f"x{i}" for i in range(width)]
    bad = ~np.isfinite(values)
    if bad.any():
        at = int(bad.argmax())
        row = int(np.searchsorted(starts, at, side="right")) - 1
        what = "NaN" if np.isnan(values[at]) else "infinity"
        raise InputError(f"X: row {row}, column {titles[places[at]]} is {what}; expected a finite number")
    pairs = [(titles[place], value) for place, value in zip(places.tolist(), values.tolist(), strict=True)]
    ends = starts.tolist()
    attributes = [[[*pairs[start:end], (BIAS, 1.0)]] for start, end in pairwise(ends)]
    return Rows(attributes, width, names)


def _cells(X: Any) -> NDArray[np.float64]:
    """A dense table as numbers."""
    library = type(X).__module__.partition(".")[0]
    if library not in ("pandas", "polars") or not hasattr(X, "columns"):
        try:
            return _matrix(X if isinstance(X, np.ndarray) else np.asarray(X))
        except ValueError as error:
            raise error if isinstance(error, InputError) else InputError(f"X: {error}") from None
    _check_shape(X)
    found = []
    for place, name in enumerate(X.columns):
        column = _numbers(X.iloc[:, place] if library == "pandas" else X[name], library)
        if column is None:
            raise InputError(
                f"X: column {name} is not numeric; a list of dictionaries per sentence can have texts"
            )
        found.append(column)
    return np.column_stack(found)


def labels(y: Any) -> NDArray[Any]:
    """The labels of the rows of a table."""
    required("Tagger", y)
    array = np.asarray(array_like(y))
    if array.ndim == 2 and array.shape[1] == 1:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected. Please change the shape of y to "
            "(n_samples,), for example using ravel().",
            conversion_warning(),
            stacklevel=4,
        )
        array = array.ravel()
    if array.ndim != 1:
        raise InputError(f"y: expected one label per row, found an array of shape {array.shape}")
    refuse_continuous(array, "classes")
    return array


def classes_of(array: NDArray[Any]) -> tuple[NDArray[Any], dict[str, int]]:
    """The distinct labels in order, and the place of each by its text."""
    found = distinct(array)
    places = {text: place for place, text in enumerate(label_texts(found))}
    if len(places) < len(found):
        raise InputError("y: two classes have the same text")
    return found, places


def label_texts(array: NDArray[Any]) -> list[str]:
    """Labels as tags."""
    return [str(plain(label)) for label in array]
