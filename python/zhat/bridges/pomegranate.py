"""pomegranate (1.0 and later): Bayesian networks of categorical variables, and dense hidden Markov models."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from .._frames import library
from ..errors import InputError
from ..hidden_markov import Hmm
from ..model import FactorGraph
from ._graph import declared_network, is_network, weights
from ._hmm import Array, double, full_covariances, geometric, parameter, rows, variances


def from_pomegranate(
    model: Any,
    *,
    names: Iterable[str] | None = None,
    state_names: Iterable[Iterable[str] | None] | None = None,
) -> Any:
    """A `BayesianNetwork` of pomegranate as a `FactorGraph`, or a `DenseHMM` as an `Hmm`.

    The variables of a network are its distributions, `Categorical` or `ConditionalCategorical`, in their
    order. pomegranate has no names: `names` and `state_names` give them, as in `FactorGraph`.

    The states of a hidden Markov model have distributions `Categorical` (with one column), `Normal`,
    `Poisson`, or `GeneralMixtureModel` of `Normal`. `Hmm` has no end probabilities, so those of the model
    must be equal for all states, as they are by default. They are left out, which adds a constant to the
    log-likelihood of each sequence and changes nothing else. A trained model usually has other end
    probabilities and is an error.

    pomegranate computes in single precision unless it is told otherwise.
    """
    networks, hmms = library("pomegranate.bayesian_network"), library("pomegranate.hmm")
    if isinstance(model, networks.BayesianNetwork):
        return _graph(model, names, state_names)
    if not isinstance(model, hmms.DenseHMM):
        raise InputError(
            f"model: expected a BayesianNetwork or a DenseHMM of pomegranate, found {type(model).__name__}"
        )
    if names is not None or state_names is not None:
        raise InputError("names: a hidden Markov model has no named variables")
    return _hmm(model)


def to_pomegranate(model: FactorGraph | Hmm) -> Any:
    """The model for pomegranate; see `FactorGraph.to_pomegranate` and `Hmm.to_pomegranate`."""
    if isinstance(model, Hmm):
        return _dense_hmm(geometric(model, "pomegranate"))
    is_network(model, True)
    networks, kinds = library("pomegranate.bayesian_network"), library("pomegranate.distributions")
    found: dict[int, Any] = {}
    for f, (scope, table) in enumerate(model.factors):
        values = _tensor(weights(f, table))
        found[scope[-1]] = (
            kinds.ConditionalCategorical([values]) if len(scope) > 1 else kinds.Categorical(values[None])
        )
    edges = [(found[parent], found[scope[-1]]) for scope, _ in model.factors for parent in scope[:-1]]
    return networks.BayesianNetwork([found[v] for v in range(model.n_variables)], edges)


def _tensor(values: Any) -> Any:
    return library("torch").tensor(np.asarray(values), dtype=library("torch").float32)


def _graph(
    model: Any, names: Iterable[str] | None, state_names: Iterable[Iterable[str] | None] | None
) -> FactorGraph:
    parts = list(model.distributions)
    place = {id(part): v for v, part in enumerate(parts)}
    parents: list[list[int]] = [[] for _ in parts]
    for parent, child in model.edges:
        parents[place[id(child)]].append(place[id(parent)])
    tables = []
    for v, part in enumerate(parts):
        if part.probs is None:
            raise InputError(f"model: distribution {v} has no probabilities; fit the model first")
        if len(part.probs) != 1:
            raise InputError(f"model: distribution {v} has {len(part.probs)} columns; expected one")
        table = double(part.probs[0])
        if table.ndim != len(parents[v]) + 1:
            raise InputError(
                f"model: distribution {v} has {len(parents[v])} edges to it, but its table has "
                f"{table.ndim} axes; expected one per parent, and one for its own states"
            )
        tables.append(([*parents[v], v], table))
    sizes = [table.shape[-1] for _, table in tables]
    return declared_network(FactorGraph(sizes, tables, log=False, names=names, state_names=state_names))


def _hmm(model: Any) -> Hmm:
    parts = list(model.distributions)
    start, edges = np.exp(parameter(model, "starts")), np.exp(parameter(model, "edges"))
    ends = np.exp(double(model.ends)) if model.ends is not None else np.ones(len(parts))
    left = edges.sum(axis=1)
    if np.ptp(ends) > 1e-6 or np.ptp(left) > 1e-5:
        raise InputError(
            "model: the end probabilities of the states differ, which an Hmm cannot express; "
            "give DenseHMM equal `ends`"
        )
    return Hmm.from_parameters(rows(start), rows(edges / left[:, None]), **_emissions(parts))


def _emissions(parts: list[Any]) -> dict[str, Any]:
    """The arguments of `Hmm.from_parameters` for the distributions of the states."""
    (kind, *others) = {type(part).__name__ for part in parts}
    if others:
        raise InputError(
            f"model: the states have distributions of several kinds: {kind}, {', '.join(others)}"
        )
    if kind == "Categorical":
        probabilities = np.stack([parameter(part, "probs") for part in parts])
        if probabilities.shape[1] != 1:
            raise InputError(f"model: {probabilities.shape[1]} categorical columns; an Hmm has one")
        return {"emissionprob": rows(probabilities[:, 0])}
    if kind == "Poisson":
        return {"rates": np.stack([parameter(part, "lambdas") for part in parts])}
    if kind == "Normal":
        return _normals(parts)
    if kind == "GeneralMixtureModel":
        components = [list(part.distributions) for part in parts]
        if len({len(own) for own in components}) > 1:
            raise InputError("model: the mixtures of the states have different numbers of components")
        if any(type(one).__name__ != "Normal" for own in components for one in own):
            raise InputError("model: expected mixtures of Normal distributions")
        found = _normals([one for own in components for one in own])
        for name in ("means", "covars"):
            found[name] = found[name].reshape(len(parts), len(components[0]), *found[name].shape[1:])
        return found | {"weights": rows(np.stack([parameter(part, "priors") for part in parts]))}
    raise InputError(
        f"model: states with distributions of the kind {kind} cannot be converted; "
        "expected Categorical, Normal, Poisson or GeneralMixtureModel"
    )


def _normals(parts: list[Any]) -> dict[str, Any]:
    """Means and covariances of normal distributions."""
    forms = {part.covariance_type for part in parts}
    if len(forms) > 1 or not forms <= {"full", "diag"}:
        raise InputError(f"model: covariances of the kinds {sorted(forms)}; expected all full, or all diag")
    means, covars = (np.stack([parameter(part, name) for part in parts]) for name in ("means", "covs"))
    return {"means": means, "covars": covars, "covariance": {"full": "full", "diag": "diagonal"}[forms.pop()]}


def _dense_hmm(model: Hmm) -> Any:
    kinds = library("pomegranate.distributions")
    if model.emissions == "categorical":
        parts = [kinds.Categorical(_tensor(row)[None]) for row in model.emissionprob_]
    elif model.emissions == "poisson":
        parts = [kinds.Poisson(_tensor(row)) for row in model.rates_]
    else:
        spread = variances(model)
        form = "full" if spread is None else "diag"
        covars: Array = full_covariances(model) if spread is None else spread
        means = model.means_

        def normals(means: Array, covars: Array) -> list[Any]:
            pairs = zip(means, covars, strict=True)
            return [kinds.Normal(_tensor(mean), _tensor(own), covariance_type=form) for mean, own in pairs]

        if model.emissions == "mixture":
            mixture = library("pomegranate.gmm").GeneralMixtureModel
            own = zip(means, covars, model.weights_, strict=True)
            parts = [mixture(normals(mean, cov), priors=_tensor(weight)) for mean, cov, weight in own]
        else:
            parts = normals(means, covars)
    hmms = library("pomegranate.hmm")
    # Without end probabilities, pomegranate takes the model for one that is not trained yet.
    ends = np.full(len(parts), 1 / len(parts))
    return hmms.DenseHMM(
        parts, edges=_tensor(model.transmat_), starts=_tensor(model.startprob_), ends=_tensor(ends)
    )
