"""Chains and semi-Markov chains as PyTorch operations: log Z, entropy and divergences with gradients.

`import zhat.torch` needs PyTorch, which zhat itself does not. Tensors live on the CPU and are used in place.
The backward pass is exact and computed by hand: no graph of T steps is recorded.

    scores = zhat.torch.Chain(emissions, transitions)     # tensors, some of which require gradients
    loss = zhat.torch.log_partition(scores).sum()
    loss.backward()
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch

from . import ops, sequence

_NAMES = ("emissions", "transitions", "start", "left", "right", "segments")


@dataclass(frozen=True)
class Chain:
    """The parameters of `zhat.Chain`, or with `segments` of `zhat.SemiMarkov`, as tensors."""

    emissions: torch.Tensor
    transitions: torch.Tensor | None = None
    start: torch.Tensor | None = None
    left: torch.Tensor | None = None
    right: torch.Tensor | None = None
    segments: torch.Tensor | None = None
    lengths: Iterable[int] | None = None

    def _tensors(self) -> list[torch.Tensor | None]:
        return [getattr(self, name) for name in _NAMES]


def log_partition(chain: Chain, **options: Any) -> torch.Tensor:
    """Log Z of each sequence, in the precision of the emissions; the options are those of `zhat.ops`."""
    return _apply(lambda p: ops.log_partition(p, **options), chain)


def entropy(chain: Chain, **options: Any) -> torch.Tensor:
    """The entropy of each sequence; the options are those of `zhat.ops`."""
    return _apply(lambda p: ops.entropy(p, **options), chain)


def cross_entropy(p: Chain, q: Chain, *, checkpoint: bool = False) -> torch.Tensor:
    """−Σ p(x) log q(x) of each sequence."""
    return _apply(lambda p, q: ops.cross_entropy(p, q, checkpoint=checkpoint), p, q)


def kl(p: Chain, q: Chain, *, checkpoint: bool = False) -> torch.Tensor:
    """KL(p ‖ q) of each sequence."""
    return _apply(lambda p, q: ops.kl(p, q, checkpoint=checkpoint), p, q)


def relaxed_sample(chain: Chain, n: int = 1, temperature: float = 1.0, *, seed: int = 0) -> tuple[Any, Any]:
    """Relaxed samples, with gradients, and the hard paths: `zhat.ops.relaxed_sample`.

    With `segments` the relaxed samples are a pair of tensors, for the states and for the lengths.
    """
    hard: list[Any] = []

    def operation(p: ops.Sequences) -> tuple[Any, ops.Tape]:
        samples, tape = ops.relaxed_sample(p, n, temperature, seed=seed)
        hard.append(samples.hard)
        return samples.soft if samples.lengths is None else (samples.soft, samples.lengths), tape

    return _apply(operation, chain), hard[0]


class _Operation(torch.autograd.Function):
    """An operation of `zhat.ops`; its backward pass is the tape's."""

    @staticmethod
    def forward(
        ctx: Any, operation: Callable[..., tuple[Any, ops.Tape]], lengths: list[Any], *tensors: Any
    ) -> Any:
        """Builds the chains from the tensors, in place, and keeps the tape."""
        arrays = [None if tensor is None else tensor.detach().contiguous().numpy() for tensor in tensors]
        count = len(_NAMES)
        groups = [arrays[i : i + count] for i in range(0, len(arrays), count)]
        named: list[dict[str, Any]] = [dict(zip(_NAMES, group, strict=True)) for group in groups]
        chains = [_model(own, n) for own, n in zip(named, lengths, strict=True)]
        value, ctx.tape = operation(*chains)
        ctx.dtypes = [None if tensor is None else tensor.dtype for tensor in tensors]
        if isinstance(value, tuple):
            return tuple(torch.as_tensor(part, dtype=tensors[0].dtype) for part in value)
        return torch.as_tensor(value, dtype=tensors[0].dtype)

    @staticmethod
    def backward(ctx: Any, *cotangents: torch.Tensor) -> Any:
        """The gradients by every tensor."""
        weights = tuple(cotangent.detach().contiguous().numpy() for cotangent in cotangents)
        gradients = ctx.tape.vjp(weights if len(weights) > 1 else weights[0])
        pair = gradients if isinstance(gradients, tuple) else (gradients,)
        arrays = [getattr(gradient, name) for gradient in pair for name in _NAMES]
        tensors = [
            None if dtype is None else torch.from_numpy(array).to(dtype)
            for array, dtype in zip(arrays, ctx.dtypes, strict=True)
        ]
        return (None, None, *tensors)


def _model(parameters: dict[str, Any], lengths: Any) -> ops.Sequences:
    segments = parameters.pop("segments")
    if segments is None:
        return sequence.Chain(**parameters, lengths=lengths)
    return sequence.SemiMarkov(**parameters, lengths=lengths, segments=segments)


def _apply(operation: Callable[..., tuple[Any, ops.Tape]], *chains: Chain) -> Any:
    lengths = [None if chain.lengths is None else [int(n) for n in chain.lengths] for chain in chains]
    tensors = [tensor for chain in chains for tensor in chain._tensors()]
    return _Operation.apply(operation, lengths, *tensors)
