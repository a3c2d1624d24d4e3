"""Structured predictors by enumeration in NumPy: features of every structure, objective and probabilities."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations, permutations, product

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp

Array = NDArray[np.float64]


def label_sets(labels: int, pairs: list[tuple[int, int]] = ()) -> tuple[list[tuple[int, ...]], Array]:
    """All sets, and their features: labels, then pairs."""
    sets = list(product((0, 1), repeat=labels))
    return sets, np.array([[*y, *(y[i] * y[j] for i, j in pairs)] for y in sets], dtype=float)


def subtrees(parents: list[int | None], pairs: list[tuple[int, int]] = ()) -> tuple[list, Array]:
    """The sets that contain the parents of their members."""
    sets, features = label_sets(len(parents), pairs)
    inside = [all(parent is None or y[parent] >= y[v] for v, parent in enumerate(parents)) for y in sets]
    return [y for y, fine in zip(sets, inside, strict=True) if fine], features[inside]


def orders(items: int, model: str) -> tuple[list[tuple[int, ...]], Array]:
    """All orders, and their features: pairs in their order, or item × position."""
    found = list(permutations(range(items)))

    def features(order: tuple[int, ...]) -> list[float]:
        if model == "precedence":
            return [float(order.index(i) < order.index(j)) for i, j in combinations(range(items), 2)]
        return [float(order[position] == item) for item in range(items) for position in range(items)]

    return found, np.array([features(order) for order in found])


def partitions(elements: int) -> tuple[list[tuple[int, ...]], Array]:
    """All partitions, and their features: pairs in one block."""

    def grown(length: int) -> Iterator[tuple[int, ...]]:
        if length == 0:
            yield ()
            return
        for rest in grown(length - 1):
            for block in range(max(rest, default=-1) + 2):
                yield (*rest, block)

    found = list(grown(elements))
    pairs = list(combinations(range(elements), 2))
    return found, np.array([[float(y[i] == y[j]) for i, j in pairs] for y in found])


def with_bias(x: Array) -> Array:
    return np.column_stack([x, np.ones(len(x))])


def plackett_luce(u: Array, found: list[tuple[int, ...]]) -> tuple[Array, Array]:
    """ln p of orders for the scores of items, and its derivatives by the scores: rows × orders × items."""
    logs = np.zeros((len(u), len(found)))
    slopes = np.zeros((len(u), len(found), u.shape[1]))
    for k, order in enumerate(found):
        for place, item in enumerate(order):
            rest = list(order[place:])
            total = logsumexp(u[:, rest], axis=1, keepdims=True)
            logs[:, k] += u[:, item] - total[:, 0]
            slopes[:, k, item] += 1.0
            slopes[:, k, rest] -= np.exp(u[:, rest] - total)
    return logs, slopes


def log_linear(u: Array, features: Array) -> tuple[Array, Array]:
    """ln p of structures with these features, and its derivatives by the scores of the features."""
    logs = logs_of_scores(u @ features.T)
    return logs, features[None] - (np.exp(logs) @ features)[:, None]


def mean_loss(logs: Array, allowed: list[list[int]]) -> float:
    """The mean of −ln p of events, each a list of structures."""
    return -float(np.mean([logsumexp(row[own]) for row, own in zip(logs, allowed, strict=True)]))


def minimum(
    x: Array,
    by_input: int,
    constants: int,
    family: Callable[[Array], tuple[Array, Array]],
    allowed: list[list[int]],
    penalty: float,
) -> tuple[float, Array]:
    """The minimum of the training objective, by SciPy, and where it is."""
    inputs = with_bias(x)

    def objective(theta: Array) -> tuple[float, Array]:
        weights = theta[: inputs.shape[1] * by_input].reshape(-1, by_input)
        own = np.broadcast_to(theta[weights.size :], (len(x), constants))
        logs, slopes = family(np.column_stack([inputs @ weights, own]))
        errors = np.empty((len(x), by_input + constants))
        for row, places in enumerate(allowed):
            inside = logs[row, places]
            errors[row] = -np.exp(inside - logsumexp(inside)) @ slopes[row, places]
        gradient = [(inputs.T @ errors[:, :by_input]).ravel(), errors[:, by_input:].sum(axis=0)]
        value = mean_loss(logs, allowed) + penalty * float(theta @ theta)
        return value, np.concatenate(gradient) / len(x) + 2 * penalty * theta

    start = np.zeros(inputs.shape[1] * by_input + constants)
    found = minimize(objective, start, jac=True, method="BFGS", options={"gtol": 1e-10, "maxiter": 5000})
    other = minimize(objective, start, jac=True, method="L-BFGS-B", options={"ftol": 1e-16, "gtol": 1e-10})
    assert abs(found.fun - other.fun) < 1e-9 * found.fun
    best = min(found, other, key=lambda result: float(np.abs(result.jac).max()))
    return float(best.fun), best.x


def logs_of_scores(u: Array) -> Array:
    return u - logsumexp(u, axis=1, keepdims=True)


def consistent(ranks: Array, found: list[tuple[int, ...]]) -> list[int]:
    """The orders that agree with a partial ranking; NaN is an item without a rank."""
    pairs = [(i, j) for i in range(len(ranks)) for j in range(len(ranks)) if ranks[i] < ranks[j]]
    return [k for k, order in enumerate(found) if all(order.index(i) < order.index(j) for i, j in pairs)]
