"""`Hmm`: hidden Markov models that can be trained."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _zhat
from ._arguments import FilePath, integer, integers, real, scores
from ._estimator import Estimator, convergence_warning, not_fitted
from ._hmm_inputs import (
    COVARIANCES,
    DURATIONS,
    EMISSIONS,
    FIXED,
    choice,
    column_names,
    finite,
    observations,
    per_state,
    sequence_lengths,
)
from ._inputs import check_features
from .errors import InputError
from .runtime import run
from .sequence import Chain, SemiMarkov

_ATTRIBUTES = {
    "probabilities": "emissionprob_",
    "means": "means_",
    "covariances": "covars_",
    "rates": "rates_",
    "weights": "weights_",
    "durations": "durations_",
    "duration_shapes": "duration_shapes_",
}


class HmmStep(NamedTuple):
    """A step of training: the number of the start, the step, and log-likelihood plus log prior."""

    start: int
    step: int
    objective: float


class HmmCandidate(NamedTuple):
    """A number of states: parameters, log-likelihood, AIC, BIC, cross-validated log-likelihood per row."""

    states: int
    parameters: int
    log_likelihood: float
    aic: float
    bic: float
    cross_validated: float | None


class HmmForecast(NamedTuple):
    """Estimated cost of training: memory besides the data in bytes (an upper bound), and seconds per step."""

    bytes: float
    step_seconds: float


class Hmm(Estimator):
    """A hidden Markov model, trained with exact expected counts by EM or L-BFGS.

    `X` has one row per step. `lengths` are the lengths of the sequences, which follow each other in `X`;
    without them, all rows are one sequence. The methods are those of hmmlearn's models. scikit-learn passes
    `y` in the place of `lengths`; an array with one entry per row that does not add up to the number of
    rows is such a `y` and is ignored with a warning. `y=` is ignored without one.

    - `n_components`: number of states.
    - `emissions`: "gaussian", "categorical" (one column of whole numbers from 0, or of texts), "poisson", or
      "mixture" (`n_mix` normal distributions per state).
    - `covariance`: "diagonal", "spherical", "full" or "tied".
    - `n_features`: number of symbols of a categorical model; by default one more than the largest in `X`.
    - `topology`: "full", or "left-to-right" (to the same and the next state only). Zeros stay zero.
    - `ties`: the group of every state; states of a group share their emissions.
    - `durations`: "geometric" (a Markov chain), or "free" and "negative-binomial" for a semi-Markov model
      with durations of up to `max_duration` steps.
    - `start_prior`, `transition_prior`, `emission_prior`, `duration_prior`: concentrations of Dirichlet
      priors; 1 is none.
    - `mean_weight`, `covariance_weight`: pseudo-observations of means and covariances, with the mean and
      variances of the data (a normal–inverse-Wishart prior).
    - `least_variance`: smallest variance, relative to that of the data.
    - `fixed`: parameters that training does not change, of "start", "transitions",
      "emissions" and "durations".
    - `missing`: whether NaN is a missing value, over which the model sums.
    - `n_init`: random starts, of which the best is kept. `warm_start`: start from the current parameters.
    - `optimizer`: "em" or "lbfgs" (on the exact gradient).
    - `max_iter`, `tol`: training stops when a step improves the objective by less than `tol` nats per row.
    - `batch`: sequences per step of stochastic EM; 0 for all. `forgetting`: exponent of its step size.
    - `algorithm`: "viterbi" (most probable path) or "map" (most probable state of each row), for `predict`.
    - `checkpoint`: a file from which training resumes; `keep_every`: seconds between writes.

    After `fit`: `startprob_`, `transmat_`, and `means_`, `covars_`, `emissionprob_`, `rates_` or `weights_`,
    `durations_` and `duration_shapes_`;
    `objective_`, `log_likelihood_`, `n_iter_`, `converged_` and `history_`.

    >>> import numpy as np
    >>> import zhat
    >>> X = np.concatenate([np.full(30, 1.0), np.full(30, 5.0)]).reshape(-1, 1)
    >>> X = X + 0.1 * np.sin(np.arange(60)).reshape(-1, 1)
    >>> model = zhat.Hmm(2, seed=1).fit(X)
    >>> [round(float(mean), 1) for mean in sorted(model.means_[:, 0])]
    [1.0, 5.0]
    >>> len(set(model.predict(X)[:30])), bool(model.score(X) > -60)
    (1, True)
    """

    # Set by `fit`.
    n_features_in_: int
    feature_names_in_: NDArray[np.object_]
    symbols_: NDArray[Any]
    startprob_: NDArray[np.float64]
    transmat_: NDArray[np.float64]
    means_: NDArray[np.float64]
    covars_: NDArray[np.float64]
    emissionprob_: NDArray[np.float64]
    rates_: NDArray[np.float64]
    weights_: NDArray[np.float64]
    durations_: NDArray[np.float64]
    duration_shapes_: NDArray[np.float64]
    objective_: float
    log_likelihood_: float
    n_iter_: int
    converged_: bool
    history_: list[HmmStep]
    _hmm: _zhat.Hmm

    def __init__(
        self,
        n_components: int = 1,
        *,
        emissions: str = "gaussian",
        covariance: str = "diagonal",
        n_mix: int = 2,
        n_features: int | None = None,
        topology: str = "full",
        ties: Iterable[int] | None = None,
        durations: str = "geometric",
        max_duration: int = 100,
        start_prior: float = 1.0,
        transition_prior: float = 1.0,
        emission_prior: float = 1.0,
        duration_prior: float = 1.0,
        mean_weight: float = 0.0,
        covariance_weight: float = 0.0,
        least_variance: float = 1e-6,
        fixed: str | Iterable[str] = (),
        missing: bool = False,
        n_init: int = 1,
        warm_start: bool = False,
        optimizer: str = "em",
        max_iter: int = 100,
        tol: float = 1e-6,
        batch: int = 0,
        forgetting: float = 0.7,
        algorithm: str = "viterbi",
        checkpoint: FilePath | None = None,
        keep_every: float = 30.0,
        seed: int = 0,
        threads: int | None = None,
        memory: int | str | None = None,
        time: float | str | None = None,
        progress: Callable[[str, int, int], object] | bool | None = None,
    ) -> None:
        """Stores the parameters."""
        self.n_components = n_components
        self.emissions = emissions
        self.covariance = covariance
        self.n_mix = n_mix
        self.n_features = n_features
        self.topology = topology
        self.ties = ties
        self.durations = durations
        self.max_duration = max_duration
        self.start_prior = start_prior
        self.transition_prior = transition_prior
        self.emission_prior = emission_prior
        self.duration_prior = duration_prior
        self.mean_weight = mean_weight
        self.covariance_weight = covariance_weight
        self.least_variance = least_variance
        self.fixed = fixed
        self.missing = missing
        self.n_init = n_init
        self.warm_start = warm_start
        self.optimizer = optimizer
        self.max_iter = max_iter
        self.tol = tol
        self.batch = batch
        self.forgetting = forgetting
        self.algorithm = algorithm
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
        tags.target_tags.required = False
        tags.input_tags.sparse = False
        tags.input_tags.categorical = self.emissions == "categorical"
        tags.input_tags.allow_nan = bool(self.missing)
        return tags

    def _run(self) -> _zhat.Run:
        return run(self.seed, self.threads, self.memory, self.time, self.progress)

    def _family(self, symbols: int) -> str:
        choice("emissions", self.emissions, EMISSIONS)
        choice("covariance", self.covariance, COVARIANCES)
        families: dict[str, Any] = {
            "categorical": {"categorical": {"symbols": symbols}},
            "gaussian": {"gaussian": {"covariance": self.covariance}},
            "poisson": "poisson",
            "mixture": {
                "mixture": {"components": integer("n_mix", self.n_mix, 1), "covariance": self.covariance}
            },
        }
        return json.dumps(families[self.emissions])

    def _how(self) -> str:
        fixed = [self.fixed] if isinstance(self.fixed, str) else list(self.fixed)
        for part in fixed:
            choice("fixed", part, FIXED)
        choice("topology", self.topology, ("full", "left-to-right"))
        choice("durations", self.durations, DURATIONS)
        choice("optimizer", self.optimizer, ("em", "lbfgs"))
        warm = self.warm_start and self.__sklearn_is_fitted__()
        how = {
            "optimizer": self.optimizer,
            "ties": [] if self.ties is None else integers("ties", list(self.ties)),
            "durations": self.durations,
            "max_duration": integer("max_duration", self.max_duration, 1),
            "duration_prior": finite("duration_prior", self.duration_prior),
            "iterations": integer("max_iter", self.max_iter),
            "tolerance": finite("tol", self.tol),
            "starts": 1 if warm else integer("n_init", self.n_init, 1),
            "topology": self.topology,
            "start_prior": finite("start_prior", self.start_prior),
            "transition_prior": finite("transition_prior", self.transition_prior),
            "emission_prior": finite("emission_prior", self.emission_prior),
            "mean_weight": finite("mean_weight", self.mean_weight),
            "covariance_weight": finite("covariance_weight", self.covariance_weight),
            "least_variance": finite("least_variance", self.least_variance),
            **{f"fixed_{part}": part in fixed for part in FIXED},
            "batch": integer("batch", self.batch),
            "forgetting": finite("forgetting", self.forgetting),
        }
        return json.dumps(how)

    def fit(self, X: Any, lengths: Any = None, labels: ArrayLike | None = None, y: Any = None) -> Hmm:
        """Trains the model; `labels` are the states of the rows if they are known, as numbers from 0.

        `y` is ignored; scikit-learn passes it.
        """
        kept = None if self.checkpoint is None else (self.checkpoint, real("keep_every", self.keep_every))
        warm = self._hmm if self.warm_start and self.__sklearn_is_fitted__() else None
        if warm is not None:
            self._check_features(X)
        elif hasattr(self, "symbols_"):
            del self.symbols_
        values = observations(self, X, warm is None)
        symbols = self._symbols(values)
        states = integer("n_components", self.n_components, 1)
        names = column_names(X)
        columns = names or [f"x{i}" for i in range(values.shape[1])]
        texts = self.symbols_.tolist() if hasattr(self, "symbols_") else []
        if self.emissions == "categorical" and not texts:
            texts = [str(symbol) for symbol in range(symbols)]
        layout = json.dumps({"columns": columns, "symbols": texts, "missing": bool(self.missing)})
        known = None
        if labels is not None:
            known = integers("labels", np.asarray(labels).tolist())
        native, steps, objective, log_likelihood, count, converged = _zhat.train_hmm(
            values,
            sequence_lengths(lengths, len(values)),
            states,
            self._family(symbols),
            self._how(),
            layout,
            warm,
            known,
            kept,
            self._run(),
        )
        self._take(native)
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self.history_ = [HmmStep(*step) for step in steps]
        self.objective_, self.log_likelihood_ = objective, log_likelihood
        self.n_iter_, self.converged_ = max(count, 1), converged
        if not converged and (count >= self.max_iter or self.time is not None):
            warnings.warn(
                f"Hmm: training stopped after {count} steps before it converged; a larger max_iter or tol, "
                "or more time would help",
                convergence_warning(),
                stacklevel=2,
            )
        unreachable = native.unreachable()
        if unreachable:
            warnings.warn(
                f"Hmm: no sequence can reach {len(unreachable)} of the states: {unreachable}",
                UserWarning,
                stacklevel=2,
            )
        return self

    def _take(self, native: _zhat.Hmm) -> None:
        self._hmm = native
        self.n_features_in_ = native.columns
        for attribute in _ATTRIBUTES.values():
            if hasattr(self, attribute):
                delattr(self, attribute)
        for name, values in native.parameters():
            if name == "start":
                self.startprob_ = values
            elif name == "transitions":
                self.transmat_ = values
            else:
                if "mixture" in native.family and name in ("means", "covariances"):
                    values = per_state(values, native.states, native.family, name)
                setattr(self, _ATTRIBUTES[name], values)

    def __sklearn_is_fitted__(self) -> bool:
        """Whether the model has parameters."""
        return hasattr(self, "_hmm")

    def _fitted(self) -> _zhat.Hmm:
        if not self.__sklearn_is_fitted__():
            raise not_fitted(self)
        return self._hmm

    def _check_features(self, X: Any) -> None:
        if np.ndim(X) == 2:
            names = getattr(self, "feature_names_in_", None)
            check_features(type(self).__name__, X, self.n_features_in_, names)

    def _data(self, X: Any, lengths: Any) -> tuple[_zhat.Hmm, NDArray[np.float64], list[int]]:
        native = self._fitted()
        self._check_features(X)
        values = observations(self, X, False)
        return native, values, sequence_lengths(lengths, len(values))

    def score(self, X: Any, lengths: Any = None, y: Any = None) -> float:
        """The log-likelihood of all sequences; `y` is ignored."""
        return float(self.score_sequences(X, lengths).sum())

    def score_sequences(self, X: Any, lengths: Any = None) -> NDArray[np.float64]:
        """The log-likelihood of every sequence; minus infinity for an impossible one."""
        native, values, given = self._data(X, lengths)
        return native.log_likelihoods(values, given, self._run())

    def score_samples(self, X: Any, lengths: Any = None) -> tuple[float, NDArray[np.float64]]:
        """The log-likelihood of all sequences, and the probability of every state at every row."""
        native, values, given = self._data(X, lengths)
        posteriors, logs = native.posteriors(values, given, self._run())
        return float(logs.sum()), posteriors

    def predict_proba(self, X: Any, lengths: Any = None) -> NDArray[np.float64]:
        """The probability of every state at every row, given its whole sequence."""
        return self.score_samples(X, lengths)[1]

    def decode(
        self, X: Any, lengths: Any = None, algorithm: str | None = None
    ) -> tuple[float, NDArray[np.int64]]:
        """The states of every row, and the log-probability of the path; for "map" a sum of probabilities."""
        chosen = self.algorithm if algorithm is None else algorithm
        choice("algorithm", chosen, ("viterbi", "map"))
        native, values, given = self._data(X, lengths)
        if chosen == "viterbi":
            states, logs = native.decode(values, given, self._run())
            return float(logs.sum()), states
        posteriors, _ = native.posteriors(values, given, self._run())
        return float(posteriors.max(axis=1).sum()), posteriors.argmax(axis=1)

    def predict(self, X: Any, lengths: Any = None) -> NDArray[np.int64]:
        """The states of every row, by `algorithm`."""
        return self.decode(X, lengths)[1]

    def sample(self, n_samples: int = 1, seed: int | None = None) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Draws one sequence of this length: observations and states."""
        native = self._fitted()
        chosen = self.seed if seed is None else seed
        how = run(chosen, self.threads, self.memory, self.time, self.progress)
        values, states = native.sample([integer("n_samples", n_samples, 1)], how)
        if self.emissions == "categorical":
            codes = values.astype(np.int64)
            return (self.symbols_[codes] if hasattr(self, "symbols_") else codes), states
        return values, states

    def chain(self, X: Any, lengths: Any = None) -> Chain | SemiMarkov:
        """The chain of the states given the observations: k best paths, entropy, gradients and so on.

        It is a `SemiMarkov` chain for a model with durations.
        """
        native, values, given = self._data(X, lengths)
        kind = Chain if native.durations is None else SemiMarkov
        return kind._wrap(native.chain(values, given, self._run()), len(given) == 1)

    def aic(self, X: Any, lengths: Any = None) -> float:
        """Akaike's information criterion; smaller is better."""
        return 2.0 * self._fitted().parameter_count - 2.0 * self.score(X, lengths)

    def bic(self, X: Any, lengths: Any = None) -> float:
        """The Bayesian information criterion; smaller is better."""
        likelihood = self.score(X, lengths)
        return self._fitted().parameter_count * math.log(len(X)) - 2.0 * likelihood

    def forecast(self, X: Any, lengths: Any = None) -> HmmForecast:
        """The memory and time that `fit` with these data would take; nothing is trained.

        Memory is an upper bound, without the data. The time of a step is approximate, with the threads of the
        estimator; a step of L-BFGS takes one or a few times as long.

        >>> import numpy as np
        >>> import zhat
        >>> X = np.zeros((1000, 2))
        >>> small, large = zhat.Hmm(2, threads=1).forecast(X), zhat.Hmm(200, threads=1).forecast(X)
        >>> small.bytes < large.bytes, small.step_seconds < large.step_seconds
        (True, True)
        """
        warm = self._hmm if self.warm_start and self.__sklearn_is_fitted__() else None
        probe = type(self)(**self.get_params())
        values = observations(probe if warm is None else self, X, warm is None)
        found = _zhat.forecast_hmm(
            values,
            sequence_lengths(lengths, len(values)),
            integer("n_components", self.n_components, 1),
            self._family(probe._symbols(values)),
            self._how(),
            warm,
            self._run(),
        )
        return HmmForecast(*found)

    def _symbols(self, values: NDArray[np.float64]) -> int:
        """The number of symbols in training data; 0 for other emissions."""
        if self.emissions != "categorical":
            return 0
        largest = np.nanmax(values) if np.isfinite(values).any() else 0.0
        found = len(self.symbols_) if hasattr(self, "symbols_") else int(max(largest, 0.0)) + 1
        return found if self.n_features is None else integer("n_features", self.n_features, 1)

    def compare(
        self, X: Any, lengths: Any = None, states: Iterable[int] = (1, 2, 3, 4), folds: int = 5
    ) -> list[HmmCandidate]:
        """Trains a model for every number of states: AIC, BIC and cross-validation over sequences.

        The estimator itself is not changed. Without at least `folds` sequences there is no cross-validation.
        """
        probe = type(self)(**self.get_params())
        values = observations(probe, X, True)
        rows = _zhat.compare_hmm_states(
            values,
            sequence_lengths(lengths, len(values)),
            [integer("states", one, 1) for one in states],
            self._family(probe._symbols(values)),
            probe._how(),
            integer("folds", folds),
            self._run(),
        )
        return [HmmCandidate(*row) for row in rows]

    @classmethod
    def from_parameters(
        cls,
        startprob: ArrayLike,
        transmat: ArrayLike,
        *,
        emissionprob: ArrayLike | None = None,
        means: ArrayLike | None = None,
        covars: ArrayLike | None = None,
        rates: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        durations: ArrayLike | None = None,
        ties: Iterable[int] | None = None,
        covariance: str = "diagonal",
        **params: Any,
    ) -> Hmm:
        """A model with these parameters, as probabilities; `params` are those of the estimator.

        Give `emissionprob` for a categorical model, `rates` for Poisson counts, `means` and `covars` for
        normal distributions, and `weights` as well for mixtures, whose means are states × components ×
        columns. `durations` are the probabilities of 1, 2, … steps per state, for a semi-Markov model. With
        `warm_start=True`, `fit` starts from the parameters.

        >>> import zhat
        >>> coins = [[0.5, 0.5], [0.9, 0.1]]
        >>> model = zhat.Hmm.from_parameters([0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]], emissionprob=coins)
        >>> round(model.score([[0], [0], [1]]), 4)
        -2.0038
        """
        choice("covariance", covariance, COVARIANCES)
        if emissionprob is not None:
            emissions = "categorical"
        elif rates is not None:
            emissions = "poisson"
        elif means is None or covars is None:
            raise InputError("expected emissionprob, rates, or means and covars")
        else:
            emissions = "gaussian" if weights is None else "mixture"
        start = scores("startprob", startprob, np.dtype(np.float64))

        def flat(name: str, values: ArrayLike | None) -> NDArray[np.float64]:
            return scores(name, [] if values is None else values, np.dtype(np.float64)).ravel()

        native = _zhat.hmm_of(
            start.ravel(),
            flat("transmat", transmat),
            emissions,
            covariance,
            flat("emissionprob", emissionprob),
            flat("means", means if rates is None else rates),
            flat("covars", covars),
            flat("weights", weights),
            flat("durations", durations),
            [] if ties is None else integers("ties", list(ties)),
        )
        model = cls(native.states, emissions=emissions, covariance=covariance, **params)
        if weights is not None:
            model.n_mix = int(np.asarray(weights).shape[1])
        model._restore(native)
        return model

    def _restore(self, native: _zhat.Hmm) -> None:
        self._take(native)
        self.ties = native.ties or None
        if native.durations is not None:
            self.durations, self.max_duration = native.durations
        self.history_, self.n_iter_, self.converged_ = [], 0, False
        self.objective_ = self.log_likelihood_ = float("nan")

    def to_hmmlearn(self) -> Any:
        """The model as a `CategoricalHMM`, `GaussianHMM`, `GMMHMM` or `PoissonHMM` of hmmlearn.

        Names of symbols are not kept, because hmmlearn numbers them. A model with durations is an error.
        """
        from .bridges import to_hmmlearn

        return to_hmmlearn(self)

    def to_dynamax(self) -> Any:
        """The parameters for dynamax, such as `ParamsGaussianHMM`; the name is that of the model's class.

        The arrays have the precision of jax: single, unless `jax_enable_x64` is set. A model with durations
        is an error.
        """
        from .bridges import to_dynamax

        return to_dynamax(self)

    def to_pomegranate(self) -> Any:
        """The model as a `DenseHMM` of pomegranate in single precision, with uniform end probabilities.

        A model with durations is an error.
        """
        from .bridges import to_pomegranate

        return to_pomegranate(self)

    def save(self, path: FilePath) -> None:
        """Writes the model to a `.zhat` file, which `load` and the program read."""
        self._fitted().save(path)

    @classmethod
    def load(cls, path: FilePath) -> Hmm:
        """Reads a model from a `.zhat` file, as written by `save` or `zhat fit --kind hmm`."""
        native = _zhat.Hmm.read(path)
        family, layout = json.loads(native.family), json.loads(native.layout)
        name = family if isinstance(family, str) else next(iter(family))
        options = {} if isinstance(family, str) else family[name]
        model = cls(native.states, emissions=name, missing=layout["missing"])
        model.covariance = options.get("covariance", "diagonal")
        model.n_mix = options.get("components", 2)
        symbols = layout["symbols"]
        if symbols and symbols != [str(i) for i in range(len(symbols))]:
            model.symbols_ = np.array(symbols)
        model._restore(native)
        columns = layout["columns"]
        if columns != [f"x{i}" for i in range(len(columns))]:
            model.feature_names_in_ = np.array(columns, dtype=object)
        return model

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles the model as the bytes of a `.zhat` file."""
        state = dict(self.__dict__)
        if "_hmm" in state:
            state["_hmm"] = state["_hmm"].to_bytes()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restores the model."""
        if "_hmm" in state:
            state = {**state, "_hmm": _zhat.Hmm.from_bytes(state["_hmm"])}
        self.__dict__.update(state)
