"""Structured predictors agree with enumeration in NumPy, and their optima with those of SciPy."""

from __future__ import annotations

import copy
from itertools import combinations

import numpy as np
import predict_oracle as oracle
import pytest
from scipy.special import logsumexp

import zhat

PENALTY = 0.02
PARENTS = [None, 0, 0, 1, None, 4]
NAMES = ["a", "a/b", "a/c", "a/b/d", "e", "e/f"]


def inputs(rows: int, seed: int, columns: int = 2) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, columns))


class Case:
    """A predictor with unscaled inputs and its definition by enumeration."""

    def __init__(self, name: str, **options: object) -> None:
        random = np.random.default_rng(sum(map(ord, name)))
        self.x = inputs(24, 3)
        options = {"alpha": PENALTY, "gap": 1e-14, "scaling": "none", **options}
        if name == "labels":
            pairs = options.get("pairs", "none")
            self.pairs = [] if pairs == "none" else [(0, 1), (0, 2), (1, 2)] if pairs == "all" else pairs
            self.found, self.features = oracle.label_sets(3, self.pairs)
            by_input = self.features.shape[1] if options.get("pairs_by_input") else 3
            self.y = np.array([self.found[k] for k in random.integers(0, 8, 24)])
            self.model = zhat.LabelSetClassifier(**options)
        elif name == "hierarchy":
            pairs = options.get("pairs", "none")
            self.pairs = [] if pairs == "none" else [(0, 4), (1, 2)]
            self.found, self.features = oracle.subtrees(PARENTS, self.pairs)
            by_input = self.features.shape[1] if options.get("pairs_by_input") else 6
            self.y = np.array([self.found[k] for k in random.integers(0, len(self.found), 24)])
            hierarchy = dict(zip(NAMES, [NAMES[p] if p is not None else None for p in PARENTS], strict=True))
            self.model = zhat.HierarchyClassifier(hierarchy=hierarchy, **options)
        elif name == "partition":
            self.found, self.features = oracle.partitions(4)
            by_input = self.features.shape[1]
            self.y = np.array([self.found[k] for k in random.integers(0, len(self.found), 24)])
            self.model = zhat.PartitionPredictor(**options)
        else:
            self.found, self.features = oracle.orders(4, name)
            by_input = 4 if name == "plackett-luce" else self.features.shape[1]
            chosen = [self.found[k] for k in random.integers(0, len(self.found), 24)]
            self.y = np.argsort(np.array(chosen), axis=1) + 1.0
            self.model = zhat.LabelRanker(model=name, **options)
        self.name, self.by_input = name, by_input
        self.constants = 0 if name == "plackett-luce" else self.features.shape[1] - by_input

    def family(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """ln p of every structure and its derivatives, for the scores of some rows."""
        if self.name == "plackett-luce":
            return oracle.plackett_luce(u, self.found)
        return oracle.log_linear(u, self.features)

    def logs(self, theta: np.ndarray, x: np.ndarray | None = None) -> np.ndarray:
        """ln p of every structure of every row."""
        rows = oracle.with_bias(self.x if x is None else x)
        weights = theta[: 3 * self.by_input].reshape(3, self.by_input)
        own = np.broadcast_to(theta[weights.size :], (len(rows), self.constants))
        return self.family(np.column_stack([rows @ weights, own]))[0]

    def minimum(self) -> tuple[float, np.ndarray]:
        """The optimum by SciPy."""
        return oracle.minimum(self.x, self.by_input, self.constants, self.family, self.allowed(), PENALTY)

    def allowed(self) -> list[list[int]]:
        """The structures that agree with every row of y."""
        if isinstance(self.model, zhat.LabelRanker):
            return [oracle.consistent(row, self.found) for row in self.y]
        return [[self.found.index(tuple(row))] for row in self.y.tolist()]

    def targets(self, k: int) -> np.ndarray:
        """A structure as a row of y."""
        own = np.array(self.found[k])
        return np.argsort(own) + 1 if isinstance(self.model, zhat.LabelRanker) else own


CASES = {
    "labels": ("labels", {}),
    "labels with pairs": ("labels", {"pairs": "all"}),
    "labels with pairs by input": ("labels", {"pairs": [(0, 1), (1, 2)], "pairs_by_input": True}),
    "hierarchy": ("hierarchy", {}),
    "hierarchy with siblings": ("hierarchy", {"pairs": [("a", "e"), ("a/b", "a/c")]}),
    "hierarchy with siblings by input": (
        "hierarchy",
        {"pairs": [("a", "e"), ("a/b", "a/c")], "pairs_by_input": True},
    ),
    "plackett-luce": ("plackett-luce", {}),
    "precedence": ("precedence", {}),
    "positions": ("positions", {}),
    "partition": ("partition", {}),
}


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    name, options = CASES[request.param]
    made = Case(name, **options)
    made.model.fit(made.x, made.y)
    return made


def test_the_optimum_is_that_of_scipy(case: Case) -> None:
    value, theta = case.minimum()
    model = case.model
    assert model.objective_ == pytest.approx(value, rel=1e-8)
    assert model.objective_ - value <= model.gap_ + 1e-8 * value
    assert model.converged_
    assert model.gap_ <= 1e-14
    assert model.confidence_ == 1.0
    np.testing.assert_allclose(model.parameters_, theta, atol=1e-6)
    own = oracle.mean_loss(case.logs(model.parameters_), case.allowed())
    assert model.objective_ == pytest.approx(own + PENALTY * float(model.parameters_ @ model.parameters_))
    assert model.history_[-1].objective == model.objective_
    # The gap of every step bounds the distance of its objective from the minimum.
    assert all(step.gap >= step.objective - value - 1e-12 for step in model.history_)


def test_weights_count_as_repeated_rows(case: Case) -> None:
    weights = np.random.default_rng(4).integers(0, 4, 24)
    repeated = np.repeat(np.arange(24), weights)
    weighted = copy.copy(case.model).fit(case.x, case.y, sample_weight=0.3 * weights)
    plain = copy.copy(case.model).fit(case.x[repeated], case.y[repeated])
    assert weighted.objective_ == pytest.approx(plain.objective_, abs=1e-12)
    np.testing.assert_allclose(weighted.parameters_, plain.parameters_, atol=1e-6)
    found = weighted.score(case.x, case.y, sample_weight=weights)
    assert found == pytest.approx(plain.score(case.x[repeated], case.y[repeated]))
    value, _ = oracle.minimum(
        case.x[repeated],
        case.by_input,
        case.constants,
        case.family,
        [case.allowed()[row] for row in repeated],
        PENALTY,
    )
    assert weighted.objective_ == pytest.approx(value, rel=1e-8)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(23), r"has shape \(23,\), expected \(24,\)"),
        (np.ones((24, 1)), "has shape"),
        ([1.0] * 23 + [-1.0], "row 23 has weight -1.0, expected a number from 0"),
        ([np.nan] + [1.0] * 23, "row 0 has weight nan"),
        (np.zeros(24), "every weight is zero"),
        (np.full(24, 1e308), "the sum is infinite"),
        (["a"] * 24, "expected one number per row"),
    ],
)
def test_unusable_weights_are_refused(weights: object, message: str) -> None:
    y = np.arange(24) % 2
    with pytest.raises(zhat.InputError, match=f"sample_weight: .*{message}"):
        zhat.LabelSetClassifier().fit(inputs(24, 3), y, sample_weight=weights)


def test_probabilities_are_those_of_enumeration(case: Case) -> None:
    x = inputs(7, 11)
    logs = case.logs(case.model.parameters_, x)
    for k in range(len(case.found)):
        found = case.model.log_prob(x, np.tile(case.targets(k), (len(x), 1)))
        np.testing.assert_allclose(found, logs[:, k], atol=1e-10)
    probabilities, marginals = np.exp(logs), case.model.predict_proba(x)
    structures = np.array(case.found)
    if isinstance(case.model, zhat.LabelRanker):
        places = np.argsort(structures, axis=1)
        for i, j in combinations(range(4), 2):
            want = probabilities @ (places[:, i] < places[:, j])
            np.testing.assert_allclose(marginals[:, i, j], want, atol=1e-10)
            np.testing.assert_allclose(marginals[:, j, i], 1 - want, atol=1e-10)
    elif isinstance(case.model, zhat.PartitionPredictor):
        for i, j in combinations(range(4), 2):
            want = probabilities @ (structures[:, i] == structures[:, j])
            np.testing.assert_allclose(marginals[:, i, j], want, atol=1e-10)
    else:
        np.testing.assert_allclose(marginals, probabilities @ structures, atol=1e-10)


def test_events_are_those_of_enumeration(case: Case) -> None:
    x = inputs(5, 14)
    probabilities = np.exp(case.logs(case.model.parameters_, x))
    structures = np.array(case.found)
    names = [str(name) for name in case.model.classes_]
    a, b, c = names[:3]
    if isinstance(case.model, zhat.LabelRanker):
        places = np.argsort(structures, axis=1)
        first, second = places[:, 0] < places[:, 1], places[:, 2] < places[:, 1]
        cases = {f"{a}>{b}": first, f"{a}>{b}, {c}>{b}": first & second, f"not {a}>{b}": ~first}
    elif isinstance(case.model, zhat.PartitionPredictor):
        same = structures[:, 0] == structures[:, 1]
        other = structures[:, 1] == structures[:, 2]
        cases = {f"{a}={b}": same, f"{a}={b}={c}": same & other, f"{a}={b},not {b}={c}": same & ~other}
    else:
        one, two = structures[:, 0] == 1, structures[:, 1] == 1
        cases = {a: one, f"{a},{b}": one & two, f"{a},not {b}": one & ~two}
    for event, holds in cases.items():
        found, guarantees = case.model.event_log_prob(x, event, return_guarantees=True)
        np.testing.assert_allclose(np.exp(found), probabilities @ holds, atol=1e-10)
        assert {own.kind for own in guarantees} == {"exact"}
        np.testing.assert_array_equal(case.model.event_log_prob(x, event), found)
    with pytest.raises(zhat.InputError, match="does not know `nobody`"):
        case.model.event_log_prob(x, "nobody")


def test_the_best_structures_are_those_of_enumeration(case: Case) -> None:
    x = inputs(5, 12)
    logs = case.logs(case.model.parameters_, x)
    best = case.model.predict_top_k(x, k=3)
    for row, (own, found) in enumerate(zip(logs, best, strict=True)):
        want = np.sort(own)[::-1][:3]
        np.testing.assert_allclose([one.log_probability for one in found], want, atol=1e-10)
        assert found[0].guarantee.kind == "exact"
        assert found[0].structure == case.model.predict_structures(x)[row].structure
        assert found[0].probability == pytest.approx(np.exp(want[0]))
    predicted = case.model.predict(x)
    want_rows = [case.targets(int(own.argmax())) for own in logs]
    np.testing.assert_array_equal(predicted, want_rows)
    many = case.model.predict_top_k(x[:1], k=10_000)[0]
    assert len(many) == len(case.found)
    assert sum(one.probability for one in many) == pytest.approx(1.0)


def expected(case: Case, x: np.ndarray, gain: np.ndarray) -> np.ndarray:
    """The structure of largest expected gain of every row; gain[i, j] is that of i where j is true."""
    return np.exp(case.logs(case.model.parameters_, x)) @ gain.T


def test_decisions_are_best_for_their_loss(case: Case) -> None:
    x = inputs(40, 13)
    structures = np.array(case.found)
    if isinstance(case.model, zhat.PartitionPredictor):
        with pytest.raises(zhat.InputError, match="decision"):
            case.model.predict(x, decision="hamming")
        return
    if isinstance(case.model, zhat.LabelRanker):
        places = np.argsort(structures, axis=1)
        first, second = np.triu_indices(4, 1)
        signs = np.sign(places[:, second] - places[:, first])
        gains = {"kendall": signs @ signs.T / 6}
    else:
        both = structures @ structures.T
        sizes = structures.sum(axis=1)
        total = sizes[:, None] + sizes[None, :]
        gains = {
            "hamming": -np.abs(structures[:, None] - structures[None]).sum(axis=2),
            "f1": np.where(total == 0, 1.0, 2 * both / np.maximum(total, 1)),
        }
    gains["most-probable"] = np.eye(len(structures))
    for decision, gain in gains.items():
        values = expected(case, x, gain)
        chosen = case.model.predict(x, decision=decision)
        own = [next(k for k in range(len(structures)) if (case.targets(k) == row).all()) for row in chosen]
        np.testing.assert_allclose(values[np.arange(len(x)), own], values.max(axis=1), atol=1e-10)


def test_measures_follow_their_definitions(case: Case) -> None:
    model, found = case.model, case.model.evaluate(case.x, case.y)
    assert found.rows == 24
    assert found.measures["log_loss"] == pytest.approx(-model.log_prob(case.x, case.y).mean())
    whole = (model.predict(case.x) == case.y).all(axis=1).mean()
    name = {"labels": "subset", "hierarchy": "path", "partition": "partition"}.get(case.name, "order")
    assert found.measures[f"{name}_accuracy"] == pytest.approx(whole)
    if isinstance(model, zhat.LabelRanker):
        best = case.model.predict(case.x, decision="kendall")
        first, second = np.triu_indices(4, 1)
        agreed = np.sign(best[:, second] - best[:, first]) * np.sign(case.y[:, second] - case.y[:, first])
        assert found.measures["kendall_tau"] == pytest.approx(agreed.mean())
        assert model.set_params(decision="kendall").score(case.x, case.y) == pytest.approx(agreed.mean())
        model.set_params(decision="most-probable")
    else:
        assert model.score(case.x, case.y) == pytest.approx(whole)
    assert sum(one.events for one in found.reliability) == found.to_pandas()["events"].sum()
    assert len(found.to_polars()) == len(found.reliability)


def test_samples_follow_the_distribution(case: Case) -> None:
    """χ² with the false-alarm rate 1e-6 over the structures of one row."""
    from scipy.stats import chi2

    x, count = case.x[:1], 4000
    drawn = case.model.sample(x, count)[0]
    counts = np.zeros(len(case.found))
    places = {tuple(case.targets(k)): k for k in range(len(case.found))}
    for row in drawn:
        counts[places[tuple(row)]] += 1
    want = count * np.exp(case.logs(case.model.parameters_, x)[0])
    # Rare structures are counted together.
    order = np.argsort(want)
    cut = int(np.searchsorted(np.cumsum(want[order]), 10.0)) + 1
    merged = [counts[order[:cut]].sum(), *counts[order[cut:]]]
    expectations = [want[order[:cut]].sum(), *want[order[cut:]]]
    statistic = sum((a - b) ** 2 / b for a, b in zip(merged, expectations, strict=True))
    assert statistic < chi2.isf(1e-6, len(merged) - 1)


@pytest.mark.parametrize("name", ["plackett-luce", "precedence", "positions"])
def test_partial_rankings(name: str) -> None:
    """Ties and items without a rank: the probability of all orders that agree."""
    case = Case(name, partial=True)
    nan = np.nan
    case.y[:8] = [
        [1, 2, 2, 2],
        [nan, 1, 2, nan],
        [1, 1, 2, 2],
        [nan, nan, nan, nan],
        [2, 2, 1, nan],
        [3, 1, nan, 2],
        [1, 2, 3, 3],
        [nan, 1, nan, 1],
    ]
    case.model.fit(case.x, case.y)
    value, _ = case.minimum()
    assert case.model.objective_ == pytest.approx(value, rel=1e-8)
    logs = case.logs(case.model.parameters_)
    want = [logsumexp(row[own]) for row, own in zip(logs, case.allowed(), strict=True)]
    np.testing.assert_allclose(case.model.log_prob(case.x, case.y), want, atol=1e-10)
    # A tie and an item without a rank count in τ only where they are ordered.
    assert -1.0 <= case.model.score(case.x, case.y) <= 1.0


def test_first_items_and_lists_are_partial_rankings() -> None:
    x = inputs(30, 5)
    lists = [["b", "c"] if row[0] > 0 else ["a"] for row in x]
    ranks = np.array([[3, 1, 2] if len(row) == 2 else [1, 2, 2] for row in lists], dtype=float)
    one = zhat.LabelRanker(partial=True).fit(x, lists)
    two = zhat.LabelRanker(partial=True).fit(x, ranks)
    assert (one.parameters_ == two.parameters_).all()
    assert one.classes_.tolist() == ["a", "b", "c"]
    first = zhat.LabelRanker(partial=True).fit(x, [row[0] for row in lists])
    assert first.classes_.tolist() == ["a", "b"]
    # A Plackett–Luce model of first items is multinomial logistic regression.
    probabilities = np.exp([first.log_prob(x, [item] * len(x)) for item in first.classes_])
    np.testing.assert_allclose(probabilities.sum(axis=0), 1.0)


def mallows_loss(case: Case, theta: np.ndarray, spread: float) -> float:
    """The objective of Mallows; its orders do not depend on the scale of θ."""
    u = oracle.with_bias(case.x) @ theta.reshape(3, 4)
    centre = np.argsort(np.argsort(-u, axis=1), axis=1)
    places = np.argsort(np.array(case.found), axis=1)
    distance = sum(
        ((centre[:, [i]] < centre[:, [j]]) != (places[:, i] < places[:, j])[None]).astype(float)
        for i, j in combinations(range(4), 2)
    )
    loss = oracle.mean_loss(oracle.logs_of_scores(-spread * distance), case.allowed())
    return loss + PENALTY * float(theta @ theta + spread**2)


def test_mallows_is_enumerated() -> None:
    case = Case("plackett-luce")
    model = zhat.LabelRanker(model="mallows", alpha=PENALTY, gap=1e-14, scaling="none").fit(case.x, case.y)
    theta, spread = model.parameters_[:-1], model.parameters_[-1]
    u = oracle.with_bias(case.x) @ theta.reshape(3, 4)
    centre = np.argsort(np.argsort(-u, axis=1), axis=1)
    places = np.argsort(np.array(case.found), axis=1)
    distance = sum(
        ((centre[:, [i]] < centre[:, [j]]) != (places[:, i] < places[:, j])[None]).astype(float)
        for i, j in combinations(range(4), 2)
    )
    logs = oracle.logs_of_scores(-spread * distance)
    for k, order in enumerate(case.found):
        ranks = np.tile(np.argsort(order) + 1, (len(case.x), 1))
        np.testing.assert_allclose(model.log_prob(case.x, ranks), logs[:, k], atol=1e-10)
    np.testing.assert_array_equal(model.predict(case.x), centre + 1)
    # The objective is that of Mallows. Only that of the centres has a certified minimum.
    loss = oracle.mean_loss(logs, case.allowed())
    assert model.objective_ == pytest.approx(loss + PENALTY * float(model.parameters_ @ model.parameters_))
    assert (model.gap_, model.converged_) == (model.objective_, False)
    first = zhat.LabelRanker(alpha=PENALTY, gap=1e-14, scaling="none").fit(case.x, case.y)
    np.testing.assert_array_equal(theta, first.parameters_)
    assert model.centres_ == (first.objective_, first.gap_, 1.0)
    assert first.centres_ is None
    # The fit in two stages is not the minimum of its objective.
    assert mallows_loss(case, 0.5 * theta, spread) < model.objective_


def test_mallows_leaves_partial_rankings_out_with_a_warning() -> None:
    x = inputs(12, 22, 2)
    ranks = np.array([[1, 2, 3], [2, 1, 3], [3, 1, 2]] * 4, dtype=float)
    whole = zhat.LabelRanker(model="mallows", alpha=0.1).fit(x, ranks)
    assert whole.left_out_ == 0
    ranks[2] = [1, 2, 2]
    ranks[7] = [1, np.nan, 2]
    model = zhat.LabelRanker(model="mallows", partial=True, alpha=0.1)
    with pytest.warns(UserWarning, match="2 of 12 rankings are partial"):
        model.fit(x, ranks)
    assert model.left_out_ == 2
    # The objective is that of the other rows.
    others = np.delete(np.arange(12), [2, 7])
    loss = -model.log_prob(x[others], ranks[others]).mean()
    assert model.objective_ == pytest.approx(loss + 0.1 * float(model.parameters_ @ model.parameters_))
    ranks[:, 1:] = 2
    with pytest.raises(zhat.InputError, match="at least one row with a complete ranking"):
        model.fit(x, ranks)


def test_reliability_is_drawn(case: Case) -> None:
    matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    matplotlib.use("Agg")
    pyplot = pytest.importorskip("matplotlib.pyplot")
    found = case.model.evaluate(case.x, case.y)
    axes = found.plot()
    (container,) = axes.containers
    points, _, (bars,) = container.lines
    np.testing.assert_array_equal(points.get_xdata(), [one.predicted for one in found.reliability])
    np.testing.assert_array_equal(points.get_ydata(), [one.observed for one in found.reliability])
    limits = [segment[:, 1].tolist() for segment in bars.get_segments()]
    want = [[one.observed_low, one.observed_high] for one in found.reliability]
    np.testing.assert_allclose(limits, want, atol=1e-12)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("predicted probability", "observed share")
    # A second diagram on the same axes.
    assert found.plot(ax=axes) is axes
    assert len(axes.containers) == 2
    pyplot.close("all")


def test_one_label_is_logistic_regression() -> None:
    from sklearn.linear_model import LogisticRegression

    x = inputs(60, 21, 3)
    y = (x[:, 0] + 0.3 * x[:, 1] > 0.1).astype(int)
    own = zhat.LabelSetClassifier(alpha=0.01, scaling="none", gap=1e-14).fit(x, y)
    # scikit-learn minimises C·Σ loss + ‖w‖²/2; a column of ones penalises the bias as well.
    peer = LogisticRegression(C=1 / (2 * 0.01 * 60), fit_intercept=False, tol=1e-10, max_iter=10_000)
    peer.fit(oracle.with_bias(x), y)
    np.testing.assert_allclose(own.parameters_, peer.coef_[0], atol=1e-5)
    np.testing.assert_allclose(own.predict_proba(x), peer.predict_proba(oracle.with_bias(x)), atol=1e-5)
    np.testing.assert_array_equal(own.predict(x), peer.predict(oracle.with_bias(x)))
    assert own.score(x, y) == peer.score(oracle.with_bias(x), y)


def test_unseen_sets_have_probability() -> None:
    """What a label powerset cannot do: most probable sets that the training data do not have."""
    random = np.random.default_rng(2)
    x = random.normal(size=(400, 3))
    y = (x + 0.2 * random.normal(size=x.shape) > 0).astype(int)
    seen = y.sum(axis=1) < 3
    model = zhat.LabelSetClassifier(pairs="all").fit(x[seen], y[seen])
    assert (model.predict([[3.0, 3.0, 3.0]]) == 1).all()
    assert model.log_prob([[3.0, 3.0, 3.0]], [[1, 1, 1]])[0] > np.log(0.5)
