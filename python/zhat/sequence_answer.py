"""What answers about sequences look like: paths, segmentations, samples, gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _zhat


@dataclass(frozen=True, eq=False)
class Path:
    """The states of a sequence, one a position, and their score, the log weight."""

    states: NDArray[np.int64]
    score: float

    def __str__(self) -> str:
        """In short."""
        states = np.array2string(self.states, threshold=16, max_line_width=200)
        return f"score {_zhat.format_number(self.score)} at {states}"


@dataclass(frozen=True, eq=False)
class Segmentation:
    """The segments of a sequence, a row (state, length) each, and their score, the log weight."""

    segments: NDArray[np.int64]
    score: float

    @property
    def states(self) -> NDArray[np.int64]:
        """The state at each position."""
        return np.repeat(self.segments[:, 0], self.segments[:, 1])

    def __str__(self) -> str:
        """In short."""
        shown = " ".join(f"{state}×{length}" for state, length in self.segments[:16])  # noqa: RUF001
        return f"score {_zhat.format_number(self.score)} at {shown}{' …' if len(self.segments) > 16 else ''}"


@dataclass(frozen=True, eq=False)
class PathSamples:
    """Sequences drawn: what is a list here has an item for each sequence of the batch.

    - `states`, of a chain: an array with a sample a row
    - `segments`, of a semi-Markov chain: for each sample an array with a row (state, length) a segment
    - `log_weights`: `None` for draws from the model itself; else a sample counts with weight exp of its own
    """

    states: Any = None
    segments: Any = None
    log_weights: Any = None

    def __str__(self) -> str:
        """In short."""
        drawn = self.states if self.segments is None else self.segments
        law = "exact" if self.log_weights is None else "weighted"
        return f"{len(drawn)} {'sequences with samples' if isinstance(drawn, list) else 'samples'}, {law}"


@dataclass(frozen=True, eq=False)
class ChainGradient:
    """A gradient with respect to every parameter of a chain, in the shapes of the parameters.

    Of the sum of log Z over the batch these are expected counts: `emissions` are the probabilities of the
    states at each position, `transitions` those of pairs of states, summed over what shares them. A chain
    has either `transitions`, or `left` (and `right`, if it has embeddings of their own there); `segments`
    are for semi-Markov chains. What a model does not have is `None`.
    """

    start: NDArray[Any]
    emissions: NDArray[Any]
    transitions: NDArray[Any] | None = None
    left: NDArray[Any] | None = None
    right: NDArray[Any] | None = None
    segments: NDArray[Any] | None = None

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays that there are, by name."""
        return {name: value for name, value in vars(self).items() if value is not None}

    def __str__(self) -> str:
        """In short."""
        return ", ".join(f"{name} {value.shape}" for name, value in self.arrays().items())
