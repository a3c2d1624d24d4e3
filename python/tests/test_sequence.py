"""Chains and semi-Markov chains: construction, copies, files, representation, invalid arguments."""

from __future__ import annotations

import copy
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zhat

ZERO = np.zeros((2, 2))


def chains() -> list[zhat.Chain | zhat.SemiMarkov]:
    shapes: list[dict[str, Any]] = [
        {"states": 3, "steps": 4},
        {"states": 3, "steps": 4, "batch": 1, "dtype": np.float32},
        {"states": 3, "steps": 4, "batch": 3, "ragged": True, "transitions": "per-step"},
        {"states": 3, "steps": 4, "transitions": "factored", "rank": 2},
        {"states": 3, "steps": 4, "transitions": "factored", "rank": 2, "tied": True, "dtype": np.float32},
        {"states": 3, "steps": 4, "transitions": "low-rank", "rank": 2},
    ]
    models: list[zhat.Chain | zhat.SemiMarkov] = [zhat.generate.chain(**shape) for shape in shapes]
    models += [zhat.generate.semi_markov(**shape, longest=2) for shape in shapes]
    scores, end = np.ones((2, 3, 2), np.float32), [0.5, -np.inf]
    models.append(zhat.Chain(scores, ZERO, lengths=[3, 1], end=end))
    models.append(zhat.SemiMarkov(scores, ZERO, segments=ZERO, end=end))
    return models


def test_arrays_are_used_in_place() -> None:
    for dtype in (np.float32, np.float64):
        emissions, transitions = np.zeros((2, 3, 4), dtype), np.zeros((4, 4), dtype)
        start, segments = np.zeros(4, dtype), np.zeros((2, 4), dtype)
        chain = zhat.Chain(emissions, transitions, start=start)
        assert np.shares_memory(chain.emissions, emissions)
        assert chain.transitions is not None
        assert np.shares_memory(chain.transitions, transitions)
        assert np.shares_memory(chain.start, start)
        assert chain.end is None
        ending = zhat.Chain(emissions, transitions, end=start)
        assert ending.end is not None
        assert np.shares_memory(ending.end, start)
        model = zhat.SemiMarkov(emissions, left=transitions, right=transitions, segments=segments)
        assert np.shares_memory(model.segments, segments)
        assert model.left is not None
        assert np.shares_memory(model.left, transitions)
        assert np.shares_memory(zhat.Chain(emissions[0], transitions).emissions, emissions)
        low_rank = zhat.Chain(emissions, log_left=transitions, log_right=transitions)
        assert low_rank.log_right is not None
        assert np.shares_memory(low_rank.log_right, transitions)
        assert not chain.emissions.flags.writeable


def test_arrays_are_kept_alive() -> None:
    emissions = np.random.default_rng(1).normal(size=(5, 4))
    want = zhat.Chain(emissions.copy(), np.zeros((4, 4))).log_partition().value
    chain = zhat.Chain(emissions, np.zeros((4, 4)))
    view = chain.emissions
    del emissions
    churn = [np.ones(20) for _ in range(100)]
    assert chain.log_partition().value == want
    del chain, churn
    assert np.isfinite(view).all()


def test_arrays_of_other_types_and_layouts_are_converted() -> None:
    emissions = np.random.default_rng(1).normal(size=(4, 5))
    want = zhat.Chain(np.ascontiguousarray(emissions.T), np.zeros((4, 4)))
    assert zhat.Chain(emissions.T, np.zeros((4, 4))) == want
    assert zhat.Chain(emissions.T.tolist(), np.zeros((4, 4), np.float32)) == want
    assert zhat.Chain(emissions.T.astype(">f8"), np.zeros((4, 4), int)) == want
    assert zhat.Chain(np.asfortranarray(emissions.T)[::1], np.zeros((8, 4))[::2]) == want
    assert want.dtype == np.float64
    assert zhat.Chain(np.zeros((2, 2), np.float32), ZERO).dtype == np.float32
    assert zhat.Chain(np.zeros((2, 2), np.float16), ZERO).dtype == np.float64


def test_errors_name_the_invalid_argument() -> None:
    def message(*args: Any, **options: Any) -> str:
        kind = zhat.SemiMarkov if "segments" in options else zhat.Chain
        with pytest.raises(zhat.InputError) as caught:
            kind(*args, **options)
        return str(caught.value)

    assert "emissions: found shape (2,), expected (T, N) or (B, T, N)" in message([0, 0], ZERO)
    assert "emissions" in message(np.zeros((0, 2)), ZERO)
    assert "start" in message(np.zeros((2, 0)), np.zeros((0, 0)))
    assert "emissions: values of type complex128" in message(np.zeros((2, 2), complex), ZERO)
    assert "transitions: expected either these, or left" in message(ZERO)
    assert "transitions: expected either these, or left" in message(ZERO, ZERO, left=ZERO)
    assert "right: embeddings on the right" in message(ZERO, ZERO, right=ZERO)
    assert "transitions: found shape (3, 3), expected (N, N) = (2, 2)" in message(ZERO, np.zeros((3, 3)))
    assert "1, N, N) = (1, 2, 2)" in message(ZERO, np.zeros((2, 2, 2)))
    assert "expected (N, N) = (2, 2)" in message(ZERO, np.zeros(4))
    assert "left: found shape (3, 2), expected (N, D) with N = 2" in message(ZERO, left=np.zeros((3, 2)))
    assert "right: found shape (2, 3), expected (N, D) as left" in message(
        ZERO, left=ZERO, right=np.zeros((2, 3))
    )
    assert "log_right: low-rank transitions need both" in message(ZERO, log_left=ZERO)
    assert "transitions: expected either these, or left" in message(ZERO, log_right=ZERO)
    assert "transitions: expected either these, or left" in message(
        ZERO, left=ZERO, log_left=ZERO, log_right=ZERO
    )
    assert "log_left: found shape (3, 2), expected (N, R) with N = 2" in message(
        ZERO, log_left=np.zeros((3, 2)), log_right=ZERO
    )
    assert "log_right: found shape (2, 3), expected (N, R) as log_left" in message(
        ZERO, log_left=ZERO, log_right=np.zeros((2, 3))
    )
    assert "a rank R of at least 1" in message(ZERO, log_left=np.zeros((2, 0)), log_right=np.zeros((2, 0)))
    assert "log_left: number 1 is NaN" in message(ZERO, log_left=[[0], [np.nan]], log_right=[[0], [0]])
    assert "log_right: number 0 is inf" in message(ZERO, log_left=[[0], [0]], log_right=[[np.inf], [0]])
    assert "start: found shape (3,), expected (N,) = (2,)" in message(ZERO, ZERO, start=np.zeros(3))
    assert "end: found shape (3,), expected (N,) = (2,)" in message(ZERO, ZERO, end=np.zeros(3))
    assert "end: number 1 is NaN" in message(ZERO, ZERO, end=[0, np.nan])
    assert "end: number 0 is inf" in message(ZERO, ZERO, end=[np.inf, 0])
    assert "lengths: are for a batch" in message(ZERO, ZERO, lengths=[2])
    batch = np.zeros((2, 3, 2))
    assert "lengths: found 1 of them for 2 sequences" in message(batch, ZERO, lengths=[3])
    assert "sequence 1 has length 4, expected 1 to 3" in message(batch, ZERO, lengths=[3, 4])
    assert "sequence 0 has length 0" in message(batch, ZERO, lengths=[0, 3])
    assert "lengths[0]: expected an integer" in message(batch, ZERO, lengths=[1.5, 3])
    assert "emissions: number 1 is NaN" in message([[0, np.nan], [0, 0]], ZERO)
    assert "transitions: number 3 is inf" in message(ZERO, [[0, 0], [0, np.inf]])
    assert "left embeddings: number 0 is not finite" in message(ZERO, left=[[-np.inf], [0]])
    assert "transitions: number 3 is inf" in message(ZERO.astype(np.float32), [[0, 0], [0, 1e300]])
    assert "segments: found shape (2,), expected (L, N) = (L, 2) or" in message(ZERO, ZERO, segments=[0, 0])
    assert "at least one position" in message(ZERO, ZERO, segments=np.zeros((0, 2)))
    assert "a score is finite or -inf" in message(ZERO, ZERO, segments=[[np.nan, 0]])


def test_hidden_markov_models() -> None:
    start, transitions = [0.6, 0.4], [[0.7, 0.3], [0.4, 0.6]]
    emissions = [[0.5, 0.4, 0.1], [0.1, 0.3, 0.6]]
    one = zhat.Chain.hmm(start, transitions, emissions, [0, 1, 2])
    assert (one.batch, one.lengths) == (None, (3,))
    alpha = np.array(start)
    for t, symbol in enumerate([0, 1, 2]):
        alpha = (alpha if t == 0 else alpha @ transitions) * np.array(emissions)[:, symbol]
    np.testing.assert_allclose(one.log_partition().value, np.log(alpha.sum()))
    many = zhat.Chain.hmm(start, transitions, emissions, [np.array([0, 1, 2]), [2]])
    assert (many.batch, many.lengths) == (2, (3, 1))
    np.testing.assert_allclose(many.log_partition().value, [np.log(alpha.sum()), np.log(0.3)])
    single = np.float32
    assert zhat.Chain.hmm(single(start), transitions, emissions, [0]).dtype == single
    with pytest.raises(zhat.InputError, match="symbol 3 of sequence 0, position 1"):
        zhat.Chain.hmm(start, transitions, emissions, [0, 3])
    with pytest.raises(zhat.InputError, match="expected a probability"):
        zhat.Chain.hmm(start, transitions, [[0.5, -0.5], [1, 0]], [0])
    with pytest.raises(zhat.InputError, match="transitions: found shape"):
        zhat.Chain.hmm(start, [1, 0], emissions, [0])
    with pytest.raises(zhat.InputError, match=r"start: the probabilities sum to 1\.5, expected 1"):
        zhat.Chain.hmm([0.75, 0.75], transitions, emissions, [0])
    with pytest.raises(zhat.InputError, match=r"transitions: row 1 sums to 0\.5, expected 1"):
        zhat.Chain.hmm(start, [[0.7, 0.3], [0.25, 0.25]], emissions, [0])
    with pytest.raises(zhat.InputError, match=r"emissions: row 0 sums to 0\.75, expected 1"):
        zhat.Chain.hmm(start, transitions, [[0.5, 0.25], [0.5, 0.5]], [0])
    with pytest.raises(zhat.InputError, match="length 0"):
        zhat.Chain.hmm(start, transitions, emissions, [[0], []])
    with pytest.raises(zhat.InputError):
        zhat.Chain.hmm(start, transitions, emissions, [])
    crf = zhat.Chain.crf(ZERO, left=ZERO)
    assert not crf.start.any()


@pytest.mark.parametrize("model", chains(), ids=repr)
def test_copies_pickles_and_files_are_the_same_model(model: Any, tmp_path: Path) -> None:
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert other == model
        assert (other.batch, other.dtype, hash(other)) == (model.batch, model.dtype, hash(model))
    model.save(tmp_path / "model.zhat")
    read: Any = zhat.read(tmp_path / "model.zhat")
    assert type(read) is type(model)
    # A file with one sequence does not record whether it was a batch.
    assert read == model or (model.batch == 1 and read.batch is None)
    assert type(model).read(tmp_path / "model.zhat") == read
    other_kind: Any = zhat.SemiMarkov if isinstance(model, zhat.Chain) else zhat.Chain
    with pytest.raises(zhat.InputError, match="expected a"):
        other_kind.read(tmp_path / "model.zhat")
    with pytest.raises(zhat.InputError, match="expected a factor-graph"):
        zhat.FactorGraph.read(tmp_path / "model.zhat")
    assert model != zhat.FactorGraph([2])
    assert "states" in repr(model)
    assert "<table>" in model._repr_html_()


def test_a_short_chain_becomes_a_factor_graph(tmp_path: Path) -> None:
    chain = zhat.generate.chain(states=3, steps=4)
    chain.save(tmp_path / "chain.uai")
    graph = zhat.FactorGraph.read(tmp_path / "chain.uai")
    assert graph.cardinalities == (3,) * 4
    np.testing.assert_allclose(graph.log_partition().value, chain.log_partition().value)
    for model in (zhat.generate.chain(states=3, batch=2), zhat.generate.semi_markov(states=3)):
        with pytest.raises(zhat.InputError, match=r"a \.zhat file takes any model"):
            model.save(tmp_path / "no.uai")


def test_info() -> None:
    info = zhat.generate.chain(states=5, steps=7, batch=2, dtype=np.float32).info()
    assert (info["kind"], info["form"], info["precision"]) == ("chain", "shared", "f32")
    assert (info["states"], info["steps"], info["batch"], info["positions"]) == (5, 7, 2, 14)
    assert info["bytes"] == 4 * info["values"] == 4 * (5 + 70 + 25)
    assert info["methods"]["forward-backward"]["log_partition"]["guarantee"] == "exact"
    info = zhat.generate.semi_markov(states=5, transitions="factored", rank=3, longest=4).info()
    assert (info["kind"], info["rank"], info["longest_segment"]) == ("semi-markov", 3, 4)


def test_guarantees_for_each_sequence() -> None:
    answer = zhat.generate.chain(states=3, steps=4, batch=2).log_partition()
    assert answer.guarantee.each is not None
    assert [one.kind for one in answer.guarantee.each] == ["exact", "exact"]
    assert answer.log10 == pytest.approx(answer.value / np.log(10))
    assert "log_partition: [" in repr(answer)
    assert zhat.generate.chain(states=3).log_partition().guarantee.each is None
    with pytest.raises(TypeError, match="not a number"):
        float(answer)


def test_estimates_of_a_batch_and_of_one_sequence() -> None:
    batch = zhat.generate.chain(states=200, steps=4, batch=2, seed=1)
    answer = batch.log_partition(method="randomized", states=20)
    assert answer.guarantee.each is not None
    assert [one.kind for one in answer.guarantee.each] == ["unbiased", "unbiased"]
    for one, exact in zip(answer.guarantee.each, batch.log_partition().value, strict=True):
        assert one.low is not None
        assert one.low < exact
        assert one.replicates == 8
    drawn = batch.sample(5, method="randomized", states=20).value
    assert [rows.shape for rows in drawn.states] == [(5, 4), (5, 4)]
    assert [weights.shape for weights in drawn.log_weights] == [(5,), (5,)]
    single = zhat.generate.chain(states=200, steps=4, seed=1)
    answer = single.log_partition(method="randomized", states=20)
    assert (answer.guarantee.kind, answer.guarantee.each) == ("unbiased", None)
    drawn = single.sample(5, method="randomized", states=20).value
    assert drawn.states.shape == (5, 4)
    assert drawn.log_weights.shape == (5,)
    assert zhat.generate.rdp_chain(80, rank=4, sharpness=3, dtype=np.float32).dtype == np.float32
    with pytest.raises(zhat.InputError, match="there is no `odd`"):
        zhat.generate.rdp_chain(80, sharpness="odd")


def test_errors_name_invalid_evidence() -> None:
    one, many = zhat.generate.chain(states=3, steps=4), zhat.generate.chain(states=3, steps=4, batch=2)
    cases: list[tuple[zhat.Chain, Any, str]] = [
        (one, {4: 0}, "has 4 positions"),
        (one, {0: 3}, "has 3 states"),
        (one, {-1: 0}, "expected an integer between 0"),
        (one, {(0, 1): 0}, "expected an integer"),
        (many, {1: 0}, "a pair of sequence and position"),
        (many, {(2, 0): 0}, "no sequence 2"),
        (one, [(0, 0)], "expected a dict"),
    ]
    for chain, evidence, message in cases:
        with pytest.raises(zhat.InputError, match=message):
            chain.condition(evidence)


def test_scores_of_invalid_paths_are_errors() -> None:
    chain, model = (
        zhat.generate.chain(states=3, steps=4),
        zhat.generate.semi_markov(states=3, steps=4, longest=2),
    )
    for path in ([0, 0, 0], [0, 0, 0, 3], [0, 0, 0, -1]):
        with pytest.raises(zhat.InputError, match="path"):
            chain.score(path)
    with pytest.raises(zhat.InputError, match="sequence"):
        chain.score([0, 0, 0, 0], 1)
    for segments in ([(0, 3), (1, 1)], [(0, 2)], [(3, 2), (0, 2)], [(0, 0), (0, 2), (0, 2)], [(0,), (0, 2)]):
        with pytest.raises(zhat.InputError, match="segments"):
            model.score(segments)  # type: ignore[arg-type]


def test_generators_check_their_arguments() -> None:
    assert zhat.generate.chain(seed=3) == zhat.generate.chain(seed=3) != zhat.generate.chain(seed=4)
    bad: list[dict[str, Any]] = [
        {"states": 0},
        {"steps": -1},
        {"batch": 0},
        {"transitions": "odd"},
        {"zeros": 2},
        {"dtype": np.int64},
        {"strength": "x"},
        {"states": 10**12},
    ]
    for options in bad:
        with pytest.raises(zhat.InputError):
            zhat.generate.chain(**options)
    with pytest.raises(zhat.InputError):
        zhat.generate.semi_markov(longest=0)


def test_an_estimate_of_zero_is_minus_infinity_with_a_warning() -> None:
    transitions = np.where(np.eye(6) > 0, 0.0, -np.inf)
    few: dict[str, Any] = {"method": "randomized", "states": 1, "proposal": "uniform", "replicates": 1}
    for emissions in (np.zeros((3, 6)), np.zeros((2, 3, 6))):
        chain = zhat.Chain(emissions, transitions)
        missed = 0
        for seed in range(12):
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                answer = chain.log_partition(seed=seed, **few)
                value, _ = zhat.ops.log_partition(chain, seed=seed, **few)
            none = bool(np.isneginf(answer.value).any())
            np.testing.assert_array_equal(value, answer.value)
            assert ("warning" in answer.diagnostics) == none
            assert [warning.category for warning in told] == 2 * none * [RuntimeWarning]
            assert all("missed all paths" in str(warning.message) for warning in told)
            missed += none
        assert missed > 0
    single = zhat.Chain(np.zeros((3, 6)), transitions)
    assert len(single.k_best(10**12).value) == 6


def test_a_sequence_without_paths_has_no_entropy() -> None:
    none = zhat.Chain(np.full((2, 2), -np.inf), np.zeros((2, 2)))
    for ask in (lambda: none.entropy(), lambda: zhat.ops.entropy(none), lambda: zhat.ops.kl(none, none)):
        with pytest.raises(zhat.ZeroPartitionError):
            ask()
    mixed = zhat.Chain(np.stack([np.full((2, 2), -np.inf), np.zeros((2, 2))]), np.zeros((2, 2)))
    np.testing.assert_allclose(mixed.entropy().value, [-np.inf, np.log(4)])
    np.testing.assert_allclose(zhat.ops.entropy(mixed)[0], [-np.inf, np.log(4)])


@pytest.mark.parametrize("method", ["forward-backward", "randomized"])
def test_progress_is_reported_for_chains(method: str) -> None:
    heard: list[tuple[str, int, int]] = []
    chain = zhat.generate.chain(states=200, steps=200)
    chain.log_partition(method=method, progress=lambda *news: heard.append(news))
    assert heard
    assert all(done <= total for _, done, total in heard)
