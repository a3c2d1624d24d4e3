"""Forward–backward, Viterbi and one step of EM in plain NumPy, in the log domain."""

from __future__ import annotations

from typing import Any

import numpy as np


def log_sum(values: Any, axis: int) -> Any:
    peak = values.max(axis=axis, keepdims=True)
    shift = np.where(np.isfinite(peak), peak, 0.0)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(values - shift).sum(axis=axis)) + shift.squeeze(axis)


def log_densities(model: Any, X: Any) -> Any:
    """ln p(row | state) of a model with diagonal normal distributions, symbols or counts.

    A column that is NaN has no factor: that is the marginal distribution of the other columns.
    """
    missing = np.isnan(np.asarray(X, dtype=float))
    if model.emissions == "categorical":
        symbols = np.where(missing[:, 0], 0, np.asarray(X)[:, 0]).astype(int)
        with np.errstate(divide="ignore"):
            return np.where(missing, 0.0, np.log(model.emissionprob_)[:, symbols].T)
    if model.emissions == "poisson":
        from math import lgamma

        counts = np.where(missing, 0.0, X)
        factorials = np.array([[lgamma(x + 1) for x in row] for row in counts])
        terms = counts[:, None, :] * np.log(model.rates_)[None] - model.rates_[None] - factorials[:, None, :]
    else:
        variances = model.covars_
        distances = (X[:, None, :] - model.means_[None]) ** 2 / variances[None]
        terms = -0.5 * (distances + np.log(2 * np.pi * variances)[None])
    return np.where(missing[:, None, :], 0.0, terms).sum(axis=2)


def passes(model: Any, X: Any) -> tuple[float, Any, Any]:
    """The log-likelihood, posteriors and expected transitions of one sequence."""
    with np.errstate(divide="ignore"):
        start, moves = np.log(model.startprob_), np.log(model.transmat_)
    scores = log_densities(model, X)
    forward = [start + scores[0]]
    for row in scores[1:]:
        forward.append(log_sum(forward[-1][:, None] + moves, 0) + row)
    backward = [np.zeros(len(start))]
    for row in scores[:0:-1]:
        backward.append(log_sum(moves + (row + backward[-1])[None], 1))
    alpha, beta = np.array(forward), np.array(backward[::-1])
    total = float(log_sum(alpha[-1], 0))
    pairs = alpha[:-1, :, None] + moves[None] + (scores + beta)[1:, None, :] - total
    return total, np.exp(alpha + beta - total), np.exp(pairs).sum(axis=0)


def best_path(model: Any, X: Any) -> tuple[float, Any]:
    """The log-probability of the most probable path, and the path."""
    with np.errstate(divide="ignore"):
        start, moves = np.log(model.startprob_), np.log(model.transmat_)
    scores = log_densities(model, X)
    best, back = start + scores[0], []
    for row in scores[1:]:
        ways = best[:, None] + moves
        back.append(ways.argmax(axis=0))
        best = ways.max(axis=0) + row
    state = int(best.argmax())
    path = [state]
    for step in back[::-1]:
        state = int(step[state])
        path.append(state)
    return float(best.max()), np.array(path[::-1])
