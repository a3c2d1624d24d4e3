"""`MarkovRandomField`: the joint distribution of the columns of a table, as a scikit-learn estimator."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._arguments import FilePath, integer, text
from ._categories import MISSING, Categories, Cells, Codes, cells, distinct, filled
from ._estimator import Estimator, convergence_warning, not_fitted
from ._inputs import check_features
from ._output import Transformer
from ._predictor import row_weights
from .errors import ImpossibleEvidenceError, InputError, OverBudgetError
from .learning import Coded, Fitted, fit, impute, score
from .model import FactorGraph
from .runtime import Progress, config

# Arguments of the functions that take the options of a method.
_OF_QUERIES = ("table", "model", "header", "encoding", "ignore", "input", "given", "partial")


_MISSING = ("drop", "em", "refuse", "state")


class MarkovRandomField(Transformer, Estimator):
    """A Markov random field over the columns of a table: densities, samples, and missing values filled in.

    `X` is an array, a list of rows, or a pandas or polars frame. Every column has categories: its different
    values in the training rows, in ascending order. `None`, NaN and masked entries are missing values. The
    model is that of `zhat.fit`, whose parameters have the same names and defaults here; `structure` defines
    which columns interact, by rule or as pairs of names or numbers. The others are:

    - `bins`: a column of numbers with more than this many different values is cut at quantiles into at most
      `bins` intervals, which are its categories. The value of an interval is the median of its training
      values, and the outer intervals have no end.
    - `handle_unknown`: "error", or "ignore" for a value that is not a category: it stays in place and says
      nothing about the rest of its row.
    - `missing`: what training does with missing values. "drop" leaves out their rows, and "em" uses the
      other values of these rows, by expectation-maximisation. "refuse" makes missing values an error, also
      after training, and "state" makes missing a category of its own, which is not filled in.
    - `method_options`: options of `method`, such as `{"samples": 1000}`. The method is used for training,
      likelihoods and imputation.

    The log-likelihood of a row with missing or ignored values is that of its other values.

    After `fit`: `model_` (a `zhat.FactorGraph`, with every query), `fitted_` (a `zhat.Fitted`),
    `categories_` and `bin_edges_` (one entry per column), `n_iter_`, `converged_`, `n_features_in_`, and
    `feature_names_in_` if the columns of `X` have names.

    >>> from zhat.sklearn import MarkovRandomField
    >>> X = [["rain", "wet"], ["sun", "dry"], ["sun", "dry"], ["rain", "wet"], ["sun", "wet"]]
    >>> model = MarkovRandomField().fit(X)
    >>> model.transform([["rain", None], [None, "dry"]]).tolist()
    [['rain', 'wet'], ['sun', 'dry']]
    >>> rows = model.score_samples([["sun", "dry"], ["sun", "wet"]])
    >>> bool(rows[0] > rows[1])
    True
    """

    _kind = "density_estimator"

    # Set by `fit`.
    model_: FactorGraph
    fitted_: Fitted
    categories_: list[NDArray[Any]]
    bin_edges_: list[NDArray[np.float64] | None]
    n_iter_: int
    converged_: bool
    _encoders: list[Categories]
    _states: list[Codes]  # the number in the model of every category

    def __init__(
        self,
        structure: str | Iterable[tuple[int | str, int | str]] = "chow-liu",
        *,
        bins: int | None = None,
        handle_unknown: str = "error",
        method: str = "auto",
        method_options: Mapping[str, object] | None = None,
        l1: float = 0.0,
        l2: float | None = None,
        optimizer: str = "auto",
        start: str = "forest",
        iterations: int = 1000,
        tolerance: float = 1e-6,
        checkpoint: FilePath | None = None,
        missing: str = "drop",
        most_states: int = 1000,
        seed: int = 0,
        threads: int | None = None,
        memory: int | str | None = None,
        time: float | str | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Stores the parameters; `fit` checks them."""
        self.structure = structure
        self.bins = bins
        self.handle_unknown = handle_unknown
        self.method = method
        self.method_options = method_options
        self.l1 = l1
        self.l2 = l2
        self.optimizer = optimizer
        self.start = start
        self.iterations = iterations
        self.tolerance = tolerance
        self.checkpoint = checkpoint
        self.missing = missing
        self.most_states = most_states
        self.seed = seed
        self.threads = threads
        self.memory = memory
        self.time = time
        self.progress = progress

    def __sklearn_tags__(self) -> Any:
        """The properties of the estimator; called by scikit-learn only."""
        from sklearn.utils import TransformerTags

        tags = super().__sklearn_tags__()
        tags.transformer_tags = TransformerTags(preserves_dtype=[])
        tags.target_tags.required = False
        tags.input_tags.sparse = False
        tags.input_tags.allow_nan = self.missing != "refuse"
        return tags

    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> MarkovRandomField:
        """Fits the model to the rows of `X`; `y` is ignored.

        `sample_weight` has one whole number per row: a row of weight k counts as k rows.
        """
        self._check_parameters()
        given = cells(X)
        weights = self._weights(sample_weight, given)
        if self.missing == "refuse":
            _refuse_missing(given)
        if weights is not None:
            given, weights = given.of(weights > 0), weights[weights > 0]
        whole = self._training(given)
        encoders = self._categories(given.of(whole), None if weights is None else weights[whole])
        # A value outside of the training rows is in a row that is dropped, because of another column.
        codes = [np.maximum(column, MISSING) for column in self._codes(encoders, given, False)]
        if weights is not None:
            codes = [np.repeat(column, weights) for column in codes]
        found = fit(
            _coded(encoders, codes),
            self.structure,
            l1=self.l1,
            l2=self.l2,
            optimizer=self.optimizer,
            start=self.start,
            iterations=self.iterations,
            tolerance=self.tolerance,
            checkpoint=self.checkpoint,
            missing="drop" if self.missing in ("refuse", "state") else self.missing,
            most_states=integer("most_states", self.most_states) + 1,  # missing values may be a state
            **self._how(),
        )
        self._encoders, self.fitted_, self.model_ = encoders, found, found.model
        names = found.model.state_names or ()
        # The model has its states in the order of their names.
        self._states = [
            np.array([own.index(state) for state in column.states], dtype=np.int64)
            for own, column in zip(names, encoders, strict=True)
        ]
        self.categories_ = [own.values for own in encoders]
        self.bin_edges_ = [own.edges for own in encoders]
        self.n_iter_, self.converged_ = found.iterations, found.converged
        self.n_features_in_ = len(given.columns)
        if given.names is not None:
            self.feature_names_in_ = np.array(given.names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        if not found.converged:
            warnings.warn(
                f"MarkovRandomField: training stopped after {found.iterations} iterations with a gradient of "
                f"{found.stationarity:.1e}, above tolerance={self.tolerance:.1e}; more iterations or a "
                "larger tolerance or l2 would help",
                convergence_warning(),
                stacklevel=2,
            )
        return self

    def _check_parameters(self) -> None:
        if self.missing not in _MISSING:
            expected = ", ".join(f'"{name}"' for name in _MISSING)
            raise InputError(f"missing: expected one of {expected}, found {self.missing!r}")
        if self.handle_unknown not in ("error", "ignore"):
            raise InputError(f'handle_unknown: expected "error" or "ignore", found {self.handle_unknown!r}')
        if self.bins is not None:
            integer("bins", self.bins, 2)
        options = {} if self.method_options is None else self.method_options
        if not isinstance(options, Mapping):
            raise InputError(f"method_options: expected a dict, found {options!r}")
        for name in options:
            if name in (*self._parameters(), *_OF_QUERIES):
                raise InputError(f"method_options: {name!r} is not an option of a method")
            text("method_options", name)

    def _weights(self, sample_weight: ArrayLike | None, given: Cells) -> NDArray[np.int64] | None:
        numbers = row_weights(sample_weight, given.rows)
        if numbers is None:
            return None
        fractions = [row for row, weight in enumerate(numbers) if not weight.is_integer()]
        if fractions:
            raise InputError(
                f"sample_weight: row {fractions[0]} has weight {numbers[fractions[0]]}, expected a whole "
                "number: a row of weight k counts as k rows"
            )
        needed = 8.0 * sum(numbers) * len(given.columns)
        if needed > 1 << 24 and needed > (available := int(str(config()["memory"]))):
            raise OverBudgetError(
                f"sample_weight: the weights add up to {sum(numbers):.3g} rows, which need {needed:.1e} "
                f"bytes of the {available:.1e} available; smaller weights with the same ratios would fit"
            )
        return np.array(numbers, dtype=np.int64)

    def _categories(self, given: Cells, weights: NDArray[np.int64] | None) -> list[Categories]:
        """The categories of every column of the training data."""
        found = [
            Categories.of(name, column, weights, self.bins, self.missing == "state")
            for name, column in zip(given.labels, given.columns, strict=True)
        ]
        most = integer("most_states", self.most_states)
        for own in found:
            if len(own.values) > most:
                raise InputError(
                    f"X: column {own.name} has {len(own.values)} different values, more than most_states = "
                    f"{most}; bins=10 makes intervals of numbers"
                )
        return found

    def _training(self, given: Cells) -> NDArray[np.bool_]:
        """Whether training uses a row."""
        rows = np.ones(given.rows, dtype=bool)
        if self.missing == "drop":
            for column in given.columns:
                rows &= distinct(column)[1] >= 0
            if not rows.any():
                raise InputError(
                    'X: every row has a missing value, so missing="drop" leaves no row; missing="em" uses '
                    'their other values, and missing="state" makes missing a category'
                )
        return rows

    def _codes(self, encoders: list[Categories], given: Cells, refuse: bool) -> list[Codes]:
        return [own.codes(column, refuse) for own, column in zip(encoders, given.columns, strict=True)]

    def _how(self) -> dict[str, Any]:
        """The method, its options and the budget."""
        budget = ("method", "seed", "threads", "memory", "time", "progress")
        options = {} if self.method_options is None else dict(self.method_options)
        return {**options, **{name: getattr(self, name) for name in budget}}

    def __sklearn_is_fitted__(self) -> bool:
        """Whether the estimator is fitted."""
        return hasattr(self, "_encoders")

    def _read(self, X: Any) -> tuple[Cells, list[Codes]]:
        """The cells of rows and their codes."""
        if not self.__sklearn_is_fitted__():
            raise not_fitted(self)
        given = cells(X)
        names = getattr(self, "feature_names_in_", None)
        check_features(type(self).__name__, X, self.n_features_in_, names)
        if self.missing == "refuse":
            _refuse_missing(given)
        given = Cells(given.columns, None if names is None else names.tolist())
        return given, self._codes(self._encoders, given, self.handle_unknown == "error")

    def score_samples(self, X: Any) -> NDArray[np.float64]:
        """The log-likelihood of every row, in nats; that of the values which are not missing.

        With `bins`, the probability of a number is that of its interval.
        """
        _, codes = self._read(X)
        empty = np.all([column < 0 for column in codes], axis=0)
        known = _coded(self._encoders, [np.maximum(column, MISSING) for column in codes])
        try:
            found = score(self.model_, known, missing="em", **self._how())[0]
        except OverBudgetError:  # an exact sum over missing values
            found = self._approximate_scores(codes)
        return np.where(empty, 0.0, found)

    def _approximate_scores(self, codes: list[Codes]) -> NDArray[np.float64]:
        """The log-likelihoods of rows, by the method of the estimator also for rows with missing values."""
        rows, places = _different_rows(codes, np.ones(len(codes[0]), dtype=bool))
        log_z = self.model_.log_partition(**self._how()).value
        return np.array([self._log_weight(row) - log_z for row in rows])[places]

    def _log_weight(self, row: Codes) -> float:
        """The log weight of all completions of a row."""
        evidence = {v: int(self._states[v][code]) for v, code in enumerate(row) if code >= 0}
        try:
            return float(self.model_.log_partition(given=evidence, **self._how()).value)
        except ImpossibleEvidenceError:
            return -np.inf

    def score(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> float:
        """The mean log-likelihood per row, by weight if there are weights; `y` is ignored."""
        rows = self.score_samples(X)
        return float(np.average(rows, weights=row_weights(sample_weight, len(rows))))

    def transform(self, X: Any) -> Any:
        """The rows with every missing value replaced by the most probable one given its row.

        All other values stay as they are. The container is that of `set_output`, by default an array.
        """
        given, codes = self._read(X)
        gaps = np.any([column == MISSING for column in codes], axis=0)
        if not gaps.any():
            return self._output(given.columns, X)
        rows, places = _different_rows(codes, gaps)
        found = impute(self.model_, _coded(self._encoders, list(rows.T)), **self._how())
        columns = []
        for own, column, code, states in zip(
            self._encoders, given.columns, codes, found.values(), strict=True
        ):
            number = {state: i for i, state in enumerate(own.states)}
            best = np.array([number[state] for state in states], dtype=np.int64)[places]
            empty = code == MISSING
            columns.append(filled(column, empty, own.decoded(best[empty[gaps]])))
        return self._output(columns, X)

    def fit_transform(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Any:
        """Fits the model, and returns `transform(X)`."""
        return self.fit(X, y, sample_weight).transform(X)

    def sample(self, n_samples: int = 1, seed: int | None = None) -> Any:
        """Independent rows drawn from the model, in the container of `transform`.

        The seed is by default that of the estimator. A number of a column with `bins` is the median of its
        interval.
        """
        if not self.__sklearn_is_fitted__():
            raise not_fitted(self)
        budget = {
            name: value
            for name, value in self._how().items()
            if name in ("threads", "memory", "time", "progress")
        }
        drawn = self.model_.sample(
            integer("n_samples", n_samples, 1), seed=self.seed if seed is None else seed, **budget
        ).value
        if drawn.law == "weighted":
            raise OverBudgetError(
                "sample: independent samples do not fit the budget; model_.sample() draws rows with weights"
            )
        columns = [
            own.decoded(np.argsort(places)[drawn.states[:, v]])
            for v, (own, places) in enumerate(zip(self._encoders, self._states, strict=True))
        ]
        return self._output(columns, None)


def _refuse_missing(given: Cells) -> None:
    for name, column in zip(given.labels, given.columns, strict=True):
        gaps = distinct(column)[1] < 0
        if gaps.any():
            raise InputError(f'X: row {int(gaps.argmax())}: column {name} has no value, and missing="refuse"')


def _coded(encoders: list[Categories], codes: list[Codes]) -> dict[str, Coded]:
    """The columns by name, as a table of `zhat.fit`."""
    return {
        own.name: Coded(own.states, np.ascontiguousarray(column))
        for own, column in zip(encoders, codes, strict=True)
    }


def _different_rows(codes: list[Codes], chosen: NDArray[np.bool_]) -> tuple[Codes, NDArray[np.int64]]:
    """The different ones of the chosen rows, and the place of each chosen row among them."""
    matrix = np.maximum(np.column_stack(codes)[chosen], MISSING)
    rows, places = np.unique(matrix, axis=0, return_inverse=True)
    return rows, places.ravel()
