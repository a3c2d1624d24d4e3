"""Models as PyTorch operations: log Z, entropy and divergences with gradients.

`zhat.torch` requires PyTorch; the rest of zhat does not. Tensors must be on the CPU and are used in place.
The backward pass is exact and hand-written: no autograd graph of T steps is recorded.

    chain = zhat.torch.Chain(emissions, transitions)      # tensors, some of which require gradients
    loss = zhat.torch.log_partition(chain).sum()
    loss.backward()

`Chain` covers chains and semi-Markov chains. `Model` does the same for every kind of model that a method can
differentiate (see `zhat.ops`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from .. import ops, sequence


class Model:
    """A model whose parameters are tensors: `zhat.torch.Model(zhat.Chain, emissions=…, transitions=…)`.

    `kind` builds the model from keyword arguments. Arguments that are tensors of real numbers have gradients;
    all others are passed on, tensors of integers as arrays. The first tensor sets the precision of values.
    """

    def __init__(self, kind: Callable[..., Any], **parameters: Any) -> None:
        """Keeps the parameters; the model is built when an operation needs it."""
        self.kind = kind
        self.tensors = {k: v for k, v in parameters.items() if _is_real(v)}
        fixed = {k: v for k, v in parameters.items() if not _is_real(v)}
        self.fixed = {k: v.numpy() if isinstance(v, torch.Tensor) else v for k, v in fixed.items()}


class Chain(Model):
    """The parameters of `zhat.Chain`, or with `segments` those of `zhat.SemiMarkov`, as tensors."""

    def __init__(
        self,
        emissions: torch.Tensor,
        transitions: torch.Tensor | None = None,
        start: torch.Tensor | None = None,
        left: torch.Tensor | None = None,
        right: torch.Tensor | None = None,
        segments: torch.Tensor | None = None,
        lengths: Iterable[int] | None = None,
        log_left: torch.Tensor | None = None,
        log_right: torch.Tensor | None = None,
        end: torch.Tensor | None = None,
        indptr: torch.Tensor | None = None,
        indices: torch.Tensor | None = None,
    ) -> None:
        """The arguments are those of `zhat.Chain` and `zhat.SemiMarkov`."""
        parameters = {
            "transitions": transitions,
            "start": start,
            "left": left,
            "right": right,
            "log_left": log_left,
            "log_right": log_right,
            "end": end,
            "indptr": indptr,
            "indices": indices,
        }
        kind: Callable[..., Any] = sequence.Chain
        if segments is not None:
            kind = sequence.SemiMarkov
            parameters["segments"] = segments
        counts = None if lengths is None else [int(n) for n in lengths]
        super().__init__(kind, emissions=emissions, **parameters, lengths=counts)


def _is_real(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def log_partition(model: Model, **options: Any) -> torch.Tensor:
    """Log Z of each sequence, in the precision of the first tensor; the options are those of `zhat.ops`."""
    return _apply(lambda p: ops.log_partition(p, **options), model)


def entropy(model: Model, **options: Any) -> torch.Tensor:
    """The entropy of each sequence; the options are those of `zhat.ops`."""
    return _apply(lambda p: ops.entropy(p, **options), model)


def cross_entropy(p: Model, q: Model, *, checkpoint: bool = False) -> torch.Tensor:
    """−Σ p(x) log q(x) of each sequence."""
    return _apply(lambda p, q: ops.cross_entropy(p, q, checkpoint=checkpoint), p, q)


def kl(p: Model, q: Model, *, checkpoint: bool = False) -> torch.Tensor:
    """KL(p ‖ q) of each sequence."""
    return _apply(lambda p, q: ops.kl(p, q, checkpoint=checkpoint), p, q)


def relaxed_sample(model: Model, n: int = 1, temperature: float = 1.0, *, seed: int = 0) -> tuple[Any, Any]:
    """Relaxed samples, with gradients, and the hard paths or trees: `zhat.ops.relaxed_sample`.

    With `segments` the relaxed samples are a pair of tensors, for the states and for the lengths.
    """
    hard: list[Any] = []

    def operation(p: Any) -> tuple[Any, ops.Tape]:
        samples, tape = ops.relaxed_sample(p, n, temperature, seed=seed)
        hard.append(samples.hard)
        return samples.soft if samples.lengths is None else (samples.soft, samples.lengths), tape

    return _apply(operation, model), hard[0]


class _Operation(torch.autograd.Function):
    """An operation of `zhat.ops`; its backward pass is `tape.vjp`."""

    @staticmethod
    def forward(
        ctx: Any, operation: Callable[..., tuple[Any, ops.Tape]], models: list[Model], *tensors: torch.Tensor
    ) -> Any:
        """Builds the models from the tensors, in place, and keeps the tape."""
        arrays = iter([tensor.detach().contiguous().numpy() for tensor in tensors])
        built = [
            model.kind(**{name: next(arrays) for name in model.tensors}, **model.fixed) for model in models
        ]
        value, ctx.tape = operation(*built)
        ctx.names = [list(model.tensors) for model in models]
        ctx.dtypes = [tensor.dtype for tensor in tensors]
        if isinstance(value, tuple):
            return tuple(torch.as_tensor(part, dtype=tensors[0].dtype) for part in value)
        return torch.as_tensor(value, dtype=tensors[0].dtype)

    @staticmethod
    def backward(ctx: Any, *cotangents: torch.Tensor) -> Any:
        """The gradients with respect to every tensor."""
        weights = tuple(cotangent.detach().contiguous().numpy() for cotangent in cotangents)
        gradients = ctx.tape.vjp(weights if len(weights) > 1 else weights[0])
        each = gradients if isinstance(gradients, tuple) else (gradients,)
        arrays = [getattr(own, name) for own, names in zip(each, ctx.names, strict=True) for name in names]
        tensors = [torch.from_numpy(array).to(t) for array, t in zip(arrays, ctx.dtypes, strict=True)]
        return (None, None, *tensors)


def _apply(operation: Callable[..., tuple[Any, ops.Tape]], *models: Model) -> Any:
    tensors = [tensor for model in models for tensor in model.tensors.values()]
    return _Operation.apply(operation, list(models), *tensors)
