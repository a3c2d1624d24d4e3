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
# # What does a small language model know about words?
#
# We train a globally normalised language model on 500 short sentences about animals and people, and look at
# what it has learned: how well it predicts new sentences, which words it takes to be alike, and what it
# writes itself.
#
# You will learn how to
#
# - train with early stopping on a validation text, and read the training curve;
# - get a *certified* lower bound on the likelihood of a text, and compare it with what counting words gives;
# - find neighbours of words and project their embeddings onto a plane;
# - sample sentences, and see which rules of the language one word of context can and cannot learn.
#
# Set the environment variable `ZHAT_EXAMPLES=small` for a quicker run.

# %%
import math
import os
from collections import Counter
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import zhat
from zhat._palette import CATEGORIES

plt.rcParams["axes.prop_cycle"] = plt.cycler(color=CATEGORIES)
small = os.environ.get("ZHAT_EXAMPLES") == "small"
here = Path.cwd()
data = next(
    f / "docs/examples" for f in (here, *here.parents) if (f / "docs/examples/animals-train.txt").exists()
)
train, valid, test = (data / f"animals-{name}.txt" for name in ("train", "valid", "test"))
print(*train.read_text().splitlines()[:5], sep="\n")

# %% [markdown]
# ## Train
#
# The model is a Markov random field over a whole text: every word $x_i$ has a score $\theta^0(x_i)$, and
# neighbouring words have a score $\theta^1(x_i, x_{i+1}) = U(x_i) \cdot W(x_{i+1})$, where $U$ and $W$ are
# embeddings of dimension 8. Training maximises a certified lower bound on the likelihood and stops when the
# validation text no longer improves.

# %%
model = zhat.LanguageModel.train(train, valid=valid, context=1, rank=8, iterations=60 if small else 1000)
model

# %%
steps, on_train, on_valid = zip(*model.history, strict=True)
figure, axes = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
axes.plot(steps, on_train, label="training text")
axes.plot(steps, on_valid, label="validation text")
axes.axvline(model.best, color="0.6", linewidth=1, linestyle="--", label="step kept")
axes.set_ylim(max(on_valid) - 1, max(on_train) + 0.1)
axes.set_xlabel("step")
axes.set_ylabel("nats per word, certified")
_ = axes.legend(loc="lower right")
# %% [markdown]
# ## A likelihood with a guarantee
#
# The probability of a text under a globally normalised model contains $\log Z$ of the whole text, which
# nobody can sum directly. `eval` uses an upper bound on $\log Z$, so the likelihood that it reports is a
# certified lower bound: the model is at least this good.

# %%
score = model.eval(test)
score

# %%
score.guarantee

# %% [markdown]
# For comparison, a model of independent words, with add-one smoothing. Like the language model's figure it
# includes the separators at the ends of sentences and is divided by the number of words.


# %%
def tokens(path):
    """The words of a text, with a separator after every sentence."""
    return [word for line in path.read_text().splitlines() for word in (*line.split(), "</s>")]


counts = Counter(tokens(train))
total = sum(counts.values()) + len(counts) + 1
log_p = [math.log((counts[word] + 1) / total) for word in tokens(test)]
independent = sum(log_p) / sum(word != "</s>" for word in tokens(test))
pd.Series(
    {"independent words": independent, "language model (at least)": score.per_word}, name="nats per word"
).to_frame().round(3)

# %%
assert score.per_word > independent

# %% [markdown]
# ## Neighbours
#
# Words are alike if they have similar embeddings, which means: if similar words follow them.

# %%
probes = ["cat", "cats", "sees", "see", "this", "these", "young"]
pd.DataFrame(
    {word: [f"{other} ({cosine:.2f})" for other, cosine in model.neighbours(word, 4)] for word in probes}
).T

# %% [markdown]
# ## A map of the words
#
# The first two principal components of the embeddings, by a singular value decomposition:

# %%
words = [word for word in model.words if not word.startswith("<")]
rows = [model.words.index(word) for word in words]
vectors = model.embeddings[rows].astype(float)
centred = vectors - vectors.mean(axis=0)
_, singular, axes_of_variation = np.linalg.svd(centred, full_matrices=False)
plane = centred @ axes_of_variation[:2].T
share = singular[:2] ** 2 / (singular**2).sum()

figure, axes = plt.subplots(figsize=(8, 6), layout="constrained")
axes.scatter(*plane.T, s=12)
for word, (x, y) in zip(words, plane, strict=True):
    axes.annotate(word, (x, y), xytext=(3, 3), textcoords="offset points", fontsize=9)
axes.set_xlabel(f"first component ({share[0]:.0%} of the variance)")
_ = axes.set_ylabel(f"second component ({share[1]:.0%})")
# %% [markdown]
# ## Samples

# %%
print(*model.sample(8, seed=2), sep="\n")

# %% [markdown]
# ## Read on
#
# - [Language models](../../docs/language-model.md): the model, its bounds, larger texts
# - [Guarantees](../../docs/guarantees.md): what *certified* means
# - [Reproduction](../../docs/reproduction.md): the experiments of the paper
