"""`LabelSetClassifier`: sets of labels with calibrated probabilities."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _zhat
from ._arguments import FilePath
from ._predictor import StructuredPredictor, pairs_of
from ._targets import Observed, label_sets, plain


class LabelSetClassifier(StructuredPredictor):
    """Multi-label classification by a distribution over all sets of labels.

    p(y | x) ∝ exp(Σᵢ yᵢ·⟨wᵢ, x⟩ + Σᵢⱼ yᵢyⱼ·wᵢⱼ), trained by minimising the mean of −ln p plus α‖θ‖².
    Without pairs this is one logistic regression per label; with pairs, labels that occur together are
    predicted together, also in combinations that the training data do not have.

    `y` is a matrix of zeros and ones with one column per label (NumPy, SciPy sparse, or a frame, whose
    columns name the labels), or one collection of label names per row. `predict` returns a matrix,
    `predict_proba` the probability of every label, `score` the share of rows whose whole set is right
    (subset accuracy). A vector `y` of two classes is binary classification: one label, whose predictions
    and probabilities are those of scikit-learn's classifiers.

    - `pairs`: the pairs of labels with a score: "none", "chow-liu" (the tree of largest mutual
      information), "chow-liu+M" (and M more pairs), "all", or a list of pairs of labels. Exact sums take
      time exponential in the treewidth of the graph of pairs.
    - `pairs_by_input`: the scores of pairs depend on the inputs; otherwise they are constants.
    - `scaling`: of numeric inputs: "auto", "standard", "max", "unit" (every row is divided by its Euclidean
      norm) or "none". "auto" is "standard" for dense inputs and "max" for sparse ones.
    - `fourier`: replaces the inputs by this many random Fourier features of the kernel exp(−γ‖x − x'‖²),
      with γ = `gamma`, by default 1 over the number of inputs, or 1 for unit rows.
    - `alpha`: the factor of the penalty α‖θ‖². Several values, or "auto" for 1, 0.1, …, 1e-6, are compared
      by cross-validation of the log-loss with `folds` folds; `alpha_` is the chosen one.
    - `method`: "batch" (L-BFGS with exact gradients), "sampled" (gradients from exact samples, at first
      `samples` per row, with a certified radius at confidence 1 − `failure`; also for graphs of pairs that
      are too dense for exact sums) or "online" (`batch` rows per step of 1/(2aλt), with a = `step_share`;
      with `samples=0` exact gradients).
    - `gap`, `max_iter`: training stops once the objective is certified to be this close to its minimum, or
      after this many steps (passes over the rows for "online").
    - `decision`: the loss for which `predict` chooses: "most-probable" (subset accuracy), "hamming" (labels
      of probability above ½) or "f1" (the set of largest expected F1).
    - `checkpoint`, `keep_every`: a file to which the state of training is written every so many seconds. If
      it exists, training resumes from it and gives exactly the same result.
    - `seed`, `threads`, `memory`, `time`, `progress`: as in every query of zhat; results do not depend on
      the number of threads.

    After `fit`: `classes_`, `n_features_in_`, `feature_names_in_` (for frames), `alpha_`, `candidates_`
    (pairs of α and log-loss), `objective_`, `gap_` (certified), `confidence_` (1 for exact gradients),
    `converged_`, `n_iter_`, `history_` (every step with objective and certified gap), `regret_` (of
    online training, with its bounds), `pairs_`, `parameters_`, `exact_`.

    >>> import zhat
    >>> X = [[-2.0], [-1.0], [-0.5], [0.5], [1.0], [2.0]]
    >>> y = [[], [], ["rain"], ["rain", "wet"], ["rain", "wet"], ["rain", "wet"]]
    >>> model = zhat.LabelSetClassifier(pairs="all", alpha=0.01).fit(X, y)
    >>> model.classes_.tolist(), model.predict([[1.5]]).tolist()
    (['rain', 'wet'], [[1, 1]])
    >>> [(one.structure, round(one.probability, 2)) for one in model.predict_structures([[1.5], [-1.5]])]
    [(('rain', 'wet'), 0.96), ((), 0.81)]
    >>> model.log_prob([[1.5]], [["wet"]]).shape  # of a set that never occurred
    (1,)
    >>> model.converged_, model.gap_ <= 1e-6
    (True, True)
    """

    _space = "labels"
    _kind = "classifier"
    _decisions = ("most-probable", "hamming", "f1")

    def __init__(
        self,
        *,
        pairs: str | Iterable[tuple[Any, Any]] = "none",
        pairs_by_input: bool = False,
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
        self.pairs = pairs
        self.pairs_by_input = pairs_by_input
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
        return label_sets(y, None if training else self.classes_, not training and self._binary)

    def _features(self, classes: NDArray[Any]) -> dict[str, Any]:
        return {
            "pairs": pairs_of(self.pairs, classes),
            "pairs_by_input": bool(self.pairs_by_input),
            "ranking": "plackett-luce",
        }

    def _shown(self, structure: NDArray[np.uint32]) -> tuple[Any, ...]:
        if self._binary:
            return (plain(self._as_target(structure[np.newaxis])[0]),)
        return tuple(plain(self.classes_[i]) for i in np.flatnonzero(structure))

    @property
    def pairs_(self) -> list[tuple[Any, Any]]:
        """The pairs of labels that have a score."""
        names = [plain(name) for name in self.classes_] if self.__sklearn_is_fitted__() else []
        return [(names[i], names[j]) for i, j in self._fitted().pairs]

    @classmethod
    def _restored(cls, native: _zhat.Predictor) -> dict[str, Any]:
        names = native.names
        numbered = names == [str(i) for i in range(len(names))]
        pairs = [(i, j) if numbered else (names[i], names[j]) for i, j in native.pairs]
        return {**super()._restored(native), "pairs": pairs or "none"}
