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
# # How sure are we of a ranking?
#
# Forty tasters ranked ten teas. We want one consensus order, but also an honest statement of how certain it
# is: the probability that a tea is among the first three, that one tea beats another, or that a whole partial
# order holds.
#
# You will learn how to
#
# - find the consensus order exactly, as the best state of a model of pairwise precedences;
# - fit the spread of a Mallows model $p(y) \propto \exp(-\theta\, d(y, y_0))$ by matching one expectation;
# - read $P(\text{item at position})$, condition on facts, and compute the probability of a partial order;
# - draw *perfect* samples, whose distribution is exactly that of the model, and check this;
# - see where listing all orders stops and exact methods go on.
#
# Set the environment variable `ZHAT_EXAMPLES=small` for a quicker run.

# %%
import math
import os
import time
from itertools import combinations, pairwise

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import zhat
from zhat.palette import CATEGORIES

plt.rcParams["axes.prop_cycle"] = plt.cycler(color=CATEGORIES)
small = os.environ.get("ZHAT_EXAMPLES") == "small"
rng = np.random.default_rng(7)

# %% [markdown]
# ## The data
#
# The rankings are drawn from a Mallows model with a hidden order and spread $\theta = 0.6$, so that we can
# compare the results with the truth. A structure of the space of permutations lists the item at each
# position.

# %%
teas = [
    "Assam",
    "Ceylon",
    "Darjeeling",
    "Earl Grey",
    "Genmaicha",
    "Jasmine",
    "Lapsang",
    "Oolong",
    "Rooibos",
    "Sencha",
]
n = len(teas)
hidden_order = rng.permutation(n)
hidden = zhat.SpaceModel.permutations(kendall=hidden_order, spread=0.6)
votes = hidden.sample(40, seed=1).value.states
pd.DataFrame([[teas[i] for i in vote] for vote in votes[:5]], columns=[f"place {p + 1}" for p in range(n)])

# %% [markdown]
# ## The consensus order
#
# Kendall's distance counts the pairs that two orders put differently. The order with the smallest total
# distance to all votes (the Kemeny order) is the best state of a model whose score adds $v_{ij}$, the number
# of voters who put $i$ before $j$, for every pair with $i$ before $j$. With ten items, zhat finds it exactly.

# %%
place = np.argsort(votes, axis=1)  # place[v, i] is the position of item i in vote v
wins = (place[:, :, None] < place[:, None, :]).sum(axis=0)  # wins[i, j]: voters who put i before j
consensus = zhat.SpaceModel.permutations(precedence=wins.astype(float)).map()
order = consensus.value.state
pd.DataFrame(
    {"consensus": [teas[i] for i in order], "hidden order": [teas[i] for i in hidden_order]},
    index=range(1, n + 1),
)

# %%
consensus.guarantee


# %% [markdown]
# ## The spread
#
# The maximum-likelihood spread $\theta$ makes the expected distance of the model equal to the mean distance
# of the votes. The expected distance is the negative derivative of $\log Z$ with respect to $\theta$, and
# $\log Z$ has a closed form for Kendall's distance; `factor_marginals` returns the derivative. It is monotone
# in $\theta$, so bisection suffices.


# %%
def kendall(order, vote_places):
    """The number of pairs that an order and a vote, given as the places of all items, put differently."""
    return sum(vote_places[i] > vote_places[j] for i, j in combinations(order, 2))


def expected_distance(theta):
    """E[d] under the Mallows model: minus the gradient of log Z with respect to θ."""
    gradient = zhat.SpaceModel.permutations(kendall=order, spread=theta).factor_marginals().value
    return abs(float(gradient[0]))


mean_distance = np.mean([kendall(order, places) for places in place])
low, high = 0.0, 5.0
for _ in range(40):
    theta = (low + high) / 2
    low, high = (theta, high) if expected_distance(theta) > mean_distance else (low, theta)
model = zhat.SpaceModel.permutations(kendall=order, spread=theta)
print(f"mean distance of the votes {mean_distance:.2f}, fitted spread {theta:.3f} (true value 0.6)")
assert abs(theta - 0.6) < 0.15

# %% [markdown]
# ## The probability of every position
#
# `marginals` gives $P(\text{item at position})$ exactly. A row is an item, a column is a position.

# %%
marginals = model.marginals()
figure, axes = plt.subplots(figsize=(6.4, 4.8), layout="constrained")
image = axes.imshow(marginals.value[order], cmap="cividis", vmin=0)
axes.set_yticks(range(n), [teas[i] for i in order])
axes.set_xticks(range(n), range(1, n + 1))
axes.set_xlabel("position")
figure.colorbar(image, label="probability")
_ = axes.set_title("P(tea at position), exact")

# %% [markdown]
# ## Conditions and partial orders
#
# A condition restricts the model to the orders that satisfy it. The probability of a condition is a ratio of
# two partition functions, so its logarithm is the difference of two values of $\log Z$, both exact here.


# %%
def probability(*conditions):
    """P(all conditions hold)."""
    return math.exp(model.restrict(*conditions).log_partition() - model.log_partition())


first, second, third, last = (int(order[p]) for p in (0, 1, 2, n - 1))
queries = {
    f"{teas[first]} before {teas[second]}": [f"before {first} {second}"],
    f"{teas[first]} before {teas[third]}": [f"before {first} {third}"],
    f"{teas[first]} before {teas[last]}": [f"before {first} {last}"],
    f"{teas[first]} first": [f"at {first} 0"],
    f"{teas[first]} before {teas[second]} before {teas[third]}": [
        f"before {first} {second}",
        f"before {second} {third}",
    ],
    f"{teas[last]} not last": [f"not at {last} {n - 1}"],
}
pd.Series(
    {name: probability(*conditions) for name, conditions in queries.items()}, name="probability"
).to_frame().round(4)

# %% [markdown]
# The top two are far from certain: even with forty votes, a new taster reverses them with probability
# $1/(1+e^{\theta})$, because adjacent items of a Mallows model differ by one pair. What is certain is the
# coarse order: the first and the last tea.
#
# A condition also changes everything else. Suppose that a new taster puts the last tea of the consensus
# first:

# %%
given = f"at {last} 0"
surprising = model.restrict(given).marginals().value
pd.DataFrame(
    {
        "in general": marginals.value[order][:, :3].sum(axis=1),
        "given the surprise": surprising[order][:, :3].sum(axis=1),
    },
    index=pd.Index([teas[i] for i in order], name="P(among the first three)"),
).round(3)

# %% [markdown]
# The surprise takes one of the three top places, and the other teas keep their order among themselves.

# %% [markdown]
# ## Perfect samples
#
# Samples of an exact method follow exactly the distribution of the model: `law` is `exact`, there is no
# burn-in, and draws are independent. We check this on the distance to the consensus, whose distribution is
# known in closed form: $P(d = k) = I(n, k)\, e^{-\theta k} / Z$ with the number $I(n, k)$ of permutations
# with $k$ inversions.

# %%
drawn = model.sample(2_000 if small else 20_000, seed=3)
drawn.value.law

# %%
inversions = np.ones(1)
for size in range(2, n + 1):
    inversions = np.convolve(inversions, np.ones(size))
log_p = np.log(inversions) - theta * np.arange(len(inversions)) - model.log_partition().value
expected = np.exp(log_p)
places = np.argsort(drawn.value.states, axis=1)
distances = sum((places[:, i] > places[:, j]).astype(int) for i, j in combinations(order, 2))
observed = np.bincount(distances, minlength=len(expected)) / len(distances)

# A χ² statistic with cells that expect at least ten samples; the last cell holds the rest.
cells = np.flatnonzero(expected * len(distances) >= 10)
counts = np.append(observed[cells], 1 - observed[cells].sum()) * len(distances)
means = np.append(expected[cells], 1 - expected[cells].sum()) * len(distances)
chi2 = float(((counts - means) ** 2 / means).sum())
print(f"χ² = {chi2:.1f} with {len(cells)} degrees of freedom")
assert chi2 < len(cells) + 6 * math.sqrt(2 * len(cells))

# %%
figure, axes = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
axes.bar(range(len(observed)), observed, label=f"{len(distances):,} perfect samples")
axes.plot(range(len(expected)), expected, "o-", color="black", markersize=3, linewidth=1, label="exact")
axes.set_xlim(-1, cells.max() + 5)
axes.set_xlabel("Kendall distance to the consensus")
axes.set_ylabel("probability")
_ = axes.legend()

# %% [markdown]
# ### Perfect samples under any condition
#
# A condition may be a Python function. Then there is no closed form, but rejection still gives perfect
# samples: here, orders in which no two of the three green teas are neighbours.

# %%
green = {teas.index(name) for name in ("Genmaicha", "Jasmine", "Sencha")}


def apart(y):
    """Whether no two green teas are neighbours."""
    return not any(a in green and b in green for a, b in pairwise(y))


menu = model.restrict(apart).sample(3, method="perfect", seed=4)
assert all(apart(list(y)) for y in menu.value.states)
pd.DataFrame([[teas[i] for i in y] for y in menu.value.states], columns=[f"place {p + 1}" for p in range(n)])

# %% [markdown]
# ## Where enumeration stops
#
# There are $n!$ orders. `enumeration` adds up all of them. `oracle` uses sums over sets of items, $2^n n$
# steps, for any scores of precedences or positions, and a closed form for Kendall's distance. zhat forecasts
# memory and time before it runs anything; we run what is forecast to take less than two seconds and take the
# forecast for the rest.

# %%
limit = 0.2 if small else 2.0


def cost(own, method):
    """The seconds that log Z takes, or the forecast if that exceeds the limit; and whether it was run."""
    forecast = own.info()["methods"][method]["log_partition"]
    if forecast["seconds"] > limit:
        return forecast["seconds"], False
    start = time.perf_counter()
    own.log_partition(method=method)
    return time.perf_counter() - start, True


figure, axes = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
curves = {
    "enumeration": ("enumeration", range(4, 15, 2), lambda size: {"precedence": np.zeros((size, size))}),
    "sums over sets": ("oracle", range(4, 27, 2), lambda size: {"precedence": np.zeros((size, size))}),
    "closed form (Kendall)": ("oracle", (4, 8, 16, 32, 64, 128), lambda size: {"kendall": range(size)}),
}
for colour, (name, (method, sizes, scores)) in zip(CATEGORIES, curves.items(), strict=False):
    found = [cost(zhat.SpaceModel.permutations(**scores(size)), method) for size in sizes]
    axes.loglog(sizes, [seconds for seconds, _ in found], color=colour, label=name)
    for size, (seconds, run) in zip(sizes, found, strict=True):
        axes.plot(size, seconds, "o", color=colour, markerfacecolor=colour if run else "white")
axes.axhline(3600, color="0.7", linewidth=1, zorder=0)
axes.annotate("one hour", (128, 3600), ha="right", va="bottom", color="0.4")
axes.set_xticks([4, 8, 16, 32, 64, 128], [4, 8, 16, 32, 64, 128])
axes.set_xlabel("items")
axes.set_ylabel("seconds (hollow: forecast)")
_ = axes.legend()

# %% [markdown]
# ## Read on
#
# - [Combinatorial spaces](../../docs/spaces.md): all spaces, scores and conditions
# - [Guarantees](../../docs/guarantees.md): what *exact* and the other kinds mean
# - [Choosing a method](../../docs/methods.md)
