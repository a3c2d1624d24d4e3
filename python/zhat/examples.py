"""Data sets of structured predictors in files: `read_examples`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _zhat
from ._arguments import FilePath, text, texts
from ._frames import library


@dataclass(frozen=True)
class Examples:
    """A data set: inputs `X` and structures `y`, with the names of their columns.

    `X` is an array, a SciPy sparse array if the file is sparse, or a pandas frame if it has categories. `y`
    is a matrix with one column for each of the `classes`: zeros and ones, ranks (NaN for an item without a
    rank) or numbers of blocks. `hierarchy` maps the nodes of a hierarchy to their parents.
    """

    X: Any
    y: NDArray[Any]
    classes: list[str]
    feature_names: list[str]
    hierarchy: dict[str, str | None] | None

    def __repr__(self) -> str:
        """The sizes."""
        rows, width = self.y.shape
        return f"Examples({rows} rows, {len(self.feature_names)} inputs, {width} classes)"


def read_examples(
    path: FilePath,
    space: str = "labels",
    *,
    labels: Iterable[str] = (),
    xml: FilePath | None = None,
    partial: bool = False,
) -> Examples:
    """Reads a data set: ARFF of Mulan or Clus, multi-label libsvm, or CSV, plain or compressed.

    `space` is "labels", "ranking", "hierarchy" or "partition". `labels` are the names of the target columns;
    by default they are those of the XML file (which by default has the same name as the ARFF file), `L1`,
    `L2`, … for rankings, and for a hierarchy the hierarchical attribute, or the column `class` of a CSV file.
    `partial` accepts rankings with ties and with items that have no rank.

    >>> import os, tempfile, zhat
    >>> path = os.path.join(tempfile.mkdtemp(), "t.csv")
    >>> with open(path, "w") as file:
    ...     _ = file.write("A1,A2,L1,L2,L3\\n0.5,1,2,1,3\\n0.1,0,1,2,3\\n")
    >>> data = zhat.read_examples(path, "ranking")
    >>> data
    Examples(2 rows, 2 inputs, 3 classes)
    >>> data.X.tolist(), data.y.tolist(), data.classes
    ([[0.5, 1.0], [0.1, 0.0]], [[2.0, 1.0, 3.0], [1.0, 2.0, 3.0]], ['L1', 'L2', 'L3'])
    """
    columns, cells, names, parents, targets, rows = _zhat.read_examples(
        path, text("space", space), texts("labels", labels), xml, bool(partial)
    )
    features = [name for name, _ in columns]
    y: NDArray[Any] = np.zeros((rows, len(names)), dtype=np.int8)
    if targets is not None:
        ends, values = targets
        if space in ("labels", "hierarchy"):
            y[np.repeat(np.arange(rows), np.diff(ends, prepend=0)), values] = 1
        else:
            y = values.reshape(rows, len(names)).astype(np.int64)
            if space == "ranking":
                y = np.where(y == 0, np.nan, y.astype(np.float64))
    hierarchy = None
    if space == "hierarchy":
        above = [None if parent is None else names[parent] for parent in parents]
        hierarchy = dict(zip(names, above, strict=True))
    return Examples(_inputs(columns, cells, rows), y, names, features, hierarchy)


def _inputs(
    columns: list[tuple[str, list[str] | None]],
    cells: tuple[list[int], list[int], NDArray[np.float64]],
    rows: int,
) -> Any:
    ends, indices, values = cells
    categories = any(levels is not None for _, levels in columns)
    if ends:
        parts = (values, np.array(indices), np.array([0, *ends]))
        sparse = library("scipy.sparse", "sklearn").csr_array(parts, shape=(rows, len(columns)))
        if not categories:
            return sparse
        values = sparse.toarray().ravel()
    dense = values.reshape(rows, len(columns))
    if not categories:
        return dense

    def column(levels: list[str] | None, numbers: NDArray[np.float64]) -> Any:
        if levels is None:
            return numbers
        return [None if np.isnan(number) else levels[int(number)] for number in numbers]

    made = {name: column(levels, dense[:, i]) for i, (name, levels) in enumerate(columns)}
    return library("pandas", "frames").DataFrame(made)
