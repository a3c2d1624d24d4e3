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
# # Is the marginal of my loopy graph right?
#
# Loopy belief propagation is fast, usually converges, and prints probabilities with many digits. On a graph
# with cycles nothing says that they are right. This notebook builds a model on which they are badly wrong,
# and shows how to find that out, also if the model is too large for the exact answer.
#
# You will learn
#
# - how to compare marginals of `bp`, `mean-field`, `importance` and `wmb-is` with exact ones;
# - what certified bounds on $\log Z$ look like over time;
# - how to turn bounds on $\log Z$ into a **certified interval for a marginal**, which accepts or refutes an
#   estimate;
# - a short rule for whom to trust.
#
# Set the environment variable `ZHAT_EXAMPLES=small` for a quicker run.

# %%
import math
import os

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import zhat
from zhat.palette import CATEGORIES

plt.rcParams["axes.prop_cycle"] = plt.cycler(color=CATEGORIES)
small = os.environ.get("ZHAT_EXAMPLES") == "small"

# %% [markdown]
# ## The model
#
# A field is divided into square plots, each of which is dry or wet. Neighbouring plots tend to agree, and
# each plot has a weak measurement. With $s_i = \pm 1$ for wet and dry,
#
# $$p(s) \propto \exp\Big(\sum_{i \sim j} J\, s_i s_j + \sum_i h_i s_i\Big).$$
#
# The measurements $h_i$ are small and have no preference on average, while agreement is strong: the plots are
# wet together or dry together.


# %%
def field(side, coupling=0.55, strength=0.12, seed=3):
    """A square of plots that tend to agree with their neighbours, with weak random measurements."""
    measured = strength * np.random.default_rng(seed).normal(size=(side, side))
    measured -= measured.mean()
    plot = np.arange(side * side).reshape(side, side)
    agree = coupling * np.array([[1.0, -1.0], [-1.0, 1.0]])
    pairs = [*zip(plot[:, :-1].flat, plot[:, 1:].flat, strict=True)]
    pairs += [*zip(plot[:-1].flat, plot[1:].flat, strict=True)]
    factors = [((int(i),), [-h, h]) for i, h in zip(plot.flat, measured.flat, strict=True)]
    factors += [((int(i), int(j)), agree) for i, j in pairs]
    names = [f"plot {r},{c}" for r in range(side) for c in range(side)]
    return zhat.FactorGraph([2] * side**2, factors, names=names, state_names=[["dry", "wet"]] * side**2)


side = 8 if small else 12
model = field(side)
model

# %% [markdown]
# ## Five answers to one question
#
# With 12 × 12 plots elimination is exact and takes a moment. The other methods are those that remain when it
# does not fit: message passing, a product of trees, and two kinds of importance sampling.

# %%
methods = ["elimination", "bp", "mean-field", "importance", "wmb-is"]
options = {"wmb-is": {"i_bound": 6, "samples": 16384}}
answers = {name: model.marginals(method=name, seed=1, **options.get(name, {})) for name in methods}
wet = {name: np.array([vector[1] for vector in answer.value]) for name, answer in answers.items()}
pd.DataFrame(
    {
        "guarantee": {name: str(answer.guarantee) for name, answer in answers.items()},
        "seconds": {name: round(answer.diagnostics["seconds"], 3) for name, answer in answers.items()},
        "largest error": {name: abs(wet[name] - wet["elimination"]).max().round(3) for name in methods},
        "mean P(wet)": {name: wet[name].mean().round(3) for name in methods},
    }
)

# %%
figure, axes = plt.subplots(1, len(methods), figsize=(10, 2.5), layout="constrained", sharey=True)
for ax, name in zip(axes, methods, strict=True):
    image = ax.imshow(wet[name].reshape(side, side), vmin=0, vmax=1, cmap="cividis")
    ax.set_title(name, fontsize=10)
    ax.set_xticks([])
    ax.set_yticks([])
_ = figure.colorbar(image, ax=axes, label="P(wet)", shrink=0.9)

# %% [markdown]
# Belief propagation converges to a dry field and mean field to a wet one, each with confidence, in a few
# milliseconds. The exact answer is that both are about as likely: each method found one of two modes and
# missed the other one. Importance sampling from a spanning tree is too far from the model and misses a mode
# too. Only `wmb-is` agrees with elimination.
#
# The guarantee said so from the start: it is *heuristic* for everything but elimination. A heuristic answer
# need not be wrong, so the question is how to check one without the exact result.

# %% [markdown]
# ## Bounds on log Z over time
#
# `anytime-bounds` computes certified bounds on $\log Z$: mean field from below, tree-reweighted messages from
# above, then mini-buckets with growing tables from both sides. We take 30 × 30 plots, give it little memory
# and a few seconds, and compare the bounds with the estimate of belief propagation. The bounds hold at every
# moment.

# %%
large_side = 12 if small else 30
large = field(large_side)
bounds = large.log_partition(method="anytime-bounds", gap=0.1, time="30s" if small else "8s", memory="200MiB")
bounds

# %%
bethe = large.log_partition(method="bp")
ax = bounds.plot()
ax.axhline(bethe.value, color=CATEGORIES[1], linestyle="--", label="bp, without a guarantee")
_ = ax.legend()

# %%
assert bethe.value < bounds.guarantee.low
print(f"bp: log Z = {bethe.value:.2f}; certified: log Z ≥ {bounds.guarantee.low:.2f}")

# %% [markdown]
# The estimate of belief propagation lies *below* the certified lower bound, which is there after a fraction
# of a second. So it is not merely uncertain: it is refuted. For $\log Z$ this test costs one line of code.
#
# ## Bounds on a marginal
#
# A marginal is a ratio of partition functions. With $Z_s$ the partition function of the model in which plot
# $i$ has state $s$,
#
# $$P(x_i = \text{wet}) = \frac{Z_\text{wet}}{Z_\text{wet} + Z_\text{dry}}
#   = \frac{1}{1 + \exp(\log Z_\text{dry} - \log Z_\text{wet})},$$
#
# so bounds on $\log Z_\text{wet}$ and $\log Z_\text{dry}$ give bounds on the marginal, with the same
# guarantee. We compute them by weighted mini-buckets, whose tables have up to `i_bound` + 1 variables: the
# larger, the tighter.


# %%
def interval(graph, plot, **how):
    """Bounds on P(plot is wet) from bounds on log Z given that it is wet and given that it is dry."""
    wet, dry = (graph.log_partition(given={plot: state}, **how).guarantee for state in ("wet", "dry"))
    return 1 / (1 + math.exp(dry.high - wet.low)), 1 / (1 + math.exp(dry.low - wet.high))


def middle(side):
    """The name of the plot in the middle."""
    return f"plot {side // 2},{side // 2}"


plot = middle(side)
sizes = [2, 4, 6, 8] if small else [2, 4, 6, 8, 10]
intervals = {i: interval(model, plot, method="wmb", i_bound=i) for i in sizes}
index = model.names.index(plot)
truth = wet["elimination"][index]
assert all(low <= truth <= high for low, high in intervals.values())
pd.DataFrame(intervals, index=["low", "high"]).T.rename_axis("i_bound").round(4)

# %%
figure, axes = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
lows, highs = np.array(list(intervals.values())).T
axes.vlines(sizes, lows, highs, color=CATEGORIES[0], linewidth=6, label="certified interval")
styles = {
    "elimination": (CATEGORIES[6], "-"),
    "bp": (CATEGORIES[1], "--"),
    "mean-field": (CATEGORIES[2], ":"),
}
for name, (colour, style) in styles.items():
    axes.axhline(wet[name][index], color=colour, linestyle=style, linewidth=1.5, label=name)
axes.set_xticks(sizes)
axes.set_xlabel("i_bound of the mini-buckets")
axes.set_ylabel(f"P({plot} is wet)")
axes.set_ylim(0, 1)
_ = axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)

# %%
low, high = intervals[sizes[-1]]
assert not low <= wet["bp"][index] <= high
assert not low <= wet["mean-field"][index] <= high

# %% [markdown]
# Small tables certify nothing, because an error of one nat in $\log Z$ is a factor of $e$ in the odds. With
# larger tables the interval closes around the exact value, and on the way it excludes both `bp` and
# `mean-field`.
#
# ## Too large to certify
#
# On 20 × 20 plots, tables that fit into little memory leave a certified gap of several nats, too wide for a
# marginal. The next best guarantee is a confidence interval: `wmb-is` samples from the mini-bucket bound, no
# weight can exceed that bound, and its interval holds with the stated probability for every model. Two
# intervals of 97.5% give 95% for the marginal.

# %%
other_side = 12 if small else 20
other, other_plot = field(other_side), middle(other_side)
how = {
    "method": "wmb-is",
    "confidence": 0.975,
    "i_bound": 6 if small else 10,
    "samples": 8192 if small else 16384,
}
low, high = interval(other, other_plot, **how, seed=1)
message = other.marginals([other_plot], method="bp").value[0][1]
print(
    f"wmb-is: P({other_plot} is wet) between {low:.3f} and {high:.3f} with 95% confidence; bp: {message:.3f}"
)
assert not low <= message <= high

# %% [markdown]
# ## Whom to trust
#
# 1. If `method="auto"` says *exact*, use it; the forecast decides, not the size of the graph.
# 2. Otherwise take an estimate (`wmb-is` first) and look for evidence against it. A value of $\log Z$ outside
#    certified bounds is refuted, and so is everything computed from the same beliefs.
# 3. For a marginal that matters, bound $\log Z$ given each of its states. An estimate outside the interval is
#    wrong.
# 4. Convergence of message passing, agreement of replicates and many digits are not evidence. Disagreement of
#    two heuristics, as of `bp` and `mean-field` here, is.
#
# ## Read on
#
# - [Bounds](../../docs/bounds.md): how the bounds are computed, and all options
# - [Guarantees](../../docs/guarantees.md): the four kinds
# - [Choosing a method](../../docs/methods.md)
