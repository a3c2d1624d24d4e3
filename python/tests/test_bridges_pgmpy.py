"""pgmpy: the same marginals, and the same names and orders both ways."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bridge_models import Discrete, possible_evidence, random_field, random_network

import zhat

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # pgmpy imports its own deprecated modules
    models: Any = pytest.importorskip("pgmpy.models", reason="pgmpy is not installed")
    import pgmpy.factors.discrete as tables
    from pgmpy.inference import VariableElimination

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"


def network_of(model: Discrete) -> Any:
    """The network, built as a user of pgmpy would."""
    found = models.DiscreteBayesianNetwork()
    found.add_nodes_from(model.states)
    for (*parents, child), table in model.factors:
        found.add_edges_from((parent, child) for parent in parents)
        rows = table.reshape(-1, table.shape[-1])
        found.add_cpds(
            tables.TabularCPD(
                child,
                table.shape[-1],
                rows.T,
                evidence=parents or None,
                evidence_card=list(table.shape[:-1]) or None,
                state_names={name: model.states[name] for name in (child, *parents)},
            )
        )
    assert found.check_model()
    return found


def field_of(model: Discrete) -> Any:
    found = models.DiscreteMarkovNetwork()
    found.add_nodes_from(model.states)
    for scope, table in model.factors:
        found.add_edges_from((u, v) for i, v in enumerate(scope) for u in scope[:i])
        names = {name: model.states[name] for name in scope}
        found.add_factors(tables.DiscreteFactor(scope, table.shape, table, state_names=names))
    return found


def own_marginals(model: Any, evidence: dict[str, Any]) -> dict[str, Any]:
    """pgmpy's marginals of the variables without evidence."""
    engine = VariableElimination(model)
    found = {}
    for name in model.nodes():
        if name not in evidence:
            answer = engine.query([name], evidence=evidence or None, show_progress=False)
            found[name] = answer.values / answer.values.sum()  # weights for a Markov network
    return found


def assert_same(graph: zhat.FactorGraph, model: Discrete, other: Any, evidence: dict[str, str]) -> None:
    found = graph.marginals(given=evidence).value.by_name()
    expected = model.marginals(evidence)
    assert list(found) == list(model.states)
    for name, own in own_marginals(other, evidence).items():
        np.testing.assert_allclose(found[name], expected[name], rtol=0, atol=1e-9)
        np.testing.assert_allclose(found[name], own, rtol=0, atol=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_bayesian_networks(seed: int, tmp_path: Path) -> None:
    model = random_network(seed)
    other = network_of(model)
    graph = zhat.from_pgmpy(other)
    for evidence in ({}, possible_evidence(model)):
        assert_same(graph, model, other, evidence)
    assert graph.names == tuple(model.states)
    assert graph.state_names == tuple(map(tuple, model.states.values()))
    names = list(model.states)
    assert [scope for scope, _ in graph.factors] == [
        tuple(names.index(name) for name in scope) for scope, _ in model.factors
    ]
    # The way back gives equal tables, and the file format of Bayesian networks can hold the model.
    back = graph.to_pgmpy()
    assert isinstance(back, models.DiscreteBayesianNetwork)
    assert back.check_model()
    assert list(back.nodes()) == list(other.nodes())
    assert [cpd.variables for cpd in back.get_cpds()] == [cpd.variables for cpd in other.get_cpds()]
    for one, two in zip(back.get_cpds(), other.get_cpds(), strict=True):
        assert one.state_names == two.state_names
        np.testing.assert_allclose(one.values, two.values, rtol=1e-14)
    graph.save(tmp_path / "network.bif")
    read = zhat.read(tmp_path / "network.bif")
    assert (read.names, read.state_names) == (graph.names, graph.state_names)
    assert_same(zhat.from_pgmpy(read.to_pgmpy()), model, other, {})


@pytest.mark.parametrize("seed", range(6))
def test_markov_networks(seed: int) -> None:
    model = random_field(seed)
    missing = set(model.states) - {name for scope, _ in model.factors for name in scope}
    model.factors.extend(((name,), np.ones(len(model.states[name]))) for name in sorted(missing))
    other = field_of(model)
    graph = zhat.from_pgmpy(other)
    for evidence in ({}, possible_evidence(model)):
        assert_same(graph, model, other, evidence)
    assert np.isclose(graph.log_partition().value, np.log(model.joint().sum()), rtol=1e-12)
    back = graph.to_pgmpy()
    assert isinstance(back, models.DiscreteMarkovNetwork)
    assert back.check_model()
    assert list(back.nodes()) == list(model.states)
    assert [factor.variables for factor in back.get_factors()] == [list(scope) for scope, _ in model.factors]
    again = zhat.from_pgmpy(back)
    assert (again.names, again.state_names) == (graph.names, graph.state_names)
    for (scope, table), (scope_before, before) in zip(again.factors, graph.factors, strict=True):
        assert scope == scope_before
        np.testing.assert_allclose(table, before, rtol=1e-14, atol=1e-14)
    # The factor graph of pgmpy has the same factors.
    assert_same(zhat.from_pgmpy(other.to_factor_graph()), model, other, {})


def test_the_network_of_a_file_is_that_of_the_reader_of_pgmpy() -> None:
    from pgmpy.readwrite import BIFReader

    path = EXAMPLES / "clinic.bif"
    other = BIFReader(str(path)).get_model()
    ours = zhat.read(path)
    found = zhat.from_pgmpy(other)
    given = {"cough": "yes", "xray": "shadow"}
    for name, own in found.marginals(given=given).value.by_name().items():
        np.testing.assert_allclose(own, ours.marginals(given=given).value.by_name()[name], atol=1e-9)
    for name, own in own_marginals(ours.to_pgmpy(), given).items():
        np.testing.assert_allclose(own, ours.marginals(given=given).value.by_name()[name], atol=1e-9)


def test_single_tables() -> None:
    values = np.random.default_rng(3).dirichlet(np.ones(3), 4).T
    names = {"wet": ["no", "some", "very"], "rain": ["no", "yes"], "hose": ["off", "on"]}
    cpd = tables.TabularCPD("wet", 3, values, ["rain", "hose"], [2, 2], state_names=names)
    graph = zhat.from_pgmpy(cpd)
    assert graph.names == ("wet", "rain", "hose")
    for r, rain in enumerate(names["rain"]):
        for h, hose in enumerate(names["hose"]):
            found = graph.marginals(given={"rain": rain, "hose": hose}).value.by_name()["wet"]
            np.testing.assert_allclose(found, values[:, 2 * r + h], atol=1e-12)
    with pytest.raises(zhat.InputError, match="variable `rain` is last in no factor"):
        graph.to_pgmpy(network=True)
    factor = tables.DiscreteFactor(["b", "a"], [2, 3], [[1, 2, 3], [4, 5, 0]])
    graph = zhat.from_pgmpy(factor)
    assert graph.names == ("b", "a")
    assert graph.state_names == ((), ())
    assert graph.map().value.by_name() == {"b": "1", "a": "1"}
    np.testing.assert_allclose(np.exp(graph.factors[0][1]), factor.values)


def test_names_of_any_type_become_texts() -> None:
    factor = tables.DiscreteFactor(
        [7, ("a", 1)], [2, 2], [1, 2, 3, 4], state_names={7: [True, False], ("a", 1): [0, 1]}
    )
    graph = zhat.from_pgmpy(factor)
    assert graph.names == ("7", "('a', 1)")
    assert graph.state_names == (("True", "False"), ())
    clash = tables.DiscreteFactor([7, "7"], [2, 2], [1, 2, 3, 4])
    with pytest.raises(zhat.InputError, match="variables: 7 and '7' have the same name `7`"):
        zhat.from_pgmpy(clash)
    clash = tables.DiscreteFactor(["a"], [2], [1, 2], state_names={"a": [1, "1"]})
    with pytest.raises(zhat.InputError, match="states of a: 1 and '1' have the same name"):
        zhat.from_pgmpy(clash)


def test_models_that_cannot_be_converted() -> None:
    with pytest.raises(zhat.InputError, match=r"model: expected a DiscreteBayesianNetwork, .* found dict"):
        zhat.from_pgmpy({})
    bare = models.DiscreteBayesianNetwork([("a", "b")])
    with pytest.raises(zhat.InputError, match="model: No CPD associated with a"):
        zhat.from_pgmpy(bare)
    field = models.DiscreteMarkovNetwork([("a", "b")])
    with pytest.raises(zhat.InputError, match="variable 'a' is in no factor"):
        zhat.from_pgmpy(field)
    field.add_factors(
        tables.DiscreteFactor(["a"], [2], [1, 2], state_names={"a": ["x", "y"]}),
        tables.DiscreteFactor(["a", "b"], [2, 2], np.ones(4), state_names={"a": ["y", "x"], "b": ["u", "v"]}),
    )
    with pytest.raises(
        zhat.InputError, match=r"'a' has the states \['x', 'y'\] in one factor and \['y', 'x'\]"
    ):
        zhat.from_pgmpy(field)


def test_models_of_zhat_that_are_no_networks() -> None:
    coin = zhat.FactorGraph([2, 2], [((0,), [0.5, 0.5]), ((0, 1), np.ones((2, 2)) / 2)], log=False)
    assert isinstance(coin.to_pgmpy(), models.DiscreteMarkovNetwork)
    assert isinstance(coin.to_pgmpy(network=True), models.DiscreteBayesianNetwork)
    network = zhat.from_pgmpy(coin.to_pgmpy(network=True))
    assert isinstance(network.to_pgmpy(), models.DiscreteBayesianNetwork)
    assert isinstance(network.to_pgmpy(network=False), models.DiscreteMarkovNetwork)
    assert isinstance(network.condition({0: 1}).to_pgmpy(), models.DiscreteMarkovNetwork)
    flipped = zhat.FactorGraph([2, 2], [((1, 0), np.eye(2)), ((0, 1), np.eye(2))], log=False)
    with pytest.raises(zhat.InputError, match="variable `x0` is on a directed cycle"):
        flipped.to_pgmpy(network=True)
    for factors, reason in (
        ([((0,), [0.5, 0.5]), ((1,), [1.0, 1.0])], "table of `x1` sums to 2"),
        ([((0,), [0.5, 0.5]), ((1, 0), np.eye(2))], "`x0` is last in the scopes of two factors"),
        ([((0,), [0.5, 0.5]), ((), 2.0)], "factor 1 is a constant"),
    ):
        with pytest.raises(zhat.InputError, match=reason):
            zhat.FactorGraph([2, 2], factors, log=False).to_pgmpy(network=True)  # type: ignore[arg-type]
    with pytest.raises(zhat.InputError, match="it has been given evidence"):
        network.condition({0: 1}).to_pgmpy(network=True)


def test_constants_free_variables_and_extreme_weights() -> None:
    graph = zhat.FactorGraph([2, 3], [((), 1.5), ((0,), [0.25, -np.inf])])
    back = zhat.from_pgmpy(graph.to_pgmpy())
    assert back.names == ("x0", "x1")
    assert np.isclose(back.log_partition().value, graph.log_partition().value, rtol=1e-13)
    assert graph.to_pgmpy().check_model()
    for value in (800.0, -800.0):
        with pytest.raises(zhat.InputError, match=f"factor 0 has the log value {value:g}"):
            zhat.FactorGraph([2], [((0,), [value, 0.0])]).to_pgmpy()
    with pytest.raises(zhat.InputError, match="a constant and no variables"):
        zhat.FactorGraph([], [((), 1.5)]).to_pgmpy()
