"""networkx: graphs with tables of log values at nodes and edges, and bipartite factor graphs."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .._frames import library
from ..errors import InputError
from ..model import FactorGraph
from ._graph import factor_graph, state_names, variable_names


def from_networkx(graph: Any, *, values: str = "log_values", log: bool = True) -> FactorGraph:
    """A graph of networkx as a factor graph with one variable per node, in the order of `graph.nodes`.

    Attributes of a node:

    - `states`: the names of its states, or `cardinality`: their number. Without either, the number follows
      from the tables.
    - `log_values` (optional): one value per state.

    Attributes of an edge:

    - `log_values`: a table with one row per state of the first variable and one column per state of the
      second. Every edge needs one.
    - `variables` (optional): the two nodes in the order of the axes. Without it, the first variable of a
      directed edge is its source; that of an undirected edge is the node that comes first in `graph.nodes`.

    `values` is another name for the attribute of the tables; with `log=False` they hold weights. An attribute
    `log_constant` of the graph is added to every score. Parallel edges of a multigraph are separate factors.

    If all nodes have the attribute `bipartite`, the graph is a factor graph, as made by
    `FactorGraph.to_networkx(bipartite=True)`: nodes with `bipartite=0` are variables, and those with 1 are
    factors with the attributes `variables` and `log_values`.

    >>> import networkx, zhat
    >>> graph = networkx.Graph()
    >>> graph.add_node("rain", states=["no", "yes"], log_values=[1.0, 0.0])
    >>> graph.add_edge("rain", "wet", log_values=[[2.0, 0.0], [0.0, 1.0]])
    >>> zhat.from_networkx(graph).score([1, 1])
    1.0
    """
    if not isinstance(graph, library("networkx").Graph):
        raise InputError(f"graph: expected a graph of networkx, found {type(graph).__name__}")
    parts = nodes = dict(graph.nodes(data=True))
    if nodes and all("bipartite" in data for data in nodes.values()):
        parts = {node: data for node, data in nodes.items() if not data["bipartite"]}
        factors = list(_bipartite(nodes, values))
    else:
        factors = list(_pairwise(graph, nodes, values))
    constant = graph.graph.get("log_constant")
    if constant is not None:
        factors.append(((), np.asarray(constant if log else np.exp(constant))))
    for scope, _ in factors:
        for variable in scope:
            if variable not in parts:
                raise InputError(f"graph: {scope!r} has {variable!r}, which is no node of a variable")
    states = {node: _states(node, data, factors) for node, data in parts.items()}
    return factor_graph(states, factors, log=log)


def to_networkx(model: FactorGraph, bipartite: bool = False) -> Any:
    """The model as a graph of networkx; see `FactorGraph.to_networkx`."""
    networkx = library("networkx")
    graph = networkx.Graph()
    names = variable_names(model)
    for v, name in enumerate(names):
        states = state_names(model, v)
        known = {"cardinality": model.cardinalities[v]} if states is None else {"states": states}
        graph.add_node(name, **known, **({"bipartite": 0} if bipartite else {}))
    if bipartite:
        for f, (scope, table) in enumerate(model.factors):
            own = tuple(names[v] for v in scope)
            graph.add_node(("factor", f), bipartite=1, variables=own, log_values=table)
            graph.add_edges_from((("factor", f), name) for name in own)
        return graph
    for scope, table in model.factors:
        if len(scope) > 2:
            _complete(graph, [names[v] for v in scope])
        elif len(scope) == 2:
            first, second = names[scope[0]], names[scope[1]]
            graph.add_edge(first, second)
            edge = graph.edges[first, second]
            order = edge.setdefault("variables", (first, second))
            _add(edge, table if order == (first, second) else table.T)
        else:
            _add(graph.nodes[names[scope[0]]] if scope else graph.graph, table)
    if "log_values" in graph.graph:
        graph.graph["log_constant"] = float(graph.graph.pop("log_values"))
    if any(len(scope) > 2 for scope, _ in model.factors):
        _without_tables(graph)
    return graph


def _complete(graph: Any, names: list[str]) -> None:
    graph.add_edges_from((first, second) for i, second in enumerate(names) for first in names[:i])


def _add(data: dict[str, Any], table: Any) -> None:
    data["log_values"] = data["log_values"] + table if "log_values" in data else table


def _without_tables(graph: Any) -> None:
    """Removes the tables, which are only a part of the model if another factor has more variables."""
    for data in [graph.graph, *graph.nodes.values(), *graph.edges.values()]:
        for attribute in ("variables", "log_values", "log_constant"):
            data.pop(attribute, None)


def _bipartite(nodes: Mapping[Hashable, Any], values: str) -> Iterator[tuple[Sequence[Hashable], Any]]:
    for node, data in nodes.items():
        if data["bipartite"]:
            if values not in data or "variables" not in data:
                raise InputError(f"graph: factor {node!r} needs the attributes `variables` and `{values}`")
            yield tuple(data["variables"]), np.asarray(data[values])


def _pairwise(
    graph: Any, nodes: Mapping[Hashable, Any], values: str
) -> Iterator[tuple[Sequence[Hashable], Any]]:
    place = {node: i for i, node in enumerate(nodes)}
    for node, data in nodes.items():
        if values in data:
            yield (node,), np.asarray(data[values])
    for first, second, data in graph.edges(data=True):
        ends = (first, second)
        if not graph.is_directed() and place[second] < place[first]:
            ends = (second, first)
        if first == second:
            raise InputError(f"graph: the edge from {first!r} to itself is no pair of variables")
        if values not in data:
            raise InputError(f"graph: the edge {ends!r} has no attribute `{values}`, the table of the pair")
        scope = tuple(data.get("variables", ends))
        if set(scope) != set(ends):
            raise InputError(f"graph: the edge {ends!r} has the variables {scope!r}")
        yield scope, np.asarray(data[values])


def _states(
    node: Hashable, data: Mapping[str, Any], factors: list[tuple[Sequence[Hashable], Any]]
) -> Sequence[object]:
    """The states of a node by its attributes, or as many as a table of the node has."""
    if "states" in data:
        return list(data["states"])
    if "cardinality" in data:
        return range(data["cardinality"])
    for scope, table in factors:
        if node in scope and table.ndim == len(scope):
            return range(table.shape[list(scope).index(node)])
    raise InputError(
        f"graph: the number of states of node {node!r} is not known; "
        "give it the attribute `states` or `cardinality`, or a table"
    )
