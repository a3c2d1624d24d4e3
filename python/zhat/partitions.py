"""`PartitionPredictor`: partitions of elements with calibrated probabilities."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._arguments import FilePath
from ._predictor import StructuredPredictor
from ._targets import Observed, partitions, plain


class PartitionPredictor(StructuredPredictor):
    """Correlation clustering: a distribution over the partitions of some elements, given inputs.

    p(y | x) ∝ exp(Σ ⟨wᵢⱼ, x⟩), a sum over the pairs of elements that are in one block of y. Every row has the
    same elements and its own partition. Sums are exact up to 13 elements; more need `method="sampled"`.

    `y` is a matrix with the name or number of the block of every element; a frame names the elements. Names
    of blocks have no meaning beyond a row. `predict` returns numbers of blocks, counted in the order of their
    first elements, `predict_proba` the probability that elements i and j are in one block, an array of rows ×
    elements × elements, `score` the share of rows whose whole partition is right.

    The parameters and the attributes are those of `LabelSetClassifier`; `classes_` are the elements.

    >>> import zhat
    >>> X = [[-2.0], [-1.0], [-0.5], [0.5], [1.0], [2.0]]
    >>> y = [[0, 0, 1]] * 3 + [[0, 1, 1]] * 3
    >>> model = zhat.PartitionPredictor(alpha=0.01).fit(X, y)
    >>> model.predict([[-2.0], [2.0]]).tolist()
    [[0, 0, 1], [0, 1, 1]]
    >>> model.predict_structures([[2.0]])[0].structure
    ((0,), (1, 2))
    """

    _space = "partition"

    def __init__(
        self,
        *,
        scaling: str = "auto",
        fourier: int | None = None,
        gamma: float | None = None,
        alpha: float | str | Iterable[float] = 1e-3,
        folds: int = 5,
        method: str = "batch",
        samples: int = 1,
        batch: int = 1,
        step_share: float = 1.0,
        gap: float = 1e-6,
        failure: float = 0.05,
        max_iter: int = 1000,
        decision: str = "most-probable",
        checkpoint: FilePath | None = None,
        keep_every: float = 30.0,
        seed: int = 0,
        threads: int | None = None,
        memory: int | str | None = None,
        time: float | str | None = None,
        progress: Callable[[str, int, int], object] | bool | None = None,
    ) -> None:
        """Stores the parameters."""
        self.scaling = scaling
        self.fourier = fourier
        self.gamma = gamma
        self.alpha = alpha
        self.folds = folds
        self.method = method
        self.samples = samples
        self.batch = batch
        self.step_share = step_share
        self.gap = gap
        self.failure = failure
        self.max_iter = max_iter
        self.decision = decision
        self.checkpoint = checkpoint
        self.keep_every = keep_every
        self.seed = seed
        self.threads = threads
        self.memory = memory
        self.time = time
        self.progress = progress

    def __sklearn_tags__(self) -> Any:
        """The properties of the estimator; called by scikit-learn only."""
        tags = super().__sklearn_tags__()
        # One column per element, also of a single element.
        tags.target_tags.single_output = False
        tags.target_tags.one_d_labels = False
        return tags

    def _read(self, y: Any, training: bool) -> Observed:
        return partitions(y, None if training else self.classes_)

    def _shown(self, structure: NDArray[np.uint32]) -> tuple[Any, ...]:
        blocks = range(int(structure.max()) + 1)
        return tuple(
            tuple(plain(self.classes_[i]) for i in np.flatnonzero(structure == block)) for block in blocks
        )
