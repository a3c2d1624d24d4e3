"""Answers: a value, its guarantee and diagnostics."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from . import _zhat
from ._html import table
from .errors import InputError

T = TypeVar("T")


@dataclass(frozen=True, repr=False)
class Guarantee:
    """The guarantee of an answer. Fields that do not apply to the `kind`, and infinite bounds, are `None`.

    - `exact`: exact up to the rounding allowance `diagnostics["rounding"]`
    - `upper`, `lower`, `interval`: the true value lies between `low` and `high` with this `confidence`; 1
      means certified
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
        """The vectors by the names of the variables."""
        return dict(zip(_named(self.names).variables, self, strict=True))

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles such that the vectors remain views of one array."""
        return Beliefs, (self.flat, tuple(len(vector) for vector in self), self.names)

    def __str__(self) -> str:
        """A short summary."""
        return f"{len(self)} variables, {self.flat.size} probabilities"


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
        """The names of the states by the names of the variables."""
        names = _named(self.names)
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
    """The forecast before the run: `bytes`, `seconds`, `promise`."""

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

    def __repr__(self) -> str:
        """The value, its guarantee, the method and its time."""
        seconds = _zhat.format_seconds(self.diagnostics["seconds"])
        return f"{self.query}: {self._words()}; {self.guarantee} ({self.method}, {seconds})"

    def _repr_html_(self) -> str:
        """A small table, for notebooks."""
        seconds = _zhat.format_seconds(self.diagnostics["seconds"])
        rows = {
            self.query: self._words(),
            "promise": str(self.guarantee),
            "method": f"{self.method}, {seconds}",
        }
        if self.diagnostics["stopped_early"]:
            rows["stopped"] = "before the end; this is the answer so far"
        if "warning" in self.diagnostics:
            rows["warning"] = str(self.diagnostics["warning"])
        return table(rows)

    def _words(self) -> str:
        if isinstance(self.value, np.ndarray):
            shown = np.array2string(self.value, threshold=8, max_line_width=200)
            return shown if self.value.ndim == 1 else f"array {self.value.shape}"
        if isinstance(self.value, float):
            return stated(self.value, self.guarantee, self.diagnostics)
        return str(self.value)


def stated(value: float, guarantee: Guarantee, diagnostics: dict[str, Any]) -> str:
    """A value printed according to its guarantee: a one-sided certified bound is printed as a bound."""
    bounded = guarantee.kind in ("lower", "upper")
    confidence = guarantee.confidence if bounded else None
    return _zhat.format_value(value, guarantee.low, guarantee.high, confidence, diagnostics["rounding"])


def _named(names: Names | None) -> Names:
    if names is None:
        raise InputError("the variables of this model have no names; they go by their numbers")
    return names
