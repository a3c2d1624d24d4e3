"""Pairwise graphs: agreement with enumeration, files and copies."""

import copy
import itertools
import pickle

import numpy as np
import pytest

import zhat


def brute(graph):
    states = itertools.product(range(graph.n_states), repeat=graph.n_variables)
    all_states = list(states)
    scores = np.array([graph.score(state) for state in all_states])
    shift = scores.max()
    weights = np.exp(scores - shift)
    log_z = shift + np.log(weights.sum())
    marginals = np.zeros((graph.n_variables, graph.n_states))
    for state, weight in zip(all_states, weights / weights.sum(), strict=True):
        marginals[np.arange(graph.n_variables), list(state)] += weight
    return log_z, marginals


def random_graph(form, dtype=np.float64, seed=0):
    random = np.random.default_rng(seed)
    nodes = random.normal(size=(4, 3)).astype(dtype)
    edges = [(0, 1), (2, 1), (1, 3)]
    if form == "factored":
        left, right = random.normal(size=(2, 3, 2)).astype(dtype)
        return zhat.PairwiseGraph(nodes, edges, left=left, right=right)
    shape = (3, 3) if form == "shared" else (3, 3, 3)
    return zhat.PairwiseGraph(nodes, edges, random.normal(size=shape).astype(dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", ["shared", "per-edge", "factored"])
def test_trees_are_exact(form, dtype):
    graph = random_graph(form, dtype)
    log_z, marginals = brute(graph)
    answer = graph.log_partition()
    assert answer.method == "bp"
    assert answer.guarantee.kind == "exact"
    assert answer.value == pytest.approx(log_z, abs=1e-4 if dtype == np.float32 else 1e-10)
    tolerance = 1e-5 if dtype == np.float32 else 1e-10
    np.testing.assert_allclose(graph.marginals().value, marginals, atol=tolerance)
    gradient = graph.factor_marginals().value
    np.testing.assert_allclose(gradient.nodes, marginals, atol=tolerance)
    if form == "per-edge":
        np.testing.assert_allclose(gradient.interactions.sum((1, 2)), 1, atol=1e-5)
    entropy = log_z - sum(
        np.exp(graph.score(state) - log_z) * graph.score(state)
        for state in itertools.product(range(3), repeat=4)
    )
    assert graph.entropy().value == pytest.approx(entropy, abs=1e-4)


def test_estimates_with_few_states_are_unbiased():
    random = np.random.default_rng(1)
    left = random.normal(size=(500, 4)) * 0.5
    edges = [(k // 2, k + 1) for k in range(10)]
    graph = zhat.PairwiseGraph(random.normal(size=(11, 500)), edges, left=left)
    exact = graph.log_partition(method="bp").value
    answer = graph.log_partition(method="randomized-bp", states=64, replicates=16, seed=3)
    assert answer.guarantee.kind == "unbiased"
    error = answer.guarantee.relative_std_error
    assert abs(np.expm1(answer.value - exact)) < 8 * error + 1e-6


def test_arrays_are_used_in_place_and_models_are_copied_and_saved(tmp_path):
    graph = random_graph("shared")
    assert not graph.nodes.flags.writeable
    for other in (copy.deepcopy(graph), pickle.loads(pickle.dumps(graph))):
        assert other == graph
        assert hash(other) == hash(graph)
    graph.save(tmp_path / "graph.zhat")
    assert zhat.read(tmp_path / "graph.zhat") == graph == zhat.PairwiseGraph.read(tmp_path / "graph.zhat")
    graph.save(tmp_path / "graph.uai")
    same = zhat.read(tmp_path / "graph.uai").log_partition().value
    assert same == pytest.approx(graph.log_partition().value, abs=1e-9)
    assert graph.info()["edges"] == 3
    assert "shared interactions" in repr(graph)
    assert "<table" in graph._repr_html_()


def test_evidence():
    graph = random_graph("per-edge")
    given = graph.condition({1: 2})
    want = np.log(sum(np.exp(graph.score(s)) for s in itertools.product(range(3), repeat=4) if s[1] == 2))
    assert given.log_partition().value == pytest.approx(want, abs=1e-10)


def test_invalid_arguments_are_named():
    nodes = np.zeros((2, 2))
    for arguments, keywords, words in [
        ((np.zeros(3), [], np.zeros((2, 2))), {}, "expected \\(V, N\\)"),
        ((nodes, [(0, 1)]), {}, "either these"),
        ((nodes, [(0, 1)], np.zeros((3, 2))), {}, "interactions: found shape"),
        ((nodes, [(0, 5)], np.zeros((2, 2))), {}, "edge 0"),
        ((nodes, [3], np.zeros((2, 2))), {}, "pairs of variables"),
        ((nodes, [(0, 1)]), {"right": nodes, "interactions": nodes}, "right"),
        ((nodes, [(0, 1)], np.full((2, 2), np.nan)), {}, "NaN|nan"),
    ]:
        with pytest.raises(zhat.InputError, match=words):
            zhat.PairwiseGraph(*arguments, **keywords)


@pytest.mark.parametrize("interactions", ["shared", "per-step", "factored"])
def test_relaxed_samples_are_distributions(interactions):
    graph = zhat.generate.pairwise(2, 3, states=60, interactions=interactions, dtype=np.float32, seed=3)
    index, values = graph.relaxed_sample(n=4, temperature=0.7, states=10, replicates=2, seed=5)
    assert values.dtype == np.float32
    assert index.shape == (len(values), 3)
    totals = np.zeros((4, 6))
    np.add.at(totals, (index[:, 0], index[:, 1]), values)
    assert np.allclose(totals, 1, atol=1e-5)
    assert index[:, 2].max() < 60
    cold = graph.relaxed_sample(n=4, temperature=1e-3, states=10, seed=5)[1]
    assert np.sort(cold)[-20:].min() > 0.99
    with pytest.raises(zhat.InputError, match="temperature"):
        graph.relaxed_sample(temperature=0)
    with pytest.raises(zhat.InputError, match="there are shared"):
        zhat.generate.pairwise(interactions="dense")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", ["shared", "per-edge", "factored"])
def test_graphs_with_cycles_are_exact_as_factor_graphs(form, dtype):
    tree = random_graph(form, dtype)
    edges = [*map(tuple, tree.edges.tolist()), (0, 3)]
    if form == "factored":
        graph = zhat.PairwiseGraph(tree.nodes, edges, left=tree.left, right=tree.right)
    else:
        table = tree.interactions
        table = table if form == "shared" else np.concatenate([table, table[:1].transpose(0, 2, 1)])
        graph = zhat.PairwiseGraph(tree.nodes, edges, table)
    log_z, marginals = brute(graph)
    factors = graph.to_factor_graph()
    tolerance = 1e-5 if dtype == np.float32 else 1e-10
    answer = factors.log_partition()
    assert answer.guarantee.kind == "exact"
    assert answer.value == pytest.approx(log_z, abs=tolerance)
    np.testing.assert_allclose(np.stack(list(factors.marginals().value)), marginals, atol=tolerance)
    for state in itertools.product(range(3), repeat=4):
        assert factors.score(state) == pytest.approx(graph.score(state), abs=tolerance)
    best = max(itertools.product(range(3), repeat=4), key=graph.score)
    assert tuple(factors.map().value.state) == best


def test_factor_graphs_of_graphs_without_edges_and_of_large_ones():
    graph = zhat.PairwiseGraph(np.array([[0.0, 1.0], [2.0, 0.5]]), [], np.zeros((2, 2)))
    assert graph.to_factor_graph().log_partition().value == pytest.approx(
        graph.log_partition().value, abs=1e-12
    )
    large = zhat.PairwiseGraph(np.zeros((2, 20_000)), [(0, 1)], left=np.zeros((20_000, 1)))
    with pytest.raises(zhat.InputError, match="model: its tables have 400040000 numbers"):
        large.to_factor_graph()
