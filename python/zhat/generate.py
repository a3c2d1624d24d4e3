"""Random models to test with and to play with; the same seed gives the same model."""

from __future__ import annotations

from . import _zhat
from ._arguments import integer, real
from .model import FactorGraph


def ising(
    rows: int = 10,
    columns: int = 10,
    *,
    torus: bool = False,
    coupling: float = 0.5,
    field: float = 0.1,
    uniform: bool = False,
    seed: int = 0,
) -> FactorGraph:
    """An Ising grid: score Σ Jᵢⱼ sᵢ sⱼ + Σ hᵢ sᵢ with s = ±1.

    hᵢ is normal with standard deviation `field`, and Jᵢⱼ with `coupling`; if `uniform`, Jᵢⱼ is `coupling`
    itself. `torus` joins opposite sides.

    >>> ising(rows=3, columns=4)
    FactorGraph(12 variables, 2 states each, 29 factors)
    """
    grid = (integer("rows", rows), integer("columns", columns), bool(torus))
    strengths = (real("coupling", coupling), real("field", field))
    return FactorGraph._wrap(_zhat.ising(grid, *strengths, bool(uniform), _seed(seed)))


def potts(
    rows: int = 10,
    columns: int = 10,
    *,
    states: int = 3,
    torus: bool = False,
    coupling: float = 0.5,
    field: float = 0.1,
    uniform: bool = False,
    seed: int = 0,
) -> FactorGraph:
    """A Potts grid: score Σ Jᵢⱼ·[xᵢ = xⱼ] + Σ hᵢ(xᵢ), otherwise as `ising`.

    >>> potts(rows=3, columns=4, states=5)
    FactorGraph(12 variables, 5 states each, 29 factors)
    """
    grid = (integer("rows", rows), integer("columns", columns), bool(torus))
    strengths = (real("coupling", coupling), real("field", field))
    return FactorGraph._wrap(
        _zhat.potts(grid, integer("states", states), *strengths, bool(uniform), _seed(seed))
    )


def tree(variables: int = 100, *, states: int = 3, strength: float = 1.0, seed: int = 0) -> FactorGraph:
    """A random tree whose log values are normal with standard deviation `strength`.

    >>> tree(variables=5)
    FactorGraph(5 variables, 3 states each, 9 factors)
    """
    sizes = (integer("variables", variables), integer("states", states))
    return FactorGraph._wrap(_zhat.tree(*sizes, real("strength", strength), _seed(seed)))


def random(
    variables: int = 30,
    *,
    states: int = 2,
    factors: int = 40,
    arity: int = 3,
    strength: float = 1.0,
    zeros: float = 0.0,
    seed: int = 0,
) -> FactorGraph:
    """Factors over random scopes of `arity` variables, log values normal with standard deviation `strength`.

    A fraction `zeros` of the combinations is forbidden, but never all states of the model.

    >>> random(variables=8, factors=12)
    FactorGraph(8 variables, 2 states each, 12 factors)
    """
    sizes = (
        integer("variables", variables),
        integer("states", states),
        integer("factors", factors),
        integer("arity", arity),
    )
    return FactorGraph._wrap(
        _zhat.random(sizes, real("strength", strength), real("zeros", zeros), _seed(seed))
    )


def bayes(
    variables: int = 30, *, states: int = 2, parents: int = 3, deterministic: float = 0.0, seed: int = 0
) -> FactorGraph:
    """A Bayesian network: up to `parents` parents each; a row is certain with probability `deterministic`.

    >>> abs(bayes(variables=8).log_partition().value) < 1e-12
    True
    """
    sizes = (integer("variables", variables), integer("states", states), integer("parents", parents))
    return FactorGraph._wrap(_zhat.bayes(*sizes, real("deterministic", deterministic), _seed(seed)))


def _seed(seed: int) -> int:
    return integer("seed", seed, 0, 2**64 - 1)
