"""Differentiable operations: values against enumeration, gradients against finite differences."""

from __future__ import annotations

import _thread
import itertools
import threading
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sequence_oracle import SequenceOracle

import zhat

FORMS: list[dict[str, Any]] = [
    {"transitions": "shared"},
    {"transitions": "per-step"},
    {"transitions": "factored", "rank": 2, "tied": True},
    {"transitions": "factored", "rank": 2, "tied": False},
    {"transitions": "low-rank", "rank": 2},
]
CHAINS = [zhat.generate.chain(3, 4, 3, ragged=True, seed=5, **form) for form in FORMS]
SEMI = [zhat.generate.semi_markov(2, 4, 3, longest=2, ragged=True, seed=5, **form) for form in FORMS]
MODELS: list[zhat.ops.Sequences] = [*CHAINS, *SEMI]


def rebuilt(model: Any, changed: dict[str, NDArray[Any]]) -> Any:
    parameters = {name: np.array(array) for name, array in model._parameters.items()}
    return type(model)(**{**parameters, **changed}, lengths=model.lengths)


def check_gradient(chain: Any, gradient: zhat.ChainGradient, value: Any) -> None:
    """Compares the gradient with central differences of `value` along random directions."""
    random, step = np.random.default_rng(1), 1e-5
    for name, array in gradient.arrays().items():
        own = np.array(chain._parameters[name])
        direction = random.normal(size=own.shape)
        up, down = (value(rebuilt(chain, {name: own + sign * step * direction})) for sign in (1, -1))
        want = (up - down) / (2 * step)
        np.testing.assert_allclose(np.vdot(array, direction), want, rtol=1e-6, atol=1e-6, err_msg=name)


WEIGHTS = np.array([1.0, -2.0, 0.5])


@pytest.mark.parametrize("chain", MODELS, ids=repr)
@pytest.mark.parametrize("checkpoint", [False, True])
@pytest.mark.parametrize("name", ["log_partition", "entropy"])
def test_gradients_of_one_model(chain: Any, checkpoint: bool, name: str) -> None:
    operation = getattr(zhat.ops, name)
    value, tape = operation(chain, checkpoint=checkpoint)
    want = [getattr(SequenceOracle(chain, b), name) for b in range(3)]
    np.testing.assert_allclose(value, want, atol=1e-9)
    gradient = tape.vjp(WEIGHTS)
    assert gradient.emissions.shape == chain.emissions.shape
    check_gradient(chain, gradient, lambda other: operation(other)[0] @ WEIGHTS)
    again = tape.vjp(2 * WEIGHTS)
    np.testing.assert_allclose(again.start, 2 * gradient.start, atol=1e-12)


@pytest.mark.parametrize("p", MODELS, ids=repr)
@pytest.mark.parametrize("name", ["cross_entropy", "kl"])
def test_gradients_of_two_models(p: Any, name: str) -> None:
    operation, q = getattr(zhat.ops, name), p
    random = np.random.default_rng(8)
    q = rebuilt(p, {key: random.normal(size=array.shape) for key, array in p._parameters.items()})
    value, tape = operation(p, q)
    for b in range(3):
        of_p, of_q = SequenceOracle(p, b), SequenceOracle(q, b)
        want = -(of_p.probabilities @ (of_q.scores - of_q.log_partition))
        np.testing.assert_allclose(value[b], want - (of_p.entropy if name == "kl" else 0), atol=1e-9)
    by_p, by_q = tape.vjp(WEIGHTS)
    check_gradient(p, by_p, lambda other: operation(other, q)[0] @ WEIGHTS)
    check_gradient(q, by_q, lambda other: operation(p, other)[0] @ WEIGHTS)


@pytest.mark.parametrize("model", MODELS, ids=repr)
@pytest.mark.parametrize("checkpoint", [False, True])
def test_expectations_of_additive_scores(model: Any, checkpoint: bool) -> None:
    random = np.random.default_rng(9)
    arrays = {key: random.normal(size=array.shape) for key, array in model._parameters.items()}
    scores = rebuilt(model, arrays)
    value, tape = zhat.ops.expectation(model, scores, checkpoint=checkpoint)
    want = [SequenceOracle(model, b).probabilities @ SequenceOracle(scores, b).scores for b in range(3)]
    np.testing.assert_allclose(value, want, atol=1e-9)
    by_model, by_scores = tape.vjp(WEIGHTS)
    check_gradient(model, by_model, lambda other: zhat.ops.expectation(other, scores)[0] @ WEIGHTS)
    check_gradient(scores, by_scores, lambda other: zhat.ops.expectation(model, other)[0] @ WEIGHTS)


def test_scores_of_impossible_parts_count_as_zero() -> None:
    forbidden = np.array([[0.0, -np.inf], [0.0, 0.0]])
    chain = zhat.Chain(np.zeros((3, 2)), forbidden)
    uses = zhat.Chain(np.zeros((3, 2)), np.array([[1.0, -np.inf], [0.0, 0.0]]))
    counts = chain.factor_marginals().value.transitions
    assert zhat.ops.expectation(chain, uses)[0] == pytest.approx(counts[0, 0])
    value, tape = zhat.ops.expectation(zhat.Chain(np.zeros((3, 2)), np.zeros((2, 2))), uses)
    assert value == -np.inf
    assert all((gradient.transitions == 0).all() for gradient in tape.vjp())


@pytest.mark.parametrize("chain", MODELS, ids=repr)
@pytest.mark.parametrize("checkpoint", [False, True])
def test_value_and_gradient_in_one_pass(chain: Any, checkpoint: bool) -> None:
    value, gradient = chain.log_partition_and_gradient(WEIGHTS, checkpoint=checkpoint)
    np.testing.assert_allclose(value, chain.log_partition().value, atol=1e-12)
    want = zhat.ops.log_partition(chain)[1].vjp(WEIGHTS)
    for name, array in want.arrays().items():
        np.testing.assert_allclose(getattr(gradient, name), array, atol=1e-12)
    np.testing.assert_allclose(
        chain.log_partition_and_gradient()[1].emissions, chain.marginals().value, atol=1e-12
    )


def test_one_sequence_has_numbers_and_no_batch_axis() -> None:
    chain = zhat.generate.chain(3, 4, dtype=np.float32)
    value, tape = zhat.ops.log_partition(chain)
    assert isinstance(value, float)
    gradient = tape.vjp()
    assert gradient.emissions.shape == (4, 3)
    assert gradient.emissions.dtype == np.float32
    assert isinstance(chain.log_partition_and_gradient()[0], float)


def test_a_sequence_without_paths_has_gradient_zero() -> None:
    chain = zhat.Chain([[[0.0], [0.0]], [[-np.inf], [0.0]]], [[0.5]])
    value, tape = zhat.ops.log_partition(chain)
    assert value.tolist() == [0.5, -np.inf]
    gradient = tape.vjp([1.0, 1.0])
    assert gradient.emissions.ravel().tolist() == [1, 1, 0, 0]
    assert gradient.transitions.tolist() == [[1]]


@pytest.mark.parametrize("chain", CHAINS, ids=repr)
def test_relaxed_samples_and_their_gradients(chain: zhat.Chain) -> None:
    samples, tape = zhat.ops.relaxed_sample(chain, 2, 0.7, seed=3)
    assert samples.soft.shape == (3, 2, 4, 3)
    for b, paths in enumerate(samples.hard):
        assert paths.shape == (2, chain.lengths[b])
        soft = samples.soft[b, :, : chain.lengths[b]]
        assert (soft.argmax(axis=-1) == paths).all()
        np.testing.assert_allclose(soft.sum(axis=-1), 1, atol=1e-12)
        assert not samples.soft[b, :, chain.lengths[b] :].any()
    weights = np.random.default_rng(2).normal(size=samples.soft.shape)

    def value(other: zhat.Chain) -> float:
        # The step is so small that no path changes, so the hard states are constants.
        return float(np.vdot(zhat.ops.relaxed_sample(other, 2, 0.7, seed=3)[0].soft, weights))

    check_gradient(chain, tape.vjp(weights), value)
    with pytest.raises(zhat.InputError, match="cotangent: found shape"):
        tape.vjp(weights[0])
    with pytest.raises(zhat.InputError, match="temperature"):
        zhat.ops.relaxed_sample(chain, 1, 0.0)


def check_segments(model: zhat.SemiMarkov, hard: list[Any], soft: Any, lengths: Any) -> None:
    for b, drawn in enumerate(hard):
        assert len(drawn) == 2
        for s, segments in enumerate(drawn):
            ends = segments[:, 1].cumsum() - 1
            assert ends[-1] + 1 == model.lengths[b]
            assert (soft[b, s, ends].argmax(axis=-1) == segments[:, 0]).all()
            assert (lengths[b, s, ends].argmax(axis=-1) == segments[:, 1] - 1).all()
            for rows in (soft[b, s], lengths[b, s]):
                np.testing.assert_allclose(rows[ends].sum(axis=-1), 1, atol=1e-12)
                assert not np.delete(rows, ends, axis=0).any()


@pytest.mark.parametrize("model", SEMI, ids=repr)
def test_relaxed_segmentations_and_their_gradients(model: zhat.SemiMarkov) -> None:
    samples, tape = zhat.ops.relaxed_sample(model, 2, 0.7, seed=3)
    assert samples.lengths is not None
    assert samples.soft.shape == (3, 2, 4, 2)
    assert samples.lengths.shape == (3, 2, 4, 2)
    check_segments(model, samples.hard, samples.soft, samples.lengths)
    random = np.random.default_rng(2)
    weights = random.normal(size=samples.soft.shape), random.normal(size=samples.lengths.shape)

    def value(other: zhat.SemiMarkov) -> float:
        drawn = zhat.ops.relaxed_sample(other, 2, 0.7, seed=3)[0]
        assert drawn.lengths is not None
        return float(np.vdot(drawn.soft, weights[0]) + np.vdot(drawn.lengths, weights[1]))

    check_gradient(model, tape.vjp(weights), value)
    with pytest.raises(zhat.InputError, match="cotangent: expected a pair"):
        tape.vjp(weights[0])
    with pytest.raises(zhat.InputError, match="cotangent: found shape"):
        tape.vjp((weights[0], weights[1][1:]))


@pytest.mark.parametrize("model", SEMI, ids=repr)
def test_sparse_relaxed_segmentations_and_their_gradients(model: zhat.SemiMarkov) -> None:
    options: dict[str, Any] = {"n": 2, "temperature": 0.7, "seed": 3, "states": 2}
    samples, tape = zhat.ops.sparse_relaxed_sample(model, **options)
    assert samples.lengths is not None
    assert samples.length_index is not None
    soft, lengths = np.zeros((3, 2, 4, 2)), np.zeros((3, 2, 4, 2))
    soft[tuple(samples.index.T)] = samples.values
    lengths[tuple(samples.length_index.T)] = samples.lengths
    check_segments(model, samples.hard, soft, lengths)
    for b in range(3):
        np.testing.assert_allclose(samples.log_weights[b], model.log_partition().value[b], atol=1e-9)
    random = np.random.default_rng(2)
    weights = random.normal(size=samples.values.shape), random.normal(size=samples.lengths.shape)

    def value(other: zhat.SemiMarkov) -> float:
        drawn = zhat.ops.sparse_relaxed_sample(other, **options)[0]
        assert drawn.lengths is not None
        return float(drawn.values @ weights[0] + drawn.lengths @ weights[1])

    check_gradient(model, tape.vjp(weights), value)
    with pytest.raises(zhat.InputError, match="cotangent: found shape"):
        tape.vjp((weights[0][1:], weights[1]))


def test_relaxed_segmentations_in_single_precision() -> None:
    model = zhat.generate.semi_markov(3, 4, longest=2, dtype=np.float32)
    samples, tape = zhat.ops.relaxed_sample(model, 5)
    assert samples.lengths is not None
    assert samples.lengths.dtype == samples.soft.dtype == np.float32
    assert (samples.soft.shape, samples.lengths.shape) == ((5, 4, 3), (5, 4, 2))
    assert tape.vjp((samples.soft, samples.lengths)).segments.dtype == np.float32
    sparse, tape = zhat.ops.sparse_relaxed_sample(model, 5, states=2)
    assert sparse.lengths is not None
    assert sparse.index.shape == (sparse.values.size, 3)
    assert tape.vjp((sparse.values, sparse.lengths)).emissions.shape == (4, 3)


def test_relaxed_samples_in_single_precision() -> None:
    chain = zhat.generate.chain(3, 4, dtype=np.float32)
    samples, tape = zhat.ops.relaxed_sample(chain, 5)
    assert samples.soft.dtype == np.float32
    assert samples.soft.shape == (5, 4, 3)
    assert samples.hard.shape == (5, 4)
    assert tape.vjp(np.ones((5, 4, 3))).emissions.dtype == np.float32
    sparse, tape = zhat.ops.sparse_relaxed_sample(chain, 5, states=2)
    assert sparse.index.shape == (sparse.values.size, 3)
    assert sparse.values.dtype == np.float32
    assert tape.vjp(np.ones(sparse.values.size)).emissions.shape == (4, 3)


@pytest.mark.parametrize("chain", MODELS, ids=repr)
@pytest.mark.parametrize("name", ["log_partition", "entropy"])
def test_randomized_operations_on_all_states_are_exact(chain: Any, name: str) -> None:
    operation = getattr(zhat.ops, name)
    value, tape = operation(chain, method="randomized", states=3, seed=4)
    want, exact = operation(chain)
    np.testing.assert_allclose(value, want, atol=1e-9)
    gradient, true = tape.vjp(WEIGHTS).arrays(), exact.vjp(WEIGHTS).arrays()
    assert gradient.keys() == true.keys()
    for parameter, array in gradient.items():
        np.testing.assert_allclose(array, true[parameter], atol=1e-9, err_msg=parameter)


@pytest.mark.parametrize("chain", CHAINS, ids=repr)
def test_sparse_relaxed_samples_and_their_gradients(chain: zhat.Chain) -> None:
    options: dict[str, Any] = {"n": 2, "temperature": 0.7, "seed": 3, "states": 3}
    samples, tape = zhat.ops.sparse_relaxed_sample(chain, **options)
    assert samples.index.shape == (samples.values.size, 4)
    soft = np.zeros((3, 2, 4, 3))
    soft[tuple(samples.index.T)] = samples.values
    for b, length in enumerate(chain.lengths):
        np.testing.assert_allclose(soft[b, :, :length].sum(axis=-1), 1, atol=1e-12)
        assert (soft[b, :, :length].argmax(axis=-1) == samples.hard[b]).all()
        np.testing.assert_allclose(samples.log_weights[b], chain.log_partition().value[b], atol=1e-9)
    weights = np.random.default_rng(2).normal(size=samples.values.shape)

    def value(other: zhat.Chain) -> float:
        return float(zhat.ops.sparse_relaxed_sample(other, **options)[0].values @ weights)

    check_gradient(chain, tape.vjp(weights), value)
    with pytest.raises(zhat.InputError, match="cotangent: found shape"):
        tape.vjp(weights[1:])


def test_proposal_scores_given_by_the_caller() -> None:
    chain = zhat.generate.chain(50, 6, seed=1)
    options: dict[str, Any] = {"method": "randomized", "proposal": "given", "states": 10}
    value, tape = zhat.ops.log_partition(chain, **options, scores=chain.marginals().value)
    assert abs(value - chain.log_partition().value) < 3
    assert tape.vjp().emissions.shape == (6, 50)
    with pytest.raises(zhat.InputError, match="scores: found shape"):
        zhat.ops.log_partition(chain, **options, scores=np.zeros((6, 49)))
    with pytest.raises(zhat.InputError, match="scores"):
        zhat.ops.log_partition(chain, **options)
    with pytest.raises(zhat.InputError, match="scores: this method has no option"):
        zhat.ops.log_partition(chain, scores=np.zeros((6, 50)))
    with pytest.raises(zhat.InputError, match="has no gradient of"):
        zhat.ops.log_partition(chain, method="elimination")
    with pytest.raises(zhat.InputError, match="has no such option"):
        zhat.ops.log_partition(chain, method="randomized", oddity=1)


def test_invalid_arguments_are_refused() -> None:
    chain = zhat.generate.chain(3, 4)
    for bad in ([1.0, 2.0], "x", None, np.nan):
        with pytest.raises(zhat.InputError, match="cotangent"):
            zhat.ops.log_partition(chain)[1].vjp(bad)  # type: ignore[arg-type]
    with pytest.raises(zhat.InputError, match="entropy has no gradient for a factor-graph"):
        zhat.ops.entropy(zhat.FactorGraph([2]))
    with pytest.raises(zhat.InputError, match=r"expected a zhat\.Chain"):
        zhat.ops.relaxed_sample(zhat.FactorGraph([2]))  # type: ignore[arg-type]
    with pytest.raises(zhat.InputError, match="same kind"):
        zhat.ops.kl(chain, zhat.generate.semi_markov(3, 4))
    with pytest.raises(zhat.InputError, match="same precision"):
        zhat.ops.kl(chain, zhat.generate.chain(3, 4, dtype=np.float32))
    with pytest.raises(zhat.InputError, match="two batches"):
        zhat.ops.kl(chain, zhat.generate.chain(3, 4, 1))
    for other in (zhat.generate.chain(4, 4), zhat.generate.chain(3, 5)):
        with pytest.raises(zhat.InputError):
            zhat.ops.kl(chain, other)
    with pytest.raises(zhat.OverBudgetError):
        zhat.ops.log_partition(chain, memory=1)


def test_a_tape_outlives_its_chain_and_can_be_reused() -> None:
    chain = zhat.generate.chain(3, 4)
    want = zhat.ops.entropy(chain)[1].vjp().start
    _, tape = zhat.ops.entropy(zhat.generate.chain(3, 4))
    del chain
    for _ in range(3):
        assert (tape.vjp().start == want).all()


def test_a_tape_works_after_an_interrupt() -> None:
    _, tape = zhat.ops.entropy(zhat.generate.chain(200, 50))
    want = tape.vjp().start
    timer = threading.Timer(0.05, _thread.interrupt_main)
    timer.start()

    def forever() -> None:
        for _ in itertools.repeat(None):
            tape.vjp()

    with pytest.raises(KeyboardInterrupt):
        forever()
    assert (tape.vjp().start == want).all()


def test_models_without_gradients_are_refused_by_name() -> None:
    grid = zhat.generate.ising(rows=2, columns=2)
    with pytest.raises(zhat.InputError, match="gradient"):
        zhat.ops.log_partition(grid)
    with pytest.raises(zhat.InputError, match="expected a model"):
        zhat.ops.log_partition("grid")  # type: ignore[arg-type]
    with pytest.raises(zhat.InputError, match=r"expected a zhat\.Chain"):
        zhat.ops.relaxed_sample(grid)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("gap", [50.0, 90.0, 740.0, 1e4])
def test_divergences_are_infinite_if_q_forbids_a_path_of_p(dtype: Any, gap: float) -> None:
    step = np.array([[0.0, -gap], [0.0, 0.0]], dtype)
    forbidden = np.array([[0.0, -np.inf], [0.0, 0.0]], dtype)
    emissions = np.zeros((2, 3, 2), dtype)
    emissions[1, :, 0] = -np.inf  # the second sequence never takes that step
    p, q = zhat.Chain(emissions, step), zhat.Chain(emissions, forbidden)
    for operation in (zhat.ops.kl, zhat.ops.cross_entropy):
        for checkpoint in (False, True):
            value, tape = operation(p, q, checkpoint=checkpoint)
            assert value[0] == np.inf
            np.testing.assert_allclose(value[1], 0.0, atol=1e-6)
            for gradient in tape.vjp(np.ones(2)):
                assert all(np.isfinite(array).all() for array in gradient.arrays().values())
                assert not gradient.emissions[0].any()
