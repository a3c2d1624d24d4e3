# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Can a conditional random field have 10,000 states?
#
# A linear-chain conditional random field (CRF) with $N$ states needs $N^2$ operations per position, and a
# library that records every step for its gradient stores $T$ tables of $N^2$ numbers. This notebook tracks a
# walker on a map of 100 × 100 cells, so $N = 10{,}000$, on a laptop.
#
# You will learn how to
#
# - write transitions as a product of embeddings, so that the table of $10^8$ entries never exists;
# - compute $\log Z$ and its exact gradient, and train a weight with it;
# - read the forecast of memory and time before running anything;
# - replace exact sums by **randomized dynamic programming** over 1% to 10% of the states, and see what that
#   costs in accuracy;
# - draw samples, and relaxed samples with gradients, of a path.
#
# Set the environment variable `ZHAT_EXAMPLES=small` for a quicker run on a smaller map.

# %%
import os

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import zhat
from zhat.palette import CATEGORIES

plt.rcParams["axes.prop_cycle"] = plt.cycler(color=CATEGORIES)
small = os.environ.get("ZHAT_EXAMPLES") == "small"
rng = np.random.default_rng(2)

# %% [markdown]
# ## The task
#
# A walker moves over a square map. Two beacons measure their distance to the walker at each of $T$ times,
# with noise. A state is a cell of the map. The score of a path $x$ is
#
# $$\text{score}(x) = -a \sum_t \sum_b \big(r_{tb} - |x_t - b|\big)^2 - w \sum_t |x_t - x_{t+1}|^2,$$
#
# with a weight $a$ of the measurements and a weight $w$ of the movement. The squared distance of two cells
# $p$ and $q$ is $|p|^2 - 2\,p \cdot q + |q|^2$. This is a product of two vectors of length 4:
#
# $$-w\,|p-q|^2 = \big(2wp_1,\ 2wp_2,\ -w|p|^2,\ 1\big) \cdot \big(q_1,\ q_2,\ 1,\ -w|q|^2\big).$$


# %%
beacons = np.array([[0.15, 0.45], [0.85, 0.52]])


def cells(side):
    """The centres of side × side cells of the unit square."""
    middle = (np.arange(side) + 0.5) / side
    return np.stack(np.meshgrid(middle, middle, indexing="ij"), axis=-1).reshape(-1, 2)


def walk(steps, step=0.05):
    """A smooth random walk in the unit square."""
    direction = rng.uniform(0, 2 * np.pi) + np.cumsum(0.5 * rng.normal(size=steps))
    path = np.array([0.3, 0.7]) + np.cumsum(
        step * np.stack([np.cos(direction), np.sin(direction)], axis=-1), axis=0
    )
    return np.abs(path - 2 * np.floor((path + 1) / 2))  # reflected at the borders


def tracker(side, measured, sharpness, smoothness):
    """The CRF of the measurements: factored transitions of rank 4."""
    p = cells(side)
    distances = np.linalg.norm(p[:, None] - beacons, axis=-1)
    emissions = -sharpness * ((measured[:, None, :] - distances) ** 2).sum(axis=-1)
    square = (p**2).sum(axis=1, keepdims=True)
    ones = np.ones_like(square)
    left = np.hstack([2 * smoothness * p, -smoothness * square, ones])
    right = np.hstack([p, ones, -smoothness * square])
    return zhat.Chain.crf(emissions, left=left, right=right)


steps, noise = 24, 0.06
path = walk(steps)
measured = np.linalg.norm(path[:, None] - beacons, axis=-1) + noise * rng.normal(size=(steps, len(beacons)))
side = 24 if small else 100
crf = tracker(side, measured, sharpness=1 / (2 * noise**2), smoothness=1 / (2 * 0.05**2))
crf

# %% [markdown]
# ## The forecast
#
# `info` forecasts memory and time of every method and query before anything is run. For comparison: one table
# of transitions, and one table per step, as a library with automatic differentiation would store them.

# %%
costs = crf.info()["methods"]
forecast = {
    f"{method}, {query}": {"bytes": costs[method][query]["bytes"], "seconds": costs[method][query]["seconds"]}
    for method in ("forward-backward", "randomized")
    for query in ("log_partition", "factor_marginals", "sample")
}
n = crf.n_states
forecast["one table of transitions"] = {"bytes": 8.0 * n * n, "seconds": np.nan}
forecast["a table per step"] = {"bytes": 8.0 * n * n * (steps - 1), "seconds": np.nan}
table = pd.DataFrame(forecast).T
pd.DataFrame({"memory (MB)": (table.bytes / 1e6).round(1), "time (s)": table.seconds.round(2)})

# %% [markdown]
# ## Exact answers
#
# `forward-backward` computes messages with blocks of the product of embeddings, so memory is that of the
# emissions and the messages. It is exact, and at 10,000 states it still takes only seconds.

# %%
exact = crf.log_partition()
exact

# %%
marginals = crf.marginals()
best = cells(side)[crf.map().value.states]
figure, axes = plt.subplots(1, 3, figsize=(10, 3.6), layout="constrained", sharey=True)
for ax, t in zip(axes, (0, steps // 2, steps - 1), strict=True):
    image = ax.imshow(
        np.log10(marginals.value[t].reshape(side, side).T + 1e-12),
        origin="lower",
        extent=(0, 1, 0, 1),
        cmap="cividis",
        vmin=-6,
        vmax=-2,
    )
    ax.plot(*path[: t + 1].T, color="white", linewidth=1.2)
    ax.plot(*best[: t + 1].T, color=CATEGORIES[1], linewidth=1.2, linestyle="--")
    ax.plot(*beacons.T, "^", color="white", markersize=6)
    ax.set_title(f"time {t}")
_ = figure.colorbar(image, ax=axes, label="log₁₀ P(cell)", shrink=0.8)

# %% [markdown]
# White: the true path and the beacons. Dashed: the most probable path. Both beacons lie near the middle line,
# so they can hardly distinguish a position from its mirror image, and the posterior has two modes. A single
# best path hides this; marginals and samples show it.

# %% [markdown]
# ## The gradient, and training
#
# The gradient of $\log Z$ with respect to a score is an expected count. For factored transitions it arrives
# in the shape of the embeddings. A CRF is trained by the gradient of $\log p(\text{path}) =
# \text{score}(\text{path}) - \log Z$, so the derivative with respect to the weight $w$ needs only the chain
# rule. We check it against a difference quotient on a map of 30 × 30 cells.

# %%
coarse_side = 15 if small else 30
coarse = cells(coarse_side)
true_cells = ((path[:, None] - coarse) ** 2).sum(axis=-1).argmin(axis=1)


def log_likelihood(smoothness):
    """The log-probability of the true path and its derivative with respect to the weight of the movement."""
    chain = tracker(coarse_side, measured, 1 / (2 * noise**2), smoothness)
    log_z, gradient = chain.log_partition_and_gradient()
    square = (coarse**2).sum(axis=1)
    by_w = (
        (gradient.left[:, :2] * 2 * coarse).sum()
        - gradient.left[:, 2] @ square
        - gradient.right[:, 3] @ square
    )
    moved = np.diff(coarse[true_cells], axis=0)
    return chain.score(true_cells) - log_z, -(moved**2).sum() - by_w


w = 100.0
value, slope = log_likelihood(w)
quotient = (log_likelihood(w + 1e-3)[0] - log_likelihood(w - 1e-3)[0]) / 2e-3
print(f"gradient {slope:.8f}, difference quotient {quotient:.8f}")
assert abs(slope - quotient) < 1e-6 * (1 + abs(slope))

# %% [markdown]
# With value and gradient any optimizer works. Here the sign of the gradient is enough: bisection on $\log w$
# finds the weight of maximum likelihood.

# %%
low, high = np.log(1.0), np.log(1e5)
for _ in range(8 if small else 20):
    middle = (low + high) / 2
    low, high = (middle, high) if log_likelihood(np.exp(middle))[1] > 0 else (low, middle)
learned = float(np.exp(middle))
print(f"learned weight {learned:.1f}: a typical step of {1 / np.sqrt(2 * learned):.3f} in each direction")

# %% [markdown]
# ## Randomized dynamic programming
#
# `randomized` keeps about $K$ of the $N$ states at each position, chosen at random with a probability that
# grows with their importance, and reweights them so that $E[\hat Z] = Z$. The result has a standard error and
# a lower bound on $\log Z$ that holds with 95% confidence. The cost is proportional to $K N$ per step,
# instead of $N^2$.

# %%
fractions = [0.01, 0.02, 0.05, 0.1]
seeds = range(2 if small else 3)
rows = []
for fraction in fractions:
    for seed in seeds:
        estimate = crf.log_partition(method="randomized", states=round(fraction * n), seed=seed)
        rows.append(
            {
                "K / N": fraction,
                "seconds": estimate.diagnostics["seconds"],
                "error of log Z": abs(estimate.value - exact.value),
                "standard error": estimate.guarantee.relative_std_error,
                "bound holds": estimate.guarantee.low <= exact.value,
            }
        )
runs = pd.DataFrame(rows)
summary = runs.groupby("K / N").agg(
    {
        "seconds": "mean",
        "error of log Z": lambda e: np.sqrt((e**2).mean()),
        "standard error": "mean",
        "bound holds": "all",
    }
)
assert runs["bound holds"].all()
summary.round(5)

# %%
exact_seconds = exact.diagnostics["seconds"]
figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
axes.semilogy(runs["seconds"], runs["error of log Z"], ".", color="0.6", label="one run each")
axes.semilogy(summary["seconds"], summary["error of log Z"], "o-", label="root mean square")
for fraction, row in summary.iterrows():
    axes.annotate(
        f"{fraction:.0%}", (row["seconds"], row["error of log Z"]), xytext=(6, 4), textcoords="offset points"
    )
axes.axvline(exact_seconds, color=CATEGORIES[1], linestyle="--", label="time of the exact method")
axes.set_xlim(left=0)
axes.set_xlabel("seconds")
axes.set_ylabel("error of log Z (nats)")
_ = axes.legend()

# %% [markdown]
# With 1% of the states the error is a few hundredths of a nat, for a fraction of the time of the exact
# method; it falls quickly as $K$ grows. With 10% it is negligible, but so is the gain: a run has eight
# replicates, from which its standard error comes, and together they cost as much as the exact sum. Randomized
# sums pay for a small $K$, and the more states there are, the more they pay.

# %% [markdown]
# ### Gradients from a few states
#
# The gradient is estimated from the same states. It is sparse: cells that were not chosen have gradient zero.

# %%
log_z, tape = zhat.ops.log_partition(crf, method="randomized", states=0.05, seed=1)
gradient = tape.vjp().emissions
distance = 0.5 * abs(gradient - marginals.value).sum(axis=1)
pd.Series(
    {
        "error of log Z": abs(log_z - exact.value),
        "cells with a gradient": np.count_nonzero(gradient) / gradient.size,
        "total variation distance to the exact marginals, mean over time": distance.mean(),
        "the same, largest": distance.max(),
    },
    name="K = 5% of the states",
).to_frame().round(4)

# %% [markdown]
# ## Paths
#
# Samples are whole paths. Their heights over time show what marginals cannot: a path keeps to its side of the
# line of beacons. The true path crosses the line at about time 17 and most samples do not, because two
# distances cannot tell a crossing from a turn.

# %%
drawn = crf.sample(30, seed=3).value.states
heights = cells(side)[:, 1]
figure, axes = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
axes.plot(heights[drawn].T, color=CATEGORIES[0], alpha=0.35, linewidth=0.9)
axes.plot(path[:, 1], color="black", linewidth=1.8, label="true path")
axes.plot([], [], color=CATEGORIES[0], label=f"{len(drawn)} samples")
axes.axhspan(*sorted(beacons[:, 1]), color="0.88", zorder=0, label="line of beacons")
axes.set_xlabel("time")
axes.set_ylabel("height on the map")
axes.set_ylim(0, 1)
_ = axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)

# %% [markdown]
# A sample is not differentiable, but its Gumbel-softmax relaxation is: at each position a distribution over
# cells near the sampled one. Which measurements decide how high the walker ends? The gradient of the mean
# final height with respect to the emissions says so.

# %%
relaxed, tape = zhat.ops.relaxed_sample(crf, n=16, temperature=0.5, seed=1)
cotangent = np.zeros_like(relaxed.soft)
cotangent[:, -1] = heights / len(relaxed.soft)
influence = abs(tape.vjp(cotangent).emissions).sum(axis=1)
mean, exact_mean = (relaxed.soft * cotangent).sum(), marginals.value[-1] @ heights
print(f"mean final height: {mean:.3f} of the relaxed samples, {exact_mean:.3f} exact")
figure, axes = plt.subplots(figsize=(6.4, 2.6), layout="constrained")
axes.bar(range(steps), influence)
axes.set_xlabel("time of the measurement")
_ = axes.set_ylabel("influence on the\nfinal height")

# %% [markdown]
# Early measurements count alike, because they matter only for the side. The last ones also move the position
# on that side.

# %% [markdown]
# ## Read on
#
# - [Chains](../../docs/chains.md): all models, gradients, and PyTorch
# - [Choosing a method](../../docs/methods.md#chains): options of randomized dynamic programming
# - [Guarantees](../../docs/guarantees.md#unbiased): what an unbiased estimate says, and what it does not
