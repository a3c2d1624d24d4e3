"""pgmpy: discrete Bayesian networks, Markov networks, factor graphs and single tables."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from .._frames import library
from ..errors import InputError
from ..model import FactorGraph
from ._graph import factor_graph, is_network, state_names, variable_names, weight_factors


def from_pgmpy(model: Any) -> FactorGraph:
    """A model of pgmpy as a factor graph with the same variables, states and factors, in the same order.

    `model` is a `DiscreteBayesianNetwork`, a `DiscreteMarkovNetwork`, pgmpy's `FactorGraph`, or a single
    `TabularCPD` or `DiscreteFactor`. Names of variables and states become texts; two that give the same text
    are an error. States that are numbered from 0 have no names. The result of a Bayesian network can be saved
    as a `.bif` file.
    """
    models, factors = _classes()
    if isinstance(model, factors.TabularCPD):
        return factor_graph(_states([model], model.variables), [_conditional(model)])
    if isinstance(model, factors.DiscreteFactor):
        return factor_graph(_states([model], model.variables), [(model.variables, _table(model))])
    if isinstance(model, models.DiscreteBayesianNetwork):
        _checked(model)
        cpds = model.get_cpds()
        tables = [_conditional(cpd) for cpd in cpds]
        return factor_graph(_states(cpds, model.nodes()), tables, network=True)
    if isinstance(model, models.DiscreteMarkovNetwork):
        _checked(model)
        nodes = list(model.nodes())
    elif isinstance(model, models.FactorGraph):
        # `get_variable_nodes` refuses what `to_factor_graph` of pgmpy 1.1 makes.
        variables = {variable for factor in model.get_factors() for variable in factor.variables}
        nodes = [node for node in model.nodes() if node in variables]
    else:
        raise InputError(
            "model: expected a DiscreteBayesianNetwork, DiscreteMarkovNetwork, FactorGraph, TabularCPD or "
            f"DiscreteFactor of pgmpy, found {type(model).__name__}"
        )
    found = model.get_factors()
    return factor_graph(_states(found, nodes), [(factor.variables, _table(factor)) for factor in found])


def to_pgmpy(model: FactorGraph, network: bool | None = None) -> Any:
    """The model for pgmpy; see `FactorGraph.to_pgmpy`."""
    models, factors = _classes()
    names = variable_names(model)
    states: dict[str, list[Any]] = {
        name: [*(state_names(model, v) or range(model.cardinalities[v]))] for v, name in enumerate(names)
    }
    if is_network(model, network):
        return _network(model, names, states)
    found = models.DiscreteMarkovNetwork()
    found.add_nodes_from(names)
    for scope, table in weight_factors(model):
        own = [names[v] for v in scope]
        found.add_edges_from((u, v) for i, v in enumerate(own) for u in own[:i])
        known = {name: states[name] for name in own}
        found.add_factors(factors.DiscreteFactor(own, table.shape, table, state_names=known))
    return found


def _network(model: FactorGraph, names: list[str], states: dict[str, list[Any]]) -> Any:
    models, factors = _classes()
    found = models.DiscreteBayesianNetwork()
    found.add_nodes_from(names)
    for scope, table in model.factors:
        found.add_edges_from((names[parent], names[scope[-1]]) for parent in scope[:-1])
        child, parents = names[scope[-1]], [names[v] for v in scope[:-1]]
        cpd = factors.TabularCPD(
            child,
            table.shape[-1],
            np.moveaxis(np.exp(table), -1, 0).reshape(table.shape[-1], -1),
            parents or None,
            list(table.shape[:-1]) or None,
            state_names={name: states[name] for name in [child, *parents]},
        )
        found.add_cpds(cpd)
    return found


def _classes() -> tuple[Any, Any]:
    models = library("pgmpy.models")
    if not hasattr(models, "DiscreteBayesianNetwork"):
        raise ImportError("this needs pgmpy 1.0 or later: pip install --upgrade pgmpy", name="pgmpy")
    return models, library("pgmpy.factors.discrete")


def _checked(model: Any) -> None:
    """Checks the model in pgmpy's own way."""
    try:
        model.check_model()
    except ValueError as error:
        raise InputError(f"model: {error}") from error


def _conditional(cpd: Any) -> tuple[list[Hashable], Any]:
    """The scope with the child last, and the table with its axes in the same order."""
    child, *parents = cpd.variables
    return [*parents, child], np.moveaxis(_table(cpd), 0, -1)


def _table(factor: Any) -> Any:
    values = factor.values
    return np.asarray(values.detach().cpu() if hasattr(values, "detach") else values)


def _states(factors: Iterable[Any], nodes: Iterable[Hashable]) -> dict[Hashable, Sequence[object]]:
    """The states of every node. Factors must agree; a factor with numbered states adopts names of others."""
    found: dict[Hashable, Sequence[object]] = {}
    for factor in factors:
        for variable, count in zip(factor.variables, factor.cardinality, strict=True):
            own = list(factor.state_names.get(variable, range(int(count))))
            known = found.setdefault(variable, own)
            numbers = list(range(len(own)))
            if known == numbers != own and len(known) == len(own):
                found[variable] = own
            elif own not in (known, numbers) or len(own) != len(known):
                raise InputError(
                    f"model: variable {variable!r} has the states {known} in one factor and {own} in another"
                )
    nodes = list(nodes)
    for node in nodes:
        if node not in found:
            raise InputError(
                f"model: variable {node!r} is in no factor, so its number of states is not known"
            )
    return {node: found[node] for node in nodes}
