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
from zhat.palette import CATEGORIES

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
singular, plural = {"a", "this", "every"}, {"many", "some", "these"}
determiners = singular | plural
animals = {"cat", "dog", "bird", "horse", "rabbit", "farmer", "teacher", "doctor"}
nouns = animals | {word + "s" for word in animals}
adjectives = {"big", "black", "hungry", "old", "quiet", "small", "tired", "young"}

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
_, strengths, directions = np.linalg.svd(centred, full_matrices=False)
plane = centred @ directions[:2].T
share = strengths[:2] ** 2 / (strengths**2).sum()


def label(axes, points, texts, size=9):
    """Writes every text at the free place nearest to its point, with a line to the point if it is far."""
    axes.figure.canvas.draw()  # fixes the limits of the axes
    scale = axes.figure.dpi / 72
    offsets = [(r * math.cos(a), r * math.sin(a)) for r in range(8, 150, 6) for a in np.arange(0.3, 6.5, 0.4)]
    dots = axes.transData.transform(points) / scale
    taken = [(x - 2, y - 2, x + 2, y + 2) for x, y in dots]
    for point, dot, text in zip(points, dots, texts, strict=True):
        half = 0.31 * size * len(text), 0.6 * size

        def box(offset, dot=dot, half=half):
            x, y = dot + offset
            return x - half[0], y - half[1], x + half[0], y + half[1]

        def free(one):
            return not any(a[0] < one[2] and one[0] < a[2] and a[1] < one[3] and one[1] < a[3] for a in taken)

        shifted = [(x + math.copysign(half[0], x) * (abs(x) > 3), y) for x, y in offsets]
        offset = next((o for o in shifted if free(box(o))), shifted[0])
        taken.append(box(offset))
        line = {"arrowstyle": "-", "color": "0.7", "linewidth": 0.6, "shrinkA": 0, "shrinkB": 2}
        axes.annotate(
            text,
            point,
            offset,
            textcoords="offset points",
            fontsize=size,
            ha="center",
            va="center",
            arrowprops=line if abs(offset[1]) > 12 else None,
        )


figure, axes = plt.subplots(figsize=(8.5, 6.5))
kinds = {"determiner": determiners, "noun": nouns, "adjective": adjectives, "verb, adverb": None}
for colour, (kind, members) in zip(CATEGORIES, kinds.items(), strict=False):
    known = determiners | nouns | adjectives
    own = [i for i, word in enumerate(words) if (word in members if members else word not in known)]
    axes.scatter(*plane[own].T, s=14, color=colour, label=kind)
axes.margins(0.1)
axes.set_xlabel(f"first component ({share[0]:.0%} of the variance)")
axes.set_ylabel(f"second component ({share[1]:.0%})")
axes.legend(loc="lower right")
label(axes, plane, words)

# %% [markdown]
# Nobody told the model what a noun is. The word classes form groups all the same, and within the nouns the
# plural is apart from the singular, because different verb forms follow them. The colours are ours; the
# positions are the model's.

# %% [markdown]
# ## Samples, and what one word of context cannot learn

# %%
print(*model.sample(6, seed=2), sep="\n")

# %% [markdown]
# In this language a determiner agrees with its noun: "this old cat", but "these old cats". If adjectives
# stand between them, a word that interacts only with its neighbours cannot know. A model with a context of
# two words sees across one adjective. The objective `exact` trains such a model, whose likelihood is
# certified as well.

# %%
wider = zhat.LanguageModel.train(train, valid=valid, context=2, rank=8, objective="exact", epochs=8)


def agreement(sentences):
    """How often determiner and noun agree, by the number of adjectives between them."""
    found = {}
    for sentence in sentences:
        determiner, between = None, 0
        for word in sentence.split():
            if word in determiners:
                determiner, between = word, 0
            elif word in adjectives:
                between += 1
            elif word in nouns and determiner is not None:
                agrees = (determiner in singular) == (not word.endswith("s"))
                found.setdefault(between, []).append(agrees)
                determiner = None
    return {between: np.mean(agrees) for between, agrees in sorted(found.items())}


count = 300 if small else 2000
shares = pd.DataFrame(
    {
        "training text": agreement(train.read_text().splitlines()),
        "context 1": agreement(model.sample(count, seed=3)),
        "context 2": agreement(wider.sample(count, seed=3)),
    }
)
shares = (
    shares.dropna().rename({0: "none", 1: "one"}).rename_axis("adjectives between")
)  # the text has no more
shares.round(3)

# %%
wider_score = wider.eval(test)
pd.Series(
    {"context 1, at least": score.per_word, "context 2, at least": wider_score.per_word}, name="nats per word"
).to_frame().round(3)

# %% [markdown]
# Next to each other, determiner and noun agree in both models. Across an adjective the smaller model guesses:
# it is right half of the time. The larger one has learned the rule, and its certified likelihood is higher as
# well.

# %%
assert shares.loc["one", "context 2"] > 0.9 > 0.7 > shares.loc["one", "context 1"]
assert wider_score.per_word > score.per_word

# %% [markdown]
# ## Read on
#
# - [Language models](../../docs/language-model.md): the model, its bounds, larger texts
# - [Guarantees](../../docs/guarantees.md): what *certified* means
# - [Reproduction](../../docs/reproduction.md): the experiments of the paper
