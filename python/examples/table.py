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
# # Does my model of a table fit, and what can I ask it?
#
# A table of 400 patients has seven columns of categories and a few gaps. We fit Markov random fields to it,
# choose between structures by held-out rows, check the model against the data, and then use it: fill in the
# gaps and answer questions of the form "how likely is an infection, given fever in winter?".
#
# You will learn how to
#
# - compare structures by the log-likelihood of rows that the fit has not seen;
# - check a model by samples: do pairs of columns in samples look like those in the data?
# - impute missing values, and measure how often that is right;
# - query the model with evidence and put the result into a pandas frame.
#
# Set the environment variable `ZHAT_EXAMPLES=small` for a quicker run.

# %%
import os
from itertools import combinations, product
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import zhat
from zhat.palette import CATEGORIES

plt.rcParams["axes.prop_cycle"] = plt.cycler(color=CATEGORIES)
small = os.environ.get("ZHAT_EXAMPLES") == "small"
here = Path.cwd()
data = next(f / "docs/examples" for f in (here, *here.parents) if (f / "docs/examples/patients.csv").exists())

patients = pd.read_csv(data / "patients.csv", na_values="?", dtype=str)
patients.head()

# %% [markdown]
# ## Fit
#
# `zhat.fit` takes the frame as it is. Rows with missing values are left out and counted; the default
# structure is the Chow–Liu tree, the spanning tree of maximum likelihood.

# %%
fitted = zhat.fit(patients)
fitted

# %% [markdown]
# With seven columns the likelihood is exact: $\log Z$ is computed by elimination in every iteration. The
# picture shows the pairs of the tree.

# %%
_ = fitted.model.plot()

# %%
names = fitted.model.names
pairs = [(names[scope[0]], names[scope[1]]) for scope, _ in fitted.model.factors if len(scope) == 2]
pd.DataFrame(pairs, columns=["column", "interacts with"])

# %% [markdown]
# ## Which structure? Ask held-out rows
#
# More pairs always raise the log-likelihood of the training rows. Whether they help is decided by rows that
# the fit has not seen. We compare by cross-validation with ten folds. Each fold is scored by the model of the
# other nine.

# %%
complete = patients.dropna().reset_index(drop=True)
folds = np.random.default_rng(0).permutation(len(complete)) % (3 if small else 10)
structures = {
    "independent": {"structure": "independent"},
    "tree": {"structure": "chow-liu"},
    "tree + 2 pairs": {"structure": "chow-liu+2"},
    "tree + 5 pairs": {"structure": "chow-liu+5"},
    "all pairs, L1 0.01": {"structure": "complete", "l1": 0.01},
    "all pairs": {"structure": "complete"},
}
seen, unseen = {}, {}
for name, options in structures.items():
    training, held_out = [], []
    for fold in range(folds.max() + 1):
        fit = zhat.fit(complete[folds != fold], **options)
        training.append(fit.log_likelihood.value)
        rows, _ = zhat.score(fit.model, complete[folds == fold])
        held_out.append(rows)
    seen[name], unseen[name] = np.mean(training), np.concatenate(held_out)

scores = pd.DataFrame(
    {
        "training": seen,
        "held out": {name: rows.mean() for name, rows in unseen.items()},
        "standard error": {name: rows.std(ddof=1) / np.sqrt(len(rows)) for name, rows in unseen.items()},
    }
)
scores.round(3)

# %% [markdown]
# The standard error of a score is large, because some patients are simply rarer than others. All structures
# are scored on the same rows, so the *difference* to the tree is known much better:

# %%
differences = pd.DataFrame({name: rows - unseen["tree"] for name, rows in unseen.items()})
gain, error = differences.mean(), differences.std() / np.sqrt(len(differences))
figure, axes = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
axes.errorbar(gain, range(len(gain)), xerr=2 * error, fmt="o", capsize=3)
axes.axvline(0, color="0.6", linewidth=1, zorder=0)
axes.set_yticks(range(len(gain)), gain.index)
axes.invert_yaxis()
_ = axes.set_xlabel("gain over the tree per held-out row (nats, ± 2 standard errors)")

# %%
assert gain["independent"] + 2 * error["independent"] < 0  # the columns do depend on each other
top = gain.idxmax()
print(f"best on held-out rows: {top}, by {gain[top]:.3f} ± {2 * error[top]:.3f} nats over the tree")

# %% [markdown]
# The columns clearly depend on each other. Beyond the tree, no structure is significantly better, although
# more pairs always fit the training rows better. We keep the tree: it has the fewest parameters.

# %% [markdown]
# ## Check the model by its samples
#
# A model that fits must reproduce the statistics of the table. Samples are exact (`law` is `exact`), so any
# difference beyond sampling noise is the model's. We compare the joint frequency of all pairs of states of
# all pairs of columns, also of those pairs that the tree does not connect.

# %%
model = fitted.model
drawn = model.sample(2_000 if small else 20_000, seed=1)
samples = drawn.to_pandas()
samples.head()


# %%
def joint(frame, a, b):
    """The frequency of every pair of states of two columns."""
    return pd.crosstab(frame[a], frame[b], normalize=True).stack()


connected = {frozenset(pair) for pair in pairs}
compared = pd.concat(
    [
        pd.DataFrame({"data": joint(complete, a, b), "samples": joint(samples, a, b)})
        .reset_index(drop=True)
        .fillna(0.0)
        .assign(columns=f"{a}, {b}", connected=frozenset((a, b)) in connected)
        for a, b in combinations(complete.columns, 2)
    ],
    ignore_index=True,
)
figure, axes = plt.subplots(figsize=(4.6, 4.2), layout="constrained")
for kind, marker in ((True, "o"), (False, "x")):
    own = compared[compared.connected == kind]
    axes.plot(
        own.data, own.samples, marker, markersize=4, label="pairs of the tree" if kind else "other pairs"
    )
axes.axline((0, 0), slope=1, color="0.6", linewidth=1, zorder=0)
axes.set_xlabel("frequency in the data")
axes.set_ylabel("frequency in the samples")
_ = axes.legend()

# %% [markdown]
# The tree reproduces its own pairs up to the small penalty of the fit and sampling noise. The largest
# deviations among the other pairs show what the tree leaves out. With 383 rows, a frequency of $p$ has a
# standard error of $\sqrt{p(1-p)/383}$, about 0.025 at $p = 1/2$, so we divide by it:

# %%
noise = np.sqrt(compared.data.clip(0.005) * (1 - compared.data) / len(complete))
compared["z"] = (compared.samples - compared.data) / noise
largest = compared.assign(z=compared.z.abs()).groupby(["columns", "connected"]).z.max()
largest.sort_values(ascending=False).head(6).round(2).to_frame()

# %% [markdown]
# One pair stands out a little, cough and visit. Among more than a hundred frequencies, one or two beyond two
# standard errors are expected even if the model is right, which agrees with the held-out scores: the tree is
# good enough for these data.

# %% [markdown]
# ## Impute
#
# `zhat.impute` replaces every gap by the most probable value given the rest of the row, and returns a frame.

# %%
new = pd.read_csv(data / "new-patients.csv", na_values="?", dtype=str)
new

# %%
zhat.impute(model, new)

# %% [markdown]
# How good is this? For every row we hide one value and fill it in by a model that was fitted without the
# row's fold, and compare with always guessing the most frequent value of the column.

# %%
right = {column: {"imputed": 0, "most frequent value": 0} for column in complete.columns}
for fold in range(folds.max() + 1):
    inside, outside = complete[folds == fold], complete[folds != fold]
    trained = zhat.fit(outside).model
    for column, counts in right.items():
        filled = zhat.impute(trained, inside.assign(**{column: None}))[column]
        counts["imputed"] += (filled == inside[column]).sum()
        counts["most frequent value"] += (inside[column] == outside[column].mode()[0]).sum()
accuracy = pd.DataFrame(right).T / len(complete)
accuracy.rename_axis("share of right values").round(3)

# %% [markdown]
# ## Ask questions
#
# Evidence is a mapping of columns to values. The marginals have names, so a frame of answers is one
# comprehension.

# %%
answer = model.marginals(["infection", "cough", "visit"], given={"fever": "yes", "season": "winter"})
answer

# %%
_ = answer.plot()

# %%
states = dict(zip(names, model.state_names, strict=True))
evidence = ["season", "fever", "cough"]
answers = {
    values: model.marginals(["infection"], given=dict(zip(evidence, values, strict=True))).value[0]
    for values in product(*(states[column] for column in evidence))
}
infection = pd.DataFrame(answers, index=list(states["infection"])).T.rename_axis(evidence)
infection.round(3)

# %% [markdown]
# Compare with the plain frequency in the table. The two agree, also where the table has few rows. The model
# needs no row with this combination at all: it uses every row for each of its pairs.

# %%
plain = complete.groupby(evidence).infection.agg(rows="size", frequency=lambda own: (own == "yes").mean())
plain.join(infection["yes"].rename("model")).sort_values("rows").round(3)

# %% [markdown]
# ## Read on
#
# - [Models from tables](../../docs/learning.md): structures, penalties, missing values, large tables
# - [Guarantees](../../docs/guarantees.md): what *exact* and the other kinds mean
# - [Bounds](../../docs/bounds.md): certified likelihoods for tables with too many columns for exact inference
