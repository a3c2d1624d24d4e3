"""Shared by the bridges of graphical models: names, weights, and Bayesian networks."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .. import _zhat
from ..errors import InputError
from ..model import FactorGraph

Weights: TypeAlias = NDArray[np.float64]

SUM_TOLERANCE = 0.01
"""How far the sum of a row of a conditional table may be from 1, as in `.bif` files."""


def labels(what: str, values: Iterable[object]) -> list[str]:
    """The values as texts. Two values that give the same text are an error."""
    found: dict[str, object] = {}
    for value in values:
        label = str(value)
        if label in found:
            raise InputError(
                f"{what}: {found[label]!r} and {value!r} have the same name `{label}`; rename one of them"
            )
        found[label] = value
    return list(found)


def state_labels(variable: object, states: Sequence[object]) -> list[str] | None:
    """The names of the states of a variable; `None` if they are the numbers 0, 1, …."""
    if all(_is_number(state, i) for i, state in enumerate(states)):
        return None
    return labels(f"states of {variable}", states)


def _is_number(state: object, number: int) -> bool:
    return isinstance(state, (int, np.integer)) and not isinstance(state, bool) and state == number


def factor_graph(
    states: Mapping[Hashable, Sequence[object]],
    factors: Iterable[tuple[Sequence[Hashable], Any]],
    *,
    log: bool = False,
    network: bool = False,
) -> FactorGraph:
    """A factor graph of variables with these states, in this order, and factors whose scopes are variables.

    With `network`, the factors are the tables of a Bayesian network with the child last.
    """
    number = {variable: v for v, variable in enumerate(states)}
    model = FactorGraph(
        [len(own) for own in states.values()],
        [([number[variable] for variable in scope], table) for scope, table in factors],
        log=log,
        names=labels("variables", states),
        state_names=[state_labels(variable, own) for variable, own in states.items()],
    )
    return declared_network(model) if network else model


def declared_network(model: FactorGraph) -> FactorGraph:
    """The same model, marked as a Bayesian network, so that it can be saved as a `.bif` file."""
    data = model._native.to_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    header["__metadata__"]["form"] = "bayes"
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return FactorGraph._wrap(
        _zhat.Model.from_bytes(b"".join([len(text).to_bytes(8, "little"), text, data[end:]]))
    )


def is_network(model: FactorGraph, network: bool | None) -> bool:
    """Whether a model is converted to a Bayesian network: as asked for, or if it is marked as one."""
    if network is False or (network is None and json.loads(model._native.summary())["form"] != "bayes"):
        return False
    reason = _not_a_network(model)
    if reason and network:
        raise InputError(
            f"network: the model is not a Bayesian network: {reason}; "
            "every factor must be the conditional table of its last variable"
        )
    return not reason


def _not_a_network(model: FactorGraph) -> str:
    """Why the model is not a Bayesian network; empty if it is one."""
    names = variable_names(model)
    if model.evidence:
        return "it has been given evidence"
    parents: dict[int, set[int]] = {}
    for f, (scope, table) in enumerate(model.factors):
        if not scope:
            return f"factor {f} is a constant"
        if scope[-1] in parents:
            return f"variable `{names[scope[-1]]}` is last in the scopes of two factors"
        parents[scope[-1]] = set(scope[:-1])
        with np.errstate(over="ignore"):
            sums = np.exp(table).sum(axis=-1)
        worst = float(sums.flat[np.abs(sums - 1).argmax()])
        if not abs(worst - 1) <= SUM_TOLERANCE:
            return f"a row of the table of `{names[scope[-1]]}` sums to {worst:g}"
    for v, name in enumerate(names):
        if v not in parents:
            return f"variable `{name}` is last in no factor's scope"
    while ready := [v for v, own in parents.items() if not own]:
        for v in ready:
            del parents[v]
        for own in parents.values():
            own.difference_update(ready)
    return f"variable `{names[min(parents)]}` is on a directed cycle or below one" if parents else ""


def variable_names(model: FactorGraph) -> list[str]:
    """The names of the variables, `x0`, `x1`, … if they have none."""
    return list(model.names or (f"x{v}" for v in range(model.n_variables)))


def state_names(model: FactorGraph, v: int) -> list[str] | None:
    """The names of the states of a variable; `None` if they are numbered."""
    return list(model.state_names[v]) or None if model.state_names else None


def weights(f: int, table: NDArray[np.float64]) -> Weights:
    """The exponentials of a table. A finite value whose exponential is 0 or infinite is an error."""
    with np.errstate(over="ignore", under="ignore"):
        values = np.exp(table)
    lost = (np.isinf(values) | (values == 0)) & np.isfinite(table)
    if lost.any():
        raise InputError(
            f"factor {f} has the log value {float(table[lost][0]):g}, whose exponential is no positive "
            "double; the other library stores weights, so subtract a constant from the factor first"
        )
    return np.asarray(values)


def weight_factors(model: FactorGraph) -> list[tuple[tuple[int, ...], Weights]]:
    """The factors as weights, for libraries whose factors have at least one variable.

    Constants are multiplied into the first factor with variables. Variables without a factor get one of ones.
    """
    factors = [(scope, table) for scope, table in model.factors if scope]
    constant = sum(float(table) for scope, table in model.factors if not scope)
    covered = {v for scope, _ in factors for v in scope}
    missing = [v for v in range(model.n_variables) if v not in covered]
    factors += [((v,), np.zeros(model.cardinalities[v])) for v in missing]
    if constant:
        if not factors:
            raise InputError("the model has a constant and no variables, which the other library cannot hold")
        factors[0] = (factors[0][0], factors[0][1] + constant)
    return [(scope, weights(f, table)) for f, (scope, table) in enumerate(factors)]
