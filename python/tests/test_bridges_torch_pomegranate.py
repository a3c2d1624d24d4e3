"""pomegranate, which needs PyTorch: the same marginals and posteriors up to single precision."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from bridge_hmms import KINDS, assert_equal, observations, random_hmm
from bridge_models import Discrete, random_network

import zhat

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed; pomegranate needs it")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    kinds: Any = pytest.importorskip(
        "pomegranate.distributions", reason="pomegranate, which needs PyTorch, is not installed"
    )
    from pomegranate.bayesian_network import BayesianNetwork
    from pomegranate.gmm import GeneralMixtureModel
    from pomegranate.hmm import DenseHMM


def network_of(model: Discrete) -> Any:
    parts = {}
    for scope, table in model.factors:
        values = torch.tensor(table, dtype=torch.float32)
        many = len(scope) > 1
        parts[scope[-1]] = kinds.ConditionalCategorical([values]) if many else kinds.Categorical(values[None])
    edges = [(parts[parent], parts[scope[-1]]) for scope, _ in model.factors for parent in scope[:-1]]
    return BayesianNetwork([parts[name] for name in model.states], edges)


@pytest.mark.parametrize("seed", range(4))
def test_bayesian_networks(seed: int) -> None:
    model = random_network(seed)
    other = network_of(model)
    names, states = list(model.states), list(model.states.values())
    graph = zhat.from_pomegranate(other, names=names, state_names=states)
    assert (graph.names, graph.state_names) == (tuple(names), tuple(map(tuple, states)))
    expected = model.marginals()
    for name, found in graph.marginals().value.by_name().items():
        np.testing.assert_allclose(found, expected[name], rtol=0, atol=1e-5)
    # Joint probabilities: pomegranate's own marginals are exact on trees only.
    rng = np.random.default_rng(seed)
    rows = np.stack([rng.integers(0, graph.cardinalities) for _ in range(20)])
    for one in (other, graph.to_pomegranate()):
        found = one.log_probability(torch.tensor(rows)).numpy()
        np.testing.assert_allclose(found, [graph.score(row) for row in rows], rtol=1e-4, atol=1e-5)
    back = zhat.from_pomegranate(graph.to_pomegranate())
    for (scope, table), (own, before) in zip(
        back.factors, sorted(graph.factors, key=lambda f: f[0][-1]), strict=True
    ):
        assert scope == own
        np.testing.assert_allclose(np.exp(table), np.exp(before), atol=1e-7)


def test_marginals_of_a_tree() -> None:
    root, child = np.array([[0.2, 0.3, 0.5]]), np.array([[0.9, 0.1], [0.4, 0.6], [0.0, 1.0]])
    a = kinds.Categorical(torch.tensor(root, dtype=torch.float32))
    b = kinds.ConditionalCategorical([torch.tensor(child, dtype=torch.float32)])
    other = BayesianNetwork([a, b], [(a, b)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # masked tensors are a prototype
        seen = torch.masked.MaskedTensor(torch.tensor([[0, 1]]), mask=torch.tensor([[False, True]]))
        own = other.predict_proba(seen)[0][0].numpy()
    found = zhat.from_pomegranate(other).marginals(given={1: 1}).value[0]
    np.testing.assert_allclose(found, own, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_hidden_markov_models_both_ways(kind: str) -> None:
    model = random_hmm(kind)
    steps = observations(model, (9,))
    other = model.to_pomegranate()
    back = zhat.from_pomegranate(other)
    values = torch.tensor(
        steps.reshape(1, 9, -1), dtype=torch.int64 if kind == "categorical" else torch.float32
    )
    own = other.predict_proba(values)[0].detach().numpy()
    for one in (model, back):
        np.testing.assert_allclose(one.predict_proba(steps), own, rtol=0, atol=2e-5)
    ends = float(np.log(1 / 3))
    np.testing.assert_allclose(float(other.log_probability(values)[0]), model.score(steps) + ends, rtol=1e-4)
    if kind.endswith(("full", "diagonal")) or "-" not in kind:
        assert_equal(back, model, 1e-5)


def test_models_that_cannot_be_converted() -> None:
    with pytest.raises(zhat.InputError, match="model: expected a BayesianNetwork or a DenseHMM"):
        zhat.from_pomegranate(kinds.Categorical([[0.5, 0.5]]))
    coin = [kinds.Categorical([[0.5, 0.5]]), kinds.Categorical([[0.1, 0.9]])]
    edges, starts = [[0.5, 0.4], [0.4, 0.4]], [0.5, 0.5]
    with pytest.raises(zhat.InputError, match="the end probabilities of the states differ"):
        zhat.from_pomegranate(DenseHMM(coin, edges=edges, starts=starts, ends=[0.1, 0.2]))
    mixed = [kinds.Poisson([1.0]), kinds.Exponential([1.0])]
    even = [[0.5, 0.5], [0.5, 0.5]]
    with pytest.raises(zhat.InputError, match="several kinds"):
        zhat.from_pomegranate(DenseHMM(mixed, edges=even, starts=starts))
    wide = [kinds.Exponential([1.0]), kinds.Exponential([2.0])]
    with pytest.raises(zhat.InputError, match="Exponential cannot be converted"):
        zhat.from_pomegranate(DenseHMM(wide, edges=even, starts=starts))
    with pytest.raises(zhat.InputError, match="not a Bayesian network"):
        zhat.generate.ising(rows=2, columns=2).to_pomegranate()
    one, two = (
        kinds.Normal([0.0], [1.0], covariance_type="diag"),
        kinds.Normal([1.0], [1.0], covariance_type="diag"),
    )
    uneven = [GeneralMixtureModel([one, two], priors=[0.5, 0.5]), GeneralMixtureModel([two], priors=[1.0])]
    with pytest.raises(zhat.InputError, match="different numbers of components"):
        zhat.from_pomegranate(DenseHMM(uneven, edges=even, starts=starts))
