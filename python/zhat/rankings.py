"""`LabelRanker`: orders of items with calibrated probabilities."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _zhat
from ._arguments import FilePath
from ._predictor import StructuredPredictor, row_weights
from ._targets import Observed, plain, rankings
from .errors import InputError

_MODELS = ("plackett-luce", "precedence", "positions", "mallows")


class LabelRanker(StructuredPredictor):
    """Label ranking: a distribution over the orders of items, given inputs.

    `y` is a matrix of ranks with one column per item, 1 for the first; a frame names the items. With
    `partial=True`, items with equal ranks are tied (their order is not observed) and NaN is an item without
    a rank (its place is not observed). `y` can also have one list of items per row, best first, with the
    items that are not in the list behind all others. A vector `y` has only the first item of every row, which
    needs no `partial=True`. `predict` returns ranks, `predict_proba` the probability that item i comes before
    item j, an array of rows × items × items, `score` the mean of Kendall's τ. `log_prob` accepts partial
    rankings: it is the log-probability of all orders that agree with them.

    - `model`: "plackett-luce" (one score per item; any number of items), "precedence" (one score per pair
      of items), "positions" (one score per item and position), or "mallows" (Kendall distance from the
      order of a Plackett–Luce predictor). "precedence" and "positions" are exact up to 16 items; more need
      `method="sampled"`. "mallows" is fitted in two stages: `centres_` has the objective, certified gap and
      confidence of the Plackett–Luce fit. The spread is then the best for these orders, and `objective_` is
      that of both together. It is not convex, so that `gap_` is `objective_` itself. Partial rankings are not
      used for the spread; a warning and `left_out_` give their number.
    - `decision`: "most-probable", or "kendall" for the order of largest expected τ.

    The other parameters and the attributes are those of `LabelSetClassifier`; `classes_` are the items.

    >>> import zhat
    >>> X = [[-2.0], [-1.0], [-0.5], [0.5], [1.0], [2.0]]
    >>> y = [["tea", "milk", "juice"]] * 3 + [["juice", "milk", "tea"]] * 3
    >>> ranker = zhat.LabelRanker(alpha=0.01).fit(X, y)
    >>> ranker.classes_.tolist(), ranker.predict([[3.0]]).tolist()
    (['juice', 'milk', 'tea'], [[1, 2, 3]])
    >>> [(one.structure, round(one.probability, 2)) for one in ranker.predict_top_k([[-1.0]], k=2)[0]]
    [(('tea', 'milk', 'juice'), 0.83), (('milk', 'tea', 'juice'), 0.08)]
    >>> bool(ranker.predict_proba([[3.0]])[0, 0, 2] > 0.9)  # juice before tea
    True
    """

    _space = "ranking"
    _decisions = ("most-probable", "kendall")

    def __init__(
        self,
        *,
        model: str = "plackett-luce",
        partial: bool = False,
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
        self.model = model
        self.partial = partial
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

    def _read(self, y: Any, training: bool) -> Observed:
        return rankings(y, None if training else self.classes_, bool(self.partial) or not training)

    def _features(self, classes: NDArray[Any]) -> dict[str, Any]:
        if self.model not in _MODELS:
            raise InputError(f"model: expected one of {', '.join(_MODELS)}, found {self.model!r}")
        return {"pairs": "none", "pairs_by_input": False, "ranking": self.model}

    def _shown(self, structure: NDArray[np.uint32]) -> tuple[Any, ...]:
        return tuple(plain(self.classes_[item]) for item in structure)

    def _as_target(self, structures: NDArray[np.uint32]) -> NDArray[np.int64]:
        return np.asarray(np.argsort(structures, axis=1).astype(np.int64) + 1)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The mean of Kendall's τ over rows, for the pairs of items that a row orders.

        With `sample_weight`, the mean is weighted.
        """
        _, observed = self._against(X, y)
        ranks, found = self._as_matrix(observed), self.predict(X)
        first, second = np.triu_indices(ranks.shape[1], 1)
        known = (ranks[:, first] > 0) & (ranks[:, second] > 0)
        ordered = np.sign(ranks[:, second] - ranks[:, first]) * known
        agreed = (ordered * np.sign(found[:, second] - found[:, first])).sum(axis=1)
        counts = np.abs(ordered).sum(axis=1)
        weights = row_weights(sample_weight, observed.rows)
        weight = np.ones(observed.rows) if weights is None else np.array(weights)
        used = (counts > 0) & (weight > 0)
        return float(np.average(agreed[used] / counts[used], weights=weight[used])) if used.any() else 0.0

    @classmethod
    def _restored(cls, native: _zhat.Predictor) -> dict[str, Any]:
        return {**super()._restored(native), "model": next(iter(json.loads(native.form)))}
