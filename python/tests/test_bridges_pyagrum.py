"""pyAgrum: the same marginals, and the same names and orders both ways."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bridge_models import Discrete, possible_evidence, random_field, random_network

import zhat

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its compiled modules warn about themselves
    gum: Any = pytest.importorskip("pyagrum", reason="pyAgrum is not installed")
    gum.MarkovRandomField()  # loads another one


def network_of(model: Discrete) -> Any:
    """The network, filled one entry at a time by names."""
    found = gum.BayesNet()
    for name, states in model.states.items():
        found.add(gum.LabelizedVariable(name, name, states))
    for (*parents, child), _ in model.factors:
        for parent in parents:
            found.addArc(parent, child)
    for scope, table in model.factors:
        fill(found.cpt(scope[-1]), model, scope, table)
    return found


def field_of(model: Discrete) -> Any:
    """The field; factors over the same variables are multiplied, because it has only one of them."""
    found = gum.MarkovRandomField()
    for name, states in model.states.items():
        found.add(gum.LabelizedVariable(name, name, states))
    merged: dict[frozenset[str], tuple[tuple[str, ...], Any]] = {}
    for scope, table in model.factors:
        first, product = merged.get(frozenset(scope), (scope, 1.0))
        merged[frozenset(scope)] = (first, product * table.transpose([scope.index(name) for name in first]))
    for scope, table in merged.values():
        fill(found.addFactor(list(scope)), model, scope, table)
    return found


def fill(tensor: Any, model: Discrete, scope: tuple[str, ...], table: Any) -> None:
    for place, value in np.ndenumerate(table):
        states = {name: model.states[name][s] for name, s in zip(scope, place, strict=True)}
        tensor[states] = float(value)


def own_marginals(model: Any, evidence: dict[str, str]) -> dict[str, Any]:
    kind = gum.LazyPropagation if isinstance(model, gum.BayesNet) else gum.ShaferShenoyMRFInference
    engine = kind(model)
    engine.setEvidence(evidence)
    engine.makeInference()
    return {name: engine.posterior(name).toarray() for name in model.names() if name not in evidence}


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
    graph = zhat.from_pyagrum(other)
    for evidence in ({}, possible_evidence(model)):
        assert_same(graph, model, other, evidence)
    assert graph.state_names == tuple(map(tuple, model.states.values()))
    names = list(model.states)
    assert [scope for scope, _ in graph.factors] == [
        tuple(names.index(name) for name in scope) for scope, _ in model.factors
    ]
    back = graph.to_pyagrum()
    assert isinstance(back, gum.BayesNet)
    for v, name in enumerate(names):
        assert back.variable(v).name() == name
        assert back.cpt(name).names == other.cpt(name).names
        assert back.variable(name).labels() == other.variable(name).labels()
        np.testing.assert_allclose(back.cpt(name).toarray(), other.cpt(name).toarray(), rtol=1e-14)
    graph.save(tmp_path / "network.bif")
    assert_same(zhat.from_pyagrum(zhat.read(tmp_path / "network.bif").to_pyagrum()), model, other, {})


@pytest.mark.parametrize("seed", range(6))
def test_markov_random_fields(seed: int) -> None:
    model = random_field(seed)
    missing = set(model.states) - {name for scope, _ in model.factors for name in scope}
    model.factors.extend(((name,), np.ones(len(model.states[name]))) for name in sorted(missing))
    other = field_of(model)
    graph = zhat.from_pyagrum(other)
    for evidence in ({}, possible_evidence(model)):
        assert_same(graph, model, other, evidence)
    assert np.isclose(graph.log_partition().value, np.log(model.joint().sum()), rtol=1e-12)
    back = graph.to_pyagrum()
    assert isinstance(back, gum.MarkovRandomField)
    for scope in other.factors():
        assert back.factor(scope).names == other.factor(scope).names
        np.testing.assert_allclose(back.factor(scope).toarray(), other.factor(scope).toarray(), rtol=1e-13)
    # A model of zhat with two factors over the same variables becomes one with their product.
    names = list(model.states)
    factors = [([names.index(name) for name in scope], table) for scope, table in model.factors]
    ours = zhat.FactorGraph(
        list(map(len, model.states.values())),
        factors,
        log=False,
        names=names,
        state_names=model.states.values(),
    )
    assert ours.n_factors > len(other.factors())
    assert_same(zhat.from_pyagrum(ours.to_pyagrum()), model, other, {})


def test_states_without_names() -> None:
    network = gum.BayesNet()
    for variable in (
        gum.RangeVariable("zero", "", 0, 2),
        gum.RangeVariable("three", "", 3, 4),
        gum.IntegerVariable("whole", "", [2, 5, 9]),
        gum.DiscretizedVariable("cut", "", [0.0, 0.5, 1.0]),
    ):
        network.add(variable)
    network.addArc("cut", "zero")
    network.generateCPTs()
    graph = zhat.from_pyagrum(network)
    assert graph.state_names is not None
    assert graph.state_names[:3] == ((), ("3", "4"), ("2", "5", "9"))
    assert graph.state_names[3] == network.variable("cut").labels()
    cut = graph.state_names[3][1]
    np.testing.assert_allclose(
        graph.marginals(given={"cut": cut}).value.by_name()["zero"],
        own_marginals(network, {"cut": cut})["zero"],
        atol=1e-12,
    )
    back = zhat.from_pyagrum(graph.to_pyagrum())
    assert (back.names, back.state_names) == (graph.names, graph.state_names)


def test_models_that_cannot_be_converted() -> None:
    with pytest.raises(
        zhat.InputError, match=r"model: expected a BayesNet or a MarkovRandomField .* found list"
    ):
        zhat.from_pyagrum([])
    coin = zhat.FactorGraph([2, 2], [((0,), [0.5, 0.5]), ((0, 1), np.ones((2, 2)) / 2)], log=False)
    assert isinstance(coin.to_pyagrum(), gum.MarkovRandomField)
    assert isinstance(coin.to_pyagrum(network=True), gum.BayesNet)
    with pytest.raises(zhat.InputError, match="network: the model is not a Bayesian network"):
        coin.condition({0: 1}).to_pyagrum(network=True)
    with pytest.raises(zhat.InputError, match="log value 800"):
        zhat.FactorGraph([2], [((0,), [800.0, 0.0])]).to_pyagrum()
