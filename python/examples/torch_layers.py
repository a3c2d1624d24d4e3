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
# # Can I swap the CRF of my PyTorch model?
#
# `zhat.torch.CRF` is the module of pytorch-crf, and `zhat.torch.struct` has the distributions of
# torch-struct, with the same names, shapes and parameters. Existing code changes its import. This notebook
# trains a small tagger, compares two forms of a chain, and trains an attention layer over trees.
#
# You will learn how to
#
# - replace `torchcrf.CRF`, and use marginals, k-best lists and forbidden transitions of the same module;
# - replace `torch_struct` distributions;
# - use marginals as a differentiable layer;
# - compile a model with such a layer as one graph.
#
# The notebook needs PyTorch. Set the environment variable `ZHAT_EXAMPLES=small` for a quicker run.

# %%
import math
import os

import matplotlib.pyplot as plt
import torch

import zhat.torch as zt
import zhat.torch.struct as torch_struct  # instead of: import torch_struct
from zhat.palette import CATEGORIES
from zhat.torch import CRF  # instead of: from torchcrf import CRF

plt.rcParams["axes.prop_cycle"] = plt.cycler(color=CATEGORIES)
small = os.environ.get("ZHAT_EXAMPLES") == "small"
_ = torch.manual_seed(0)

# %% [markdown]
# ## A task
#
# Sentences are lists of numbers. Numbers above 20 are part of a name, and the tags are O (outside), B (the
# first word of a name) and I (another word of it). Sentences have different lengths.

# %%
words, length, vocabulary = (64 if small else 512), 20, 30
texts = torch.randint(vocabulary, (words, length))
mask = torch.arange(length) < torch.randint(5, length + 1, (words, 1))
named = texts > 20
follows = torch.cat([torch.zeros_like(named[:, :1]), named[:, :-1]], 1)
tags = torch.where(named, torch.where(follows, 2, 1), 0)


# %%
class Tagger(torch.nn.Module):
    """An embedding, a layer, and a CRF that knows that I follows B or I."""

    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(vocabulary, 16)
        self.score = torch.nn.Linear(16, 3)
        self.crf = CRF(3, batch_first=True, forbidden=[(None, 2), (0, 2)])

    def emissions(self, texts):
        return self.score(self.embed(texts))

    def forward(self, texts, tags, mask):
        return -self.crf(self.emissions(texts), tags, mask, reduction="token_mean")


tagger = Tagger()
optimizer = torch.optim.Adam(tagger.parameters(), lr=0.1)
losses = []
for _ in range(30):
    optimizer.zero_grad()
    loss = tagger(texts, tags, mask)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())

# %%
figure, axes = plt.subplots(figsize=(6.4, 3.0), layout="constrained")
axes.semilogy(losses)
axes.set_xlabel("step")
_ = axes.set_ylabel("negative log-likelihood per word")

# %%
best = tagger.crf.decode(tagger.emissions(texts), mask)
right = sum(
    a == b for own, row in zip(best, tags.tolist(), strict=True) for a, b in zip(own, row, strict=False)
)
accuracy = right / int(mask.sum())
print(f"{100 * accuracy:.1f} % of the tags are right")
assert losses[-1] < 0.2 * losses[0]
assert accuracy > 0.95

# %% [markdown]
# ## More than the best tags
#
# The module also has the probability of each tag, and the k best lists of tags with their probabilities.
# Forbidden transitions have probability exactly 0.

# %%
with torch.no_grad():
    emissions = tagger.emissions(texts[:1])
    probabilities = tagger.crf.marginals(emissions, mask[:1])
    ranked = tagger.crf.k_best(emissions, 3, mask[:1])
for own, log_p in ranked[0]:
    print(f"{math.exp(log_p):.1e}", "".join("OBI"[tag] for tag in own))
assert probabilities[0, 0, 2] == 0
assert ranked[0][0][0] == best[0]

# %% [markdown]
# ## The classes of torch-struct
#
# The same chain as a table of potentials for every pair of positions, with the next state first. That is what
# torch-struct takes; `zhat.torch.Chain` takes the two parts and never builds the table.

# %%
emissions = torch.randn(4, 12, 5, dtype=torch.float64)
transitions = torch.randn(5, 5, dtype=torch.float64)
lengths = torch.tensor([12, 9, 5, 12])
edges = transitions.T + emissions[:, 1:, :, None]
edges = torch.cat([edges[:, :1] + emissions[:, :1, None, :], edges[:, 1:]], 1)
dist = torch_struct.LinearChainCRF(edges, lengths)
chain = zt.Chain(emissions, transitions, lengths=lengths)
torch.testing.assert_close(dist.partition, zt.log_partition(chain))
torch.testing.assert_close(dist.entropy, zt.entropy(chain))
assert dist.sample((7,)).shape == (7, 4, 11, 5, 5)
assert dist.topk(3).shape == (3, 4, 11, 5, 5)

# %% [markdown]
# ## Attention over trees
#
# The marginals of a distribution over dependency trees are a soft adjacency matrix, and they are
# differentiable. Here the scores of arcs are trained so that every word but the last depends on the next one.

# %%
size = 6
scores = torch.zeros(1, size, size, requires_grad=True)
optimizer = torch.optim.Adam([scores], lr=0.3)
target = torch.arange(size - 1)
for _ in range(40):
    optimizer.zero_grad()
    attention = torch_struct.NonProjectiveDependencyCRF(scores).marginals[0]
    loss = -attention[target + 1, target].clamp(min=1e-6).log().mean()
    loss.backward()
    optimizer.step()

# %%
figure, axes = plt.subplots(figsize=(3.6, 3.4), layout="constrained")
axes.imshow(attention.detach().numpy())
axes.set_xlabel("word")
_ = axes.set_ylabel("head (on the diagonal: the root)")

# %%
assert attention[target + 1, target].min() > 0.8

# %% [markdown]
# ## One graph
#
# The operators are registered with PyTorch, so a compiled model has no graph break. If `lengths` are a
# tensor, other lengths need no new compilation.


# %%
@torch.compile(fullgraph=True, backend="aot_eager")
def log_likelihood(emissions, transitions, lengths, states):
    return zt.log_prob(zt.Chain(emissions, transitions, lengths=lengths), states)


states = zt.best(chain).states
found = log_likelihood(emissions, transitions, lengths, states)
torch.testing.assert_close(found, zt.log_prob(chain, states))
found

# %% [markdown]
# ## Read on
#
# - [Coming from another library](../../docs/howto/coming-from.md): every class, and what differs
# - [Chains](../../docs/chains.md): all operators, derivatives and precision
