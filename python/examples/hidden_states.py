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
# # Can I keep my hmmlearn model?
#
# A model that hmmlearn has trained becomes an `Hmm` of zhat with one call, and goes back with another. The
# methods have the same names, so the rest of the code stays. New are queries of the paths: the probability of
# an event, the k best paths, exact samples of the states given the data, and rows with missing values.
#
# You will learn how to
#
# - convert a model both ways with `zhat.from_hmmlearn` and `to_hmmlearn`;
# - continue training where hmmlearn stopped;
# - ask for more than the best path.
#
# Set the environment variable `ZHAT_EXAMPLES=small` for a quicker run.

# %%
import os

import matplotlib.pyplot as plt
import numpy as np
from hmmlearn.hmm import GaussianHMM

import zhat
from zhat.palette import CATEGORIES

plt.rcParams["axes.prop_cycle"] = plt.cycler(color=CATEGORIES)
small = os.environ.get("ZHAT_EXAMPLES") == "small"

# %% [markdown]
# ## A model of hmmlearn
#
# A pump is idle, runs, or runs hot. It is seen through its temperature and its current, day by day.

# %%
true = GaussianHMM(3, "diag")
true.startprob_ = np.array([0.8, 0.2, 0.0])
true.transmat_ = np.array([[0.9, 0.1, 0.0], [0.05, 0.85, 0.1], [0.1, 0.1, 0.8]])
true.means_ = np.array([[20.0, 0.2], [45.0, 3.0], [60.0, 3.4]])
true.covars_ = np.array([[9.0, 0.01], [25.0, 0.2], [25.0, 0.3]])
true.n_features = 2
lengths = [96] * (4 if small else 30)
days = [true.sample(length, random_state=day) for day, length in enumerate(lengths)]
rows, states = (np.concatenate(parts) for parts in zip(*days, strict=True))

# %%
fitted = GaussianHMM(3, "diag", n_iter=5, tol=0.0, random_state=3).fit(rows, lengths)
model = zhat.from_hmmlearn(fitted)
model

# %% [markdown]
# The same model gives the same answers:

# %%
np.testing.assert_allclose(model.score(rows, lengths), fitted.score(rows, lengths), rtol=1e-9)
np.testing.assert_allclose(model.predict_proba(rows, lengths), fitted.predict_proba(rows, lengths), atol=1e-9)
assert (model.predict(rows, lengths) == fitted.predict(rows, lengths)).mean() > 0.999

# %% [markdown]
# ## Train further
#
# With `warm_start`, `fit` starts from the current parameters. The objective never falls.

# %%
before = model.score(rows, lengths)
model.set_params(warm_start=True, max_iter=500).fit(rows, lengths)
objectives = [step.objective for step in model.history_]
assert model.converged_
assert (np.diff(objectives) >= -1e-6).all()
assert model.score(rows, lengths) >= before

# %%
figure, axes = plt.subplots(figsize=(6.4, 3.0), layout="constrained")
axes.plot(objectives, ".-")
axes.set_xlabel("step of EM after hmmlearn")
_ = axes.set_ylabel("log-likelihood (nats)")

# %% [markdown]
# ## Queries of the paths
#
# `model.chain(X)` is the chain of the hidden states given one day. When does the pump run hot?

# %%
hot = int(np.argmax(model.means_[:, 0]))
day = rows[: lengths[0]]
chain = model.chain(day)
probability = chain.marginals().value[:, hot]
figure, axes = plt.subplots(figsize=(6.4, 3.0), layout="constrained")
axes.plot(probability)
axes.set_xlabel("time (quarters of an hour)")
_ = axes.set_ylabel("P(hot | the day)")

# %% [markdown]
# Does it run hot after three o'clock, step 60? The probability that it does not is a ratio of two sums: over
# the paths without the state, and over all paths. Evidence says which paths are meant. The marginals alone do
# not give this number, because neighbouring steps depend on each other.

# %%
others = set(range(3)) - {hot}
without = chain.log_partition(given=dict.fromkeys(range(60, len(day)), others)).value
print(f"P(not hot after three | the day) = {np.exp(without - chain.log_partition().value):.3f}")

# %% [markdown]
# The k best paths and their probabilities, and exact samples of the path given the day:

# %%
ranked = chain.k_best(3).value
np.testing.assert_allclose(ranked[0].score, model.decode(day)[0], rtol=1e-9)
for path in ranked:
    print(
        f"{np.exp(path.score - chain.log_partition().value):.4f}",
        int((path.states == hot).sum()),
        "steps hot",
    )
samples = chain.sample(2_000, seed=1).value.states
# The mean of 2,000 samples is within six standard deviations of the exact expectation.
steps = (samples == hot).sum(axis=1)
assert abs(steps.mean() - probability.sum()) <= 6 * steps.std() / np.sqrt(len(steps)) + 1e-9

# %% [markdown]
# ## Rows with missing values
#
# The sensor of the current fails for two hours. hmmlearn refuses such rows; here the model sums over what is
# missing.

# %%
gap = day.copy()
gap[40:48, 1] = np.nan
try:
    fitted.predict_proba(gap)
except ValueError as error:
    print("hmmlearn:", str(error).splitlines()[0])
again = zhat.from_hmmlearn(fitted).set_params(missing=True)
with_gap = again.predict_proba(gap)
np.testing.assert_allclose(with_gap.sum(axis=1), 1.0)

# %% [markdown]
# ## And back
#
# The model is one of hmmlearn again, with the parameters that zhat found.

# %%
back = model.to_hmmlearn()
np.testing.assert_allclose(back.score(rows, lengths), model.score(rows, lengths), rtol=1e-9)
print(back.means_.round(1))

# %% [markdown]
# ## Read on
#
# - [Coming from another library](../../docs/howto/coming-from.md#hmmlearn): calls, and what differs
# - [Hidden Markov models](../../docs/hmm.md): other emissions, durations, priors, numbers of states
# - [Chains](../../docs/chains.md): all queries of the chain of states
