"""Differentiable operations on chains: a value, and a tape that gives its gradient.

Each is a pair: the operation returns `(value, tape)`, and `tape.vjp(cotangent)` the gradient of
cotangent · value, summed over a batch, with respect to every parameter. It is what neural code needs: the
backward pass of a layer is `tape.vjp`, and `zhat.torch` is no more than that. A tape keeps the messages of
the forward pass, which is where the memory goes; with `checkpoint=True` it computes them again.

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

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _zhat
from ._arguments import integer, real, scores, settings
from .errors import InputError
from .runtime import Progress, run
from .sequence import Chain
from .sequence_answer import ChainGradient


class Tape:
    """What an operation leaves for its gradient."""

    def __init__(
        self, native: _zhat.Tape, models: tuple[Chain, ...], shape: tuple[int, ...] | None = None
    ) -> None:
        """Wraps what the native module keeps; `shape` is that of a value that is not a number a sequence."""
        self._native = native
        self._models = models
        self._shape = shape

    def vjp(self, cotangent: ArrayLike = 1.0) -> Any:
        """The gradient of cotangent · value, of a batch the sum over its sequences: a `ChainGradient`.

        The cotangent is a number, or for a batch one for each sequence; of relaxed samples an array of
        their shape. An operation on two chains has two gradients. A sequence whose value is infinite has a
        gradient of zero.
        """
        if self._shape is None:
            raw = self._native.vjp(_cotangent(self._models[0], cotangent))
        else:
            array = scores("cotangent", cotangent, self._models[0].dtype)
            if array.shape != self._shape:
                raise InputError(f"cotangent: found shape {array.shape}, expected {self._shape}")
            raw = self._native.vjp(array)
        gradients = [model._factor_marginals(arrays) for model, arrays in zip(self._models, raw, strict=True)]
        return gradients[0] if len(gradients) == 1 else tuple(gradients)


def log_partition(
    model: Chain,
    *,
    checkpoint: bool = False,
    threads: int | None = None,
    memory: int | str | None = None,
    time: float | str | None = None,
    progress: Progress | None = None,
) -> tuple[Any, Tape]:
    """Log Z and its tape."""
    how = run(0, threads, memory, time, progress)
    return _forward("log_partition", (model,), {"checkpoint": bool(checkpoint)}, how)


def log_partition_and_gradient(
    model: Chain,
    cotangent: ArrayLike = 1.0,
    *,
    checkpoint: bool = False,
    threads: int | None = None,
    memory: int | str | None = None,
    time: float | str | None = None,
    progress: Progress | None = None,
) -> tuple[Any, ChainGradient]:
    """Log Z and its gradient at once, where the cotangent is known beforehand: less memory than a tape.

    >>> import numpy as np, zhat
    >>> chain = zhat.Chain(np.zeros((3, 2)), [[0.0, 1.0], [1.0, 0.0]])
    >>> value, gradient = chain.log_partition_and_gradient()
    >>> round(value, 6), gradient.transitions.round(6).tolist()
    (3.319671, [[0.268941, 0.731059], [0.731059, 0.268941]])
    """
    how = run(0, threads, memory, time, progress)
    weights = _cotangent(_chain(model), cotangent)
    options = settings({"checkpoint": bool(checkpoint)})
    values, raw = _zhat.log_partition_and_gradient(model._native, weights.tolist(), options, how)
    return model._numbers(values), model._factor_marginals(raw)


def entropy(
    model: Chain,
    *,
    checkpoint: bool = False,
    threads: int | None = None,
    memory: int | str | None = None,
    time: float | str | None = None,
    progress: Progress | None = None,
) -> tuple[Any, Tape]:
    """The entropy H = −Σ p(x) log p(x) and its tape."""
    how = run(0, threads, memory, time, progress)
    return _forward("entropy", (model,), {"checkpoint": bool(checkpoint)}, how)


def cross_entropy(
    p: Chain,
    q: Chain,
    *,
    checkpoint: bool = False,
    threads: int | None = None,
    memory: int | str | None = None,
    time: float | str | None = None,
    progress: Progress | None = None,
) -> tuple[Any, Tape]:
    """−Σ p(x) log q(x) of two chains of the same shape, and a tape with a gradient for each.

    It is inf where p has paths that q does not have. The transitions may have different forms.
    """
    how = run(0, threads, memory, time, progress)
    return _forward("cross_entropy", (p, q), {"checkpoint": bool(checkpoint)}, how)


def kl(
    p: Chain,
    q: Chain,
    *,
    checkpoint: bool = False,
    threads: int | None = None,
    memory: int | str | None = None,
    time: float | str | None = None,
    progress: Progress | None = None,
) -> tuple[Any, Tape]:
    """KL(p ‖ q) = Σ p(x) log(p(x) / q(x)) of two chains of the same shape, and a tape with both gradients.

    >>> import numpy as np, zhat
    >>> p = zhat.Chain(np.zeros((3, 2)), [[0.0, 1.0], [1.0, 0.0]])
    >>> q = zhat.Chain(np.zeros((3, 2)), np.zeros((2, 2)))
    >>> value, tape = zhat.ops.kl(p, q)
    >>> bool(abs(value - (3 * np.log(2) - zhat.entropy(p).value)) < 1e-12)
    True
    >>> by_p, by_q = tape.vjp()
    """
    how = run(0, threads, memory, time, progress)
    return _forward("kl", (p, q), {"checkpoint": bool(checkpoint)}, how)


@dataclass(frozen=True, eq=False)
class RelaxedSamples:
    """Paths drawn by the Gumbel-max trick, and beside each the softmax that its argmax was taken of.

    `soft` is (n, T, N), of a batch (B, n, T, N), zero behind a sequence's end; `hard` has a path a row, of
    a batch an array for each sequence.
    """

    soft: NDArray[Any]
    hard: Any


def relaxed_sample(
    model: Chain,
    n: int = 1,
    temperature: float = 1.0,
    *,
    seed: int = 0,
    threads: int | None = None,
    memory: int | str | None = None,
    time: float | str | None = None,
    progress: Progress | None = None,
) -> tuple[RelaxedSamples, Tape]:
    """`n` exact samples and their relaxation softmax((log p + Gumbel noise) / temperature), and its tape.

    The tape takes a cotangent of the shape of `soft`, and the hard states of a path as constants. The lower
    the temperature, the nearer are the soft samples to the hard ones, and the larger is the gradients'
    variance.

    >>> import numpy as np, zhat
    >>> samples, tape = zhat.ops.relaxed_sample(zhat.generate.chain(states=5, steps=4), n=2, temperature=0.5)
    >>> samples.soft.shape, samples.hard.shape
    ((2, 4, 5), (2, 4))
    >>> bool((samples.soft.argmax(axis=-1) == samples.hard).all())
    True
    >>> tape.vjp(np.ones((2, 4, 5))).emissions.shape
    (4, 5)
    """
    how = run(seed, threads, memory, time, progress)
    how_many, how_soft = integer("n", n), real("temperature", temperature)
    hard, soft, tape = _zhat.relaxed_sample(_chain(model)._native, how_many, how_soft, how)
    samples = RelaxedSamples(model._unbatched(soft), model._unbatched(hard))
    return samples, Tape(tape, (model,), samples.soft.shape)


def _forward(
    operation: str, models: tuple[Chain, ...], options: dict[str, object], how: _zhat.Run
) -> tuple[Any, Tape]:
    natives = [_chain(model)._native for model in models]
    if any(model._single != models[0]._single for model in models):
        raise InputError("models: expected two single sequences or two batches")
    values, tape = _zhat.forward(operation, natives, settings(options), how)
    return models[0]._numbers(values), Tape(tape, models)


def _chain(model: Chain) -> Chain:
    if not isinstance(model, Chain):
        raise InputError(f"model: expected a zhat.Chain, found {type(model).__name__}")
    return model


def _cotangent(model: Chain, cotangent: ArrayLike) -> NDArray[np.float64]:
    count = len(model.lengths)
    try:
        return np.broadcast_to(np.asarray(cotangent, np.float64), (count,)).copy()
    except (TypeError, ValueError):
        raise InputError(f"cotangent: expected a number, or one for each of {count} sequences") from None
