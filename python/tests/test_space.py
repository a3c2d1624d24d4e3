"""Models on combinatorial spaces, against brute force and closed forms."""

import contextlib
import itertools
import math
import os
import pickle
import signal
import threading
import time

import numpy as np
import pytest

import zhat
from zhat import SpaceModel


def log_sum(values):
    top = max(values)
    return top + math.log(sum(math.exp(value - top) for value in values))


def matrix(n, seed):
    return np.random.default_rng(seed).normal(size=(n, n))


def symmetric(n, seed):
    square = matrix(n, seed)
    np.fill_diagonal(square, 0.0)
    return square + square.T


def orders(n):
    return itertools.permutations(range(n))


def test_the_hypercube():
    theta, pairs = [0.3, -1.0, 0.7], [(0, 1, 0.5), (1, 2, -0.8)]
    for signs in (False, True):
        low = -1 if signs else 0
        scores = [
            sum(t * x for t, x in zip(theta, y, strict=True)) + sum(w * y[i] * y[j] for i, j, w in pairs)
            for y in itertools.product((low, 1), repeat=3)
        ]
        model = SpaceModel.hypercube(theta, pairs, signs=signs)
        assert model.log_partition().value == pytest.approx(log_sum(scores), abs=1e-10)
        assert model.log_count == pytest.approx(3 * math.log(2))
        assert model.range[0] <= min(scores) + 1e-12
        assert model.range[1] >= max(scores) - 1e-12
        assert model.map().value.score == pytest.approx(max(scores))


def test_labels_times_inputs():
    weights, x = matrix(3, 1)[:, :2], np.array([0.5, -2.0])
    model = SpaceModel.hypercube(weights, inputs=x)
    assert model.log_partition().value == pytest.approx(np.log1p(np.exp(weights @ x)).sum(), abs=1e-10)


def test_permutations():
    scores = matrix(5, 2)
    position = [sum(scores[item, place] for place, item in enumerate(y)) for y in orders(5)]
    assert SpaceModel.permutations(position=scores).log_partition().value == pytest.approx(log_sum(position))
    precedence = [sum(scores[i, j] for i, j in itertools.combinations(y, 2)) for y in orders(5)]
    model = SpaceModel.permutations(precedence=scores)
    assert model.log_partition().value == pytest.approx(log_sum(precedence))
    assert model.score([2, 0, 1, 4, 3]) == pytest.approx(
        sum(scores[i, j] for i, j in itertools.combinations([2, 0, 1, 4, 3], 2))
    )


@pytest.mark.parametrize(
    ("distance", "want"),
    [("kendall", 7.334398364439), ("cayley", 11.755114853640), ("hamming", 10.753133843657)],
)
def test_distances_have_closed_forms(distance, want):
    model = SpaceModel.permutations(**{distance: range(10)}, spread=0.5)
    answer = model.log_partition()
    assert answer.value == pytest.approx(want, abs=1e-9)
    assert answer.guarantee.kind == "exact"


def test_subtrees():
    parents = [None, 0, 0, 1, 1, 2, 2]
    unary = [math.sin(v + 1) for v in range(7)]
    closed = [
        y for y in itertools.product((0, 1), repeat=7) if all(y[parents[v]] or not y[v] for v in range(1, 7))
    ]
    scores = [sum(s * x for s, x in zip(unary, y, strict=True)) for y in closed]
    assert SpaceModel.subtrees(parents, unary).log_partition().value == pytest.approx(log_sum(scores))
    nonempty = [score for y, score in zip(closed, scores, strict=True) if any(y)]
    assert SpaceModel.subtrees(parents, unary, empty=False).log_partition().value == pytest.approx(
        log_sum(nonempty)
    )


def test_cycles_and_partitions():
    links = symmetric(5, 3)
    cycles = [
        sum(links[y[k - 1], y[k]] for k in range(size))
        for size in range(3, 6)
        for chosen in itertools.combinations(range(5), size)
        for rest in itertools.permutations(chosen[1:])
        if rest[0] < rest[-1]
        for y in [(chosen[0], *rest)]
    ]
    assert SpaceModel.cycles(links).log_partition().value == pytest.approx(log_sum(cycles))
    blocks = [
        y
        for y in itertools.product(range(5), repeat=5)
        if all(y[k] <= max((-1, *y[:k])) + 1 for k in range(5))
    ]
    assert len(blocks) == 52
    scores = [
        sum(links[i, j] for i, j in itertools.combinations(range(5), 2) if y[i] == y[j]) for y in blocks
    ]
    assert SpaceModel.partitions(links).log_partition().value == pytest.approx(log_sum(scores))


@pytest.mark.parametrize("method", ["importance", "tpa", "telescoped", "annealed"])
def test_intervals_of_estimates_contain_log_z(method):
    scores = 0.4 * matrix(6, 4)
    model = SpaceModel.permutations(precedence=scores)
    want = model.log_partition().value
    answer = model.log_partition(method=method, seed=1)
    assert answer.value == pytest.approx(want, abs=0.3)
    if answer.guarantee.kind == "bounds":
        assert answer.guarantee.low <= want <= answer.guarantee.high


def test_gradients_and_samples():
    scores = matrix(4, 5)
    model = SpaceModel.permutations(position=scores)
    gradient = model.factor_marginals().value.reshape(4, 4)
    step = 1e-5
    moved = scores.copy()
    moved[1, 2] += step
    slope = (
        SpaceModel.permutations(position=moved).log_partition().value - model.log_partition().value
    ) / step
    assert gradient[1, 2] == pytest.approx(slope, abs=1e-4)
    assert gradient.sum(axis=0) == pytest.approx(np.ones(4))
    states = model.sample(2000, seed=2).value.states
    assert (np.sort(states, axis=1) == np.arange(4)).all()
    shares = np.array([[(states[:, place] == item).mean() for place in range(4)] for item in range(4)])
    assert np.abs(shares - gradient).max() < 0.06


def test_functions_as_scores_and_their_errors():
    model = SpaceModel.of_function("partitions", 4, lambda y: float(max(y)), low=0, high=3)
    want = log_sum(
        [
            float(max(y))
            for y in itertools.product(range(4), repeat=4)
            if all(y[k] <= max((-1, *y[:k])) + 1 for k in range(4))
        ]
    )
    assert model.log_partition().value == pytest.approx(want)
    outside = SpaceModel.of_function("hypercube", 3, lambda y: 5.0, low=0, high=1)
    with pytest.raises(zhat.Error):
        outside.log_partition()
    missing = SpaceModel.of_function("hypercube", 3, lambda y: float("nan"), low=0, high=1)
    with pytest.raises(zhat.Error):
        missing.log_partition()

    def fails(y):
        raise ValueError("no score here")

    with pytest.raises(zhat.InputError, match="no score here") as caught:
        SpaceModel.of_function("permutations", 3, fails, low=0, high=1).log_partition()
    assert isinstance(caught.value.__cause__, ValueError)
    with pytest.raises(zhat.InputError, match="no score here") as caught:
        SpaceModel.hypercube([0.0] * 3).restrict(fails).log_partition()
    assert isinstance(caught.value.__cause__, ValueError)


def test_functions_on_signs_get_signs():
    seen = set()

    def score(y):
        seen.update(y)
        return float(sum(y))

    model = SpaceModel.of_function("signs", 4, score, low=-4, high=4)
    assert model.log_partition().value == pytest.approx(4 * math.log(2 * math.cosh(1)))
    assert seen == {-1, 1}
    kept = SpaceModel.hypercube([0.0] * 4, signs=True).restrict(lambda y: sum(y) == 0)
    assert kept.log_partition().value == pytest.approx(math.log(6))


def test_slow_functions_keep_the_time_limit():
    def slow(y):
        time.sleep(0.02)
        return float(y[0])

    model = SpaceModel.of_function("hypercube", 30, slow, low=0, high=1)
    started = time.monotonic()
    with contextlib.suppress(zhat.OverBudgetError):
        model.log_partition(time=1)
    assert time.monotonic() - started < 1.1 + 1


def test_links_may_be_one_triangle_and_a_root_may_be_minus_one():
    links = symmetric(5, 3)
    for make in (SpaceModel.cycles, SpaceModel.partitions):
        whole = make(links)
        for part in (np.triu(links), np.tril(links)):
            assert make(part).log_partition().value == whole.log_partition().value
        unequal = links.copy()
        unequal[1, 3] += 1.0
        with pytest.raises(zhat.InputError, match=r"\(1, 3\) and \(3, 1\) differ; expected a symmetric"):
            make(unequal)
    tree = [0.3, -0.2, 0.5]
    assert SpaceModel.subtrees([-1, 0, 0], tree) == SpaceModel.subtrees([None, 0, 0], tree)
    assert SpaceModel.subtrees(np.array([1, -1, 1]), tree) == SpaceModel.subtrees([1, None, 1], tree)


def test_conditions_on_sizes_are_exact():
    theta = np.random.default_rng(5).normal(size=6)
    model = SpaceModel.hypercube(theta).restrict("size 2 3", "not chosen 4")
    kept = [y for y in itertools.product((0, 1), repeat=6) if 2 <= sum(y) <= 3 and not y[4]]
    assert model.log_count == pytest.approx(math.log(len(kept)))
    assert model.log_partition(method="oracle").value == pytest.approx(log_sum([theta @ y for y in kept]))
    with pytest.raises(zhat.ZeroPartitionError):
        model.restrict("size 5 6").log_partition()


def test_marginals_and_the_k_best():
    theta = [0.5, -1.0, 2.0, 0.1]
    model = SpaceModel.hypercube(theta)
    assert model.marginals().value == pytest.approx(1 / (1 + np.exp(-np.array(theta))))
    ranked = model.k_best(3).value
    totals = sorted(
        (sum(t * x for t, x in zip(theta, y, strict=True)) for y in itertools.product((0, 1), repeat=4)),
        reverse=True,
    )
    assert [best.score for best in ranked] == pytest.approx(totals[:3])
    scores = matrix(4, 6)
    model = SpaceModel.permutations(position=scores)
    p = model.marginals().value
    assert p.shape == (4, 4)
    assert p == pytest.approx(model.factor_marginals().value.reshape(4, 4))
    drawn = model.marginals(method="perfect", error=0.02, confidence=0.999999, seed=1)
    assert np.abs(drawn.value - p).max() < 0.02
    assert drawn.guarantee.high == pytest.approx(0.02)
    links = symmetric(5, 7)
    for model in (SpaceModel.cycles(links), SpaceModel.partitions(links)):
        p = model.marginals().value
        assert p.shape == (5, 5)
        assert (p == p.T).all()
        listed = model.marginals(method="enumeration").value
        assert p == pytest.approx(listed)
        ranked = model.k_best(4).value
        assert ranked[0].score == pytest.approx(model.map().value.score)
        assert len({tuple(best.state) for best in ranked}) == 4
        for best in ranked:
            assert model.score(best.state) == pytest.approx(best.score)


def test_conditions():
    links = 0.2 * symmetric(5, 8)
    model = SpaceModel.partitions(links)
    some = model.restrict("linked 0 1", "not linked 2 3", "size 2 4")
    assert some.conditions == ["linked 0 1", "not linked 2 3", "size 2 4"]
    assert some.log_count is None
    blocks = [
        y
        for y in itertools.product(range(5), repeat=5)
        if all(y[k] <= max((-1, *y[:k])) + 1 for k in range(5))
        and y[0] == y[1]
        and y[2] != y[3]
        and 2 <= len(set(y)) <= 4
    ]
    want = log_sum([model.score(y) for y in blocks])
    assert some.log_partition().value == pytest.approx(want)
    same = model.restrict(lambda y: y[0] == y[1] and y[2] != y[3], lambda y: 2 <= len(set(y)) <= 4)
    assert same.conditions == ["a function", "a function"]
    few = {"particles": 4, "replicates": 4, "temperatures": 4}
    for method, options in (("enumeration", {}), ("importance", {"error": 0.4}), ("annealed", few)):
        for restricted in (some, same):
            answer = restricted.log_partition(method=method, seed=3, **options)
            assert answer.value == pytest.approx(want, abs=0.5)
            if answer.guarantee.kind == "bounds":
                assert answer.guarantee.low <= want <= answer.guarantee.high
    states = some.sample(50, method="perfect").value.states
    assert (states[:, 0] == states[:, 1]).all()
    assert (states[:, 2] != states[:, 3]).all()
    with pytest.raises(zhat.Error, match="meet the condition"):
        some.score([0, 1, 0, 0, 0])

    def fails(y):
        raise ValueError("no condition here")

    with pytest.raises((zhat.Error, ValueError), match="no condition here"):
        model.restrict(fails).log_partition()
    for bad in ("linked 0 9", "before 0 1", "magic", "size 4 2", "linked 1 1"):
        with pytest.raises(zhat.Error):
            model.restrict(bad)
    with pytest.raises((zhat.Error, TypeError)):
        model.restrict(3)
    with pytest.raises(zhat.Error):
        model.restrict("linked 0 1", "not linked 0 1").log_partition(method="enumeration")


def test_bad_files_are_refused(tmp_path):
    path = tmp_path / "t.zhat"
    model = SpaceModel.subtrees([None, 0, 0], [0.1, -0.2, 0.3]).restrict("size 1 2")
    model.save(path)
    data = path.read_bytes()
    assert SpaceModel.read(path) == model
    for end in (0, 5, 60, len(data) - 8):
        path.write_bytes(data[:end])
        with pytest.raises(zhat.Error):
            SpaceModel.read(path)
    own = SpaceModel.of_function("hypercube", 3, lambda y: 0.0, low=0, high=0)
    for program in (own, model.restrict(lambda y: True)):
        with pytest.raises((zhat.Error, OSError), match="cannot be written"):
            program.save(tmp_path / "program.zhat")
        assert not (tmp_path / "program.zhat").exists()


def test_bad_input_is_refused():
    for make in (
        lambda: SpaceModel.hypercube([0.0, 1.0]).score([0, 1, 1]),
        lambda: SpaceModel.hypercube([0.0, 1.0]).score([0, 2]),
        lambda: SpaceModel.subtrees([None, 0, 0], [0.0, 1.0]),
        lambda: SpaceModel.hypercube([0.0, 1.0]).marginals(method="tpa"),
        lambda: SpaceModel.of_function("hypercube", 3, lambda y: 0.0, low=0, high=math.inf),
        lambda: SpaceModel.of_function("riddles", 3, lambda y: 0.0, low=0, high=1),
        lambda: SpaceModel.of_function("hypercube", 3, lambda y: "much", low=0, high=1).log_partition(),
        lambda: SpaceModel.subtrees([1, 2, 0], [0.0] * 3),
        lambda: SpaceModel.subtrees([None, 0], [0.0, math.inf]),
        lambda: SpaceModel.hypercube([0.0, math.nan]),
        lambda: SpaceModel.permutations(position=[[0.0, 1.0]]),
        lambda: SpaceModel.permutations(),
        lambda: SpaceModel.permutations(kendall=[0, 0, 1]),
        lambda: SpaceModel.cycles([[0.0, 1.0], [1.0, 0.0]]),
        lambda: SpaceModel.hypercube([0.0, 1.0], [(0, 2, 1.0)]),
    ):
        with pytest.raises(zhat.Error):
            make()


def test_models_are_saved_and_copied(tmp_path):
    model = SpaceModel.subtrees([None, 0, 0], [0.1, -0.2, 0.3])
    path = tmp_path / "t.zhat"
    model.save(path)
    for other in (SpaceModel.read(path), pickle.loads(pickle.dumps(model))):
        assert other == model
        assert other.log_partition().value == model.log_partition().value
    assert "subtrees" in repr(model)


def test_ctrl_c_is_delivered_between_calls_of_a_slow_function():
    def slow(y):
        time.sleep(0.02)
        return float(y[0])

    model = SpaceModel.of_function("hypercube", 30, slow, low=0, high=1)
    for method in ("importance", "tpa", "annealed", "enumeration"):
        started = time.monotonic()
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            model.log_partition(method=method)
        timer.join()
        assert time.monotonic() - started < 0.3 + 0.5 + 1
