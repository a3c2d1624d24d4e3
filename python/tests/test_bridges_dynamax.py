"""Parameters of dynamax, with stand-ins for its classes: dynamax itself is not installed for the tests."""

from __future__ import annotations

import sys
from collections import namedtuple
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from bridge_hmms import KINDS, assert_equal, observations, random_hmm

import zhat

PLACE = "dynamax.hidden_markov_model.models"
FIELDS = {
    "categorical_hmm": {"CategoricalHMM": "probs"},
    "poisson_hmm": {"PoissonHMM": "rates"},
    "gaussian_hmm": {
        "GaussianHMM": "means covs",
        "DiagonalGaussianHMM": "means scale_diags",
        "SphericalGaussianHMM": "means scales",
        "SharedCovarianceGaussianHMM": "means cov",
    },
    "gmm_hmm": {
        "GaussianMixtureHMM": "weights means covs",
        "DiagonalGaussianMixtureHMM": "weights means scale_diags",
    },
}
"""The fields of the emissions of every class, by module."""


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules with the parameter classes of dynamax, which itself needs jax."""

    def module(name: str, **classes: Any) -> None:
        made = ModuleType(name)
        vars(made).update(classes)
        monkeypatch.setitem(sys.modules, name, made)

    for parent in ("jax", "dynamax", "dynamax.hidden_markov_model", PLACE):
        module(parent)
    module("jax.numpy", asarray=np.asarray)
    module(f"{PLACE}.initial", ParamsStandardHMMInitialState=namedtuple("Initial", "probs"))
    module(f"{PLACE}.transitions", ParamsStandardHMMTransitions=namedtuple("Rows", "transition_matrix"))
    for name, kinds in FIELDS.items():
        classes = {}
        for kind, fields in kinds.items():
            classes[f"Params{kind}"] = namedtuple(f"Params{kind}", "initial transitions emissions")
            classes[f"Params{kind}Emissions"] = namedtuple(f"Params{kind}Emissions", fields)
        module(f"{PLACE}.{name}", **classes)


@pytest.mark.usefixtures("stand_in")
@pytest.mark.parametrize("kind", KINDS)
def test_parameters_both_ways(kind: str) -> None:
    model = random_hmm(kind)
    params = model.to_dynamax()
    back = zhat.from_dynamax(params)
    steps = observations(model, (9, 4))
    np.testing.assert_allclose(
        back.predict_proba(steps, [9, 4]), model.predict_proba(steps, [9, 4]), atol=1e-12
    )
    np.testing.assert_allclose(back.score(steps, [9, 4]), model.score(steps, [9, 4]), rtol=1e-12)
    forms = {"mixture-spherical": "diagonal", "mixture-tied": "full"}
    if kind in forms:  # dynamax has no such mixtures
        assert back.covariance == forms[kind]
    else:
        assert_equal(back, model)


@pytest.mark.usefixtures("stand_in")
def test_scales_are_standard_deviations() -> None:
    diagonal = random_hmm("gaussian-diagonal")
    np.testing.assert_allclose(diagonal.to_dynamax().emissions.scale_diags ** 2, diagonal.covars_)
    assert type(diagonal.to_dynamax()).__name__ == "ParamsDiagonalGaussianHMM"
    categorical = random_hmm("categorical").to_dynamax()
    assert categorical.emissions.probs.shape == (3, 1, 4)


def params(**fields: Any) -> Any:
    emissions = namedtuple("Emissions", list(fields))(**fields)
    rows = namedtuple("Rows", "transition_matrix")(np.full((2, 2), 0.5))
    Params = namedtuple("Params", "initial transitions emissions")
    return Params(namedtuple("Initial", "probs")(np.full(2, 0.5)), rows, emissions)


def test_parameters_in_single_precision() -> None:
    third = np.full((2, 1, 3), 1 / 3, dtype=np.float32)
    model = zhat.from_dynamax(params(probs=third))
    np.testing.assert_allclose(model.emissionprob_.sum(axis=1), 1.0, rtol=1e-15)


def test_parameters_that_cannot_be_converted() -> None:
    with pytest.raises(zhat.InputError, match=r"params: expected the parameters .* found dict"):
        zhat.from_dynamax({})
    with pytest.raises(zhat.InputError, match=r"the fields \['concentration', 'rate'\] cannot be converted"):
        zhat.from_dynamax(params(rate=np.ones((2, 1)), concentration=np.ones((2, 1))))
    with pytest.raises(zhat.InputError, match="2 categorical emissions per step; an Hmm has one"):
        zhat.from_dynamax(params(probs=np.full((2, 2, 3), 1 / 3)))
    # Bernoulli emissions: one probability per column.
    with pytest.raises(zhat.InputError, match=r"the fields \['probs'\] cannot be converted"):
        zhat.from_dynamax(params(probs=np.full((2, 2), 0.4)))
    with pytest.raises(zhat.Error):
        zhat.from_dynamax(params(means=np.ones((2, 2)), covs=np.ones((2, 3))))
