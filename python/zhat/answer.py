"""Answers: a value, its guarantee and diagnostics."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from . import _zhat
from ._html import table

T = TypeVar("T")

# Limits on printed marginals.
_MOST_LINES = 20
_MOST_STATES = 8


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

    def state(self, variable: int, state: int) -> str:
        """The name of a state, or its number if it has no name."""
        own = self.states[variable]
        return own[state] if own else str(state)


class Beliefs(list[NDArray[np.float64]]):
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
        count = len(self)
        return self.names or Names(tuple(f"x{v}" for v in range(count)), ((),) * count)

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


class FactorBeliefs(list[NDArray[np.float64]]):
    """One probability table per factor, with one axis per variable of its scope, all views of `flat`."""

    def __init__(
        self, flat: NDArray[np.float64], scopes: tuple[tuple[int, ...], ...], cardinalities: tuple[int, ...]
    ) -> None:
        """Splits `flat` into one table per scope."""
        shapes = [tuple(cardinalities[v] for v in scope) for scope in scopes]
        ends = np.cumsum([math.prod(shape) for shape in shapes], dtype=np.intp)
        vectors = np.split(flat, ends[:-1]) if shapes else []
        super().__init__(vector.reshape(shape) for vector, shape in zip(vectors, shapes, strict=True))
        self.flat = flat
        self.scopes = scopes
        self.cardinalities = cardinalities

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles such that the tables remain views of one array."""
        return FactorBeliefs, (self.flat, self.scopes, self.cardinalities)

    def __str__(self) -> str:
        """A short summary."""
        return f"{len(self)} factors, {self.flat.size} probabilities"


@dataclass(frozen=True, eq=False)
class BestState:
    """A state and its score, the log weight. The guarantee of the answer applies to the score."""

    state: NDArray[np.int64]
    score: float
    names: Names | None = None

    def by_name(self) -> dict[str, str]:
        """The names of the states by the names of the variables, or by `x0`, `x1`, … and numbers."""
        count = len(self.state)
        names = self.names or Names(tuple(f"x{v}" for v in range(count)), ((),) * count)
        return {name: names.state(v, int(self.state[v])) for v, name in enumerate(names.variables)}

    def __str__(self) -> str:
        """A short summary."""
        state = np.array2string(self.state, threshold=16, max_line_width=200)
        return f"score {_zhat.format_number(self.score)} at {state}"


@dataclass(frozen=True, eq=False)
class Samples:
    """States drawn from a model, one per row. `law` names the distribution that they follow.

    - `exact`: independent draws from the model
    - `weighted`: independent draws from a proposal; row s has weight exp(`log_weights[s]`)
    - `approximate`: the distribution is within total-variation distance `distance` of the model
    """

    states: NDArray[np.int64]
    law: str
    log_weights: NDArray[np.float64] | None = None
    distance: float | None = None

    def __str__(self) -> str:
        """A short summary."""
        count, variables = self.states.shape
        return f"{count} states of {variables} variables, law {self.law}"


@dataclass(frozen=True, eq=False, repr=False)
class Answer(Generic[T]):
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
        """A small table, for notebooks."""
        seconds = _zhat.format_seconds(self.diagnostics["seconds"])
        rows = {self.query: self._words()} if not isinstance(self.value, Beliefs) else self.value._rows()
        rows |= {
            "guarantee": str(self.guarantee),
            "method": f"{self.method}, {seconds}",
        }
        if self.diagnostics["stopped_early"]:
            rows["stopped"] = "early; this is the result so far"
        if "warning" in self.diagnostics:
            rows["warning"] = str(self.diagnostics["warning"])
        return table(rows)

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
