"""networkx: tables as attributes, their orientation, and both graphs of a model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from bridge_models import possible_evidence, random_field

import zhat

networkx: Any = pytest.importorskip("networkx", reason="networkx is not installed")


def named(seed: int) -> zhat.FactorGraph:
    model = random_field(seed)
    names = list(model.states)
    factors = [([names.index(name) for name in scope], table) for scope, table in model.factors]
    sizes = [len(states) for states in model.states.values()]
    return zhat.FactorGraph(sizes, factors, log=False, names=names, state_names=model.states.values())


def pairwise(seed: int) -> zhat.FactorGraph:
    """The same with factors of up to two variables, a constant and a variable without states' names."""
    graph = named(seed)
    factors = [(scope, table) for scope, table in graph.factors if len(scope) < 3]
    assert graph.state_names is not None
    states = [None, *graph.state_names[1:]]
    return zhat.FactorGraph(
        graph.cardinalities, [*factors, ((), 0.75)], names=graph.names, state_names=states
    )


@pytest.mark.parametrize("seed", range(6))
def test_bipartite_graphs_hold_every_model(seed: int) -> None:
    graph = named(seed)
    nodes = graph.to_networkx(bipartite=True)
    assert networkx.is_bipartite(nodes)
    assert nodes.number_of_nodes() == graph.n_variables + graph.n_factors
    assert zhat.from_networkx(nodes) == graph


@pytest.mark.parametrize("seed", range(6))
def test_pairwise_graphs_hold_pairwise_models(seed: int) -> None:
    graph = pairwise(seed)
    nodes = graph.to_networkx()
    back = zhat.from_networkx(nodes)
    assert (back.names, back.state_names) == (graph.names, graph.state_names)
    rng = np.random.default_rng(seed)
    for _ in range(20):
        state = rng.integers(0, graph.cardinalities)
        np.testing.assert_allclose(back.score(state), graph.score(state), rtol=1e-12)
    given = possible_evidence(random_field(seed))
    if graph.condition(given).log_partition().value > -np.inf:
        for one, two in zip(
            back.marginals(given=given).value, graph.marginals(given=given).value, strict=True
        ):
            np.testing.assert_allclose(one, two, atol=1e-12)


def test_the_interaction_graph_of_larger_factors_has_no_tables() -> None:
    graph = named(1)
    nodes = graph.to_networkx()
    assert list(nodes.nodes) == list(graph.names or ())
    expected = {frozenset((u, v)) for scope, _ in graph.factors for u in scope for v in scope if u < v}
    names = graph.names or ()
    found = {frozenset((names.index(u), names.index(v))) for u, v in nodes.edges}
    assert found == expected
    assert not any("log_values" in data for _, data in nodes.nodes(data=True))
    with pytest.raises(zhat.InputError, match="has no attribute `log_values`"):
        zhat.from_networkx(nodes)


TABLE = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


def test_the_orientation_of_tables() -> None:
    # The edge is added from the later node to the earlier one; the rows are those of the earlier.
    graph = networkx.Graph()
    graph.add_nodes_from(["a", "b"])
    graph.add_edge("b", "a", log_values=TABLE)
    model = zhat.from_networkx(graph)
    assert model.cardinalities == (2, 3)
    assert model.score([1, 0]) == 4.0
    # A directed edge has its own order, and the attribute `variables` is stronger than both.
    directed = networkx.DiGraph()
    directed.add_nodes_from(["a", "b"])
    directed.add_edge("b", "a", log_values=TABLE)
    assert zhat.from_networkx(directed).cardinalities == (3, 2)
    assert zhat.from_networkx(directed).score([0, 1]) == 4.0
    graph.edges["a", "b"]["variables"] = ("b", "a")
    assert zhat.from_networkx(graph).score([0, 1]) == 4.0


def test_attributes() -> None:
    graph = networkx.MultiGraph()
    graph.add_node("a", states=["no", "yes"], weight=[1.0, 3.0])
    graph.add_node(2, cardinality=3)
    graph.add_edge("a", 2, weight=np.exp(TABLE))
    graph.add_edge("a", 2, weight=np.exp(TABLE))
    model = zhat.from_networkx(graph, values="weight", log=False)
    assert model.names == ("a", "2")
    assert model.state_names == (("no", "yes"), ())
    assert np.isclose(model.score([1, 2]), np.log(3) + 12)


def test_graphs_that_are_no_models() -> None:
    with pytest.raises(zhat.InputError, match="graph: expected a graph of networkx, found str"):
        zhat.from_networkx("a-b")
    graph = networkx.Graph()
    graph.add_edge("a", "b", log_values=TABLE)
    graph.add_node("c")
    with pytest.raises(zhat.InputError, match="the number of states of node 'c' is not known"):
        zhat.from_networkx(graph)
    graph.nodes["c"]["cardinality"] = 2
    graph.add_edge("b", "c", log_values=TABLE)
    with pytest.raises(zhat.InputError, match="factor 1 has shape"):
        zhat.from_networkx(graph)
    graph.edges["b", "c"]["log_values"] = TABLE.T
    graph.edges["b", "c"]["variables"] = ("b", "x")
    with pytest.raises(zhat.InputError, match="has the variables"):
        zhat.from_networkx(graph)
    loop = networkx.Graph()
    loop.add_edge("a", "a", log_values=np.eye(2))
    with pytest.raises(zhat.InputError, match="is no pair of variables"):
        zhat.from_networkx(loop)
    clash = networkx.Graph()
    clash.add_edge(1, "1", log_values=np.eye(2))
    with pytest.raises(zhat.InputError, match="have the same name `1`"):
        zhat.from_networkx(clash)
