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
# # Can I keep my pgmpy network?
#
# A Bayesian network that was built with pgmpy becomes a model of zhat with one call, and goes back with
# another. In between, zhat computes all marginals in one pass, takes uncertain evidence, and learns the
# tables from rows with missing values.
#
# You will learn how to
#
# - convert a network both ways with `zhat.from_pgmpy` and `to_pgmpy` (`from_pyagrum` works the same way);
# - give states, sets of states and likelihoods as evidence;
# - estimate the tables from incomplete rows by expectation-maximisation, and see what it costs to drop them.
#
# Set the environment variable `ZHAT_EXAMPLES=small` for a quicker run.

# %%
import os
import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from pgmpy.factors.discrete import TabularCPD
from pgmpy.models import DiscreteBayesianNetwork

import zhat
from zhat.palette import CATEGORIES

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # pgmpy imports its own deprecated modules
    from pgmpy.inference import VariableElimination

plt.rcParams["axes.prop_cycle"] = plt.cycler(color=CATEGORIES)
small = os.environ.get("ZHAT_EXAMPLES") == "small"

# %% [markdown]
# ## A network of pgmpy
#
# The lawn is wet because of the sky or because of the hose, and somebody who sees a wet lawn leaves the hose
# in the shed.

# %%
states = {
    "sky": ["clear", "grey", "dark"],
    "hose": ["off", "on"],
    "lawn": ["dry", "wet"],
    "shed": ["no", "yes"],
}
garden = DiscreteBayesianNetwork([("sky", "lawn"), ("hose", "lawn"), ("lawn", "shed")])
garden.add_cpds(
    TabularCPD("sky", 3, [[0.5], [0.3], [0.2]], state_names={"sky": states["sky"]}),
    TabularCPD("hose", 2, [[0.7], [0.3]], state_names={"hose": states["hose"]}),
    TabularCPD(
        "lawn",
        2,
        [[0.95, 0.2, 0.7, 0.1, 0.1, 0.02], [0.05, 0.8, 0.3, 0.9, 0.9, 0.98]],
        ["sky", "hose"],
        [3, 2],
        state_names={name: states[name] for name in ("lawn", "sky", "hose")},
    ),
    TabularCPD(
        "shed",
        2,
        [[0.8, 0.15], [0.2, 0.85]],
        ["lawn"],
        [2],
        state_names={name: states[name] for name in ("shed", "lawn")},
    ),
)

# %%
graph = zhat.from_pgmpy(garden)
graph

# %% [markdown]
# Names and orders are kept. All marginals come from one pass; pgmpy needs a query per variable.

# %%
seen = {"shed": "yes"}
ours = graph.marginals(given=seen)
print(ours)
eliminate = VariableElimination(garden)
for name in ("sky", "hose", "lawn"):
    theirs = eliminate.query([name], evidence=seen, show_progress=False)
    np.testing.assert_allclose(ours.value.by_name()[name], theirs.values, atol=1e-12)

# %% [markdown]
# ## Evidence that is not certain
#
# From indoors we only see that the sky is not clear: a set of states. The neighbour, who is right four times
# out of five, says that the hose was on: one likelihood per state.

# %%
evidence = {"sky": {"grey", "dark"}, "hose": [0.2, 0.8]}
print(graph.marginals(["sky", "hose", "lawn"], given=evidence).value)

# %% [markdown]
# A likelihood is one more factor, so the same numbers follow from Bayes' rule by hand:

# %%
prior = np.array([0.7, 0.3])
posterior = prior * evidence["hose"]
np.testing.assert_allclose(
    graph.marginals(["hose"], given={"hose": evidence["hose"]}).value[0], posterior / posterior.sum()
)

# %% [markdown]
# ## Tables from rows with gaps
#
# We draw rows from the network and hide values of `hose`: nobody writes it down when the lawn is wet, and
# often not otherwise. Whether a value is missing depends on values that are present, so the values are
# *missing at random*, and maximum likelihood is right. Dropping the incomplete rows is not.

# %%
count = 2_000 if small else 20_000
rows = graph.sample(count, seed=1).value.states
table = pd.DataFrame({name: np.array(states[name])[rows[:, v]] for v, name in enumerate(graph.names)})
chance = np.random.default_rng(2).random(count)
table.loc[chance < np.where(table.lawn == "wet", 0.9, 0.3), "hose"] = None
table.head()

# %%
parents = {"lawn": ["sky", "hose"], "shed": ["lawn"]}
dropped = zhat.fit(table, parents)
filled = zhat.fit(table, parents, missing="em")
filled

# %% [markdown]
# The objective is minus the log-likelihood per row. It never rises:

# %%
assert (np.diff(filled.history) <= 0).all()
figure, axes = plt.subplots(figsize=(6.4, 3.0), layout="constrained")
axes.semilogy(filled.history[:-1] - filled.history[-1], ".-")
axes.set_xlabel("iteration of EM")
_ = axes.set_ylabel("above the minimum (nats per row)")

# %% [markdown]
# With the fitted tables, how often is the hose on?

# %%
answers = {
    name: model.marginals(["hose", "lawn"]).value.by_name()
    for name, model in (("true", graph), ("rows dropped", dropped.model), ("EM", filled.model))
}
on = pd.DataFrame(
    {
        "P(hose on)": {name: own["hose"][1] for name, own in answers.items()},
        "P(lawn wet)": {name: own["lawn"][1] for name, own in answers.items()},
    }
)
on.round(3)

# %%
error = (on - on.loc["true"]).abs().drop(index="true")
assert (error.loc["EM"] < error.loc["rows dropped"]).all()
assert (error.loc["EM"] < 0.1).all()

# %% [markdown]
# ## And back
#
# The fitted network is a network of pgmpy again.

# %%
learned = filled.model.to_pgmpy()
assert learned.check_model()
print(learned.get_cpds("lawn"))

# %% [markdown]
# ## Read on
#
# - [Coming from another library](../../docs/howto/coming-from.md): pgmpy, pyAgrum, networkx and others
# - [Evidence](../../docs/howto/evidence.md): states, sets and likelihoods for every kind of model
# - [Models from tables](../../docs/learning.md#bayesian-networks): priors, latent variables, EM
