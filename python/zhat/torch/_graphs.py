"""Pairwise graphs as factor graphs, for the methods and queries that they do not have themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..pairwise import PairwiseGradient, PairwiseGraph

_OWN = {"auto", "bounds", "unbiased", "bp", "randomized-bp"}
"""The methods of pairwise graphs; `exact` is one of them for graphs without cycles."""


def with_every_query(model: Any) -> Any:
    """The model, as a factor graph if it is a pairwise graph."""
    return model.to_factor_graph() if isinstance(model, PairwiseGraph) else model


def with_method(model: Any, method: str) -> Any:
    """The model, as a factor graph if it is a pairwise graph that does not have the method."""
    if not isinstance(model, PairwiseGraph) or method in _OWN:
        return model
    return model if method == "exact" and model._is_forest() else model.to_factor_graph()


def of_parameters(model: PairwiseGraph, found: list[NDArray[Any]]) -> PairwiseGradient:
    """The gradient of log Z with respect to a pairwise graph, from the marginals of its factor graph."""
    count, n = model.n_variables, model.n_states
    nodes = np.stack(found[:count])
    pairs = np.stack(found[count:]) if len(found) > count else np.zeros((0, n, n))
    table, left = model.interactions, model.left
    if left is None:
        return PairwiseGradient(nodes, pairs.sum(0) if table is not None and table.ndim == 2 else pairs)
    total = pairs.sum(0)
    if model.right is None:
        return PairwiseGradient(nodes, left=(total + total.T) @ left)
    return PairwiseGradient(nodes, left=total @ model.right, right=total.T @ left)
