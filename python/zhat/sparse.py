"""Sparse tables of transitions: compressed sparse rows of log scores."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._arguments import in_place
from .errors import InputError


class Sparse:
    """A sparse table of log scores: row i has the entries `indptr[i]` to `indptr[i + 1] − 1`.

    Entry e has the score `data[e]` and leads to state `indices[e]`. Transitions that are not listed have
    weight zero. `data` is (E,), or (T − 1, E) for scores that differ by step. The attributes are those of
    SciPy's `csr_array` and `csr_matrix`, which can be used instead.

    >>> import numpy as np, zhat
    >>> table = zhat.Sparse([0.5, -0.5, 0.0], indices=[0, 1, 1], indptr=[0, 2, 3])
    >>> chain = zhat.Chain(np.zeros((3, 2)), table)
    >>> chain
    Chain(3 positions, 2 states, sparse transitions with 3 entries, float64)
    >>> chain.score([0, 1, 0])
    -inf
    """

    def __init__(self, data: ArrayLike, indices: ArrayLike, indptr: ArrayLike) -> None:
        """Keeps the arrays; the model checks them."""
        self.data = np.asarray(data)
        self.indices = np.asarray(indices)
        self.indptr = np.asarray(indptr)

    @classmethod
    def banded(cls, band: ArrayLike, lower: int, upper: int) -> Sparse:
        """A banded table: `band[i, k]` is the score from state i to state i − lower + k.

        `band` is (N, lower + upper + 1); entries for states that do not exist are not used.

        >>> import zhat
        >>> table = zhat.Sparse.banded([[0.5, -0.5], [0.0, 9.0]], lower=0, upper=1)
        >>> table.data.tolist(), table.indices.tolist(), table.indptr.tolist()
        ([0.5, -0.5, 0.0], [0, 1, 1], [0, 2, 3])
        """
        values = np.asarray(band)
        width = lower + upper + 1
        if lower < 0 or upper < 0:
            raise InputError("lower and upper: expected numbers of at least 0")
        if values.ndim != 2 or values.shape[1] != width:
            raise InputError(
                f"band: found shape {values.shape}, expected (N, lower + upper + 1) = (N, {width})"
            )
        states = len(values)
        columns = np.arange(states)[:, np.newaxis] - lower + np.arange(width)
        exists = (columns >= 0) & (columns < states)
        indptr = np.concatenate([[0], np.cumsum(exists.sum(axis=1))])
        return cls(values[exists], columns[exists], indptr)


def unpacked(table: Any) -> tuple[Any, Any, Any] | None:
    """The values, indices and indptr of an object with these attributes; `None` for an array."""
    listed = all(hasattr(table, name) for name in ("indptr", "indices", "data"))
    if listed or hasattr(table, "tocsr"):
        kind = getattr(table, "format", "csr" if listed else type(table).__name__)
        if kind != "csr":
            raise InputError(f"transitions: found the sparse format {kind}, expected csr; use .tocsr()")
        shape = getattr(table, "shape", None)
        if shape is not None and (len(shape) != 2 or shape[0] != shape[1]):
            raise InputError(f"transitions: found a sparse table of shape {tuple(shape)}, expected (N, N)")
        return table.data, table.indices, table.indptr
    return None


def pattern(
    indices: Any, indptr: Any
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64] | None]:
    """Indptr and indices with ascending rows, and the order of the entries if they had to be sorted."""
    starts, targets = _integers("indptr", indptr), _integers("indices", indices)
    lengths = np.diff(starts)
    if len(starts) == 0 or (lengths < 0).any() or starts[0] != 0 or starts[-1] != len(targets):
        return starts, targets, None
    rows = np.repeat(np.arange(len(lengths)), lengths)
    if not ((np.diff(targets) < 0) & (np.diff(rows) == 0)).any():
        return starts, targets, None
    order = np.lexsort((targets, rows))
    return starts, np.ascontiguousarray(targets[order]), order


def _integers(name: str, values: Any) -> NDArray[np.int64]:
    array = np.asarray(values)
    if array.ndim != 1 or (array.size > 0 and not np.issubdtype(array.dtype, np.integer)):
        raise InputError(f"{name}: expected a list of integers, found shape {array.shape} of {array.dtype}")
    return in_place(name, array, np.dtype(np.int64))
