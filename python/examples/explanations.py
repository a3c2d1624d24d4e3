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
# # Can I keep my pyAgrum network?
#
# A Bayesian network of pyAgrum becomes a model of zhat with one call, and goes back with another. This
# notebook does the work of `LazyPropagation` with it (marginals, the probability of evidence, soft evidence,
# the most probable explanation) and adds the k best explanations and exact samples given evidence.
#
# You will learn how to
#
# - convert a network both ways with `zhat.from_pyagrum` and `to_pyagrum`;
# - translate the calls of an inference engine;
# - rank explanations, and draw samples that agree with the evidence.
#
# Set the environment variable `ZHAT_EXAMPLES=small` for a quicker run.

# %%
import os
import warnings

import matplotlib.pyplot as plt
import numpy as np

import zhat
from zhat.palette import CATEGORIES

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its compiled module warns about itself
    import pyagrum

plt.rcParams["axes.prop_cycle"] = plt.cycler(color=CATEGORIES)
small = os.environ.get("ZHAT_EXAMPLES") == "small"

# %% [markdown]
# ## A network of pyAgrum
#
# Will the train be late? Snow and a strike delay it, and both show in the board and in the crowd.

# %%
network = pyagrum.fastBN(
    "snow{no|yes}->delay{none|short|long}<-strike{no|yes};delay->board{on time|late};delay->crowd{thin|thick}"
)
tables = {
    "snow": {"": [0.9, 0.1]},
    "strike": {"": [0.97, 0.03]},
    "board": {"none": [0.98, 0.02], "short": [0.6, 0.4], "long": [0.1, 0.9]},
    "crowd": {"none": [0.8, 0.2], "short": [0.5, 0.5], "long": [0.1, 0.9]},
}
for name in ("snow", "strike"):
    network.cpt(name).fillWith(tables[name][""])
for name in ("board", "crowd"):
    for delay, row in tables[name].items():
        network.cpt(name)[{"delay": delay}] = row
for snow, strike, row in (
    ("no", "no", [0.85, 0.12, 0.03]),
    ("yes", "no", [0.4, 0.4, 0.2]),
    ("no", "yes", [0.1, 0.3, 0.6]),
    ("yes", "yes", [0.02, 0.18, 0.8]),
):
    network.cpt("delay")[{"snow": snow, "strike": strike}] = row

# %%
graph = zhat.from_pyagrum(network)
graph

# %% [markdown]
# ## Marginals given evidence
#
# An engine of pyAgrum, and the same question here. Names of variables and states are kept.

# %%
seen = {"board": "late", "crowd": "thick"}
engine = pyagrum.LazyPropagation(network)
engine.setEvidence(seen)
engine.makeInference()
ours = graph.marginals(given=seen)
print(ours)
for name in graph.names:
    np.testing.assert_allclose(ours.value.by_name()[name], engine.posterior(name).toarray(), atol=1e-9)

# %% [markdown]
# The probability of the evidence is a ratio of two partition functions; that of a Bayesian network without
# evidence is 1.

# %%
log_p = graph.log_partition(given=seen).value - graph.log_partition().value
np.testing.assert_allclose(np.exp(log_p), engine.evidenceProbability(), rtol=1e-9)
print(f"P(board is late, crowd is thick) = {np.exp(log_p):.4f}")

# %% [markdown]
# ## Evidence that is not certain
#
# The forecast says snow, and is right four times out of five: one likelihood per state, as in pyAgrum. A set
# of states is evidence too.

# %%
forecast = {"snow": [0.2, 0.8], "board": "late"}
engine = pyagrum.LazyPropagation(network)
engine.setEvidence(forecast)
engine.makeInference()
uncertain = graph.marginals(given=forecast).value.by_name()
np.testing.assert_allclose(uncertain["delay"], engine.posterior("delay").toarray(), atol=1e-9)
print(graph.marginals(["snow", "strike"], given={"delay": {"short", "long"}}).value)

# %% [markdown]
# ## Explanations, ranked
#
# `map` is the most probable explanation, and `k_best` has the next ones as well. The probabilities of all of
# them add up to 1.

# %%
unseen = [name for name in graph.names if name not in seen]
ranked = graph.k_best(12, given=seen).value
weights = np.exp(np.array([best.score for best in ranked]) - graph.log_partition(given=seen).value)
labels = [", ".join(f"{name}: {best.by_name()[name]}" for name in unseen) for best in ranked]
np.testing.assert_allclose(weights.sum(), 1.0)
assert ranked[0].by_name() == graph.map(given=seen).value.by_name()

# %%
figure, axes = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
axes.barh(labels[:6][::-1], weights[:6][::-1])
_ = axes.set_xlabel("probability given the evidence")

# %% [markdown]
# ## Samples that agree with the evidence
#
# Samples are exact and none is rejected, however improbable the evidence is. Their frequencies are within six
# standard deviations of the marginals.

# %%
count = 2_000 if small else 50_000
drawn = graph.sample(count, given=seen, seed=1).value.states
delay = list(graph.names).index("delay")
frequencies = np.bincount(drawn[:, delay], minlength=3) / count
exact = ours.value.by_name()["delay"]
assert (np.abs(frequencies - exact) <= 6 * np.sqrt(exact * (1 - exact) / count)).all()
print("delay", dict(zip(graph.state_names[delay], frequencies.round(3).tolist(), strict=True)))

# %% [markdown]
# ## And back
#
# The network is one of pyAgrum again.

# %%
back = graph.to_pyagrum()
assert sorted(back.names()) == sorted(network.names())
np.testing.assert_allclose(back.cpt("crowd").toarray(), network.cpt("crowd").toarray())
assert graph.condition(seen).evidence.keys() == {list(graph.names).index(name) for name in seen}

# %% [markdown]
# ## Read on
#
# - [Coming from another library](../../docs/howto/coming-from.md#pyagrum): a table of calls, and what differs
# - [Evidence](../../docs/howto/evidence.md): states, sets and likelihoods for every kind of model
# - [Factor graphs](../../docs/factor-graphs.md): networks that are too large for exact inference
