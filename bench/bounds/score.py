"""The scores of the UAI competition: max(0, 100 (1 − Err / MaxErr))."""

from functools import cache
from math import inf, isfinite, log10, sqrt

from common import peer, uai
from common.models import Model

# The trivial result may be right by chance; an error of 1 or more in log10 Z then still scores 0.
LEAST_MAX_ERROR = 1.0


def hellinger(p: list[float], q: list[float]) -> float:
    """√(1 − Σ √(p q)), computed without cancellation."""
    return sqrt(sum((sqrt(a) - sqrt(b)) ** 2 for a, b in zip(p, q, strict=True)) / 2)


def error(model: Model, query: str, value: float | list[list[float]]) -> float:
    """|Δ log10 Z|, or the mean Hellinger distance over unobserved variables; ∞ if not finite."""
    expected, _ = reference(model, query)
    if query == "logz":
        return abs(value - expected) if isfinite(value) else inf
    observed = evidence(model)
    distances = []
    for v, (p, q) in enumerate(zip(value, expected, strict=True)):
        if len(p) != len(q) or not all(isfinite(x) and x >= 0 for x in p):
            return inf
        if v not in observed:
            distances.append(hellinger(p, q))
    return sum(distances) / len(distances)


@cache
def max_error(model: Model, query: str) -> float:
    """The error of a trivial result: Z = |X| Π mean f, or uniform marginals."""
    expected, _ = reference(model, query)
    if query == "marginals":
        return error(model, query, [[1.0 / len(p)] * len(p) for p in expected])
    _, card, factors, observed = peer.read(str(model.path), model.evidence)
    trivial = sum(log10(k) for v, k in enumerate(card) if v not in observed)
    trivial += sum(log10(table.mean()) for _, table in uai.condition(factors, observed))
    return max(LEAST_MAX_ERROR, error(model, query, trivial))


@cache
def reference(model: Model, query: str) -> tuple[float | list[list[float]], float]:
    """The reference result and half a unit of its last digit."""
    return model.reference(query)


@cache
def evidence(model: Model) -> set[int]:
    """The observed variables."""
    return set(uai.read_evidence(model.evidence))


def score(model: Model, query: str, error: float) -> float:
    """0 to 100."""
    return max(0.0, 100.0 * (1.0 - error / max_error(model, query)))
