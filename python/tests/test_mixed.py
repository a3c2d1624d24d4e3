"""Models with continuous variables: certified intervals against closed forms."""

from __future__ import annotations

import copy
import math
import pickle
from pathlib import Path
from typing import Any

import pytest

import zhat


def normal(mean: float, deviation: float, low: float, high: float) -> float:
    """∫ exp(−(x − mean)²/2σ²) over [low, high]."""
    z = [(end - mean) / (deviation * math.sqrt(2)) for end in (low, high)]
    return deviation * math.sqrt(math.pi / 2) * (math.erf(z[1]) - math.erf(z[0]))


def ends(answer: zhat.Answer[float]) -> tuple[float, float]:
    """The interval of the guarantee."""
    low, high = answer.guarantee.low, answer.guarantee.high
    assert low is not None
    assert high is not None
    return low, high


@pytest.mark.parametrize(
    ("name", "parameters", "low", "high", "truth"),
    [
        ("gaussian", (0.5, 2.0), -1.0, 3.0, normal(0.5, 2.0, -1.0, 3.0)),
        ("exponential", (2.0,), 0.0, 1.0, (1 - math.exp(-2)) / 2),
        ("weibull", (1.5, 2.0), 0.1, 8.0, 2**1.5 / 1.5 * (math.exp(-(0.05**1.5)) - math.exp(-(4**1.5)))),
        ("log-normal", (0.0, 1.0), 0.1, 9.0, normal(0.0, 1.0, math.log(0.1), math.log(9.0))),
        ("pareto", (2.0,), 1.0, 50.0, (1 - 50.0**-2) / 2),
        ("gamma", (2.0, 1.0), 0.5, 4.0, 1.5 * math.exp(-0.5) - 5 * math.exp(-4)),
        ("chi-squared", (4.0,), 1.0, 8.0, 4 * (1.5 * math.exp(-0.5) - 5 * math.exp(-4))),
    ],
)
def test_families(name: str, parameters: tuple[float, ...], low: float, high: float, truth: float) -> None:
    """The interval contains the true value and is narrow; the reference agrees."""
    model = zhat.MixedModel.family(name, *parameters, low=low, high=high)
    answer = model.log_partition()
    assert answer.method == "sccq"
    low, high = ends(answer)
    assert low - 1e-14 <= math.log(truth) <= high + 1e-14
    assert high - low < 1.1e-9
    reference = model.log_partition(method="gauss-legendre")
    assert reference.value == pytest.approx(math.log(truth), abs=1e-10)


def test_beta_is_labelled() -> None:
    """ln(1 − x) has no closed form, and the guarantee says so."""
    answer = zhat.MixedModel.family("beta", 2, 3, low=0.1, high=0.9).log_partition(method="sccq")
    primitive = [x**2 / 2 - 2 * x**3 / 3 + x**4 / 4 for x in (0.1, 0.9)]
    assert answer.value == pytest.approx(math.log(primitive[1] - primitive[0]), abs=1e-8)
    assert answer.guarantee.kind == "heuristic"
    assert "numerical" in str(answer.guarantee)
    dirichlet = zhat.MixedModel.family("dirichlet", [1.0, 2.0, 3.0])
    assert len(dirichlet.domains) == 2


def test_discrete_and_continuous_together() -> None:
    """A mixture is the sum of its classes; intervals from draws cover it."""
    classes = ([0.2, 0.8], [-1.0, 1.5], [0.5, 1.0])
    model = zhat.MixedModel.gaussian_mixture(*classes, low=-2.0, high=2.0)
    truth = math.log(sum(w / s * normal(m, s, -2.0, 2.0) for w, m, s in zip(*classes, strict=True)))
    low, high = ends(model.log_partition(error=1e-6))
    assert low <= truth <= high
    by_hand = zhat.MixedModel([2, (-2.0, 2.0)], model.terms)
    assert by_hand == model
    assert hash(by_hand) == hash(model)
    small = zhat.MixedModel([2, (-1.0, 1.0)], [(0.3, [(0, "state", 1), (1, "power", 1)])])
    exact = math.log(2 + (math.exp(0.3) - math.exp(-0.3)) / 0.3)
    for tuples in (False, True):
        drawn = small.log_partition(samples=20000, tuples=tuples, confidence=1 - 1e-9, seed=1)
        low, high = ends(drawn)
        assert low <= exact <= high


def test_files_copies_and_figures(tmp_path: Path) -> None:
    """A model survives files, pickles and copies."""
    model = zhat.generate.gaussian_mixture(3, seed=4)
    path = tmp_path / "mixture.zhat"
    model.save(path)
    assert zhat.read(path) == model
    assert zhat.MixedModel.read(path) == model
    assert pickle.loads(pickle.dumps(model)) == model
    assert copy.deepcopy(model) == model
    assert repr(model) == "MixedModel(2 variables, 1 continuous, 9 terms)"
    assert "continuous" in model._repr_html_()
    info = model.info()
    assert info["kind"] == "mixed-model"
    assert info["methods"]["sccq"]["log_partition"]["can"]

    def value(factors: list[Any]) -> float:
        return math.prod(0.5**c if f == "power" else float(c == 1) for _, f, c in factors)

    assert model.score([1, 0.5]) == pytest.approx(sum(w * value(factors) for w, factors in model.terms))


@pytest.mark.parametrize(
    ("domains", "terms", "words"),
    [
        ([(0.0, 1.0)], [(1.0, [(0, "power", -1)])], "a > 0"),
        ([(0.0, 1.0)], [(1.0, [(0, "sine", 1)])], "no statistic `sine`"),
        ([(0.0, 1.0)], [(1.0, [(0, "log", 0.5)])], "whole number"),
        ([(1.0, 0.0)], [], "a < b"),
        ([0], [], r"domains\[0\]"),
        ([(0.0, 1.0, 2.0)], [], r"domains\[0\]"),
        ([2], [(1.0, [(0, "state", 2)])], "no state 2"),
        ([2], [3.0], r"terms\[0\]"),
        ([2], [(1.0, [(0,)])], r"terms\[0\]"),
        ([2], [(math.nan, [])], "finite"),
    ],
)
def test_invalid_models_are_refused(domains: Any, terms: Any, words: str) -> None:
    """The message states the reason."""
    with pytest.raises(zhat.InputError, match=words):
        zhat.MixedModel(domains, terms)


def test_other_errors() -> None:
    """Invalid families and points, and infeasible sampling."""
    with pytest.raises(zhat.InputError, match="gaussian"):
        zhat.MixedModel.family("cauchy", 1.0)
    with pytest.raises(zhat.InputError, match="deviation"):
        zhat.MixedModel.family("gaussian", 0.0, -1.0)
    model = zhat.MixedModel.family("gaussian", 0.0, 0.1, low=-3, high=3)
    with pytest.raises(zhat.InputError, match="value"):
        model.score([5.0])
    with pytest.raises(zhat.Error, match="draws"):
        model.log_partition(method="sccq", samples=1000)
    with pytest.raises(zhat.InputError):
        model.marginals()


def test_distances_and_counts() -> None:
    laplace = zhat.MixedModel.family("laplace", 1.0, 0.5, low=-1.0, high=2.0)
    truth = math.log(0.5 * (2 - math.exp(-4.0) - math.exp(-2.0)))
    answer = laplace.log_partition(method="sccq")
    low, high = ends(answer)
    assert low <= truth <= high
    assert laplace.terms == [(-2.0, [(0, "distance", 1.0, 1.0)])]
    assert laplace.log_partition(method="gauss-legendre").value == pytest.approx(truth, abs=1e-4)
    poisson = zhat.MixedModel.family("poisson", 3.5)
    assert poisson.domains == [zhat.Counts()]
    answer = poisson.log_partition(method="sccq")
    low, high = ends(answer)
    assert low <= 3.5 <= high
    assert zhat.MixedModel.family("poisson", 3.5, high=20).domains == [zhat.Counts(0, 20)]
    # A rate r on [1, 3] with weight e^{−r}: the sum over counts and the integral over r give 2.
    model = zhat.MixedModel(
        [zhat.Counts(), (1.0, 3.0)],
        [
            (1.0, [(0, "power", 1), (1, "log", 1)]),
            (-1.0, [(0, "log_factorial")]),
            (-1.0, [(1, "power", 1)]),
        ],
    )
    low, high = ends(model.log_partition())
    assert low <= math.log(2) <= high
    assert zhat.MixedModel(model.domains, model.terms) == model
    assert model.score([2.0, 1.0]) == pytest.approx(-1.0 - math.log(2))
    with pytest.raises(zhat.InputError, match="do not bound"):
        zhat.MixedModel([zhat.Counts()], [(0.5, [(0, "power", 1)])])
    with pytest.raises(zhat.InputError, match="does not take"):
        model.score([2.5, 1.0])
