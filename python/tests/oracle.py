"""Small models with edge cases, and their answers by enumeration in NumPy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import zhat

FloatArray = NDArray[np.float64]


@dataclass
class Oracle:
    """The answers of a model, from the scores of all its states."""

    scores: FloatArray

    @classmethod
    def of(cls, model: zhat.FactorGraph) -> Oracle:
        scores = np.zeros(model.cardinalities)
        for scope, table in model.factors:
            shape = [model.cardinalities[v] if v in scope else 1 for v in range(model.n_variables)]
            scores = scores + table.transpose(np.argsort(scope)).reshape(shape)
        return cls(scores)

    @property
    def is_zero(self) -> bool:
        return bool(np.all(self.scores == -np.inf))

    @property
    def log_partition(self) -> float:
        return float(self.best + np.log(np.sum(np.exp(self.scores - self.best))))

    @property
    def probabilities(self) -> FloatArray:
        weights = np.exp(self.scores - self.best)
        return np.asarray(weights / weights.sum())

    @property
    def marginals(self) -> list[FloatArray]:
        axes = range(self.scores.ndim)
        return [np.asarray(self.probabilities.sum(axis=tuple(a for a in axes if a != v))) for v in axes]

    def factor_marginal(self, scope: tuple[int, ...]) -> FloatArray:
        others = tuple(v for v in range(self.scores.ndim) if v not in scope)
        # The sum has its variables in ascending order; the table has them in the order of the scope.
        return np.asarray(self.probabilities.sum(axis=others).transpose(np.argsort(np.argsort(scope))))

    @property
    def entropy(self) -> float:
        p = self.probabilities[self.probabilities > 0]
        return float(-np.sum(p * np.log(p)))

    @property
    def best(self) -> float:
        return float(self.scores.max())


def small_models() -> dict[str, zhat.FactorGraph]:
    """Models by name; some have Z = 0."""
    random = np.random.default_rng(2026)
    models: dict[str, zhat.FactorGraph] = {}
    for i in range(60):
        sizes = random.integers(1, 4, size=random.integers(1, 7))
        scale = [1.0, 3.0, 1e4, 1.0][i % 4]
        zeros = [0.0, 0.0, 0.0, 0.4][i % 4]
        factors = []
        for _ in range(random.integers(0, 9)):
            scope = random.permutation(len(sizes))[: random.integers(0, 4)]
            table = scale * random.normal(size=tuple(sizes[scope]))
            factors.append((scope, np.where(random.random(table.shape) < zeros, -np.inf, table)))
        models[f"random {i}"] = zhat.FactorGraph(sizes, factors)
    models["empty"] = zhat.FactorGraph([])
    models["constant"] = zhat.FactorGraph([], [((), 2.5)])
    models["free"] = zhat.FactorGraph([3, 1, 2])
    models["one state"] = zhat.FactorGraph([1, 1], [((0, 1), [[-1e4]])])
    models["ties"] = zhat.FactorGraph([2, 2], [((0, 1), np.eye(2))])
    models["network"] = zhat.generate.bayes(variables=7, states=3, deterministic=0.5, seed=3)
    models["grid"] = zhat.generate.ising(rows=3, columns=3, torus=True, coupling=2.0, seed=4)
    models["forbidden"] = zhat.FactorGraph(
        [2, 2], [((0,), [0.0, -np.inf]), ((0, 1), [-np.inf, -np.inf, 0, 0])]
    )
    return models
