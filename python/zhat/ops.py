"""Differentiable operations: a value, and a tape for its gradient.

They work for every kind of model with a method that differentiates it: chains, semi-Markov chains,
dependency trees and trees over words. Other kinds raise `InputError`.

Each operation returns `(value, tape)`, and `tape.vjp(cotangent)` is the gradient of cotangent · value, summed
over a batch, with respect to every parameter. In neural networks, `tape.vjp` is the backward pass of a layer;
`zhat.torch` is built on it. A tape stores the messages of the forward pass, which dominate the memory; with
`checkpoint=True` they are recomputed instead.

The keyword arguments `threads`, `memory`, `time` and `progress` are those of `zhat.queries`.

>>> import numpy as np, zhat
>>> chain = zhat.Chain(np.zeros((3, 2)), [[0.0, 1.0], [1.0, 0.0]])
>>> value, tape = zhat.ops.log_partition(chain)
>>> gradient = tape.vjp(1.0)
>>> gradient.emissions.round(6).tolist()
[[0.5, 0.5], [0.5, 0.5], [0.5, 0.5]]
>>> entropy, tape = zhat.ops.entropy(chain)
>>> bool(abs(entropy - (value - np.vdot(gradient.transitions, chain.transitions))) < 1e-12)
True
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _zhat
from ._arguments import integer, real, settings, text, unmasked
from ._arguments import scores as real_array
from ._model import Model
from .dependency import DependencyTree
from .errors import InputError
from .hypertree import Hypertree
from .runtime import Progress, run
from .sequence import Chain, SemiMarkov

Differentiable: TypeAlias = Model[Any, Any, Any, Any, Any, Any]
"""A model of a kind that some method differentiates; others raise `InputError`."""

Sequences: TypeAlias = Chain | SemiMarkov

Sampled: TypeAlias = Sequences | DependencyTree | Hypertree


class Tape:
    """The data that an operation records for its gradient."""

    def __init__(
        self, native: _zhat.Tape, models: tuple[Differentiable, ...], shapes: tuple[tuple[int, ...], ...] = ()
    ) -> None:
        """Wraps the native tape; `shapes` are the shapes of values that are not one number per sequence."""
        self._native = native
        self._models = models
        self._shapes = shapes

    def vjp(self, cotangent: ArrayLike | tuple[ArrayLike, ArrayLike] = 1.0) -> Any:
        """The gradient of cotangent · value, summed over the sequences of a batch, as a `ChainGradient`.

        The cotangent is a number, or for a batch one number per sequence. For relaxed samples it is an array
        of their shape, for relaxed segmentations a pair of arrays, for the states and for the lengths. An
        operation on two models has two gradients. A sequence with an infinite value has gradient zero.
        """
        if not self._shapes:
            raw = self._native.vjp(_cotangent(self._models[0], cotangent))
        else:
            raw = self._native.vjp(self._array(cotangent))
        gradients = [model._factor_marginals(arrays) for model, arrays in zip(self._models, raw, strict=True)]
        return gradients[0] if len(gradients) == 1 else tuple(gradients)

    def _array(self, cotangent: Any) -> NDArray[Any]:
        """The cotangent as one array; cotangents of several values are concatenated."""
        parts = (cotangent,) if len(self._shapes) == 1 else cotangent
        if not isinstance(parts, (tuple, list)) or len(parts) != len(self._shapes):
            raise InputError("cotangent: expected a pair of arrays, for the states and for the lengths")
        arrays = [real_array("cotangent", part, cast("Sampled", self._models[0]).dtype) for part in parts]
        for array, shape in zip(arrays, self._shapes, strict=True):
            if array.shape != shape:
                raise InputError(f"cotangent: found shape {array.shape}, expected {shape}")
        return arrays[0] if len(arrays) == 1 else np.concatenate([array.ravel() for array in arrays])


def log_partition(
    model: Differentiable,
    *,
    method: str = "exact",
    seed: int = 0,
    threads: int | None = None,
    memory: int | str | None = None,
    time: float | str | None = None,
    progress: Progress | None = None,
    scores: ArrayLike | None = None,
    **options: object,
) -> tuple[Any, Tape]:
    """Log Z and its tape.

    `method` is `exact`, with the option `checkpoint`, or `randomized`, with its options such as `states` and
    `proposal`: then the value is log Ẑ, and its gradient treats the chosen states as constants. `scores` (T,
    N) or (B, T, N) are those of the proposal `given`: states with large scores are likely to be chosen. If
    the estimate of Z is 0, the value is -inf and a `RuntimeWarning` is issued.

    >>> import zhat
    >>> chain = zhat.generate.chain(states=500, steps=5, strength=0.5)
    >>> value, tape = zhat.ops.log_partition(chain, method="randomized", states=50, seed=1)
    >>> bool(abs(value - chain.log_partition().value) < 0.1)
    True
    """
    how = run(seed, threads, memory, time, progress)
    return _forward("log_partition", (model,), method, options, how, scores)


def log_partition_and_gradient(
    model: Differentiable,
    cotangent: ArrayLike = 1.0,
    *,
    checkpoint: bool = False,
    threads: int | None = None,
    memory: int | str | None = None,
    time: float | str | None = None,
    progress: Progress | None = None,
) -> tuple[Any, Any]:
    """Log Z and its gradient in one pass, for a cotangent known in advance. Needs less memory than a tape.

    >>> import numpy as np, zhat
    >>> chain = zhat.Chain(np.zeros((3, 2)), [[0.0, 1.0], [1.0, 0.0]])
    >>> value, gradient = chain.log_partition_and_gradient()
    >>> round(value, 6), gradient.transitions.round(6).tolist()
    (3.319671, [[0.268941, 0.731059], [0.731059, 0.268941]])
    """
    how = run(0, threads, memory, time, progress)
    weights = _cotangent(_checked(model), cotangent)
    options = settings(_checkpoint(checkpoint))
    values, raw = _zhat.log_partition_and_gradient(model._native, weights.tolist(), options, how)
    return model._numbers(values), model._factor_marginals(raw)


def entropy(
    model: Differentiable,
    *,
    method: str = "exact",
    seed: int = 0,
    threads: int | None = None,
    memory: int | str | None = None,
    time: float | str | None = None,
    progress: Progress | None = None,
    scores: ArrayLike | None = None,
    **options: object,
) -> tuple[Any, Tape]:
    """The entropy H = −Σ p(x) log p(x) and its tape; the arguments are those of `log_partition`.

    In a batch, a sequence without a path has entropy -inf; a single such sequence raises
    `ZeroPartitionError`.
    """
    how = run(seed, threads, memory, time, progress)
    return _forward("entropy", (model,), method, options, how, scores)


def cross_entropy(
    p: Differentiable,
    q: Differentiable,
    *,
    checkpoint: bool = False,
    threads: int | None = None,
    memory: int | str | None = None,
    time: float | str | None = None,
    progress: Progress | None = None,
) -> tuple[Any, Tape]:
    """−Σ p(x) log q(x) of two models of the same shape, and a tape with one gradient per model.

    It is inf if q forbids a path of p, even a very improbable one; the gradient of such a sequence is zero.
    The transitions may have different forms.
    """
    how = run(0, threads, memory, time, progress)
    return _forward("cross_entropy", (p, q), "exact", _checkpoint(checkpoint), how)


def kl(
    p: Differentiable,
    q: Differentiable,
    *,
    checkpoint: bool = False,
    threads: int | None = None,
    memory: int | str | None = None,
    time: float | str | None = None,
    progress: Progress | None = None,
) -> tuple[Any, Tape]:
    """KL(p ‖ q) = Σ p(x) log(p(x) / q(x)) of two models of the same shape, and a tape with both gradients.

    >>> import numpy as np, zhat
    >>> p = zhat.Chain(np.zeros((3, 2)), [[0.0, 1.0], [1.0, 0.0]])
    >>> q = zhat.Chain(np.zeros((3, 2)), np.zeros((2, 2)))
    >>> value, tape = zhat.ops.kl(p, q)
    >>> bool(abs(value - (3 * np.log(2) - zhat.entropy(p).value)) < 1e-12)
    True
    >>> by_p, by_q = tape.vjp()
    """
    how = run(0, threads, memory, time, progress)
    return _forward("kl", (p, q), "exact", _checkpoint(checkpoint), how)


def expectation(
    model: Differentiable,
    scores: Differentiable,
    *,
    checkpoint: bool = False,
    threads: int | None = None,
    memory: int | str | None = None,
    time: float | str | None = None,
    progress: Progress | None = None,
) -> tuple[Any, Tape]:
    """E[f(x)] = Σ p(x) f(x) of an additive score f, and a tape with one gradient per model.

    f(x) is the score of x in the model `scores`, which has the kind and shape of `model`: E[f] is the inner
    product of its scores and the factor marginals of `model`. Scores of 0 and 1 give an expected count. A
    score of -inf counts as 0 where `model` has probability zero; otherwise the value is -inf and its gradient
    zero.

    The expected number of changes of state, in a path over three positions:

    >>> import numpy as np, zhat
    >>> chain = zhat.Chain(np.zeros((3, 2)), [[0.0, 1.0], [1.0, 0.0]])
    >>> changes = zhat.Chain(np.zeros((3, 2)), [[0.0, 1.0], [1.0, 0.0]])
    >>> value, tape = zhat.ops.expectation(chain, changes)
    >>> round(value, 6)
    1.462117
    >>> by_model, by_scores = tape.vjp()
    >>> bool(np.allclose(by_scores.transitions, chain.factor_marginals().value.transitions))
    True
    """
    how = run(0, threads, memory, time, progress)
    return _forward("expectation", (model, scores), "exact", _checkpoint(checkpoint), how)


@dataclass(frozen=True, eq=False)
class RelaxedSamples:
    """Paths drawn by the Gumbel-max trick, and the softmax relaxation of each.

    `soft` is (n, T, N), or (B, n, T, N) for a batch, and zero after the end of a sequence. `hard` has one
    path per row, the argmax of `soft`; for a batch it is a list with one array per sequence.

    For a semi-Markov chain the state and then the length of each segment are drawn, starting with the last
    segment. `soft` contains the values of the states at the last position of each segment; `lengths`, (n, T,
    L) or (B, n, T, L), contains those of the lengths, with length d in column d − 1. Other rows are zero.
    `hard` is a list with one array per sample, with one row (state, length) per segment; for a batch it is a
    list of such lists, one per sequence.

    For dependency trees `soft` is (n, T, T + 1), or (B, n, T, T + 1) for a batch, with one more axis for
    labels: the values of the heads of each word, as in `marginals`. `hard` is a `TreeSamples`.

    For trees over words, `soft` is (n, T, T, S) or (B, n, T, T, S), by first word, last word and symbol: the
    expected numbers of nodes under scores with Gumbel noise, divided by the temperature. `hard` are the best
    trees of these scores, as a list with one array per sample and rows (first word, last word, symbol); for a
    batch it is a list of such lists. They are approximate samples.
    """

    soft: NDArray[Any]
    hard: Any
    lengths: NDArray[Any] | None = None


def relaxed_sample(
    model: Sampled,
    n: int = 1,
    temperature: float = 1.0,
    *,
    seed: int = 0,
    threads: int | None = None,
    memory: int | str | None = None,
    time: float | str | None = None,
    progress: Progress | None = None,
) -> tuple[RelaxedSamples, Tape]:
    """`n` exact samples, their relaxation softmax((log p + Gumbel noise) / temperature), and its tape.

    For trees over words, the samples are approximate: the best trees of scores with Gumbel noise, and the
    expected numbers of nodes under these scores divided by the temperature (stochastic softmax).

    The cotangent of the tape has the shape of `soft`; for a semi-Markov chain it is a pair with the shapes of
    `soft` and `lengths`. Hard samples are treated as constants. A lower temperature brings the soft samples
    closer to the hard ones, but increases the variance of the gradients.

    For dependency trees, Gumbel noise is added to the score of every arc. `hard` are the best trees under
    this noise, and `soft` are the probabilities of arcs in the model with scores (score + noise) /
    temperature: a stochastic softmax (Paulus et al., 2020). These trees are not exact samples.

    >>> import numpy as np, zhat
    >>> samples, tape = zhat.ops.relaxed_sample(zhat.generate.chain(states=5, steps=4), n=2, temperature=0.5)
    >>> samples.soft.shape, samples.hard.shape
    ((2, 4, 5), (2, 4))
    >>> bool((samples.soft.argmax(axis=-1) == samples.hard).all())
    True
    >>> tape.vjp(np.ones((2, 4, 5))).emissions.shape
    (4, 5)
    >>> semi = zhat.generate.semi_markov(states=5, steps=4, longest=3)
    >>> samples, tape = zhat.ops.relaxed_sample(semi, n=2, temperature=0.5)
    >>> samples.soft.shape, samples.lengths.shape
    ((2, 4, 5), (2, 4, 3))
    >>> tape.vjp((samples.soft, samples.lengths)).segments.shape
    (3, 5)
    >>> trees = zhat.DependencyTree(np.zeros((4, 4)))
    >>> samples, tape = zhat.ops.relaxed_sample(trees, n=2, temperature=0.5)
    >>> samples.soft.shape, samples.hard.heads.shape, tape.vjp(samples.soft).arcs.shape
    ((2, 4, 5), (2, 4), (4, 4))
    >>> samples, tape = zhat.ops.relaxed_sample(zhat.Hypertree(np.zeros((4, 3))), n=2, temperature=0.5)
    >>> samples.soft.shape, [tree.shape for tree in samples.hard]
    ((2, 4, 4, 3), [(7, 3), (7, 3)])
    >>> tape.vjp(samples.soft).words.shape
    (4, 3)
    """
    how = run(seed, threads, memory, time, progress)
    if isinstance(model, DependencyTree):
        found = _zhat.relaxed_trees(*_drawn(model, n, temperature), how)
        values, trees = model._unbatched(found["soft"]), _trees(model, found["hard"])
        return RelaxedSamples(values, trees), Tape(found["tape"], (model,), (values.shape,))
    raw = _zhat.relaxed_sample(*_drawn(model, n, temperature), how)
    soft, hard, lengths = model._unbatched(raw["soft"]), model._unbatched(raw["hard"]), raw["lengths"]
    if lengths is None:
        return RelaxedSamples(soft, hard), Tape(raw["tape"], (model,), (soft.shape,))
    lengths = model._unbatched(lengths)
    shapes = (soft.shape, lengths.shape)
    return RelaxedSamples(soft, hard, lengths), Tape(raw["tape"], (model,), shapes)


@dataclass(frozen=True, eq=False)
class SparseRelaxedSamples:
    """Relaxed samples with nonzero values for only a few states: entry e is `values[e]` at `index[e]`.

    A row of `index` is (sample, position, state), or (sequence, sample, position, state) for a batch; the
    values at a position sum to one. `hard` has one path per row and `log_weights` one number per sample; for
    a batch both are lists with one array per sequence. A sample has weight exp(log_weight).

    For a semi-Markov chain the position is the last one of a segment, and `lengths` at `length_index` are the
    values of the segment lengths; a row of `length_index` ends in (position, length − 1). `hard` is as in
    `RelaxedSamples`.

    For trees over words, a row of `index` ends in (first word, last word, symbol).
    """

    index: NDArray[np.int64]
    values: NDArray[Any]
    hard: Any
    log_weights: Any
    length_index: NDArray[np.int64] | None = None
    lengths: NDArray[Any] | None = None


def sparse_relaxed_sample(
    model: Sampled,
    n: int = 1,
    temperature: float = 1.0,
    *,
    seed: int = 0,
    threads: int | None = None,
    memory: int | str | None = None,
    time: float | str | None = None,
    progress: Progress | None = None,
    scores: ArrayLike | None = None,
    **options: object,
) -> tuple[SparseRelaxedSamples, Tape]:
    """As `relaxed_sample`, but over a few randomly chosen states per position: for very many states.

    The options are those of the method `randomized`, or of `randomized-inside` for trees over words; `scores`
    is as in `log_partition` and only for sequences. The cotangent of the tape has the shape of `values`; for
    a semi-Markov chain it is a pair, for `values` and `lengths`.

    For projective dependency trees, a few heads of each word are kept, and the options are those of the
    method `randomized-inside`. A row of `index` is (sample, word, head) or (sample, word, head, label),
    preceded by the sentence for a batch; `hard` is a `TreeSamples`.

    >>> import numpy as np, zhat
    >>> chain = zhat.generate.chain(states=500, steps=4)
    >>> samples, tape = zhat.ops.sparse_relaxed_sample(chain, n=2, states=20, temperature=0.5)
    >>> samples.hard.shape, samples.index.shape[1], samples.log_weights.shape
    ((2, 4), 3, (2,))
    >>> round(float(samples.values.sum()), 6)  # two samples of four positions
    8.0
    >>> tape.vjp(np.ones(samples.values.shape)).emissions.shape
    (4, 500)
    >>> trees = zhat.DependencyTree(6 * np.eye(30, k=1), 6 * np.eye(30)[0])
    >>> samples, tape = zhat.ops.sparse_relaxed_sample(trees, n=2, states=8, temperature=0.5)
    >>> samples.hard.heads.shape, samples.index.shape[1], tape.vjp(samples.values).arcs.shape
    ((2, 30), 3, (30, 30))

    For trees over words, a row of `index` is (sample, first word, last word, symbol), and `hard` has the rows
    (first word, last word, symbol) of the nodes of each tree.

    >>> trees = zhat.generate.hypertree(words=6, heads=40, tags=40, rules="low-rank", rank=4)
    >>> samples, tape = zhat.ops.sparse_relaxed_sample(trees, n=2, states=8, temperature=0.5)
    >>> samples.hard[0].shape, samples.index.shape[1]  # 6 words and 5 spans
    ((11, 3), 4)
    >>> tape.vjp(samples.values).words.shape
    (6, 40)
    """
    how = run(seed, threads, memory, time, progress)
    own = _drawn(model, n, temperature)
    if isinstance(model, DependencyTree):
        return _sparse_trees(model, own, scores, options, how)
    if scores is not None and isinstance(model, Hypertree):
        raise InputError("scores: the method randomized-inside has no proposal that takes them")
    raw = _zhat.sparse_relaxed_sample(*own, settings(options), _given(model, scores), how)
    own_columns = slice(1, None) if model._single else slice(None)
    index, values, lengths = raw["index"][:, own_columns], raw["values"], raw["lengths"]
    hard, weights = model._unbatched(raw["hard"]), model._unbatched(raw["log_weights"])
    length_index = None if raw["length_index"] is None else raw["length_index"][:, own_columns]
    samples = SparseRelaxedSamples(index, values, hard, weights, length_index, lengths)
    shapes = (values.shape,) if lengths is None else (values.shape, lengths.shape)
    return samples, Tape(raw["tape"], (model,), shapes)


def _trees(model: DependencyTree, hard: list[NDArray[np.int64]]) -> Any:
    return model._samples([(own, None, None, None) for own in hard])


def _sparse_trees(
    model: DependencyTree,
    own: tuple[_zhat.Model, int, float],
    scores: ArrayLike | None,
    options: dict[str, object],
    how: _zhat.Run,
) -> tuple[SparseRelaxedSamples, Tape]:
    if scores is not None:
        raise InputError("scores: are for sequences; `randomized-inside` has no proposal `given`")
    raw = _zhat.sparse_relaxed_trees(*own, settings(options), how)
    index = raw["index"][:, 1:] if model._single else raw["index"]
    weights = model._unbatched(raw["log_weights"])
    samples = SparseRelaxedSamples(index, raw["values"], _trees(model, raw["hard"]), weights)
    return samples, Tape(raw["tape"], (model,), (samples.values.shape,))


def _drawn(model: Sampled, n: int, temperature: float) -> tuple[_zhat.Model, int, float]:
    if not isinstance(model, (Chain, SemiMarkov, DependencyTree, Hypertree)):
        known = "zhat.Chain, zhat.SemiMarkov, zhat.DependencyTree or zhat.Hypertree"
        raise InputError(f"model: expected a {known}, found {type(model).__name__}")
    return model._native, integer("n", n), real("temperature", temperature)


def _given(model: Differentiable, scores: ArrayLike | None) -> NDArray[np.float64] | None:
    if scores is None:
        return None
    given = real_array("scores", scores, np.dtype(np.float64))
    if isinstance(model, (Chain, SemiMarkov)) and given.shape != model.emissions.shape:
        raise InputError(f"scores: found shape {given.shape}, expected {model.emissions.shape}")
    return given


def _checkpoint(checkpoint: bool) -> dict[str, object]:
    """The option, if it is used; not every method has it."""
    return {"checkpoint": True} if checkpoint else {}


def _forward(
    operation: str,
    models: tuple[Differentiable, ...],
    method: str,
    options: dict[str, object],
    how: _zhat.Run,
    scores: ArrayLike | None = None,
) -> tuple[Any, Tape]:
    natives = [_checked(model)._native for model in models]
    if any((model._items is None) != (models[0]._items is None) for model in models):
        raise InputError("models: expected two single sequences or two batches")
    how_to = (text("method", method), settings(options))
    values, tape = _zhat.forward(operation, natives, how_to, _given(models[0], scores), how)
    if method.startswith("randomized") and np.isneginf(values).any():
        what = "paths" if method == "randomized" else "trees"
        message = f"every replicate missed all {what} of positive weight, so an estimate of Z is 0; "
        warnings.warn(message + "more states may find some", RuntimeWarning, stacklevel=3)
    return models[0]._numbers(values), Tape(tape, models)


def _checked(model: Differentiable) -> Differentiable:
    if not isinstance(model, Model):
        raise InputError(f"model: expected a model of zhat, found {type(model).__name__}")
    return model


def _cotangent(model: Differentiable, cotangent: Any) -> NDArray[np.float64]:
    count = 1 if model._items is None else model._items
    try:
        unmasked("cotangent", cotangent)
        return np.broadcast_to(np.asarray(cotangent, np.float64), (count,)).copy()
    except (TypeError, ValueError):
        raise InputError(f"cotangent: expected a number, or one for each of {count} sequences") from None
