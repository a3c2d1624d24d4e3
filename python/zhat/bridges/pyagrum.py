"""pyAgrum: Bayesian networks and Markov random fields."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._frames import library
from ..errors import InputError
from ..model import FactorGraph
from ._graph import Weights, factor_graph, is_network, state_names, variable_names, weight_factors, weights


def from_pyagrum(model: Any) -> FactorGraph:
    """A model of pyAgrum as a factor graph with the same variables and states, in the order of their ids.

    `model` is a `BayesNet` or a `MarkovRandomField`. The parents of a table keep their order. The states of a
    `RangeVariable` from 0 have no names; those of other variables are named by their labels. The result of a
    Bayesian network can be saved as a `.bif` file.
    """
    gum = _pyagrum()
    if not isinstance(model, (gum.BayesNet, gum.MarkovRandomField)):
        raise InputError(
            f"model: expected a BayesNet or a MarkovRandomField of pyAgrum, found {type(model).__name__}"
        )
    nodes = sorted(model.nodes())
    states = {model.variable(node).name(): _states(gum, model.variable(node)) for node in nodes}
    if isinstance(model, gum.BayesNet):
        tables = [_values(model.cpt(node), child_last=True) for node in nodes]
        return factor_graph(states, tables, network=True)
    return factor_graph(states, [_values(model.factor(scope)) for scope in model.factors()])


def _pyagrum() -> Any:
    """The library, with both kinds of models loaded.

    Its compiled modules, which it loads on first use, warn about themselves. If the user turned warnings into
    errors, they would end the process.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gum = library("pyagrum")
        gum.BayesNet(), gum.MarkovRandomField()
    return gum


def to_pyagrum(model: FactorGraph, network: bool | None = None) -> Any:
    """The model for pyAgrum; see `FactorGraph.to_pyagrum`."""
    gum = _pyagrum()
    names = variable_names(model)
    try:
        if is_network(model, network):
            return _network(gum, model, names)
        return _field(gum, model, names)
    except gum.GumException as error:
        raise InputError(f"pyAgrum cannot hold the model: {error}") from error


def _network(gum: Any, model: FactorGraph, names: list[str]) -> Any:
    found = gum.BayesNet()
    for v, name in enumerate(names):
        found.add(_variable(gum, model, v, name))
    for scope, _ in model.factors:
        for parent in scope[:-1]:
            found.addArc(names[parent], names[scope[-1]])
    for f, (scope, table) in enumerate(model.factors):
        _fill(found.cpt(names[scope[-1]]), [names[v] for v in scope], weights(f, table))
    return found


def _field(gum: Any, model: FactorGraph, names: list[str]) -> Any:
    """A Markov random field. It has one factor per set of variables, so others are multiplied into it."""
    found = gum.MarkovRandomField()
    for v, name in enumerate(names):
        found.add(_variable(gum, model, v, name))
    merged: dict[frozenset[int], tuple[tuple[int, ...], Weights]] = {}
    for scope, table in weight_factors(model):
        first, product = merged.get(frozenset(scope), (scope, np.ones(1)))
        merged[frozenset(scope)] = (first, product * table.transpose([scope.index(v) for v in first]))
    for scope, table in merged.values():
        own = [names[v] for v in scope]
        _fill(found.addFactor(own), own, table)
    return found


def _states(gum: Any, variable: Any) -> Sequence[object]:
    """The labels of a variable, or numbers."""
    numbered = variable.varType() == gum.VarType_RANGE and variable.asRangeVar().minVal() == 0
    return range(variable.domainSize()) if numbered else list(variable.labels())


def _variable(gum: Any, model: FactorGraph, v: int, name: str) -> Any:
    states = state_names(model, v)
    if states is None:
        return gum.RangeVariable(name, name, 0, model.cardinalities[v] - 1)
    return gum.LabelizedVariable(name, name, states)


def _values(tensor: Any, child_last: bool = False) -> tuple[list[str], NDArray[np.float64]]:
    """Scope and table of a tensor, whose array has the variables in reverse order; a child comes first."""
    names = list(tensor.names)
    scope = [*names[1:], names[0]] if child_last else names
    table = np.asarray(tensor.toarray(), dtype=np.float64)
    reverse = names[::-1]
    return scope, table.transpose([reverse.index(name) for name in scope])


def _fill(tensor: Any, scope: list[str], table: Weights) -> None:
    """Writes a table whose axes follow `scope` into a tensor."""
    reverse = list(tensor.names)[::-1]
    tensor[:] = np.ascontiguousarray(table.transpose([scope.index(name) for name in reverse]))
