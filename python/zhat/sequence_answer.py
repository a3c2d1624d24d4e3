"""Value types of answers for sequences: paths, segmentations, samples, gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _html, _zhat
from ._frames import Columns, Tabular, stacked

# The positions or segments, and the samples or paths, that are shown.
_MOST_SHOWN = 20
_FIRST = 10


@dataclass(frozen=True, eq=False)
class Path(Tabular):
    """The states of a sequence, one per position, and their score, the log weight."""

    states: NDArray[np.int64]
    score: float

    def _columns(self) -> Columns:
        return {"score": np.full(len(self.states), self.score)} | _state_columns(self.states)

    def _repr_html_(self) -> str:
        """A table of the first states, for notebooks."""
        return _one_html(self, "states", self.states)

    def __str__(self) -> str:
        """A short summary."""
        states = np.array2string(self.states, threshold=16, max_line_width=200)
        return f"score {_zhat.format_number(self.score)} at {states}"


@dataclass(frozen=True, eq=False)
class Segmentation(Tabular):
    """The segments of a sequence, one row (state, length) each, and their score, the log weight."""

    segments: NDArray[np.int64]
    score: float

    @property
    def states(self) -> NDArray[np.int64]:
        """The state at each position."""
        return np.repeat(self.segments[:, 0], self.segments[:, 1])

    def _columns(self) -> Columns:
        return {"score": np.full(len(self.segments), self.score)} | _segment_columns(self.segments)

    def _repr_html_(self) -> str:
        """A table of the first segments, for notebooks."""
        return _one_html(self, "segments", self.segments)

    def __str__(self) -> str:
        """A short summary."""
        shown = " ".join(f"{state}×{length}" for state, length in self.segments[:16])  # noqa: RUF001
        return f"score {_zhat.format_number(self.score)} at {shown}{' …' if len(self.segments) > 16 else ''}"


@dataclass(frozen=True, eq=False)
class PathSamples(Tabular):
    """Samples of sequences. For a batch, each field is a list with one item per sequence.

    - `states`, for a chain: an array with one sample per row
    - `segments`, for a semi-Markov chain: for each sample an array with one row (state, length) per segment
    - `log_weights`: `None` for exact draws from the model; otherwise each sample has weight exp(log weight)
    """

    states: Any = None
    segments: Any = None
    log_weights: Any = None

    def _columns(self) -> Columns:
        drawn, single = self._sequences()
        weights = [None] * len(drawn) if self.log_weights is None else self.log_weights
        if single and self.log_weights is not None:
            weights = [self.log_weights]
        tables = [self._table(own, log) for own, log in zip(drawn, weights, strict=True)]
        return tables[0] if single else stacked(tables, "sequence")

    def _sequences(self) -> tuple[list[Any], bool]:
        """The samples of each sequence, and whether there is only one, which is not a batch."""
        if self.segments is None:
            single = not isinstance(self.states, list)
            return [self.states] if single else self.states, single
        # The samples of one sequence are a list of arrays, those of a batch a list of such lists.
        single = not self.segments or not isinstance(self.segments[0], list)
        return [self.segments] if single else self.segments, single

    def _table(self, drawn: Any, log_weights: Any) -> Columns:
        """The samples of one sequence."""
        each = _state_columns if self.segments is None else _segment_columns
        empty = np.empty((0,) if self.segments is None else (0, 2), dtype=np.int64)
        parts = [each(one) for one in drawn]
        columns = stacked(parts, "sample") if parts else {"sample": empty.ravel(), **each(empty)}
        if log_weights is not None:
            columns["log_weight"] = np.asarray(log_weights)[columns["sample"]]
        return columns

    def _repr_html_(self) -> str:
        """A table of the first samples, for notebooks."""
        drawn, single = self._sequences()
        weights = None if self.log_weights is None else [self.log_weights] if single else self.log_weights
        rows: list[list[str]] = []
        for b, own in enumerate(drawn):
            for i, one in enumerate(own[:_FIRST]):
                weight = [] if weights is None else [_html.number(weights[b][i])]
                rows.append([*([] if single else [str(b)]), str(i), *weight, _first(one)])
        what = "states" if self.segments is None else "segments"
        weighted = [] if weights is None else ["log weight"]
        header = [*([] if single else ["sequence"]), "sample", *weighted, what]
        total = sum(len(own) for own in drawn)
        more = _html.and_more(total, min(len(rows), _MOST_SHOWN), "samples")
        law = _html.line(f"law {'exact' if weights is None else 'weighted'}")
        return _html.block(_html.columns(header, rows[:_MOST_SHOWN], more), law)

    def __str__(self) -> str:
        """A short summary."""
        drawn, single = self._sequences()
        law = "exact" if self.log_weights is None else "weighted"
        return f"{len(drawn[0])} samples, {law}" if single else f"{len(drawn)} sequences with samples, {law}"


@dataclass(frozen=True, eq=False)
class ChainGradient:
    """A gradient with respect to every parameter of a chain, in the shapes of the parameters.

    For the sum of log Z over the batch these are expected counts: `emissions` are the probabilities of the
    states at each position, `transitions` those of pairs of states, summed over the steps and sequences that
    share them, with one number per entry of sparse transitions. A chain has either `transitions`, or `left`
    (and `right`, if given separately), or `log_left` and `log_right`; `segments` is for semi-Markov chains.
    Parameters that a model does not have are `None`.
    """

    start: NDArray[Any]
    emissions: NDArray[Any]
    transitions: NDArray[Any] | None = None
    left: NDArray[Any] | None = None
    right: NDArray[Any] | None = None
    log_left: NDArray[Any] | None = None
    log_right: NDArray[Any] | None = None
    segments: NDArray[Any] | None = None
    end: NDArray[Any] | None = None

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays that are not `None`, by name."""
        return {name: value for name, value in vars(self).items() if value is not None}

    def _repr_html_(self) -> str:
        """A table of the shapes, for notebooks."""
        rows = [[name, str(value.shape)] for name, value in self.arrays().items()]
        return _html.columns(["parameter", "shape"], rows)

    def __str__(self) -> str:
        """A short summary."""
        return ", ".join(f"{name} {value.shape}" for name, value in self.arrays().items())


def _state_columns(states: NDArray[np.int64]) -> Columns:
    return {"position": np.arange(len(states)), "state": states}


def _segment_columns(segments: NDArray[np.int64]) -> Columns:
    lengths = segments[:, 1]
    return {
        "segment": np.arange(len(segments)),
        "state": segments[:, 0],
        "start": np.cumsum(lengths) - lengths,
        "length": lengths,
    }


def paths_columns(paths: Sequence[Any], ranked: bool) -> Columns:
    """The best path of each sequence of a batch, or if `ranked` the k best paths of one or of each."""
    if not ranked:
        return stacked([path._columns() for path in paths], "sequence")
    if isinstance(paths[0], list):
        return stacked([_ranked(own) for own in paths], "sequence")
    return _ranked(paths)


def _ranked(paths: Sequence[Any]) -> Columns:
    return stacked([path._columns() for path in paths], "rank", range(1, len(paths) + 1))


def paths_html(paths: Sequence[Any], ranked: bool = False) -> _html.Markup:
    """A table with one row per path or segmentation, with the meaning of `paths_columns`."""
    nested = ranked and isinstance(paths[0], list)
    keys: list[list[str]]
    if nested:
        keys = [[str(b), str(rank)] for b, own in enumerate(paths) for rank in range(1, len(own) + 1)]
        flat = [path for own in paths for path in own]
    else:
        keys = [[str(i + ranked)] for i in range(len(paths))]
        flat = list(paths)
    header = ["sequence", "rank"] if nested else ["rank"] if ranked else ["sequence"]
    rows = [
        [*key, _html.number(path.score), _shown(path)]
        for key, path in zip(keys[:_MOST_SHOWN], flat, strict=False)
    ]
    what = {"Segmentation": "segments", "Tree": "heads", "ParseTree": "tree"}
    header += ["score", what.get(type(flat[0]).__name__, "states") if flat else "states"]
    return _html.columns(header, rows, _html.and_more(len(flat), _MOST_SHOWN, "paths"))


def _shown(path: Any) -> str:
    """A path, segmentation or tree in one line."""
    if hasattr(path, "bracketed"):
        return str(path.bracketed())
    return _first(
        next(getattr(path, name) for name in ("segments", "heads", "states") if hasattr(path, name))
    )


def _one_html(path: Path | Segmentation, what: str, states: NDArray[np.int64]) -> _html.Markup:
    return _html.table({"score": _zhat.format_number(path.score), what: _first(states)})


def _first(states: NDArray[np.int64]) -> str:
    """The first states of a path, or segments of a segmentation."""
    shown = states[:_MOST_SHOWN]
    words = [f"{row[0]}×{row[1]}" if np.ndim(row) else str(row) for row in shown]  # noqa: RUF001
    return " ".join(words) + (" …" if len(states) > _MOST_SHOWN else "")
