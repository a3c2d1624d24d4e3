"""Models as PyTorch operators: log Z, entropy, marginals, samples and best states, with gradients.

`zhat.torch` requires PyTorch; the rest of zhat does not. Tensors must be on the CPU and are used in place.

    chain = zhat.torch.Chain(emissions, transitions)      # tensors, some of which require gradients
    loss = zhat.torch.log_partition(chain).sum()
    loss.backward()

`Chain` is for chains and semi-Markov chains, `Model` for every kind of model with a gradient. Results are
tensors. The operators are registered as `zhat::…`, so `torch.compile(fullgraph=True)` takes a model with them
as one graph, also for batches of different lengths; the same holds for `CRF` and the distributions of
`zhat.torch.struct`. The backward pass is exact and hand-written: no autograd graph of T steps is recorded.

- Second derivatives of log Z, such as the gradient of `marginals`, are exact if scores are linear in the
  parameters. Those of entropy and divergences, of graphs and of embeddings and low-rank factors, and all
  third derivatives are computed in float64 by central differences that are extrapolated to step 0; their
  error is about 1e-11 of the largest entry.
- bfloat16 and half are computed in float32, and so is everything under autocast. Results have the type of the
  first parameter, gradients that of their own parameter.
- `CRF` is the module of pytorch-crf, and `zhat.torch.struct` has the distributions of torch-struct.
- −inf forbids a state. Parameters of −inf, and items without a state of positive weight, have gradient zero.
"""

from __future__ import annotations

from .crf import CRF
from .model import Chain, Model
from .queries import (
    ChainMarginals,
    DependencyMarginals,
    FactorMarginals,
    HypertreeMarginals,
    PairwiseMarginals,
    States,
    best,
    cross_entropy,
    entropy,
    k_best,
    kl,
    log_partition,
    log_prob,
    marginals,
    relaxed_sample,
    sample,
)
from .score import score

__all__ = [
    "CRF",
    "Chain",
    "ChainMarginals",
    "DependencyMarginals",
    "FactorMarginals",
    "HypertreeMarginals",
    "Model",
    "PairwiseMarginals",
    "States",
    "best",
    "cross_entropy",
    "entropy",
    "k_best",
    "kl",
    "log_partition",
    "log_prob",
    "marginals",
    "relaxed_sample",
    "sample",
    "score",
]
