"""Value types of answers for sequences: paths, segmentations, samples, gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _zhat


@dataclass(frozen=True, eq=False)
class Path:
    """The states of a sequence, one per position, and their score, the log weight."""

    states: NDArray[np.int64]
    score: float

    def __str__(self) -> str:
        """A short summary."""
        states = np.array2string(self.states, threshold=16, max_line_width=200)
        return f"score {_zhat.format_number(self.score)} at {states}"


@dataclass(frozen=True, eq=False)
class Segmentation:
    """The segments of a sequence, one row (state, length) each, and their score, the log weight."""

    segments: NDArray[np.int64]
    score: float

    @property
    def states(self) -> NDArray[np.int64]:
        """The state at each position."""
        return np.repeat(self.segments[:, 0], self.segments[:, 1])

    def __str__(self) -> str:
        """A short summary."""
        shown = " ".join(f"{state}×{length}" for state, length in self.segments[:16])  # noqa: RUF001
        return f"score {_zhat.format_number(self.score)} at {shown}{' …' if len(self.segments) > 16 else ''}"


@dataclass(frozen=True, eq=False)
class PathSamples:
    """Samples of sequences. For a batch, each field is a list with one item per sequence.

    - `states`, for a chain: an array with one sample per row
    - `segments`, for a semi-Markov chain: for each sample an array with one row (state, length) per segment
    - `log_weights`: `None` for exact draws from the model; otherwise each sample has weight exp(log weight)
    """

    states: Any = None
    segments: Any = None
    log_weights: Any = None

    def __str__(self) -> str:
        """A short summary."""
        drawn = self.states if self.segments is None else self.segments
        law = "exact" if self.log_weights is None else "weighted"
        return f"{len(drawn)} {'sequences with samples' if isinstance(drawn, list) else 'samples'}, {law}"


@dataclass(frozen=True, eq=False)
class ChainGradient:
    """A gradient with respect to every parameter of a chain, in the shapes of the parameters.

    For the sum of log Z over the batch these are expected counts: `emissions` are the probabilities of the
    states at each position, `transitions` those of pairs of states, summed over the steps and sequences that
    share them. A chain has either `transitions` or `left` (and `right`, if given separately); `segments` is
    for semi-Markov chains. Parameters that a model does not have are `None`.
    """

    start: NDArray[Any]
    emissions: NDArray[Any]
    transitions: NDArray[Any] | None = None
    left: NDArray[Any] | None = None
    right: NDArray[Any] | None = None
    segments: NDArray[Any] | None = None

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays that are not `None`, by name."""
        return {name: value for name, value in vars(self).items() if value is not None}

    def __str__(self) -> str:
        """A short summary."""
        return ", ".join(f"{name} {value.shape}" for name, value in self.arrays().items())
