"""Models of discrete and continuous variables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

from . import _zhat
from ._arguments import integer, real, text
from ._model import Model
from .errors import InputError


@dataclass(frozen=True)
class Counts:
    """The domain of a count variable: the integers from `low` to `high`, or all integers from `low` on."""

    low: int = 0
    high: int | None = None


Domain: TypeAlias = "int | tuple[float, float] | Counts"
"""The number of states of a discrete variable, the interval of a continuous one, or `Counts`."""

Factor: TypeAlias = "tuple[int, str] | tuple[int, str, float] | tuple[int, str, float, float]"
"""A variable, the name of a statistic, its argument, and for a distance its centre."""


class MixedModel(Model[float, Any, Any, Any, Any, Any], kind="mixed-model"):
    """Log density Σⱼ θⱼ Πᵥ f(xᵥ) of discrete variables and continuous variables on intervals.

    `domains` contains for each variable its number of states, `(low, high)`, or `Counts(low, high)`. `terms`
    are pairs of a weight θ and a list of factors: `(variable, "power", c)` for xᶜ, where c is any real number
    except 0; `(variable, "distance", c, m)` for |x − m|ᶜ, where c > 0; `(variable, "log", c)` for (ln x)ᶜ;
    `(variable, "log1m")` for ln(1 − x); `(variable, "log_factorial")` for ln x! of a count; `(variable,
    "state", s)` for 1 in state s and 0 otherwise. A term without factors is a constant. Powers other than
    positive integers, and logarithms, need an interval above 0; ln(1 − x) needs an interval below 1. A count
    without an upper limit needs terms that make its sum converge, such as ln x! with a negative weight.

    `log_partition` is the logarithm of the sum and integral of the density. Its methods are "sccq" (a
    certified interval, unless there is a `log1m` factor) and "gauss-legendre" (numerical, for reference).

    >>> import zhat
    >>> model = zhat.MixedModel([(0.0, 1.0)], [(-2.0, [(0, "power", 1)])])  # exp(−2x) on [0, 1]
    >>> model
    MixedModel(1 variable, 1 continuous, 1 term)
    >>> answer = model.log_partition()
    >>> round(answer.value, 6), answer.guarantee.kind
    (-0.838561, 'bounds')
    """

    def __init__(self, domains: Iterable[Domain], terms: Iterable[tuple[float, Iterable[Factor]]]) -> None:
        """Builds and checks the model."""
        self._native = _zhat.mixed(
            [_domain(v, domain) for v, domain in enumerate(domains)],
            [_term(j, term) for j, term in enumerate(terms)],
        )

    @classmethod
    def family(
        cls,
        name: str,
        *parameters: float | Sequence[float],
        low: float | None = None,
        high: float | None = None,
    ) -> MixedModel:
        """The unnormalised density of a well-known family, restricted to [low, high].

        The parameters are: mean and standard deviation for `gaussian`, rate for `exponential`, shape and rate
        for `gamma`, degrees of freedom for `chi-squared`, shape and scale for `weibull`, mean and standard
        deviation of ln x for `log-normal`, shape for `pareto`, centre and scale for `laplace`, rate for
        `poisson` (a count; without `high` the sum is over all counts), alpha and beta for `beta`, and the
        concentrations for `dirichlet`. The last two contain ln(1 − x), so their results are numerical; a
        Dirichlet density is represented by its independent stick-breaking variables. The default for an end
        that is not given excludes little of the mass.

        >>> import zhat
        >>> normal = zhat.MixedModel.family("gaussian", 0.0, 1.0, low=-10, high=10)
        >>> round(normal.log_partition().value, 6)  # ln √2π
        0.918939
        """
        flat: list[float] = []
        for parameter in parameters:
            items = parameter if isinstance(parameter, Sequence) else [parameter]
            flat.extend(real("parameters", item) for item in items)
        ends = [None if end is None else real(name, end) for name, end in (("low", low), ("high", high))]
        return cls._wrap(_zhat.family(text("name", name), flat, ends[0], ends[1]))

    @classmethod
    def gaussian_mixture(
        cls,
        weights: Iterable[float],
        means: Iterable[float],
        deviations: Iterable[float],
        *,
        low: float,
        high: float,
    ) -> MixedModel:
        """A class k and x on [low, high], normal given k: density Σₖ wₖ exp(−(x − μₖ)²/2σₖ²)/σₖ.

        >>> import zhat
        >>> mixture = zhat.MixedModel.gaussian_mixture([0.5, 0.5], [-1, 2], [1, 0.5], low=-10, high=10)
        >>> round(mixture.log_partition().value, 6)
        0.918939
        """
        return cls._wrap(
            _zhat.gaussian_mixture(
                [real("weights", w) for w in weights],
                [real("means", mean) for mean in means],
                [real("deviations", deviation) for deviation in deviations],
                (real("low", low), real("high", high)),
            )
        )

    @cached_property
    def _parts(self) -> tuple[list[Domain], list[tuple[float, list[Factor]]]]:
        variables, terms = _zhat.mixed_parts(self._native)

        def domain(states: int, counts: bool, low: float, high: float) -> Domain:
            if states:
                return states
            return Counts(int(low), None if high == math.inf else int(high)) if counts else (low, high)

        def short(factor: tuple[int, str, float, float]) -> Factor:
            return factor if factor[1] == "distance" else factor[:3]

        built = [(weight, [short(factor) for factor in factors]) for weight, factors in terms]
        return [domain(*variable) for variable in variables], built

    @property
    def domains(self) -> list[Domain]:
        """For each variable its number of states, its interval, or its `Counts`."""
        return list(self._parts[0])

    @property
    def terms(self) -> list[tuple[float, list[Factor]]]:
        """The terms: weights and factors."""
        return [(weight, list(factors)) for weight, factors in self._parts[1]]

    def score(self, point: Iterable[float]) -> float:
        """The log density at a point; states are given by their numbers.

        >>> import zhat
        >>> zhat.MixedModel([(0.0, 4.0)], [(-0.5, [(0, "power", 2)])]).score([2.0])
        -2.0
        """
        return _zhat.mixed_score(self._native, [real("point", x) for x in point])

    def _numbers(self, raw: Any) -> float:
        return float(raw)

    def _figures(self) -> dict[str, str]:
        def count(number: int, noun: str) -> str:
            return f"{number} {noun}{'' if number == 1 else 's'}"

        continuous = sum(isinstance(domain, tuple) for domain in self._parts[0])
        return {
            "variables": count(len(self._parts[0]), "variable"),
            "continuous": f"{continuous} continuous",
            "terms": count(len(self._parts[1]), "term"),
        }

    def __hash__(self) -> int:
        """A hash that equal models share."""
        return hash((len(self._parts[0]), len(self._parts[1])))


def _domain(v: int, domain: object) -> tuple[int, bool, float, float]:
    name = f"domains[{v}]"
    if isinstance(domain, Counts):
        high = math.inf if domain.high is None else float(integer(name, domain.high))
        return 0, True, float(integer(name, domain.low)), high
    if isinstance(domain, Sequence):
        if len(domain) != 2:
            raise InputError(f"{name}: expected a number of states, (low, high) or Counts, found {domain!r}")
        return 0, False, real(name, domain[0]), real(name, domain[1])
    return integer(name, domain, 1), False, 0.0, 0.0


def _term(j: int, term: Any) -> tuple[float, list[tuple[int, str, float, float]]]:
    name = f"terms[{j}]"
    try:
        weight, factors = term
        listed = [tuple(factor) for factor in factors]
    except (TypeError, ValueError):
        raise InputError(f"{name}: expected a weight and a list of factors, found {term!r}") from None
    built = []
    for factor in listed:
        if len(factor) not in (2, 3) and not (len(factor) == 4 and factor[1] == "distance"):
            raise InputError(f"{name}: expected (variable, statistic, argument), found {factor!r}")
        argument = real(name, factor[2]) if len(factor) > 2 else 1.0
        centre = real(name, factor[3]) if len(factor) == 4 else 0.0
        built.append((integer(name, factor[0]), text(name, factor[1]), argument, centre))
    return real(name, weight), built
