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
# # Has my Gibbs sampler converged?
#
# Gibbs sampling is easy to run on any discrete model, and hard to trust: it returns probabilities whether its
# chains have converged or not. This notebook runs it on two models of the same size, one that it handles well
# and one that it does not, and compares the diagnostics with the true errors.
#
# You will learn how to
#
# - run the method `gibbs` and read its two diagnostics, the largest split-R̂ and the smallest effective sample
#   size;
# - see what they detect, and why a good value proves nothing;
# - check a heuristic answer with certified bounds.
#
# Set the environment variable `ZHAT_EXAMPLES=small` for a quicker run.

# %%
import os
import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import zhat
from zhat.palette import CATEGORIES

plt.rcParams["axes.prop_cycle"] = plt.cycler(color=CATEGORIES)
small = os.environ.get("ZHAT_EXAMPLES") == "small"

# %% [markdown]
# ## Two models
#
# Both are square grids of ±1 variables that tend to agree with their neighbours and have small random
# preferences. In the second, agreement is strong: nearly all variables are equal, and to get from "nearly all
# +1" to "nearly all −1" a chain must pass through states of tiny probability.

# %%
side = 8 if small else 12
models = {
    "weak": zhat.generate.ising(side, side, coupling=0.2, field=0.2, uniform=True, seed=1),
    "strong": zhat.generate.ising(side, side, coupling=0.7, field=0.05, uniform=True, seed=1),
}
exact = {name: model.marginals().value.flat[1::2] for name, model in models.items()}

# %% [markdown]
# ## Two runs
#
# Four chains of 1000 kept states each, after 1000 sweeps that are discarded. If the chains have not
# converged, there is a `RuntimeWarning`. This notebook reads it from the diagnostics instead.

# %%
warnings.simplefilter("ignore", RuntimeWarning)
answers = {name: model.marginals(method="gibbs", seed=3) for name, model in models.items()}
for name, answer in answers.items():
    print(f"{name}: {answer.guarantee}")

# %%
found = pd.DataFrame(
    {
        "largest R-hat": {name: answer.diagnostics["r_hat"] for name, answer in answers.items()},
        "smallest sample size": {
            name: answer.diagnostics["effective_sample_size"] for name, answer in answers.items()
        },
        "largest error": {
            name: np.abs(answer.value.flat[1::2] - exact[name]).max() for name, answer in answers.items()
        },
    }
)
found.round(3)

# %% [markdown]
# The guarantee of both is *heuristic*. The chains of the strong model disagree, so R̂ is far above 1.01, and
# there is a warning:

# %%
print(answers["strong"].diagnostics["warning"])
assert found["largest error"]["weak"] < 0.1
assert found["largest R-hat"]["strong"] > 1.01
assert all(answer.guarantee.kind == "heuristic" for answer in answers.values())

# %%
figure, axes = plt.subplots(figsize=(4.4, 4.0), layout="constrained")
axes.plot([0, 1], [0, 1], color="0.8", zorder=0)
for name, marker in zip(models, "ox", strict=True):
    axes.plot(exact[name], answers[name].value.flat[1::2], marker, label=name)
axes.set_xlabel("exact probability")
axes.set_ylabel("Gibbs sampling")
_ = axes.legend()

# %% [markdown]
# ## More samples help, if the chains mix
#
# The error of a chain that mixes falls with the square root of the number of samples. The other one stays
# where its chains started.

# %%
sizes = [400, 1600, 6400] if small else [400, 1600, 6400, 25600]
errors = {
    name: [
        np.abs(model.marginals(method="gibbs", samples=size, seed=4).value.flat[1::2] - exact[name]).max()
        for size in sizes
    ]
    for name, model in models.items()
}
figure, axes = plt.subplots(figsize=(6.4, 3.0), layout="constrained")
for name, marker in zip(models, "ox", strict=True):
    axes.loglog(sizes, errors[name], f"{marker}-", label=name)
axes.set_xlabel("samples")
axes.set_ylabel("largest error")
_ = axes.legend()

# %%
assert errors["weak"][-1] < errors["weak"][0]

# %% [markdown]
# ## What the diagnostics cannot see
#
# R̂ compares chains with each other. If all of them start in the same part of the states and none leaves it,
# they agree, and R̂ is near 1. Here the first two variables must be equal, so no step that changes one
# variable leads from one half of the states to the other.

# %%
equal = np.where(np.eye(2) > 0, 0.0, -np.inf)
trapped = zhat.FactorGraph([2, 2, 2], [((0, 1), equal), ((1, 2), [[1.0, 0.0], [0.0, 1.0]])])
exact_half = trapped.marginals().value[0]
runs = [trapped.marginals(method="gibbs", samples=400, chains=2, seed=seed) for seed in range(8)]
pd.DataFrame(
    {
        "P(first = 1)": [answer.value[0][1] for answer in runs],
        "largest R-hat": [answer.diagnostics["r_hat"] for answer in runs],
    }
).round(3)

# %% [markdown]
# The exact probability is one half. No run finds it unless its chains happen to start in different halves,
# and then R̂ is infinite.

# %%
np.testing.assert_allclose(exact_half, 0.5)
assert all(answer.value[0][1] in (0.0, 0.5, 1.0) for answer in runs)

# %% [markdown]
# ## Ask for a guarantee instead
#
# Certified bounds on log Z are never wrong. For many models an exact method fits as well, and `auto` chooses
# it: Gibbs sampling is for what is left over.

# %%
print(models["strong"].log_partition(method="bounds", time="1s"))
print(models["strong"].marginals().guarantee)

# %% [markdown]
# ## Read on
#
# - [Methods](../../docs/methods.md#gibbs-sampling): the options of `gibbs` and its diagnostics
# - [Is the marginal of my loopy graph right?](loopy_marginals.py): certified intervals for marginals
