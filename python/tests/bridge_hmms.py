"""Random hidden Markov models for the tests of the bridges."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import zhat

KINDS = [
    "categorical",
    "poisson",
    *(
        f"{kind}-{form}"
        for kind in ("gaussian", "mixture")
        for form in ("spherical", "diagonal", "full", "tied")
    ),
]
"""Emissions and covariances that `Hmm` has."""


def random_hmm(kind: str, seed: int = 1, states: int = 3, columns: int = 2, components: int = 2) -> zhat.Hmm:
    """A model with asymmetric parameters and a zero in its transitions."""
    random = np.random.default_rng(seed)
    start = random.dirichlet(np.ones(states))
    transitions = random.dirichlet(np.ones(states), states)
    transitions[0] = [0.0, *random.dirichlet(np.ones(states - 1))]
    emissions, _, form = kind.partition("-")
    own: dict[str, Any]
    if emissions == "categorical":
        own = {"emissionprob": random.dirichlet(np.ones(4), states)}
    elif emissions == "poisson":
        own = {"rates": random.gamma(2.0, 2.0, (states, columns))}
    else:
        outer = (states,) if emissions == "gaussian" else (states, components)
        roots = random.normal(size=(*outer, columns, columns))
        matrices = roots @ roots.swapaxes(-1, -2) + 0.3 * np.eye(columns)
        covars = {
            "spherical": random.gamma(2.0, 1.0, outer),
            "diagonal": random.gamma(2.0, 1.0, (*outer, columns)),
            "full": matrices,
            "tied": matrices.reshape(-1, columns, columns)[0],
        }
        own = {"means": random.normal(size=(*outer, columns)), "covars": covars[form], "covariance": form}
        if emissions == "mixture":
            own["weights"] = random.dirichlet(np.ones(components), states)
    return zhat.Hmm.from_parameters(start, transitions, **own)


def observations(model: zhat.Hmm, lengths: tuple[int, ...], seed: int = 2) -> NDArray[Any]:
    """Sequences one after another."""
    return np.concatenate([model.sample(length, seed=seed + i)[0] for i, length in enumerate(lengths)])


def assert_equal(one: zhat.Hmm, other: zhat.Hmm, tolerance: float = 1e-12) -> None:
    """The same emissions, covariances and parameters."""
    assert (one.emissions, one.covariance) == (other.emissions, other.covariance)
    names = ("startprob_", "transmat_", "emissionprob_", "rates_", "means_", "covars_", "weights_")
    for name in names:
        assert hasattr(one, name) == hasattr(other, name)
        if hasattr(one, name):
            np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=0, atol=tolerance)
