"""Queries of models, as functions here and as methods of every model.

All queries take the same keyword arguments:

- `method`: `auto` for the strongest guarantee that fits the budget; `exact`, `bounds` or `unbiased` for the
  strongest guarantee of at least that kind; or the name of a method (`zhat.methods()` lists them)
- `seed`: seed of all random numbers; the same seed gives the same answer
- `threads`: number of threads, by default all processors; answers do not depend on it
- `memory`: memory budget in bytes, or as in `"4GiB"`; 80% of the free memory by default
- `time`: time budget in seconds, or as in `"5min"`; no limit by default
- `input`: for a `Grammar` its sentences, as in `Grammar.with_input`
- `given`: evidence, as in `model.condition`, such as `{"smoker": "yes"}`; for a `SpaceModel` conditions
- `progress`: `True` for a line on stderr, or a function of `(phase, done, total)`, called several times per
  second
- `partial`: if true, Ctrl-C returns the result so far, with `diagnostics["stopped_early"]`, if there is one
- any other keyword argument is an option of the method, such as `samples=100_000`

For a batch (`zhat.Chain`, `zhat.SemiMarkov`), the value has one entry per sequence: numbers are arrays, paths
and samples are lists. See these classes for details.

Queries release the GIL, so other Python threads can run, and Ctrl-C cancels them. An unknown keyword argument
raises `UnknownOptionError`, a `TypeError`.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import wraps
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast

from . import _zhat
from ._arguments import integer, settings, text
from .answer import Answer, Step, T, guarantee_of
from .errors import InputError
from .runtime import Progress, run

if TYPE_CHECKING:
    from ._model import Model

# Value types of a kind of model: a number, marginals, factor marginals, best state, k best states, samples.
N = TypeVar("N")
M = TypeVar("M")
F = TypeVar("F")
B = TypeVar("B")
K = TypeVar("K")
S = TypeVar("S")


P = ParamSpec("P")
Asked = TypeVar("Asked", bound="Model[Any, Any, Any, Any, Any, Any]")


@dataclass(frozen=True)
class How:
    """How a query is run: the method, its options and the budgets."""

    method: str
    seed: int
    threads: int | None
    memory: int | str | None
    time: float | str | None
    progress: Progress | None
    input: Any
    given: Any
    partial: bool
    options: dict[str, object]

    def answer(
        self,
        model: Asked,
        query: str,
        count: int,
        converter: Callable[[Asked], Callable[[Any], T]],
        *,
        warn: bool = True,
    ) -> Answer[T]:
        """Runs a query on a model, conditioned if there is evidence, and converts the value of the answer."""
        budgets = run(self.seed, self.threads, self.memory, self.time, self.progress, self.partial)
        if self.input is not None:
            model = cast("Asked", model._applied(self.input))
        if self.given is not None:
            model = cast("Asked", model._given(self.given))
        method = text("method", self.method)
        parts = model._native.answer(query, count, method, settings(self.options), budgets)
        diagnostics = json.loads(parts["diagnostics"])
        if warn and "warning" in diagnostics:
            warnings.warn(diagnostics["warning"], RuntimeWarning, stacklevel=4)
        value = converter(model)(parts["value"])
        guarantee = guarantee_of(parts, model._items)
        return Answer(
            query,
            value,
            guarantee,
            parts["method"],
            diagnostics,
            dict(parts["forecast"]),
            [Step(*step) for step in parts["trace"]],
            model._layout(query),
        )


def _how(
    *,
    method: str = "auto",
    seed: int = 0,
    threads: int | None = None,
    memory: int | str | None = None,
    time: float | str | None = None,
    progress: Progress | None = None,
    input: Any = None,
    given: Any = None,
    partial: bool = False,
    **options: object,
) -> How:
    return How(method, seed, threads, memory, time, progress, input, given, partial, options)


def _checked(model: Asked) -> Asked:
    """Checks that `model` is a model and returns it."""
    if not isinstance(getattr(model, "_native", None), _zhat.Model):
        raise InputError(f"model: expected a model such as zhat.FactorGraph, found {type(model).__name__}")
    return model


def _query_with(
    how: Callable[P, How],
) -> Callable[[Callable[[Asked, How], Answer[T]]], Callable[Concatenate[Asked, P], Answer[T]]]:
    """A decorator that gives a query the keyword arguments of `how`."""

    def decorate(ask: Callable[[Asked, How], Answer[T]]) -> Callable[Concatenate[Asked, P], Answer[T]]:
        @wraps(ask)
        def query(model: Asked, *args: P.args, **kwargs: P.kwargs) -> Answer[T]:
            return ask(_checked(model), how(*args, **kwargs))

        own = signature(ask)
        first: list[Parameter] = list(own.parameters.values())[:1]
        arguments = first + list(signature(how).parameters.values())
        query.__signature__ = own.replace(parameters=arguments)  # type: ignore[attr-defined]
        return cast("Callable[Concatenate[Asked, P], Answer[T]]", query)

    return decorate


_query = _query_with(_how)


@_query
def log_partition(model: Model[N, Any, Any, Any, Any, Any], how: How) -> Answer[N]:
    """Log Z = log Σ exp score(x) over all states x, in nats; see `zhat.queries` for the arguments.

    >>> import zhat
    >>> model = zhat.FactorGraph([2, 2], [((0, 1), [[0.0, 1.0], [1.0, 0.0]])])
    >>> round(zhat.log_partition(model).value, 6)
    2.006409
    >>> estimate = model.log_partition(method="importance", proposal="uniform", samples=1000)
    >>> estimate.guarantee.kind, estimate.guarantee.low < 2.006409
    ('unbiased', True)
    """
    return how.answer(model, "log_partition", 0, lambda own: own._numbers)


def marginals(
    model: Model[Any, M, Any, Any, Any, Any],
    variables: Iterable[int | str] | None = None,
    *,
    method: str = "auto",
    seed: int = 0,
    threads: int | None = None,
    memory: int | str | None = None,
    time: float | str | None = None,
    progress: Progress | None = None,
    input: Any = None,
    given: Any = None,
    partial: bool = False,
    **options: object,
) -> Answer[M]:
    """P(xᵢ = s) for every variable i and state s, or only for `variables` of a `FactorGraph`.

    See `zhat.queries` for the other arguments.

    >>> import zhat
    >>> model = zhat.FactorGraph([2, 3], [((0,), [1, 3]), ((1,), [1, 1, 2])], log=False, names=["a", "b"])
    >>> beliefs = zhat.marginals(model).value
    >>> [vector.round(6).tolist() for vector in beliefs]
    [[0.25, 0.75], [0.25, 0.25, 0.5]]
    >>> beliefs.by_name()["a"].round(6).tolist()
    [0.25, 0.75]
    >>> print(zhat.marginals(model, ["b"]).value)
    b: 0 0.250000, 1 0.250000, 2 0.500000
    """
    how = How(method, seed, threads, memory, time, progress, input, given, partial, options)
    found = how.answer(_checked(model), "marginals", 0, lambda own: own._marginals)
    if variables is None:
        return found
    return replace(found, value=model._chosen(found.value, variables))


@_query
def factor_marginals(model: Model[Any, Any, F, Any, Any, Any], how: How) -> Answer[F]:
    """The joint probabilities of every factor's variables: one array per factor, one axis per variable.

    The factors and shapes are those of `model.factors`. In a conditioned model, observed variables are
    removed from the scopes and have their own factor at the end. See `zhat.queries` for the arguments.

    >>> import zhat
    >>> model = zhat.FactorGraph([2, 2], [((0, 1), [[1, 2], [3, 0]]), ((1,), [1, 1])], log=False)
    >>> tables = zhat.factor_marginals(model).value
    >>> tables[0].round(6).tolist()
    [[0.166667, 0.333333], [0.5, 0.0]]
    >>> tables.scopes[0], bool(abs(tables[0].sum(axis=0) - tables[1]).max() < 1e-12)
    ((0, 1), True)
    """
    return how.answer(model, "factor_marginals", 0, lambda own: own._factor_marginals)


@_query
def entropy(model: Model[N, Any, Any, Any, Any, Any], how: How) -> Answer[N]:
    """H = −Σ p(x) log p(x), in nats; see `zhat.queries` for the arguments.

    >>> import zhat
    >>> round(zhat.entropy(zhat.FactorGraph([2, 2])).value, 6)
    1.386294
    """
    return how.answer(model, "entropy", 0, lambda own: own._numbers)


@_query
def map(model: Model[Any, Any, Any, B, Any, Any], how: How) -> Answer[B]:
    """The state of largest weight, the lowest one of ties; see `zhat.queries` for the arguments.

    >>> import zhat
    >>> model = zhat.FactorGraph([2, 2], [((0, 1), [[0.0, 1.0], [3.0, 2.0]])])
    >>> best = zhat.map(model).value
    >>> best.state.tolist(), best.score
    ([1, 0], 3.0)
    """
    return how.answer(model, "map", 0, lambda own: own._best)


def k_best(
    model: Model[Any, Any, Any, Any, K, Any],
    k: int,
    *,
    method: str = "auto",
    seed: int = 0,
    threads: int | None = None,
    memory: int | str | None = None,
    time: float | str | None = None,
    progress: Progress | None = None,
    input: Any = None,
    given: Any = None,
    partial: bool = False,
    **options: object,
) -> Answer[K]:
    """The `k` states of largest weight, best first; fewer if fewer states have a positive weight.

    See `zhat.queries` for the arguments.

    >>> import zhat
    >>> model = zhat.FactorGraph([2, 2], [((0, 1), [[0.0, 1.0], [3.0, 2.0]])])
    >>> [(best.state.tolist(), best.score) for best in model.k_best(3).value]
    [([1, 0], 3.0), ([1, 1], 2.0), ([0, 1], 1.0)]
    """
    how = How(method, seed, threads, memory, time, progress, input, given, partial, options)
    return how.answer(_checked(model), "k_best", integer("k", k), lambda own: own._ranked)


def sample(
    model: Model[Any, Any, Any, Any, Any, S],
    n: int = 1,
    *,
    method: str = "auto",
    seed: int = 0,
    threads: int | None = None,
    memory: int | str | None = None,
    time: float | str | None = None,
    progress: Progress | None = None,
    input: Any = None,
    given: Any = None,
    partial: bool = False,
    **options: object,
) -> Answer[S]:
    """Draws `n` states; `law` names their distribution. See `zhat.queries` for the arguments.

    >>> import zhat
    >>> model = zhat.FactorGraph([2, 2], [((0, 1), [[1, 0], [0, 1]])], log=False)
    >>> drawn = zhat.sample(model, 100, seed=7).value
    >>> drawn.law, drawn.states.shape, bool((drawn.states[:, 0] == drawn.states[:, 1]).all())
    ('exact', (100, 2), True)
    """
    how = How(method, seed, threads, memory, time, progress, input, given, partial, options)
    return how.answer(_checked(model), "sample", integer("n", n), lambda own: own._samples)
