"""Random models for tests and experiments; the same seed gives the same model."""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike

from . import _zhat
from ._arguments import integer, precision, real, text
from .dependency import DependencyTree
from .errors import InputError
from .grammar import Grammar
from .hypertree import Hypertree
from .mixed import MixedModel
from .model import FactorGraph
from .pairwise import random_graph as pairwise
from .sequence import Chain, SemiMarkov
from .sequence_mrf import random_cycle as sequence_mrf
from .space import SpaceModel

__all__ = [
    "bayes",
    "chain",
    "dependency",
    "gaussian_mixture",
    "grammar",
    "hypertree",
    "ising",
    "pairwise",
    "potts",
    "random",
    "rdp_chain",
    "semi_markov",
    "sequence_mrf",
    "space",
    "tree",
]


def ising(
    rows: int = 10,
    columns: int = 10,
    *,
    torus: bool = False,
    coupling: float = 0.5,
    field: float = 0.1,
    uniform: bool = False,
    seed: int = 0,
) -> FactorGraph:
    """An Ising grid: score Σ Jᵢⱼ sᵢ sⱼ + Σ hᵢ sᵢ with s = ±1.

    hᵢ is normal with standard deviation `field`, and Jᵢⱼ is normal with standard deviation `coupling`; with
    `uniform`, Jᵢⱼ is constant and equal to `coupling`. With `torus`, opposite sides of the grid are joined.

    >>> ising(rows=3, columns=4)
    FactorGraph(12 variables, 2 states each, 29 factors)
    """
    grid = (integer("rows", rows), integer("columns", columns), bool(torus))
    strengths = (real("coupling", coupling), real("field", field))
    return FactorGraph._wrap(_zhat.ising(grid, *strengths, bool(uniform), _seed(seed)))


def potts(
    rows: int = 10,
    columns: int = 10,
    *,
    states: int = 3,
    torus: bool = False,
    coupling: float = 0.5,
    field: float = 0.1,
    uniform: bool = False,
    seed: int = 0,
) -> FactorGraph:
    """A Potts grid: score Σ Jᵢⱼ·[xᵢ = xⱼ] + Σ hᵢ(xᵢ), otherwise as `ising`.

    >>> potts(rows=3, columns=4, states=5)
    FactorGraph(12 variables, 5 states each, 29 factors)
    """
    grid = (integer("rows", rows), integer("columns", columns), bool(torus))
    strengths = (real("coupling", coupling), real("field", field))
    return FactorGraph._wrap(
        _zhat.potts(grid, integer("states", states), *strengths, bool(uniform), _seed(seed))
    )


def tree(variables: int = 100, *, states: int = 3, strength: float = 1.0, seed: int = 0) -> FactorGraph:
    """A random tree whose log values are normal with standard deviation `strength`.

    >>> tree(variables=5)
    FactorGraph(5 variables, 3 states each, 9 factors)
    """
    sizes = (integer("variables", variables), integer("states", states))
    return FactorGraph._wrap(_zhat.tree(*sizes, real("strength", strength), _seed(seed)))


def random(
    variables: int = 30,
    *,
    states: int = 2,
    factors: int = 40,
    arity: int = 3,
    strength: float = 1.0,
    zeros: float = 0.0,
    seed: int = 0,
) -> FactorGraph:
    """Factors over random scopes of `arity` variables; log values have standard deviation `strength`.

    Log values are normal. A fraction `zeros` of the table entries gets weight 0, but never all states of the
    model.

    >>> random(variables=8, factors=12)
    FactorGraph(8 variables, 2 states each, 12 factors)
    """
    sizes = (
        integer("variables", variables),
        integer("states", states),
        integer("factors", factors),
        integer("arity", arity),
    )
    return FactorGraph._wrap(
        _zhat.random(sizes, real("strength", strength), real("zeros", zeros), _seed(seed))
    )


def bayes(
    variables: int = 30, *, states: int = 2, parents: int = 3, deterministic: float = 0.0, seed: int = 0
) -> FactorGraph:
    """A Bayesian network: up to `parents` parents each; a row is certain with probability `deterministic`.

    >>> abs(bayes(variables=8).log_partition().value) < 1e-12
    True
    """
    sizes = (integer("variables", variables), integer("states", states), integer("parents", parents))
    return FactorGraph._wrap(_zhat.bayes(*sizes, real("deterministic", deterministic), _seed(seed)))


def chain(
    states: int = 100,
    steps: int = 20,
    batch: int | None = None,
    *,
    ragged: bool = False,
    transitions: str = "shared",
    rank: int = 8,
    tied: bool = False,
    strength: float = 1.0,
    zeros: float = 0.0,
    dtype: DTypeLike = np.float64,
    seed: int = 0,
) -> Chain:
    """A chain, or a `batch` of chains, whose scores are normal with standard deviation `strength`.

    With `ragged`, sequences have different lengths. `transitions` are `shared`, `per-step`, `per-sequence`,
    `factored` with embeddings of dimension `rank`, the same on both sides if `tied`, `low-rank` with log
    factors of this rank, `sparse` or `sparse-per-step` with `rank` transitions from each state, or `banded`
    with `rank` neighbouring states on each side. A fraction `zeros` of the emissions, and of the entries of
    transition tables and log factors, gets weight 0, but never all paths.

    >>> chain(states=5, steps=7)
    Chain(7 positions, 5 states, shared transitions, float64)
    """
    native = _random_chain(
        (states, steps, batch, ragged), (transitions, rank, tied), (strength, zeros, dtype), None, seed
    )
    return Chain._wrap(native, batch is None)


def semi_markov(
    states: int = 100,
    steps: int = 20,
    batch: int | None = None,
    *,
    longest: int = 5,
    ragged: bool = False,
    transitions: str = "shared",
    rank: int = 8,
    tied: bool = False,
    strength: float = 1.0,
    zeros: float = 0.0,
    dtype: DTypeLike = np.float64,
    seed: int = 0,
) -> SemiMarkov:
    """Semi-Markov chains: as `chain`, with normal scores for segment lengths 1 to `longest`.

    >>> semi_markov(states=5, steps=7, longest=3)
    SemiMarkov(7 positions, 5 states, shared transitions, float64, segments of up to 3)
    """
    native = _random_chain(
        (states, steps, batch, ragged),
        (transitions, rank, tied),
        (strength, zeros, dtype),
        integer("longest", longest),
        seed,
    )
    return SemiMarkov._wrap(native, batch is None)


def dependency(
    words: int = 20,
    batch: int | None = None,
    *,
    ragged: bool = False,
    labels: int | None = None,
    projective: bool = True,
    single_root: bool = False,
    strength: float = 1.0,
    zeros: float = 0.0,
    dtype: DTypeLike = np.float64,
    seed: int = 0,
) -> DependencyTree:
    """Dependency trees of a sentence, or of a `batch` of sentences, with normal scores of arcs.

    With `ragged`, sentences have different lengths. A fraction `zeros` of the scores is −inf, but never all
    trees.

    >>> dependency(words=7, single_root=True)
    DependencyTree(7 words, projective trees with a single root, float64)
    """
    count = None if labels is None else integer("labels", labels)
    size = 1 if batch is None else integer("batch", batch)
    scores = real("strength", strength), real("zeros", zeros), np.dtype(dtype) == np.float64
    sizes = (integer("words", words), size, ragged, count)
    native = _zhat.random_dependency(sizes, (projective, single_root), scores, _seed(seed))
    return DependencyTree._wrap(native, batch is None)


def hypertree(
    words: int = 10,
    batch: int | None = None,
    *,
    ragged: bool = False,
    heads: int = 5,
    tags: int = 10,
    overlap: int = 0,
    rules: str = "dense",
    count: int = 50,
    rank: int = 8,
    spans: str = "none",
    embedding: int = 8,
    per_sentence: bool = False,
    strength: float = 1.0,
    zeros: float = 0.0,
    dtype: DTypeLike = np.float64,
    seed: int = 0,
) -> Hypertree:
    """Binary trees over a sentence, or over a `batch` of sentences, with normal scores.

    With `ragged`, sentences have different lengths. The last `overlap` of the `heads`, which can be divided,
    are the first of the `tags`, which cover single words. `rules` are `any`, `dense`, `sparse` with `count`
    rules or `low-rank` with `rank`; with `per_sentence` every sentence has its own roots and rules, but for
    sparse ones. `spans` are `none`, `per-span`, `per-symbol` or `factored` into embeddings of length
    `embedding`. A fraction `zeros` of the scores is −inf, possibly those of all trees.

    >>> hypertree(words=7, rules="low-rank", rank=4)
    Hypertree(7 words, 15 symbols, 5 heads, 10 tags, rules of rank 4, float64)
    """
    size = 1 if batch is None else integer("batch", batch)
    first, last = integer("heads", heads), integer("tags", tags)
    both = integer("overlap", overlap)
    if both > min(first, last):
        raise InputError(f"overlap: expected at most {min(first, last)}, the smaller of heads and tags")
    form = text("rules", rules)
    number = integer("count", count) if form == "sparse" else integer("rank", rank)
    native = _zhat.random_hypertree(
        (integer("words", words), size, bool(ragged)),
        (first + last - both, first, last),
        (form, number, bool(per_sentence)),
        (text("spans", spans), integer("embedding", embedding)),
        (real("strength", strength), real("zeros", zeros), precision(dtype)),
        _seed(seed),
    )
    return Hypertree._wrap(native, batch is None)


def grammar(symbols: int = 5, words: int = 10, rules: int = 20, *, seed: int = 0) -> Grammar:
    """A probabilistic grammar with `rules` rules of two symbols, and one or two symbols for each word.

    >>> grammar(symbols=3, words=4, rules=5)
    Grammar(start S, 3 symbols, 4 words, 10 rules)
    """
    native = _zhat.random_grammar(
        integer("symbols", symbols), integer("words", words), integer("rules", rules), _seed(seed)
    )
    return Grammar._wrap(native)


def gaussian_mixture(
    classes: int = 3, *, low: float = -10.0, high: float = 10.0, seed: int = 0
) -> MixedModel:
    """A class and a continuous variable on [low, high] that is normal given the class.

    >>> gaussian_mixture(classes=4)
    MixedModel(2 variables, 1 continuous, 12 terms)
    """
    bounds = (real("low", low), real("high", high))
    return MixedModel._wrap(_zhat.random_mixture(integer("classes", classes), bounds, _seed(seed)))


def space(kind: str, *, size: int = 12, scores: str = "", strength: float = 1.0, seed: int = 0) -> SpaceModel:
    """A random model on a space: hypercube, permutation, subtree, cycle or partition.

    `scores`: unary or pairwise (hypercube); position, precedence or the name of a distance (permutation);
    unary (subtree); links (cycle, partition). The default is the first one listed for the space.

    >>> import zhat
    >>> zhat.generate.space("partition", size=7)
    SpaceModel(partitions, links scores, width 7)
    """
    native = _zhat.random_space(
        text("kind", kind),
        integer("size", size),
        text("scores", scores),
        real("strength", strength),
        _seed(seed),
    )
    return SpaceModel._wrap(native)


def rdp_chain(
    states: int = 2000,
    steps: int = 10,
    rank: int = 50,
    *,
    sharpness: str | int = "dense",
    dtype: DTypeLike = np.float64,
    seed: int = 0,
) -> Chain:
    """A chain as in Fu, Cunningham & Lapata (2022), Table 2: factored transitions, scores with a range of 10.

    `sharpness` controls how peaked the emissions are: `dense`, `intermediate`, `long-tailed`, or a number of
    gradient descent steps.

    >>> rdp_chain(states=100, rank=5)
    Chain(10 positions, 100 states, factored transitions of rank 5, float64)
    """
    sizes = (integer("states", states), integer("steps", steps), integer("rank", rank))
    how = sharpness if isinstance(sharpness, str) else integer("sharpness", sharpness)
    return Chain._wrap(_zhat.rdp_chain(sizes, how, precision(dtype), _seed(seed)))


def _random_chain(
    sizes: tuple[int, int, int | None, bool],
    form: tuple[str, int, bool],
    scores: tuple[float, float, DTypeLike],
    longest: int | None,
    seed: int,
) -> _zhat.Model:
    states, steps, batch, ragged = sizes
    transitions, rank, tied = form
    strength, zeros, dtype = scores
    count = 1 if batch is None else integer("batch", batch)
    return _zhat.random_chain(
        (integer("states", states), integer("steps", steps), count, bool(ragged)),
        (text("transitions", transitions), integer("rank", rank), bool(tied)),
        (real("strength", strength), real("zeros", zeros), precision(dtype)),
        longest,
        _seed(seed),
    )


def _seed(seed: int) -> int:
    return integer("seed", seed, 0, 2**64 - 1)
