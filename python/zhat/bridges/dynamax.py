"""dynamax: parameters of hidden Markov models."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._frames import library
from ..errors import InputError
from ..hidden_markov import Hmm
from ._hmm import Array, double, full_covariances, geometric, rows, variances


def from_dynamax(params: Any) -> Hmm:
    """Parameters of a hidden Markov model of dynamax, as returned by `initialize` or `fit_em`, as an `Hmm`.

    These are the parameters of `CategoricalHMM` (with one emission), `GaussianHMM`, `DiagonalGaussianHMM`,
    `SphericalGaussianHMM`, `SharedCovarianceGaussianHMM`, `PoissonHMM`, `GaussianMixtureHMM` and
    `DiagonalGaussianMixtureHMM`. Any object with the same fields can be used; dynamax is not imported.
    """
    try:
        start, transitions = params.initial.probs, params.transitions.transition_matrix
        emissions = {name: double(getattr(params.emissions, name)) for name in params.emissions._fields}
    except AttributeError as error:
        raise InputError(
            "params: expected the parameters of a hidden Markov model of dynamax, found "
            f"{type(params).__name__} ({error})"
        ) from None
    except (TypeError, ValueError) as error:
        raise InputError(f"params: the emissions are no arrays: {error}") from None
    return Hmm.from_parameters(rows(double(start)), rows(double(transitions)), **_emissions(emissions))


_FORMS = {"covs": "full", "cov": "tied", "scale_diags": "diagonal", "scales": "spherical"}
"""The forms of covariances by field; scales are standard deviations."""


def _emissions(own: dict[str, Array]) -> dict[str, Any]:
    """The arguments of `Hmm.from_parameters` for these fields."""
    fields = set(own)
    if fields == {"probs"} and own["probs"].ndim == 3:
        if own["probs"].shape[1] != 1:
            raise InputError(
                f"params: {own['probs'].shape[1]} categorical emissions per step; an Hmm has one"
            )
        return {"emissionprob": rows(own["probs"][:, 0])}
    if fields == {"rates"}:
        return {"rates": own["rates"]}
    spread = fields - {"means", "weights"}
    name = next(iter(spread), "")
    if "means" not in fields or len(spread) > 1 or name not in _FORMS:
        raise InputError(
            f"params: emissions with the fields {sorted(fields)} cannot be converted; expected categorical, "
            "normal, Poisson or mixture emissions"
        )
    covars = own[name] ** 2 if name.startswith("scale") else own[name]
    found: dict[str, Any] = {"means": own["means"], "covars": covars, "covariance": _FORMS[name]}
    return found | ({"weights": rows(own["weights"])} if "weights" in fields else {})


def to_dynamax(model: Hmm) -> Any:
    """The parameters for dynamax; see `Hmm.to_dynamax`."""
    geometric(model, "dynamax")
    kind, emissions = _fields(model)
    place = "dynamax.hidden_markov_model.models."
    module = library(place + _MODULES[kind])
    array = library("jax.numpy").asarray
    initial = library(place + "initial").ParamsStandardHMMInitialState(probs=array(model.startprob_))
    transitions = library(place + "transitions").ParamsStandardHMMTransitions(
        transition_matrix=array(model.transmat_)
    )
    own = getattr(module, f"Params{kind}Emissions")(**{name: array(x) for name, x in emissions.items()})
    return getattr(module, f"Params{kind}")(initial=initial, transitions=transitions, emissions=own)


_MODULES = {
    "CategoricalHMM": "categorical_hmm",
    "PoissonHMM": "poisson_hmm",
    "GaussianHMM": "gaussian_hmm",
    "DiagonalGaussianHMM": "gaussian_hmm",
    "SphericalGaussianHMM": "gaussian_hmm",
    "SharedCovarianceGaussianHMM": "gaussian_hmm",
    "GaussianMixtureHMM": "gmm_hmm",
    "DiagonalGaussianMixtureHMM": "gmm_hmm",
}
"""The classes of dynamax by name, with the modules that define them."""


def _fields(model: Hmm) -> tuple[str, dict[str, Array]]:
    """The class of dynamax, and the fields of its emissions."""
    if model.emissions == "categorical":
        return "CategoricalHMM", {"probs": model.emissionprob_[:, None]}
    if model.emissions == "poisson":
        return "PoissonHMM", {"rates": model.rates_}
    own, spread = {"means": model.means_}, variances(model)
    if model.emissions == "mixture":
        own["weights"] = model.weights_
        if spread is None:
            return "GaussianMixtureHMM", own | {"covs": full_covariances(model)}
        return "DiagonalGaussianMixtureHMM", own | {"scale_diags": np.sqrt(spread)}
    if model.covariance == "spherical":
        return "SphericalGaussianHMM", own | {"scales": np.sqrt(model.covars_)}
    if model.covariance == "tied":
        return "SharedCovarianceGaussianHMM", own | {"cov": model.covars_}
    if spread is None:
        return "GaussianHMM", own | {"covs": model.covars_}
    return "DiagonalGaussianHMM", own | {"scale_diags": np.sqrt(spread)}
