"""What the structured predictors have in common: training, prediction, probabilities and files."""

from __future__ import annotations

import json
import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from . import _zhat
from ._arguments import FilePath, integer, real, text
from ._estimator import Estimator, convergence_warning, not_fitted
from ._frames import Columns, Tabular
from ._inputs import Table, check_features, table
from ._targets import Observed, as_classes, plain, required
from .answer import Guarantee
from .errors import InputError
from .runtime import run

if TYPE_CHECKING:
    from matplotlib.axes import Axes

P = TypeVar("P", bound="StructuredPredictor")

EXACT = Guarantee(kind="exact", words="exact")


class Step(NamedTuple):
    """A step of training: its number, the objective, and an upper bound on its distance from the minimum.

    If `certified` is false, some samples are approximate, and the gap is an estimate.
    """

    step: int
    objective: float
    gap: float
    certified: bool


class Regret(NamedTuple):
    """The regret of online training after its `steps`, at most `measured`, and bounds on it.

    `sample_bound` holds with this `confidence` for gradients from samples, `radius_bound` for any gradients
    with the certified radii. Both are infinite if the losses are not convex, as those of partial rankings,
    and not certified if `confidence` is 0. `measured` is NaN where log Z is out of reach.
    """

    steps: int
    measured: float
    sample_bound: float
    radius_bound: float
    confidence: float


class Centres(NamedTuple):
    """The first stage of a fit of Mallows: the objective of the Plackett–Luce fit of its centres.

    The objective is at most `gap` above its minimum, with this `confidence`.
    """

    objective: float
    gap: float
    confidence: float


@dataclass(frozen=True)
class Prediction:
    """A predicted structure, by the names of its parts, with its log-probability and guarantees.

    `guarantee` is that of the log-probability. `choice` is that of the structure: exact, or bounds on the
    distance from the best one, in ln p for the most probable structures and otherwise in the expected loss.
    """

    structure: tuple[Any, ...]
    log_probability: float
    guarantee: Guarantee
    choice: Guarantee

    @property
    def probability(self) -> float:
        """The probability of the whole structure."""
        return math.exp(self.log_probability)

    def __repr__(self) -> str:
        """The structure and its probability."""
        exact = "" if self.guarantee.kind == "exact" else f", {self.guarantee}"
        return f"Prediction({self.structure!r}, probability {self.probability:.4g}{exact})"


class Bin(NamedTuple):
    """Events whose predicted probability is in an interval, and the share of them that happened."""

    low: float
    high: float
    events: int
    predicted: float
    observed: float
    observed_low: float
    observed_high: float


@dataclass(frozen=True)
class Evaluation(Tabular):
    """Measures of predictions by name, and the reliability of the probabilities, a table of `Bin`s.

    `to_pandas` and `to_polars` return the reliability table. Its limits of the observed shares are Wilson's
    95% intervals. `log_loss` is the guarantee of the log-loss, and `marginals_error` that of the largest
    error of the probabilities in the reliability table: exact, or bounds where exact sums are out of reach.
    """

    rows: int
    measures: dict[str, float]
    reliability: tuple[Bin, ...]
    log_loss: Guarantee = EXACT
    marginals_error: Guarantee = EXACT

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draws the reliability with matplotlib and returns the axes; a new figure is created without `ax`.

        One point per bin: the share of its events that happened, with its limits, over the mean of their
        predicted probabilities. The points of calibrated probabilities are near the diagonal.
        """
        from ._plot import reliability

        return reliability(self.reliability, ax)

    def _columns(self) -> Columns:
        return {name: [getattr(one, name) for one in self.reliability] for name in Bin._fields}

    def __repr__(self) -> str:
        """The measures."""
        figures = ", ".join(f"{name} {value:.4g}" for name, value in self.measures.items())
        return f"Evaluation({self.rows} rows: {figures})"


class StructuredPredictor(Estimator):
    """p(y | x) ∝ exp⟨θ, φ(x, y)⟩ over the structures of a space."""

    _space: str
    _decisions: tuple[str, ...] = ("most-probable",)
    # The parameters that all predictors have.
    scaling: str
    fourier: int | None
    gamma: float | None
    alpha: Any
    folds: int
    method: str
    samples: int
    batch: int
    step_share: float
    gap: float
    failure: float
    max_iter: int
    decision: str
    checkpoint: FilePath | None
    keep_every: float
    seed: int
    threads: int | None
    memory: int | str | None
    time: float | str | None
    progress: Any

    # Set by `fit`.
    classes_: NDArray[Any]
    n_features_in_: int
    feature_names_in_: NDArray[np.object_]
    alpha_: float
    candidates_: list[tuple[float, float]]
    objective_: float
    gap_: float
    confidence_: float
    converged_: bool
    n_iter_: int
    history_: list[Step]
    regret_: Regret | None
    centres_: Centres | None
    left_out_: int
    exact_: bool
    _binary: bool
    _predictor: _zhat.Predictor

    def _read(self, y: Any, training: bool) -> Observed:
        """The observed structures; in training they define the classes."""
        raise NotImplementedError

    def _parents(self) -> list[int | None]:
        return []

    def _shown(self, structure: NDArray[np.uint32]) -> tuple[Any, ...]:
        """A structure by the names of its parts."""
        raise NotImplementedError

    def _as_target(self, structures: NDArray[np.uint32]) -> NDArray[Any]:
        """Structures as rows of `y`."""
        if self._binary:
            return np.asarray(
                self.classes_[structures[:, 0] if len(self.classes_) == 2 else 0 * structures[:, 0]]
            )
        return structures.astype(np.int64)

    def _features(self, classes: NDArray[Any]) -> dict[str, Any]:
        """The features of the space."""
        return {"pairs": "none", "pairs_by_input": False, "ranking": "plackett-luce"}

    def _run(self) -> _zhat.Run:
        return run(self.seed, self.threads, self.memory, self.time, self.progress)

    def _check_decision(self, decision: str | None) -> str:
        chosen = self.decision if decision is None else decision
        if chosen not in self._decisions:
            known = " or ".join(", ".join(f'"{name}"' for name in self._decisions).rsplit(", ", 1))
            raise InputError(f"decision: expected {known}, found {chosen!r}")
        return chosen

    def _recipe(self, classes: NDArray[Any]) -> str:
        lambdas = _lambdas(self.alpha)
        fourier = None
        if self.fourier is not None:
            gamma = None if self.gamma is None else _finite("gamma", self.gamma)
            features = integer("fourier", self.fourier, 1)
            fourier = {"features": features, "gamma": gamma, "seed": integer("seed", self.seed)}
        elif self.gamma is not None:
            raise InputError("gamma: is the parameter of Fourier features; expected fourier=COUNT as well")
        choices = {
            "scaling": (self.scaling, ("auto", "standard", "max", "unit", "none")),
            "method": (self.method, ("batch", "sampled", "online")),
        }
        for name, (value, known) in choices.items():
            if value not in known:
                raise InputError(f"{name}: expected one of {', '.join(known)}, found {value!r}")
        recipe = {
            "space": self._space,
            **self._features(classes),
            "encoding": {"scaling": self.scaling, "fourier": fourier},
            "learning": {
                "lambda": lambdas[0],
                "method": self.method,
                "gap": _finite("gap", self.gap),
                "iterations": integer("max_iter", self.max_iter, 1),
                "samples": integer("samples", self.samples),
                "batch": integer("batch", self.batch, 1),
                "share": _finite("step_share", self.step_share),
                "failure": _finite("failure", self.failure),
            },
            "lambdas": lambdas,
            "folds": integer("folds", self.folds, 2),
        }
        return json.dumps(recipe)

    def fit(self: P, X: Any, y: Any, sample_weight: Any = None) -> P:
        """Trains the predictor.

        `X` is a matrix of numbers (NumPy, SciPy sparse, lists) or a pandas or polars frame, whose columns of
        texts are categories; NaN and null are missing values. The forms of `y` are described in the class.
        `sample_weight` has one number from 0 per row: a row of weight 2 counts as two rows, a row of weight 0
        not at all. Only the ratios of the weights matter.
        """
        name = type(self).__name__
        required(name, y)
        self._check_decision(None)
        kept = None if self.checkpoint is None else (self.checkpoint, real("keep_every", self.keep_every))
        inputs = table(X)
        observed = self._read(y, True)
        if observed.rows != inputs.native.rows:
            raise InputError(f"X has {inputs.native.rows} rows and y has {observed.rows}")
        weights = row_weights(sample_weight, observed.rows)
        names = observed.names
        if len(set(names)) < len(names):
            twice = next(one for i, one in enumerate(names) if one in names[:i])
            raise InputError(f"y: there are two columns named {twice!r}")
        how = self._recipe(observed.classes)
        native, steps, candidates, regret = _zhat.train_predictor(
            inputs.native, observed.native, weights, names, self._parents(), how, kept, self._run()
        )
        self._binary = observed.binary
        self._take(native, observed.classes, inputs.names)
        self.candidates_ = candidates
        self.regret_ = None if regret is None else Regret(*regret)
        self.history_ = [Step(*step) for step in steps]
        self.n_iter_ = self.history_[-1].step if self.history_ else 0
        self.converged_ = self.gap_ <= float(self.gap)
        if not self.converged_ and (self.n_iter_ >= self.max_iter or self.time is not None):
            known = "certified" if self.confidence_ > 0 else "estimated (not certified)"
            warnings.warn(
                f"{name}: training stopped after {self.n_iter_} steps; its {known} gap {self.gap_:.1e} is "
                f"above gap={self.gap:.1e}; a larger max_iter, gap or alpha, or more time would help",
                convergence_warning(),
                stacklevel=2,
            )
        if self.left_out_ > 0:
            warnings.warn(
                f"{name}: {self.left_out_} of {observed.rows} rankings are partial; the fit of the spread "
                "leaves them out",
                UserWarning,
                stacklevel=2,
            )
        return self

    def _take(self, native: _zhat.Predictor, classes: NDArray[Any], names: list[str] | None) -> None:
        self._predictor = native
        self.classes_ = classes
        self.n_features_in_ = len(native.columns)
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self.alpha_, _, self.objective_, self.gap_, self.confidence_ = native.training
        self.centres_ = None if native.centres is None else Centres(*native.centres)
        self.left_out_ = native.left_out
        self.exact_ = native.exact

    def __sklearn_is_fitted__(self) -> bool:
        """Whether the estimator is fitted."""
        return hasattr(self, "_predictor")

    def _fitted(self) -> _zhat.Predictor:
        if not self.__sklearn_is_fitted__():
            raise not_fitted(self)
        return self._predictor

    def _inputs(self, X: Any) -> Table:
        native = self._fitted()
        check_features(type(self).__name__, X, self.n_features_in_, getattr(self, "feature_names_in_", None))
        return table(X, native.columns)

    def _against(self, X: Any, y: Any) -> tuple[Table, Observed]:
        required(type(self).__name__, y)
        inputs = self._inputs(X)
        observed = self._read(y, False)
        if observed.rows != inputs.native.rows:
            raise InputError(f"X has {inputs.native.rows} rows and y has {observed.rows}")
        return inputs, observed

    @property
    def parameters_(self) -> NDArray[np.float64]:
        """θ: one row of weights per encoded input, the bias last, then the constants; read-only."""
        return self._fitted().parameters

    def predict(self, X: Any, decision: str | None = None) -> NDArray[Any]:
        """The structure of every row that is best for a loss, in the form of a matrix `y`.

        `decision` replaces the parameter of the estimator.
        """
        chosen = self._check_decision(decision)
        native = self._fitted()
        return self._as_target(native.predict(self._inputs(X).native, chosen, self._run())[0])

    def predict_structures(self, X: Any, decision: str | None = None) -> list[Prediction]:
        """The same as `predict`, by name, with the probability of every structure and its guarantee."""
        chosen = self._check_decision(decision)
        native = self._fitted()
        return self._predictions(native.predict(self._inputs(X).native, chosen, self._run()))

    def _predictions(
        self,
        found: tuple[NDArray[np.uint32], NDArray[np.float64], list[tuple[tuple[str, str], tuple[str, str]]]],
    ) -> list[Prediction]:
        structures, logs, guarantees = found

        promises = [(_promised(*own), _promised(*choice)) for own, choice in guarantees]
        each = promises or [(EXACT, EXACT)] * len(logs)
        return [
            Prediction(self._shown(structure), float(log), own, choice)
            for structure, log, (own, choice) in zip(structures, logs, each, strict=True)
        ]

    def predict_top_k(self, X: Any, k: int = 5) -> list[list[Prediction]]:
        """The `k` most probable structures of every row, best first; fewer if there are fewer."""
        native = self._fitted()
        counts, found = native.best(self._inputs(X).native, integer("k", k, 1), self._run())
        all_rows = iter(self._predictions(found))
        return [[next(all_rows) for _ in range(count)] for count in counts]

    @overload
    def predict_proba(self, X: Any, return_guarantees: Literal[False] = False) -> NDArray[np.float64]: ...

    @overload
    def predict_proba(
        self, X: Any, return_guarantees: Literal[True]
    ) -> tuple[NDArray[np.float64], list[Guarantee]]: ...

    def predict_proba(
        self, X: Any, return_guarantees: bool = False
    ) -> NDArray[np.float64] | tuple[NDArray[np.float64], list[Guarantee]]:
        """Marginal probabilities; see the class for their meaning.

        With `return_guarantees`, also the guarantee of every row: exact, or bounds on the largest error of
        its probabilities where exact sums are out of reach.
        """
        native = self._fitted()
        found, guarantees = native.marginals(self._inputs(X).native, self._run())
        if self._binary:
            found = np.column_stack([1.0 - found, found]) if len(self.classes_) == 2 else np.ones_like(found)
        return (found, _promises(guarantees, len(found))) if return_guarantees else found

    @overload
    def log_prob(self, X: Any, y: Any, return_guarantees: Literal[False] = False) -> NDArray[np.float64]: ...

    @overload
    def log_prob(
        self, X: Any, y: Any, return_guarantees: Literal[True]
    ) -> tuple[NDArray[np.float64], list[Guarantee]]: ...

    def log_prob(
        self, X: Any, y: Any, return_guarantees: bool = False
    ) -> NDArray[np.float64] | tuple[NDArray[np.float64], list[Guarantee]]:
        """The log-probability of the given structure of every row, ln p(y | x).

        With `return_guarantees`, also the guarantee of every row: exact, or bounds on the log-probability
        where exact sums are out of reach.
        """
        native = self._fitted()
        inputs, observed = self._against(X, y)
        found, guarantees = native.log_probabilities(inputs.native, observed.native, self._run())
        return (found, _promises(guarantees, len(found))) if return_guarantees else found

    @overload
    def event_log_prob(
        self, X: Any, event: str, return_guarantees: Literal[False] = False
    ) -> NDArray[np.float64]: ...

    @overload
    def event_log_prob(
        self, X: Any, event: str, return_guarantees: Literal[True]
    ) -> tuple[NDArray[np.float64], list[Guarantee]]: ...

    def event_log_prob(
        self, X: Any, event: str, return_guarantees: bool = False
    ) -> NDArray[np.float64] | tuple[NDArray[np.float64], list[Guarantee]]:
        """The log-probability of an event for every row, such as a partial order.

        `event` has conditions, separated by commas: `"tea>milk"` (tea before milk; also `"tea>milk>juice"`)
        for rankings, `"a=b"` (in one block) for partitions, and names of labels or nodes that are chosen.
        `not` before a condition negates it. `return_guarantees` is that of `log_prob`.
        """
        native = self._fitted()
        conditions = text("event", event)
        found, guarantees = native.event_log_probabilities(self._inputs(X).native, conditions, self._run())
        return (found, _promises(guarantees, len(found))) if return_guarantees else found

    def sample(self, X: Any, count: int = 1) -> NDArray[Any]:
        """Independent exact samples: an array of rows × `count` structures in the form of `y`."""
        native = self._fitted()
        drawn = native.sample(self._inputs(X).native, integer("count", count), self._run())
        flat = drawn.reshape(-1, drawn.shape[2])
        made = self._as_target(flat)
        return made.reshape(*drawn.shape[:2], *made.shape[1:])

    def evaluate(self, X: Any, y: Any, decision: str | None = None) -> Evaluation:
        """The measures of the field, and the reliability of the probabilities.

        Without `decision`, every measure is that of the structures that are best for it.
        """
        native = self._fitted()
        chosen = None if decision is None else self._check_decision(decision)
        inputs, observed = self._against(X, y)
        figures, *promises = native.evaluate(inputs.native, observed.native, chosen, self._run())
        found = json.loads(figures)
        bins = tuple(
            Bin(*(one[name] for name in ("from", "to", "count", "predicted", "observed", "low", "high")))
            for one in found["reliability"]
        )
        log_loss, error = (_promised(*own) for own in promises)
        return Evaluation(found["rows"], dict(found["measures"]), bins, log_loss, error)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of rows whose whole structure is predicted, by weight if there are weights."""
        chosen, native = self._check_decision(None), self._fitted()
        inputs, observed = self._against(X, y)
        found = native.predict(inputs.native, chosen, self._run())[0]
        right = (found == self._as_matrix(observed)).all(axis=1)
        return float(np.average(right, weights=row_weights(sample_weight, observed.rows)))

    def _as_matrix(self, observed: Observed) -> NDArray[np.int64]:
        """Observed structures as a matrix `y`."""
        _, width, ends, values = observed.native
        if len(ends) == 0:
            return values.reshape(-1, width).astype(np.int64)
        found = np.zeros((observed.rows, width), dtype=np.int64)
        found[np.repeat(np.arange(observed.rows), np.diff(ends, prepend=0)), values] = 1
        return found

    def save(self, path: FilePath) -> None:
        """Writes the predictor to a `.zhat` file, which `load` and `zhat structured predict` read."""
        self._fitted().save(path)

    @classmethod
    def load(cls: type[P], path: FilePath) -> P:
        """Reads a predictor from a `.zhat` file, as written by `save` or `zhat structured train`."""
        native = _zhat.Predictor.read(path)
        if native.space != cls._space:
            raise InputError(
                f"{path}: is a predictor of the space {native.space}; {cls.__name__} expects {cls._space}"
            )
        predictor = cls(**cls._restored(native))
        names = native.names
        numbered = names == [str(i) for i in range(len(names))]
        columns = [name for name, _ in native.columns]
        plain_columns = columns == [f"x{i}" for i in range(len(columns))]
        classes = as_classes(list(range(len(names))) if numbered else names)
        predictor._binary = False
        predictor._take(native, classes, None if plain_columns else columns)
        predictor.candidates_, predictor.history_, predictor.n_iter_ = [], [], 0
        predictor.regret_ = None
        predictor.converged_ = predictor.gap_ <= float(predictor.gap)
        return predictor

    @classmethod
    def _restored(cls, native: _zhat.Predictor) -> dict[str, Any]:
        """The parameters of an estimator that a file determines."""
        return {"alpha": native.training[0]}

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles the predictor as the bytes of a `.zhat` file."""
        state = dict(self.__dict__)
        if "_predictor" in state:
            state["_predictor"] = state["_predictor"].to_bytes()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restores the predictor."""
        if "_predictor" in state:
            state = {**state, "_predictor": _zhat.Predictor.from_bytes(state["_predictor"])}
        self.__dict__.update(state)


def _promised(figures: str, words: str) -> Guarantee:
    """A guarantee from its JSON object and in words."""
    return Guarantee(words=words, **json.loads(figures))


def _promises(guarantees: list[tuple[str, str]], rows: int) -> list[Guarantee]:
    """The guarantee of every row; none are given if all are exact."""
    return [_promised(*own) for own in guarantees] or [EXACT] * rows


def row_weights(weights: Any, rows: int) -> list[float] | None:
    """The weights of the rows, checked; none if all are 1."""
    if weights is None:
        return None
    try:
        found = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"sample_weight: {error}; expected one number per row") from None
    if found.ndim == 0:
        found = np.full(rows, found)
    if found.shape != (rows,):
        raise InputError(f"sample_weight: has shape {found.shape}, expected {(rows,)}")
    if not (np.isfinite(found) & (found >= 0)).all():
        row = int(np.argmin(np.isfinite(found) & (found >= 0)))
        raise InputError(f"sample_weight: row {row} has weight {found[row]}, expected a number from 0")
    if not found.any():
        raise InputError("sample_weight: every weight is zero, expected at least one above 0")
    numbers = [float(weight) for weight in found]
    if not math.isfinite(sum(numbers)):
        raise InputError("sample_weight: the sum is infinite, expected smaller numbers")
    return numbers


def _finite(name: str, value: object) -> float:
    number = real(name, value)
    if not math.isfinite(number):
        raise InputError(f"{name}: expected a finite number, found {number}")
    return number


def _lambdas(alpha: Any) -> list[float]:
    """The candidates for λ."""
    if isinstance(alpha, str):
        if text("alpha", alpha) != "auto":
            raise InputError(f'alpha: expected a number above 0, several numbers, or "auto", found {alpha!r}')
        return [10.0**-i for i in range(7)]
    given = list(alpha) if isinstance(alpha, (list, tuple, np.ndarray)) else [alpha]
    numbers = [_finite("alpha", value) for value in given]
    if not numbers or min(numbers) <= 0.0:
        raise InputError(f"alpha: expected a number above 0, or several, found {alpha!r}")
    return numbers


def pairs_of(pairs: Any, classes: NDArray[Any]) -> Any:
    """Pairs of labels for the native module: a rule, or places."""
    if isinstance(pairs, str):
        rule, _, more = pairs.partition("+")
        if pairs in ("none", "all"):
            return pairs
        if rule == "chow-liu" and (not more or more.isdigit()) and not pairs.endswith("+"):
            return {"chow-liu": int(more or 0)}
        raise InputError(
            f'pairs: expected "none", "chow-liu", "chow-liu+M", "all" or a list of pairs, found {pairs!r}'
        )
    places = {str(plain(name)): i for i, name in enumerate(classes)}
    found = []
    for pair in pairs:
        if isinstance(pair, str) or len(pair) != 2:
            raise InputError(f"pairs: expected two names, found {pair!r}")
        for name in pair:
            if str(plain(name)) not in places:
                raise InputError(f"pairs: there is no label {plain(name)!r}")
        i, j = (places[str(plain(name))] for name in pair)
        if i == j:
            raise InputError(f"pairs: {pair!r} is no pair of two labels")
        found.append([min(i, j), max(i, j)])
    return {"given": found}
