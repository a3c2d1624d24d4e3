"""Models as arrays in which evidence has been applied and observed variables removed."""

from math import log

import numpy as np

from common import peer, uai


def read(model, evidence):
    """Numbers of states and factors of the unobserved variables, renumbered; ln of constants; the rest."""
    _, card, factors, observed = peer.read(model, evidence)
    # Some libraries fail on variables with one state.
    observed |= {v: 0 for v, states in enumerate(card) if states == 1}
    free = [v for v in range(len(card)) if v not in observed]
    number = {v: i for i, v in enumerate(free)}
    tables, constant = [], 0.0
    for scope, table in uai.condition(factors, observed):
        if scope:
            tables.append(([number[v] for v in scope], table))
        else:
            constant += log(float(table))
    return [card[v] for v in free], tables, constant, (card, observed)


def expand(marginals, rest):
    """Marginals of all variables from those of the unobserved ones."""
    card, observed = rest
    left = iter(marginals)
    return [peer.point_mass(k, observed[v]) if v in observed else next(left) for v, k in enumerate(card)]


def until_equal(answer, tolerance=1e-9):
    """Results after 10, 20, 40 … iterations, each from the start, until two agree or the run is stopped."""
    iterations, before = 10, None
    while True:
        told, numbers = answer(iterations)
        yield {"value": told, "iterations": iterations}
        numbers = np.asarray(numbers)
        # Messages that are NaN or infinite remain so.
        if not np.isfinite(numbers).all() or (
            before is not None and np.abs(numbers - before).max() <= tolerance
        ):
            return
        iterations, before = 2 * iterations, numbers
