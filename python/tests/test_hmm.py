"""Hidden Markov models: against a NumPy oracle, training, files, the program and scikit-learn's checks."""

from __future__ import annotations

import json
import pickle
import subprocess
import warnings
from pathlib import Path
from typing import Any

import hmm_oracle
import numpy as np
import pytest
from program import COMMAND

import zhat

RANDOM = np.random.default_rng(3)
TRANSITIONS = np.array([[0.9, 0.1, 0.0], [0.0, 0.8, 0.2], [0.3, 0.0, 0.7]])
START = np.array([0.6, 0.4, 0.0])
MODELS = {
    "gaussian": zhat.Hmm.from_parameters(
        START, TRANSITIONS, means=RANDOM.normal(size=(3, 2)), covars=0.5 + RANDOM.random((3, 2))
    ),
    "categorical": zhat.Hmm.from_parameters(
        START, TRANSITIONS, emissionprob=[[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]]
    ),
    "poisson": zhat.Hmm.from_parameters(START, TRANSITIONS, rates=[[1.0, 5.0], [4.0, 2.0], [9.0, 1.0]]),
}
LENGTHS = [40, 1, 25, 34]


@pytest.mark.parametrize("name", MODELS)
def test_likelihood_posteriors_paths_and_a_step_agree_with_numpy(name: str) -> None:
    model = MODELS[name]
    X, states = model.sample(sum(LENGTHS), seed=5)
    assert X.shape == (100, model.n_features_in_)
    assert set(states) <= {0, 1, 2}
    ends = np.cumsum(LENGTHS)
    parts = np.split(X.astype(float), ends[:-1])
    # A sequence cut out of another can start in a state that has probability zero at the start.
    soft = zhat.Hmm.from_parameters(
        [0.5, 0.3, 0.2],
        TRANSITIONS,
        emissionprob=getattr(model, "emissionprob_", None),
        means=getattr(model, "means_", None),
        covars=getattr(model, "covars_", None),
        rates=getattr(model, "rates_", None),
    )
    found = [hmm_oracle.passes(soft, part) for part in parts]
    logs, posteriors = soft.score_samples(X, LENGTHS)
    assert logs == pytest.approx(sum(one[0] for one in found), rel=1e-12)
    assert soft.score(X, LENGTHS) == pytest.approx(logs, rel=1e-12)
    np.testing.assert_allclose(posteriors, np.concatenate([one[1] for one in found]), atol=1e-10)
    score, path = soft.decode(X, LENGTHS)
    best = [hmm_oracle.best_path(soft, part) for part in parts]
    assert score == pytest.approx(sum(one[0] for one in best), rel=1e-12)
    np.testing.assert_array_equal(path, np.concatenate([one[1] for one in best]))
    np.testing.assert_array_equal(soft.predict(X, LENGTHS), path)
    # One step of EM.
    step = soft.set_params(warm_start=True, max_iter=1, tol=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        step.fit(X, LENGTHS)
    gamma = np.concatenate([one[1] for one in found])
    pairs = sum(one[2] for one in found)
    np.testing.assert_allclose(step.transmat_, pairs / pairs.sum(axis=1, keepdims=True), atol=1e-10)
    first = sum(one[1][0] for one in found)
    np.testing.assert_allclose(step.startprob_, first / first.sum(), atol=1e-10)
    if name == "categorical":
        counts = np.array([gamma[X[:, 0] == v].sum(axis=0) for v in range(3)]).T
        np.testing.assert_allclose(step.emissionprob_, counts / counts.sum(axis=1, keepdims=True), atol=1e-10)
        return
    means = gamma.T @ X / gamma.sum(axis=0)[:, None]
    np.testing.assert_allclose(step.means_ if name == "gaussian" else step.rates_, means, atol=1e-9)
    if name == "gaussian":
        squares = np.array(
            [(g[:, None] * (X - m) ** 2).sum(axis=0) / g.sum() for g, m in zip(gamma.T, means, strict=True)]
        )
        np.testing.assert_allclose(step.covars_, squares, atol=1e-9)


def test_the_likelihood_rises_and_states_are_found() -> None:
    model = zhat.Hmm.from_parameters(
        [0.5, 0.5], [[0.95, 0.05], [0.1, 0.9]], means=[[-2.0], [2.0]], covars=[[1.0], [0.5]]
    )
    X, states = model.sample(4000, seed=1)
    found = zhat.Hmm(2, n_init=2, seed=4).fit(X)
    assert found.converged_
    for start in range(2):
        objectives = [step.objective for step in found.history_ if step.start == start]
        assert np.all(np.diff(objectives) >= -1e-9 * np.abs(objectives[:-1]))
    order = np.argsort(found.means_[:, 0])
    np.testing.assert_allclose(found.means_[order, 0], [-2.0, 2.0], atol=0.15)
    assert np.mean(order[states] == found.predict(X)) > 0.95
    assert found.log_likelihood_ == pytest.approx(found.score(X), rel=1e-9)
    assert found.bic(X) == pytest.approx(7 * np.log(4000) - 2 * found.score(X), rel=1e-9)
    known = zhat.Hmm(2).fit(X, labels=states)
    moves = [[np.sum((states[:-1] == i) & (states[1:] == j)) for j in range(2)] for i in range(2)]
    np.testing.assert_allclose(known.transmat_, moves / np.sum(moves, axis=1, keepdims=True), atol=1e-12)


def test_known_states_start_from_the_current_parameters() -> None:
    X = np.array([[0.0], [1.0], [0.0], [1.0], [1.0], [0.0]])
    model = zhat.Hmm.from_parameters(
        [1.0, 0.0],
        [[0.5, 0.5], [0.25, 0.75]],
        emissionprob=[[0.9, 0.1], [0.3, 0.7]],
        warm_start=True,
        fixed=["emissions", "transitions"],
    )
    model.fit(X, [3, 3], labels=[0, 1, 1, 0, 0, 1])
    np.testing.assert_array_equal(model.transmat_, [[0.5, 0.5], [0.25, 0.75]])
    np.testing.assert_allclose(model.emissionprob_, [[0.9, 0.1], [0.3, 0.7]], rtol=1e-15)
    with pytest.raises(zhat.errors.InputError, match=r"labels: row 3: the sequence starts in state 1"):
        model.fit(X, [3, 3], labels=[0, 1, 1, 1, 0, 1])
    left = zhat.Hmm(3, topology="left-to-right", transition_prior=2.0, emissions="categorical")
    found = left.fit(X.astype(int), [3, 3], labels=[0, 0, 1, 0, 1, 2])
    assert found.transmat_[[0, 1, 1, 2, 2], [2, 0, 0, 0, 1]].tolist() == [0.0] * 5
    with pytest.raises(zhat.errors.InputError, match="row 4: state 2 follows state 0"):
        left.fit(X.astype(int), [3, 3], labels=[0, 0, 1, 0, 2, 2])


@pytest.mark.parametrize("covariance", ["full", "tied"])
def test_single_missing_values_under_matrices(covariance: str) -> None:
    stats = pytest.importorskip("scipy.stats")
    covars = np.array([[1.0, 0.6, 0.1], [0.6, 2.0, -0.3], [0.1, -0.3, 0.7]])
    means = np.array([[0.0, 1.0, 2.0], [1.0, -1.0, 0.5]])
    model = zhat.Hmm.from_parameters(
        [0.4, 0.6],
        [[0.5, 0.5], [0.5, 0.5]],
        means=means,
        covars=covars if covariance == "tied" else np.array([covars, 2.0 * covars]),
        covariance=covariance,
        missing=True,
    )
    row = np.array([[0.3, np.nan, 1.5]])
    seen = [0, 2]
    densities = [
        stats.multivariate_normal(means[n][seen], scale * covars[np.ix_(seen, seen)]).pdf(row[0, seen])
        for n, scale in enumerate([1.0, 1.0 if covariance == "tied" else 2.0])
    ]
    assert model.score(row) == pytest.approx(np.log(np.dot([0.4, 0.6], densities)), rel=1e-12)


@pytest.mark.parametrize("covariance", ["spherical", "diagonal", "full", "tied"])
@pytest.mark.parametrize("emissions", ["gaussian", "mixture"])
def test_covariances_files_and_pickles(emissions: str, covariance: str, tmp_path: Path) -> None:
    X = np.concatenate([RANDOM.normal(size=(60, 2)), 4 + RANDOM.normal(size=(60, 2))])
    model = zhat.Hmm(2, emissions=emissions, covariance=covariance, max_iter=5, tol=0.5).fit(X, [50, 70])
    model.save(tmp_path / "m.zhat")
    again = zhat.Hmm.load(tmp_path / "m.zhat")
    assert again.score(X, [50, 70]) == model.score(X, [50, 70])
    assert again.covariance == covariance
    assert pickle.loads(pickle.dumps(model)).score(X) == model.score(X)
    assert isinstance(zhat.read(tmp_path / "m.zhat"), zhat.Hmm)
    assert model.means_.shape == ((2, 2) if emissions == "gaussian" else (2, 2, 2))


@pytest.mark.parametrize("name", MODELS)
def test_missing_values_are_integrated_out(name: str) -> None:
    model = MODELS[name]
    parameters = {
        key: getattr(model, f"{key}_", None) for key in ("emissionprob", "means", "covars", "rates")
    }
    soft = zhat.Hmm.from_parameters([0.5, 0.3, 0.2], TRANSITIONS, missing=True, **parameters)
    X = model.sample(sum(LENGTHS), seed=6)[0].astype(float)
    missing = np.random.default_rng(8).random(X.shape) < 0.35
    X[missing] = np.nan
    parts = np.split(X, np.cumsum(LENGTHS)[:-1])
    found = [hmm_oracle.passes(soft, part) for part in parts]
    logs, posteriors = soft.score_samples(X, LENGTHS)
    gamma = np.concatenate([one[1] for one in found])
    assert logs == pytest.approx(sum(one[0] for one in found), rel=1e-12)
    np.testing.assert_allclose(posteriors, gamma, atol=1e-10)
    assert soft.decode(X, LENGTHS)[0] == pytest.approx(
        sum(hmm_oracle.best_path(soft, part)[0] for part in parts), rel=1e-12
    )
    chain = soft.chain(X[: LENGTHS[0]])
    assert chain.log_partition().value == pytest.approx(found[0][0], rel=1e-10)
    if name != "categorical":
        partly = missing.any(axis=1) & ~missing.all(axis=1)
        assert partly.sum() > 20
        # A column without values: the model of the other one.
        one = {key: value[:, :1] for key, value in parameters.items() if value is not None}
        marginal = zhat.Hmm.from_parameters([0.5, 0.3, 0.2], TRANSITIONS, missing=True, **one)
        half = X.copy()
        half[:, 1] = np.nan
        expected = marginal.score(X[:, :1], LENGTHS)
        assert soft.score(half, LENGTHS) == pytest.approx(expected, rel=1e-12)
    # One step of EM: every column has the rows that are known.
    step = soft.set_params(warm_start=True, max_iter=1, tol=0.0, least_variance=1e-9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        step.fit(X, LENGTHS)
    if name == "categorical":
        counts = np.array([gamma[X[:, 0] == v].sum(axis=0) for v in range(3)]).T
        np.testing.assert_allclose(step.emissionprob_, counts / counts.sum(axis=1, keepdims=True), atol=1e-10)
        return
    for d in range(2):
        rows = ~missing[:, d]
        weights, values = gamma[rows], X[rows, d]
        means = weights.T @ values / weights.sum(axis=0)
        ours = step.means_ if name == "gaussian" else step.rates_
        np.testing.assert_allclose(ours[:, d], means, atol=1e-9)
        if name == "gaussian":
            squares = (weights * (values[:, None] - means[None]) ** 2).sum(axis=0) / weights.sum(axis=0)
            np.testing.assert_allclose(step.covars_[:, d], squares, atol=1e-9)


def test_missing_values_symbols_and_the_chain() -> None:
    X = np.array([[1.0, 2.0], [np.nan, 2.1], [5.0, 6.0], [5.2, np.nan], [np.nan, np.nan]])
    with pytest.raises(zhat.InputError, match="row 1, column 0 is NaN"):
        zhat.Hmm(2).fit(X)
    model = zhat.Hmm(2, missing=True, least_variance=0.01).fit(X)
    assert np.isfinite(model.score(X))
    words = np.array(["rain", "sun", "sun", "rain", "fog"])
    weather = zhat.Hmm(2, emissions="categorical", emission_prior=1.5, tol=1e-3).fit(words)
    assert weather.symbols_.tolist() == ["fog", "rain", "sun"]
    assert set(weather.sample(20)[0].ravel()) <= {"fog", "rain", "sun"}
    with pytest.raises(zhat.InputError, match="no symbol 'snow'"):
        weather.score(np.array(["snow"]))
    chain = weather.chain(words)
    assert chain.log_partition().value == pytest.approx(weather.score(words), rel=1e-10)


def test_descent_finds_the_optimum_of_em() -> None:
    model = zhat.Hmm.from_parameters(
        [0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]], means=[[-1.0], [1.5]], covars=[[1.0], [0.5]]
    )
    X, _ = model.sample(300, seed=4)
    options = {"tol": 1e-9, "max_iter": 2000, "warm_start": True}
    em, descent = (
        zhat.Hmm.from_parameters(
            model.startprob_, model.transmat_, means=model.means_, covars=model.covars_, **options
        )
        .set_params(optimizer=optimizer, start_prior=1.5)
        .fit(X)
        for optimizer in ("em", "lbfgs")
    )
    assert descent.converged_
    assert descent.objective_ == pytest.approx(em.objective_, rel=1e-6)
    np.testing.assert_allclose(descent.means_, em.means_, atol=1e-2)
    with pytest.raises(zhat.InputError, match="batch: is for optimizer=em"):
        zhat.Hmm(2, optimizer="lbfgs", batch=1).fit(X, [100, 200])
    with pytest.raises(zhat.InputError, match="optimizer: expected one of em, lbfgs"):
        zhat.Hmm(2, optimizer="adam").fit(X)


@pytest.mark.parametrize("durations", ["free", "negative-binomial"])
def test_durations(durations: str, tmp_path: Path) -> None:
    table = np.zeros((2, 10))
    table[0, 5:8], table[1, 1:3] = 1 / 3, 1 / 2
    true = zhat.Hmm.from_parameters(
        [0.5, 0.5], [[0, 1], [1, 0]], means=[[-3.0], [3.0]], covars=[[1.0], [1.0]], durations=table
    )
    assert (true.durations, true.max_duration) == ("free", 10)
    X, states = true.sample(600, seed=2)
    lengths = [200, 150, 250]
    model = zhat.Hmm(2, durations=durations, max_duration=10).fit(X, lengths)
    order = np.argsort(model.means_[:, 0])
    means = model.durations_ @ np.arange(1, 11)
    # About 67 segments per state with standard deviation 0.8 and 0.5: five standard errors are 0.5.
    np.testing.assert_allclose(means[order], [7.0, 2.5], atol=0.5)
    assert np.mean(order[states] == model.predict(X, lengths)) > 0.97
    log, posteriors = model.score_samples(X, lengths)
    np.testing.assert_allclose(posteriors.sum(axis=1), 1.0, atol=1e-12)
    chain = model.chain(X, lengths)
    assert isinstance(chain, zhat.SemiMarkov)
    assert np.sum(chain.log_partition().value) == pytest.approx(log, rel=1e-10)
    model.save(tmp_path / "m.zhat")
    again = zhat.Hmm.load(tmp_path / "m.zhat")
    assert (again.durations, again.score(X, lengths)) == (durations, model.score(X, lengths))


def test_tied_states() -> None:
    X = np.concatenate([RANDOM.normal(size=(60, 1)), 4 + RANDOM.normal(size=(60, 1))])
    model = zhat.Hmm(3, ties=[0, 1, 0], tol=1e-3).fit(X)
    np.testing.assert_array_equal(model.means_[0], model.means_[2])
    np.testing.assert_array_equal(model.covars_[0], model.covars_[2])
    # 2 starts, 6 transitions, 2 means and 2 variances.
    assert model.aic(X) == pytest.approx(2 * 12 - 2 * model.score(X))
    with pytest.raises(zhat.InputError, match="ties: 2 entries for 3 states"):
        zhat.Hmm(3, ties=[0, 1]).fit(X)


def test_targets_in_the_place_of_lengths_are_ignored_with_a_warning() -> None:
    X = RANDOM.normal(size=(10, 1))
    with pytest.warns(UserWarning, match="one entry per row and is not a list of lengths"):
        zhat.Hmm(max_iter=5).fit(X, np.arange(10))


def test_resume_gives_the_same_bits(tmp_path: Path) -> None:
    X = np.concatenate([RANDOM.normal(size=(60, 1)), 2 + RANDOM.normal(size=(60, 1))])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = zhat.Hmm(3, max_iter=9, tol=0.0).fit(X)
        kept = tmp_path / "kept.zhat"
        zhat.Hmm(3, max_iter=4, tol=0.0, checkpoint=kept).fit(X)
        resumed = zhat.Hmm(3, max_iter=9, tol=0.0, checkpoint=kept).fit(X)
    np.testing.assert_array_equal(whole.means_, resumed.means_)
    assert whole.objective_ == resumed.objective_


def test_comparison_of_numbers_of_states() -> None:
    model = zhat.Hmm.from_parameters(
        [0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], means=[[-3.0], [3.0]], covars=[[1.0], [1.0]]
    )
    X, _ = model.sample(600, seed=2)
    table = zhat.Hmm(n_init=2).compare(X, [60] * 10, states=[1, 2, 3])
    assert [one.states for one in table] == [1, 2, 3]
    assert min(table, key=lambda one: one.bic).states == 2
    assert zhat.Hmm(n_init=1).compare(X, states=[1])[0].cross_validated is None


def test_the_table_of_numbers_of_states_by_hand() -> None:
    """Likelihoods from NumPy; with a fold per sequence, every fold leaves out one sequence."""
    true = zhat.Hmm.from_parameters(
        [0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]], means=[[-4.0, 0.0], [4.0, 1.0]], covars=np.ones((2, 2))
    )
    X, _ = true.sample(240, seed=3)
    lengths = [50, 30, 60, 40, 60]
    ends = np.cumsum(lengths)
    parts = np.split(X, ends[:-1])
    options: dict[str, Any] = {"n_init": 3, "tol": 1e-11, "max_iter": 1000, "seed": 2}
    table = zhat.Hmm(**options).compare(X, lengths, states=[1, 2], folds=5)
    for states, found in zip([1, 2], table, strict=True):
        model = zhat.Hmm(states, **options).fit(X, lengths)
        likelihood = sum(hmm_oracle.passes(model, part)[0] for part in parts)
        count = (states - 1) + states * (states - 1) + 4 * states
        assert found.parameters == count
        assert found.log_likelihood == pytest.approx(likelihood, rel=1e-10)
        assert found.aic == pytest.approx(2 * count - 2 * likelihood, rel=1e-10)
        assert found.bic == pytest.approx(count * np.log(240) - 2 * likelihood, rel=1e-10)
        held = 0.0
        for k, part in enumerate(parts):
            rest = [own for i, own in enumerate(parts) if i != k]
            own = zhat.Hmm(states, **options).fit(np.concatenate(rest), [len(one) for one in rest])
            held += hmm_oracle.passes(own, part)[0]
        assert found.cross_validated == pytest.approx(held / 240, rel=1e-6)


def test_states_that_no_sequence_can_reach_are_named() -> None:
    X = np.array([[0.1], [0.3], [4.0], [4.2], [0.2]])
    with pytest.warns(UserWarning, match=r"no sequence can reach 1 of the states: \[2\]"):
        zhat.Hmm(3).fit(X, labels=[0, 0, 1, 1, 0])
    model = zhat.Hmm.from_parameters(
        [1.0, 0.0, 0.0],
        [[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.3, 0.3, 0.4]],
        means=[[0.0], [4.0], [9.0]],
        covars=np.ones((3, 1)),
        warm_start=True,
    )
    with pytest.warns(UserWarning, match=r"no sequence can reach 1 of the states: \[2\]"):
        model.fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        zhat.Hmm(2, tol=1e-3).fit(X)
        zhat.Hmm(2, topology="left-to-right", tol=1e-3).fit(X)


def test_forecasts() -> None:
    X = RANDOM.normal(size=(400, 2))
    small, large = (zhat.Hmm(n, threads=1).forecast(X, [100] * 4) for n in (3, 60))
    assert isinstance(small, zhat.HmmForecast)
    assert 1e3 < small.bytes < large.bytes
    assert 0 < small.step_seconds < large.step_seconds
    words = np.array(["a", "b", "c"] * 20)
    model = zhat.Hmm(2, emissions="categorical", threads=1)
    assert model.forecast(words).bytes > 0
    assert not hasattr(model, "symbols_")
    model.fit(words)
    assert model.set_params(warm_start=True).forecast(words).bytes > 0
    with pytest.raises(zhat.OverBudgetError, match="training needs"):
        zhat.Hmm(60, threads=1, memory=int(0.9 * large.bytes)).fit(X, [100] * 4)
    wrong: Any = ["a"]
    with pytest.raises(zhat.InputError, match="ties"):
        zhat.Hmm(2, ties=wrong).forecast(X)


def test_bad_arguments_are_named() -> None:
    X = RANDOM.normal(size=(10, 1))
    for arguments, message in [
        ({"emissions": "beta"}, "emissions: expected one of"),
        ({"n_components": 0}, "n_components"),
        ({"transition_prior": 0.5}, "transition_prior: 0.5 is out of range"),
        ({"fixed": "all"}, "fixed: expected one of"),
        ({"topology": "ring"}, "topology"),
    ]:
        with pytest.raises(zhat.InputError, match=message):
            zhat.Hmm(**arguments).fit(X)
    with pytest.raises(zhat.InputError, match="add up to 9, but X has 10 rows"):
        zhat.Hmm().fit(X, [4, 5])
    with pytest.raises(zhat.InputError, match="row 1 sums to 0"):
        zhat.Hmm.from_parameters([0.5, 0.5], [[1, 0], [0, 0]], rates=[[1.0], [2.0]])
    with pytest.raises(zhat.InputError, match="not positive definite"):
        zhat.Hmm.from_parameters(
            [1.0], [[1.0]], means=[[0.0, 0.0]], covars=[[[1, 2], [2, 1]]], covariance="full"
        )


def zhat_program(*arguments: str, folder: Path) -> Any:
    return subprocess.run([*COMMAND, *arguments], cwd=folder, capture_output=True, text=True, check=False)


def test_the_program(tmp_path: Path) -> None:
    model = MODELS["gaussian"]
    X, _ = model.sample(200, seed=9)
    rows = [f"{i // 50},{x[0]},{x[1]}" for i, x in enumerate(X)]
    (tmp_path / "data.csv").write_text("\n".join(["sequence,a,b", *rows]) + "\n")
    fit = ["fit", "data.csv", "--kind", "hmm", "--states", "2", "-o", "m.zhat", "--json"]
    done = zhat_program(*fit, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    own = zhat.Hmm.load(tmp_path / "m.zhat")
    del own.feature_names_in_  # X is an array without names
    lengths = [50] * 4
    assert told["log_likelihood"] == pytest.approx(own.score(X, lengths), rel=1e-9)
    scored = json.loads(
        zhat_program("score", "m.zhat", "--input", "data.csv", "--rows", "--json", folder=tmp_path).stdout
    )
    np.testing.assert_allclose(scored["each"], own.score_sequences(X, lengths), rtol=1e-9)
    logz = json.loads(zhat_program("logz", "m.zhat", "--input", "data.csv", "--json", folder=tmp_path).stdout)
    assert sum(logz["value"]) == pytest.approx(told["log_likelihood"], rel=1e-9)
    info = json.loads(zhat_program("info", "m.zhat", "--json", folder=tmp_path).stdout)
    assert (info["kind"], info["states"]) == ("hmm", 2)
    for query in (["map"], ["marginals"], ["sample", "-n", "2"]):
        done = zhat_program(*query, "m.zhat", "--input", "data.csv", folder=tmp_path)
        assert done.returncode == 0, done.stderr
    drawn = zhat_program("sample", "m.zhat", "-n", "2", "--length", "5", folder=tmp_path).stdout.splitlines()
    assert drawn[0] == "sequence,state,a,b"
    assert len(drawn) == 11
    table = zhat_program(
        "fit", "data.csv", "--kind", "hmm", "--states", "1,2", "--folds", "2", "-o", "b.zhat", folder=tmp_path
    )
    assert "cross-validated" in table.stdout
    lasting = zhat_program(
        *fit,
        "--durations",
        "free",
        "--max-duration",
        "8",
        "--ties",
        "0,0",
        "--optimizer",
        "lbfgs",
        folder=tmp_path,
    )
    assert lasting.returncode == 0, lasting.stderr
    semi = zhat_program("logz", "m.zhat", "--input", "data.csv", "--json", folder=tmp_path)
    assert sum(json.loads(semi.stdout)["value"]) == pytest.approx(
        json.loads(lasting.stdout)["log_likelihood"], rel=1e-9
    )
    for query in (["map"], ["marginals"], ["sample", "-n", "2"]):
        done = zhat_program(*query, "m.zhat", "--input", "data.csv", folder=tmp_path)
        assert done.returncode == 0, done.stderr
    assert len(zhat_program("sample", "m.zhat", "--length", "5", folder=tmp_path).stdout.splitlines()) == 6
    refused = zhat_program(*fit, "--optimizer", "fista", folder=tmp_path)
    assert "fista is for --kind mrf" in refused.stderr
    (tmp_path / "bad.csv").write_text("sequence,a,b\n0,1,2\n0,,3\n")
    refused = zhat_program("score", "m.zhat", "bad.csv", folder=tmp_path)
    assert refused.returncode == 2
    assert "bad.csv: line 3: column a: the value is missing" in refused.stderr
    mixed = zhat_program("fit", "data.csv", "--states", "2", "-o", "c.zhat", folder=tmp_path)
    assert "--states: is for --kind hmm" in mixed.stderr
