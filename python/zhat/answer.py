"""Answers: a value, its guarantee and diagnostics."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from . import _html, _zhat
from ._frames import Columns, Tabular, array_columns, ragged_columns, span_columns, unused

if TYPE_CHECKING:
    from matplotlib.axes import Axes

T = TypeVar("T")

# Limits on printed marginals.
_MOST_LINES = 20
_MOST_STATES = 8
# The samples and ranked states that are shown.
_FIRST = 10


@dataclass(frozen=True, repr=False)
class Guarantee:
    """The guarantee of an answer. Fields that do not apply to the `kind`, and infinite bounds, are `None`.

    - `exact`: exact up to the rounding allowance `diagnostics["rounding"]`
    - `bounds`: the true value lies between `low` and `high` with this `confidence`; 1 means certified, and an
      end that is `None` is infinite
    - `unbiased`: the mean of Ẑ over seeds is Z, and log Z is at least `low` with this `confidence`
    - `heuristic`: no guarantee, for this `reason`
    - `each`: the sequences of a batch have different guarantees

    For a batch, `each` contains the guarantee for every sequence.
    """

    kind: str
    words: str
    low: float | None = None
    high: float | None = None
    confidence: float | None = None
    relative_std_error: float | None = None
    replicates: int | None = None
    reason: str | None = None
    each: tuple[Guarantee, ...] | None = None

    def __str__(self) -> str:
        """The guarantee as text."""
        return self.words

    def __repr__(self) -> str:
        """The fields that are not `None`."""
        hidden = ("words",) if self.kind == "each" else ("words", "each")
        own = (
            (name, value) for name, value in vars(self).items() if name not in hidden and value is not None
        )
        return f"Guarantee({', '.join(f'{name}={value!r}' for name, value in own)})"


def guarantee_of(parts: _zhat.Parts, items: int | None) -> Guarantee:
    """The guarantee of an answer; for a batch with that many items also the guarantee of each."""
    figures = {name: value for name, value in json.loads(parts["guarantee"]).items() if name != "items"}
    whole = Guarantee(words=parts["words"], **figures)
    if items is None:
        return whole
    each = [Guarantee(words=words, **json.loads(figures)) for figures, words in parts["each"]]
    return replace(whole, each=tuple(each or [whole] * items))


@dataclass(frozen=True)
class Names:
    """The names of a model's variables and of their states; for numbered states the tuple is empty."""

    variables: tuple[str, ...]
    states: tuple[tuple[str, ...], ...]

    @staticmethod
    def numbered(count: int) -> Names:
        """The names `x0`, `x1`, … of variables without names."""
        return Names(tuple(f"x{v}" for v in range(count)), ((),) * count)

    def state(self, variable: int, state: int) -> str:
        """The name of a state, or its number if it has no name."""
        own = self.states[variable]
        return own[state] if own else str(state)

    def columns(self, states: NDArray[np.int64]) -> Columns:
        """One column per variable with the states of each row: names, or numbers if they have none."""

        def column(v: int) -> Any:
            own, codes = self.states[v], states[:, v]
            return [own[code] for code in codes] if own else codes

        return {name: column(v) for v, name in enumerate(self.variables)}


@dataclass(frozen=True)
class Layout:
    """The meaning of the axes of an array, for tables and pictures."""

    axes: tuple[str, ...] = ()
    """The name of each axis, such as `position` and `state`."""
    title: str = ""
    """The event whose probabilities are in the array."""
    lengths: tuple[int, ...] | None = None
    """The number of positions of each sequence of a batch."""
    spans: bool = False
    """Whether the last axes are the first word, the last word and the symbol of a span."""


class Step(NamedTuple):
    """The best bounds on log Z at one time of a run; an unknown end is infinite."""

    seconds: float
    low: float
    high: float


class Beliefs(Tabular, list[NDArray[np.float64]]):
    """One probability vector per variable, all views of the array `flat`."""

    def __init__(
        self, flat: NDArray[np.float64], cardinalities: tuple[int, ...], names: Names | None
    ) -> None:
        """Splits `flat` into one vector per variable."""
        ends = np.cumsum(cardinalities, dtype=np.intp)
        super().__init__(np.split(flat, ends[:-1]) if cardinalities else [])
        self.flat = flat
        self.names = names

    def by_name(self) -> dict[str, NDArray[np.float64]]:
        """The vectors by the names of the variables, which are `x0`, `x1`, … if they have none."""
        return dict(zip(self._names().variables, self, strict=True))

    def of(self, variables: Sequence[int]) -> Beliefs:
        """The beliefs of these variables, in this order."""
        names = self._names()
        own = Names(tuple(names.variables[v] for v in variables), tuple(names.states[v] for v in variables))
        chosen = [self[v] for v in variables]
        flat = np.concatenate(chosen) if chosen else np.empty(0)
        return Beliefs(flat, tuple(len(vector) for vector in chosen), own)

    def _names(self) -> Names:
        return self.names or Names.numbered(len(self))

    def _columns(self) -> Columns:
        names = self._names()
        sizes = [len(vector) for vector in self]
        numbers = np.concatenate([np.arange(size) for size in sizes]) if sizes else np.arange(0)
        named = any(names.states)
        return {
            "variable": [
                name for name, size in zip(names.variables, sizes, strict=True) for _ in range(size)
            ],
            "state": [names.state(v, s) for v, size in enumerate(sizes) for s in range(size)]
            if named
            else numbers,
            "probability": self.flat,
        }

    def common_states(self) -> list[str] | None:
        """The names of the states, if all variables have the same; otherwise `None`."""
        names = self._names()
        known = {tuple(names.state(v, s) for s in range(len(vector))) for v, vector in enumerate(self)}
        return list(known.pop()) if len(known) == 1 else None

    def _repr_html_(self) -> str:
        """A table, for notebooks: one column per state if all variables have the same few states."""
        names, shown = self._names(), range(min(len(self), _MOST_LINES))
        more = _html.and_more(len(self), len(shown), "variables")
        common = self.common_states()
        if common is not None and len(common) <= _MOST_STATES:
            rows = ([names.variables[v], *map(_html.probability, self[v])] for v in shown)
            return _html.columns(["variable", *common], rows, more)
        lines: list[list[str]] = []
        for v in shown:
            for s, p in enumerate(self[v][:_MOST_STATES]):
                lines.append([names.variables[v] if s == 0 else "", names.state(v, s), _html.probability(p)])
            hidden = _html.and_more(len(self[v]), _MOST_STATES, "states")
            if hidden:
                lines.append(["", hidden, ""])
        return _html.columns(["variable", "state", "probability"], lines, more)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles such that the vectors remain views of one array."""
        return Beliefs, (self.flat, tuple(len(vector) for vector in self), self.names)

    def __str__(self) -> str:
        """One line per variable with the probabilities of its states; the first lines of many."""
        lines = [f"{name}: {states}" for name, states in self._rows().items()]
        return "\n".join(lines)

    def _rows(self) -> dict[str, str]:
        """The probabilities as text, by variable; the first of many."""
        names = self._names()

        def states(v: int) -> str:
            shown = [f"{names.state(v, s)} {p:.6f}" for s, p in enumerate(self[v][:_MOST_STATES])]
            more = [f"and {len(self[v]) - _MOST_STATES} more"] if len(self[v]) > _MOST_STATES else []
            return ", ".join(shown + more)

        rows = {names.variables[v]: states(v) for v in range(min(len(self), _MOST_LINES))}
        if len(self) > _MOST_LINES:
            rows["…"] = f"{len(self) - _MOST_LINES} more variables"
        return rows


class FactorBeliefs(Tabular, list[NDArray[np.float64]]):
    """One probability table per factor, with one axis per variable of its scope, all views of `flat`."""

    def __init__(
        self,
        flat: NDArray[np.float64],
        scopes: tuple[tuple[int, ...], ...],
        cardinalities: tuple[int, ...],
        names: Names | None = None,
    ) -> None:
        """Splits `flat` into one table per scope."""
        shapes = [tuple(cardinalities[v] for v in scope) for scope in scopes]
        ends = np.cumsum([math.prod(shape) for shape in shapes], dtype=np.intp)
        vectors = np.split(flat, ends[:-1]) if shapes else []
        super().__init__(vector.reshape(shape) for vector, shape in zip(vectors, shapes, strict=True))
        self.flat = flat
        self.scopes = scopes
        self.cardinalities = cardinalities
        self.names = names

    def _columns(self) -> Columns:
        return self._first(self.flat.size)

    def _first(self, most: int) -> Columns:
        """The first rows of the table."""
        names = self.names or Names.numbered(len(self.cardinalities))
        factors: list[int] = []
        variables: list[str] = []
        states: list[str] = []
        for f, (scope, beliefs) in enumerate(zip(self.scopes, self, strict=True)):
            if len(factors) >= most:
                break
            for state in np.ndindex(beliefs.shape):
                factors.append(f)
                variables.append(", ".join(names.variables[v] for v in scope))
                states.append(", ".join(names.state(v, s) for v, s in zip(scope, state, strict=True)))
        return {
            "factor": np.array(factors[:most], dtype=np.int64),
            "variables": variables[:most],
            "states": states[:most],
            "probability": self.flat[:most],
        }

    def _repr_html_(self) -> str:
        """A table of the first probabilities, for notebooks."""
        first = self._first(_MOST_LINES)
        rows = zip(
            map(str, first["factor"]),
            first["variables"],
            first["states"],
            map(_html.probability, first["probability"]),
            strict=True,
        )
        return _html.columns(list(first), rows, _html.and_more(self.flat.size, _MOST_LINES, "rows"))

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles such that the tables remain views of one array."""
        return FactorBeliefs, (self.flat, self.scopes, self.cardinalities, self.names)

    def __str__(self) -> str:
        """A short summary."""
        return f"{len(self)} factors, {self.flat.size} probabilities"


@dataclass(frozen=True, eq=False)
class BestState(Tabular):
    """A state and its score, the log weight. The guarantee of the answer applies to the score."""

    state: NDArray[np.int64]
    score: float
    names: Names | None = None

    def by_name(self) -> dict[str, str]:
        """The names of the states by the names of the variables, or by `x0`, `x1`, … and numbers."""
        names = self.names or Names.numbered(len(self.state))
        return {name: names.state(v, int(self.state[v])) for v, name in enumerate(names.variables)}

    def _columns(self) -> Columns:
        return ranked_columns([self])

    def _repr_html_(self) -> str:
        """A table of the first variables and their states, for notebooks."""
        rows = list(self.by_name().items())
        more = _html.and_more(len(rows), _MOST_LINES, "variables")
        score = _html.line(f"score {_zhat.format_number(self.score)}")
        return _html.block(_html.columns(["variable", "state"], rows[:_MOST_LINES], more), score)

    def __str__(self) -> str:
        """A short summary."""
        state = np.array2string(self.state, threshold=16, max_line_width=200)
        return f"score {_zhat.format_number(self.score)} at {state}"


def ranked_columns(ranked: Sequence[BestState]) -> Columns:
    """States as a table: one row each with its score and one column per variable."""
    if not ranked:
        return {"score": np.empty(0)}
    names = ranked[0].names or Names.numbered(len(ranked[0].state))
    scores = np.array([best.score for best in ranked])
    return {unused("score", names.variables): scores} | names.columns(np.stack([b.state for b in ranked]))


@dataclass(frozen=True, eq=False)
class Samples(Tabular):
    """States drawn from a model, one per row. `law` names the distribution that they follow.

    - `exact`: independent draws from the model
    - `weighted`: independent draws from a proposal; row s has weight exp(`log_weights[s]`)
    - `chains`: correlated states of Markov chains, whose convergence is not guaranteed
    - `approximate`: the distribution is within total-variation distance `distance` of the model
    """

    states: NDArray[np.int64]
    law: str
    log_weights: NDArray[np.float64] | None = None
    distance: float | None = None
    names: Names | None = None

    def _columns(self) -> Columns:
        names = self.names or Names.numbered(self.states.shape[1])
        columns = names.columns(self.states)
        if self.log_weights is not None:
            columns[unused("log_weight", names.variables)] = self.log_weights
        return columns

    def _repr_html_(self) -> str:
        """A table of the first samples, for notebooks."""
        first = replace(self, states=self.states[:_FIRST], log_weights=None)
        more = _html.and_more(len(self.states), _FIRST, "samples")
        weights = self.log_weights
        extra = {} if weights is None else {"log weight": [_html.number(w) for w in weights[:_FIRST]]}
        law = f"law {self.law}" + ("" if self.distance is None else f", distance {self.distance:g}")
        return _html.block(_wide(first._columns(), extra, more), _html.line(law))

    def __str__(self) -> str:
        """A short summary."""
        count, variables = self.states.shape
        return f"{count} states of {variables} variables, law {self.law}"


def _wide(columns: Columns, extra: dict[str, list[_html.Cell]], more: str) -> _html.Markup:
    """A table of the first columns of many, after `extra` ones."""
    shown = dict(list(columns.items())[: _html.MOST_COLUMNS])
    texts = {**extra, **{name: [str(value) for value in values] for name, values in shown.items()}}
    hidden = len(columns) - len(shown)
    header = [*texts, *([f"… {hidden:,} more"] if hidden else [])]
    rows = ([*row, *([""] if hidden else [])] for row in zip(*texts.values(), strict=True))
    return _html.columns(header, rows, more)


@dataclass(frozen=True, eq=False, repr=False)
class Answer(Tabular, Generic[T]):
    """A value with its guarantee.

    >>> import zhat
    >>> answer = zhat.generate.ising(rows=4, columns=4).log_partition()
    >>> answer  # doctest: +ELLIPSIS
    log_partition: 13.30...; exact (elimination, ...)
    >>> answer.guarantee.kind, answer.method, answer.diagnostics["width"]
    ('exact', 'elimination', 4)
    >>> float(answer) == answer.value
    True
    """

    query: str
    """The name of the query."""
    value: T
    """The value: a number in nats, `Beliefs`, `FactorBeliefs`, `BestState`, `Samples`, or see `Chain`."""
    guarantee: Guarantee
    """The guarantee of the value."""
    method: str
    """The method used."""
    diagnostics: dict[str, Any]
    """Diagnostics: `seconds`, `rounding`, `stopped_early`, and figures of the method."""
    forecast: dict[str, Any]
    """The forecast before the run: `bytes`, `seconds`, `guarantee`."""
    trace: list[Step] = field(default_factory=list)
    """The bounds on log Z as they improved, as `(seconds, low, high)`; empty if the method reports none."""
    layout: Layout = Layout()
    """The meaning of the axes of `value`, if it is an array."""

    @property
    def log10(self) -> T:
        """Log Z to base 10."""
        if self.query != "log_partition":
            raise AttributeError(f"an answer to {self.query} has no log10; one to log_partition has")
        value: Any = self.value
        return cast(T, value / math.log(10))

    def __float__(self) -> float:
        """The value, if it is a number."""
        if isinstance(self.value, float):
            return self.value
        raise TypeError(f"an answer to {self.query} is not a number")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """The value as an array, if it is a number or an array: `np.exp(answer)` works."""
        if not isinstance(self.value, (float, np.ndarray)):
            raise TypeError(f"an answer to {self.query} is not a number or an array of numbers")
        return np.array(self.value, dtype=dtype) if copy else np.asarray(self.value, dtype=dtype)

    def __format__(self, spec: str) -> str:
        """The number in this format: `f"{answer:.3f}"`."""
        return format(float(self), spec) if spec else str(self)

    def __add__(self, other: Any) -> Any:
        """The value plus a number."""
        return _number(self) + _number(other)

    def __radd__(self, other: Any) -> Any:
        """A number plus the value."""
        return _number(other) + _number(self)

    def __sub__(self, other: Any) -> Any:
        """The value minus a number."""
        return _number(self) - _number(other)

    def __rsub__(self, other: Any) -> Any:
        """A number minus the value."""
        return _number(other) - _number(self)

    def __mul__(self, other: Any) -> Any:
        """The value times a number."""
        return _number(self) * _number(other)

    def __rmul__(self, other: Any) -> Any:
        """A number times the value."""
        return _number(other) * _number(self)

    def __truediv__(self, other: Any) -> Any:
        """The value divided by a number."""
        return _number(self) / _number(other)

    def __rtruediv__(self, other: Any) -> Any:
        """A number divided by the value."""
        return _number(other) / _number(self)

    def __neg__(self) -> Any:
        """Minus the value."""
        return -_number(self)

    def __lt__(self, other: Any) -> Any:
        """Whether the value is less than a number."""
        return _number(self) < _number(other)

    def __gt__(self, other: Any) -> Any:
        """Whether the value is greater than a number."""
        return _number(self) > _number(other)

    def __repr__(self) -> str:
        """The value, its guarantee, the method and its time."""
        seconds = _zhat.format_seconds(self.diagnostics["seconds"])
        return f"{self.query}: {self._words()}; {self._guarantee_words()} ({self.method}, {seconds})"

    def _repr_html_(self) -> str:
        """A table, for notebooks."""
        about = {
            "guarantee": str(self.guarantee),
            "method": f"{self.method}, {_zhat.format_seconds(self.diagnostics['seconds'])}",
        }
        if self.diagnostics["stopped_early"]:
            about["stopped"] = "early; this is the result so far"
        if "warning" in self.diagnostics:
            about["warning"] = str(self.diagnostics["warning"])
        if isinstance(self.value, float):
            rows = {self.query: self._words()}
            picture = _html.interval(self.value, self.guarantee)
            return _html.table(rows | ({} if picture is None else {"bounds": picture}) | about)
        return _html.block(_html.line(self.query), self._body(), _html.table(about))

    def _body(self) -> _html.Markup:
        """The value in a notebook."""
        own = getattr(self.value, "_repr_html_", None)
        if own is not None:
            return _html.Markup(own())
        if isinstance(self.value, np.ndarray):
            return self._array_body(self.value)
        if isinstance(self.value, list) and all(isinstance(best, BestState) for best in self.value):
            first = ranked_columns(self.value[:_FIRST])
            scores = first.pop(next(iter(first)))
            ranks = [_html.number(rank) for rank in range(1, len(scores) + 1)]
            extra = {"rank": ranks, "score": [_html.number(score) for score in scores]}
            return _wide(first, extra, _html.and_more(len(self.value), _FIRST, "states"))
        if isinstance(self.value, list):
            from .sequence_answer import paths_html

            return paths_html(self.value, self.query == "k_best")
        return _html.line(str(self.value))

    def _array_body(self, values: NDArray[Any]) -> _html.Markup:
        axes = self.layout.axes
        title = [_html.line(self.layout.title)] if self.layout.title else []
        if self.query != "marginals" and values.ndim == 1 and self.guarantee.each is not None:
            each = list(zip(values.tolist(), self.guarantee.each, strict=True))
            rows = [
                [str(b), stated(value, own, self.diagnostics), str(own)]
                for b, (value, own) in enumerate(each[:_MOST_LINES])
            ]
            more = _html.and_more(len(each), _MOST_LINES, "sequences")
            return _html.columns(["sequence", self.query, "guarantee"], rows, more)
        if values.ndim != len(axes):
            return _html.line(self._words())
        if self.layout.spans:
            return self._spans_body(values, title)
        if values.ndim == 1:
            chances = ([str(i), _html.probability(p)] for i, p in enumerate(values[:_MOST_LINES]))
            more = _html.and_more(len(values), _MOST_LINES, f"{axes[0]}s")
            return _html.block(*title, _html.columns([axes[0], "probability"], chances, more))
        if values.ndim == 2 and _html.fits(values):
            return _html.block(*title, _html.heat_map(values, *axes))
        if values.ndim == 3 and _html.fits(values):
            lengths = self.layout.lengths or (values.shape[1],) * len(values)
            parts: list[str] = []
            for b, length in enumerate(lengths):
                parts += [_html.line(f"{axes[0]} {b}"), _html.heat_map(values[b, :length], *axes[1:])]
            return _html.block(*title, *parts)
        return _html.block(*title, _html.summary(values, axes))

    def _spans_body(self, values: NDArray[Any], title: list[_html.Markup]) -> _html.Markup:
        """Heat maps by first and last word, summed over the symbols."""
        single, lengths = values.ndim == 3, self.layout.lengths or ()
        tables = values.sum(axis=-1)[np.newaxis] if single else values.sum(axis=-1)
        if not _html.fits(tables):
            axes = ("first word", "last word", "symbol")
            return _html.block(*title, _html.summary(values, axes if single else ("sentence", *axes)))
        parts: list[str] = []
        for b, length in enumerate(lengths):
            parts += [] if single else [_html.line(f"sentence {b}")]
            parts.append(_html.heat_map(tables[b, :length, :length], "first", "last"))
        return _html.block(*title, *parts)

    def to_pandas(self) -> Any:
        """The value as a `pandas.DataFrame`.

        - a number: `value`, `low`, `high` and `kind` (of guarantee); for a batch one row per `sequence`
        - marginals: `variable`, `state` and `probability`; for chains `position` instead of `variable`, and
          `sequence` for a batch; for a `SpaceModel` one or two columns such as `item` and `position`; for a
          `Hypertree` `first`, `last`, `symbol` and the `expected` number of nodes
        - `map` and `k_best`: `score` and one column per variable, by name; for chains `score`, `position` and
          `state`, with `rank` for `k_best`, or for semi-Markov chains one row per segment
        - samples: one column per variable, and `log_weight` if they are weighted; for chains `sample`,
          `position` and `state`

        >>> import zhat
        >>> model = zhat.FactorGraph(
        ...     [2], [((0,), [1, 3])], log=False, names=["rain"], state_names=[["no", "yes"]]
        ... )
        >>> model.marginals().to_pandas()  # doctest: +SKIP
          variable state  probability
        0     rain    no         0.25
        1     rain   yes         0.75
        """
        return super().to_pandas()

    def _columns(self) -> Columns:
        value: Any = self.value
        if isinstance(value, float):
            return _number_columns([value], [self.guarantee])
        if isinstance(value, Tabular):
            return value._columns()
        if isinstance(value, np.ndarray):
            return self._array_columns(value)
        if isinstance(value, list) and all(isinstance(best, BestState) for best in value):
            return ranked_columns(value)
        if isinstance(value, list):
            from .sequence_answer import paths_columns

            return paths_columns(value, self.query == "k_best")
        raise TypeError(
            f"an answer to {self.query} with a {type(value).__name__} is not a table; numbers, probabilities "
            "of states, best states and samples are"
        )

    def _array_columns(self, values: NDArray[Any]) -> Columns:
        axes = self.layout.axes
        if self.query != "marginals" and self.guarantee.each is not None:
            return {"sequence": np.arange(len(values))} | _number_columns(values, self.guarantee.each)
        if values.ndim != len(axes):
            raise TypeError(f"an answer to {self.query} is an array {values.shape}, not a table")
        if self.layout.spans:
            return span_columns(values, axes, self.layout.lengths or ())
        if self.layout.lengths is not None:
            return ragged_columns(values, axes, self.layout.lengths)
        return array_columns(values, axes)

    def plot(self, ax: Axes | None = None, *, sequence: int | None = None) -> Axes:
        """Draws the value with matplotlib and returns the axes; a new figure is created without `ax`.

        - a number with a `trace`: its bounds over time; other numbers: an interval on a row of its own, so
          that several answers can be drawn on the same axes; for a batch one row per sequence
        - marginals of a `FactorGraph`: bars, or a heat map if there are many variables
        - other marginals: a heat map, such as the probability of each state over the positions of a chain;
          `sequence` selects one of a batch
        - the best path of a chain: its state over the positions, also on top of a heat map

        >>> import zhat
        >>> chain = zhat.generate.chain(states=3, steps=20)
        >>> ax = chain.marginals().plot()  # doctest: +SKIP
        >>> chain.map().plot(ax=ax)  # doctest: +SKIP
        """
        from ._plot import answer

        return answer(self, ax, sequence)

    def __str__(self) -> str:
        """The same; marginals with their probabilities, one line per variable."""
        if not isinstance(self.value, Beliefs):
            return repr(self)
        seconds = _zhat.format_seconds(self.diagnostics["seconds"])
        return f"{self.value}\n{self.guarantee} ({self.method}, {seconds})"

    def _guarantee_words(self) -> str:
        """The guarantee; certified bounds without their ends, which are printed in place of the value."""
        own = self.guarantee
        printed = isinstance(self.value, float) and own.kind == "bounds" and own.confidence == 1
        return "certified" if printed else str(own)

    def _words(self) -> str:
        if isinstance(self.value, Beliefs):
            return f"{len(self.value)} variables, {self.value.flat.size} probabilities"
        if isinstance(self.value, np.ndarray):
            shown = np.array2string(self.value, threshold=8, max_line_width=200)
            return shown if self.value.ndim == 1 else f"array {self.value.shape}"
        if isinstance(self.value, float):
            return stated(self.value, self.guarantee, self.diagnostics)
        return str(self.value)


def _number_columns(values: Any, guarantees: Sequence[Guarantee]) -> Columns:
    """One row per number with its bounds, NaN if there are none."""

    def column(ends: list[float | None]) -> NDArray[np.float64]:
        return np.array([math.nan if end is None else end for end in ends])

    return {
        "value": np.asarray(values, dtype=np.float64),
        "low": column([own.low for own in guarantees]),
        "high": column([own.high for own in guarantees]),
        "kind": [own.kind for own in guarantees],
    }


def stated(value: float, guarantee: Guarantee, diagnostics: dict[str, Any]) -> str:
    """A value printed according to its guarantee: a certified bound is printed as a bound."""
    figures = {name: own for name, own in vars(guarantee).items() if name not in ("words", "each")}
    return _zhat.format_value(value, json.dumps(figures), diagnostics["rounding"])


def _number(value: Any) -> Any:
    """The number or array of an answer; any other value unchanged."""
    if not isinstance(value, Answer):
        return value
    if not isinstance(value.value, (float, np.ndarray)):
        raise TypeError(f"an answer to {value.query} is not a number or an array of numbers")
    return value.value
