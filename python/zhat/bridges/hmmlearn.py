"""hmmlearn: fitted hidden Markov models."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._frames import library
from ..errors import InputError
from ..hidden_markov import Hmm
from ._hmm import geometric, parameter, rows

_COVARIANCES = {"spherical": "spherical", "diag": "diagonal", "full": "full", "tied": "tied"}


def from_hmmlearn(model: Any) -> Hmm:
    """A fitted `CategoricalHMM`, `GaussianHMM`, `GMMHMM` or `PoissonHMM` of hmmlearn as an `Hmm`.

    The states and components keep their order, and the parameters their values. `algorithm` is kept too; the
    other settings of training are those of `Hmm`. hmmlearn's mixtures with tied covariances have one matrix
    per state, so the result has full covariances.
    """
    hmm = library("hmmlearn.hmm")
    known = (hmm.CategoricalHMM, hmm.GaussianHMM, hmm.GMMHMM, hmm.PoissonHMM)
    if not isinstance(model, known):
        raise InputError(
            "model: expected a CategoricalHMM, GaussianHMM, GMMHMM or PoissonHMM of hmmlearn, found "
            f"{type(model).__name__}"
        )
    start, transitions = rows(parameter(model, "startprob_")), rows(parameter(model, "transmat_"))
    if isinstance(model, hmm.CategoricalHMM):
        emissions: dict[str, Any] = {"emissionprob": rows(parameter(model, "emissionprob_"))}
    elif isinstance(model, hmm.PoissonHMM):
        emissions = {"rates": parameter(model, "lambdas_")}
    else:
        emissions = _normal(model)
    return Hmm.from_parameters(start, transitions, **emissions, algorithm=model.algorithm)


def _normal(model: Any) -> dict[str, Any]:
    """Means, covariances and weights."""
    form = _COVARIANCES[model.covariance_type]
    means = parameter(model, "means_")
    # GaussianHMM returns matrices for every form; the stored array is in the shape of its form.
    covars = parameter(model, "_covars_" if hasattr(model, "_covars_") else "covars_")
    if means.ndim == 2:
        if form == "spherical":
            covars = covars.reshape(len(means), -1)[:, 0]
        return {"means": means, "covars": covars, "covariance": form}
    if form == "tied":
        form, covars = "full", np.repeat(covars[:, None], means.shape[1], axis=1)
    weights = rows(parameter(model, "weights_"))
    return {"means": means, "covars": covars, "covariance": form, "weights": weights}


def to_hmmlearn(model: Hmm) -> Any:
    """The model for hmmlearn; see `Hmm.to_hmmlearn`."""
    hmm = library("hmmlearn.hmm")
    geometric(model, "hmmlearn")
    states = len(model.startprob_)
    how = {"algorithm": model.algorithm, "n_iter": model.max_iter}
    if model.emissions == "categorical":
        found = hmm.CategoricalHMM(states, **how)
        found.emissionprob_ = model.emissionprob_.copy()
        found.n_features = found.emissionprob_.shape[1]
    elif model.emissions == "poisson":
        found = hmm.PoissonHMM(states, **how)
        found.lambdas_ = model.rates_.copy()
        found.n_features = found.lambdas_.shape[1]
    else:
        form = next(name for name, own in _COVARIANCES.items() if own == model.covariance)
        covars = model.covars_.copy()
        if model.emissions == "mixture":
            found = hmm.GMMHMM(states, model.weights_.shape[1], covariance_type=form, **how)
            found.weights_ = model.weights_.copy()
            if form == "tied":
                covars = np.repeat(covars[None], states, axis=0)
        else:
            found = hmm.GaussianHMM(states, form, **how)
        found.means_ = model.means_.copy()
        found.n_features = found.means_.shape[-1]
        found.covars_ = covars
    found.startprob_, found.transmat_ = model.startprob_.copy(), model.transmat_.copy()
    return found
