"""Shared by the bridges of hidden Markov models: parameters that must be there, and forms of covariances."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InputError
from ..hidden_markov import Hmm

Array = NDArray[np.float64]


def parameter(model: Any, name: str, what: str = "model") -> Array:
    """A parameter of a fitted model as an array in double precision."""
    value = getattr(model, name, None)
    if value is None:
        raise InputError(f"{what}: {type(model).__name__} has no `{name}`; fit it, or set its parameters")
    return double(value)


def double(values: ArrayLike) -> Array:
    """The values in double precision, from the tensors of any library."""
    values = values.detach().cpu().numpy() if hasattr(values, "detach") else values
    return np.asarray(values, dtype=np.float64)


def rows(values: Array) -> Array:
    """Rows normalised once more in double precision: those of single precision sum to 1 only roughly.

    Rows that are no distributions are left to the checks of `Hmm`.
    """
    sums = values.sum(axis=-1, keepdims=True)
    return np.where(np.abs(sums - 1) < 1e-5, values / np.where(sums > 0, sums, 1), values)


def geometric(model: Hmm, library: str) -> Hmm:
    """The model, if it has parameters and no durations, which other libraries do not have."""
    if model._fitted().durations is not None:
        raise InputError(
            f"{library} has no hidden Markov models with durations; expected durations='geometric'"
        )
    return model


def full_covariances(model: Hmm) -> Array:
    """The covariance matrix of every state, or of every component of every state."""
    covars, means = model.covars_, model.means_
    identity = np.eye(means.shape[-1])
    if model.covariance == "spherical":
        return np.asarray(covars[..., None, None] * identity)
    if model.covariance == "diagonal":
        return np.asarray(covars[..., None] * identity)
    if model.covariance == "tied":
        return np.broadcast_to(covars, (*means.shape, means.shape[-1])).copy()
    return covars.copy()


def variances(model: Hmm) -> Array | None:
    """The variances of every column, in the shape of the means; `None` if columns are correlated."""
    if model.covariance == "spherical":
        return np.asarray(np.broadcast_to(model.covars_[..., None], model.means_.shape))
    return model.covars_ if model.covariance == "diagonal" else None
