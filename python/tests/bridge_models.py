"""Random models for the tests of the bridges, and their marginals by enumeration."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Factors = list[tuple[tuple[str, ...], Array]]


class Discrete(NamedTuple):
    """States by variable, and factors as scopes and weights; in a network the child is last in each scope."""

    states: dict[str, list[str]]
    factors: Factors

    def joint(self, evidence: dict[str, str] | None = None) -> Array:
        """The weight of every state of the whole model."""
        names = list(self.states)
        shape = [len(states) for states in self.states.values()]
        total = np.ones(shape)
        for scope, table in self.factors:
            axes = [names.index(name) for name in scope]
            order = sorted(range(len(axes)), key=axes.__getitem__)
            wide = [shape[axis] if axis in axes else 1 for axis in range(len(names))]
            total = total * table.transpose(order).reshape(wide)
        for name, state in (evidence or {}).items():
            keep = np.zeros(len(self.states[name]))
            keep[self.states[name].index(state)] = 1.0
            total = total * keep.reshape([-1 if other == name else 1 for other in names])
        return total

    def marginals(self, evidence: dict[str, str] | None = None) -> dict[str, Array]:
        """The marginals of all variables by enumeration."""
        total = self.joint(evidence)
        total = total / total.sum()
        axes = range(total.ndim)
        return {name: total.sum(axis=tuple(a for a in axes if a != v)) for v, name in enumerate(self.states)}


def random_states(variables: int, random: np.random.Generator) -> dict[str, list[str]]:
    """Two to four named states per variable, and one in the second; names are not sorted."""
    names = [f"v{i}" for i in random.permutation(variables)]
    counts = random.integers(2, 5, variables)
    counts[1] = 1
    return {
        name: [f"{name}-{s}" for s in random.permutation(count)]
        for name, count in zip(names, counts, strict=True)
    }


def random_network(seed: int, variables: int = 7) -> Discrete:
    """A Bayesian network with parents in random order, declared in any order; one table is 0 and 1."""
    random = np.random.default_rng(seed)
    states = random_states(variables, random)
    order = [list(states)[i] for i in random.permutation(variables)]
    factors: dict[str, tuple[tuple[str, ...], Array]] = {}
    for place, child in enumerate(order):
        parents = [order[i] for i in random.permutation(place)[: random.integers(0, 4)]]
        rows = random.dirichlet(np.full(len(states[child]), 0.7), [len(states[name]) for name in parents])
        if place == variables - 1:
            rows = np.eye(len(states[child]))[rows.argmax(axis=-1)]
        factors[child] = ((*parents, child), rows)
    return Discrete(states, [factors[child] for child in states])


def random_field(seed: int, variables: int = 6, factors: int = 8) -> Discrete:
    """A Markov random field whose factors have one to three variables, some of them twice, with zeros."""
    random = np.random.default_rng(seed)
    states = random_states(variables, random)
    found: Factors = []
    for f in range(factors):
        scope = tuple(list(states)[v] for v in random.permutation(variables)[: 1 + f % 3])
        table = random.gamma(1.0, 3.0, [len(states[name]) for name in scope])
        if f == 4:
            table[random.random(table.shape) < 0.2] = 0.0
        found.append((scope, table))
    scope, table = found[1]
    found.append((scope[::-1], random.gamma(1.0, 1.0, table.shape[::-1])))
    return Discrete(states, found)


def possible_evidence(model: Discrete, count: int = 2) -> dict[str, str]:
    """The last variables in a state of positive probability."""
    joint = model.joint()
    best = np.unravel_index(joint.argmax(), joint.shape)
    chosen = list(model.states.items())[-count:]
    return {name: states[int(best[list(model.states).index(name)])] for name, states in chosen}
