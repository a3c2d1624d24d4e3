"""Models whose parameters are tensors."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch

from .. import sequence
from ..errors import InputError
from ..sparse import unpacked
from ._kinds import FACTOR_GRAPH, HYPERTREE, Kind, axes_of, kind_of


class Model:
    """A model whose parameters are tensors: `zhat.torch.Model(zhat.DependencyTree, arcs=…, roots=…)`.

    `kind` is one of the classes `zhat.Chain`, `zhat.SemiMarkov`, `zhat.DependencyTree`, `zhat.Hypertree`,
    `zhat.PairwiseGraph` and `zhat.FactorGraph`, and the parameters are those of the class. Tensors of real
    numbers have gradients. Other numbers may be tensors, arrays or lists; `lengths` that change from batch to
    batch should be a tensor, so that `torch.compile` compiles once.

    Tensors must be on the CPU. The first parameter, such as `emissions`, sets the precision: float64 is
    computed in float64, float32 and shorter numbers in float32. The other parameters are converted to that
    precision. A result has the type of the first parameter, and each gradient that of its own parameter.

    >>> import torch, zhat, zhat.torch
    >>> trees = zhat.torch.Model(zhat.DependencyTree, arcs=torch.zeros(2, 5, 5), lengths=torch.tensor([5, 3]))
    >>> trees
    Model(dependency-tree, arcs (2, 5, 5), lengths (2,))
    >>> zhat.torch.log_partition(trees).exp().round()           # the numbers of projective trees
    tensor([273.,  12.])
    """

    def __init__(self, kind: Callable[..., Any], **parameters: Any) -> None:
        """Checks the types of the parameters. Their shapes are checked when an operation uses them."""
        own = kind_of(kind)
        self.kind: Kind = own
        """The kind of the model."""
        self.tensors: dict[str, torch.Tensor] = {}
        """The parameters by name: real numbers first, then integers such as `lengths`."""
        if own is FACTOR_GRAPH:
            self.text = self._add_factors(**parameters)
            return
        if own is HYPERTREE:
            parameters = _without_names(parameters)
        first: torch.Tensor | None = None
        for name in own.real:
            value = parameters.pop(name, None)
            if value is not None:
                tensor = _real(name, value, first)
                self.tensors[name] = tensor
                first = tensor if first is None else first
        if first is None or (own.real[0] not in self.tensors and own is not HYPERTREE):
            raise InputError(f"{own.real[0]}: is missing")
        for name in own.whole:
            value = parameters.pop(name, None)
            if value is not None:
                self.tensors[name] = _whole(name, value)
        words = [own.name, *self.tensors]
        settings: dict[str, int] = {}
        for name in own.settings:
            value = parameters.pop(name, None)
            if value is not None:
                settings[name] = int(value)
                words.append(f"{name}={int(value)}")
        for name in parameters:
            known = ", ".join((*own.real, *own.whole, *own.settings))
            raise InputError(f"{name}: is not a parameter of the kind {own.name}; known are {known}")
        self.settings = settings
        self.text = " ".join(words)

    text: str
    """The description of the tensors for operators; see `zhat.torch._kinds`."""

    settings: dict[str, int]
    """The settings that are not tensors."""

    cardinalities: list[int]
    scopes: list[list[int]]
    """The numbers of states and the scopes of a factor graph."""

    def _add_factors(
        self, cardinalities: Iterable[int] = (), factors: Iterable[tuple[Iterable[int], Any]] = ()
    ) -> str:
        """Adds the tables of a factor graph and returns its description."""
        self.settings, self.scopes, first = {}, [], None
        self.cardinalities = [int(size) for size in cardinalities]
        for f, (scope, values) in enumerate(factors):
            tensor = _real(f"factors[{f}]", values, first)
            self.tensors[f"factors[{f}]"] = tensor
            first = tensor if first is None else first
            self.scopes.append([int(v) for v in scope])
        if first is None:
            raise InputError("factors: a model of tensors needs at least one factor")
        sizes = ",".join([str(size) for size in self.cardinalities])
        scopes = ";".join([",".join([str(v) for v in scope]) for scope in self.scopes])
        return " ".join(["factor-graph", *self.tensors, f"cardinalities={sizes}", f"scopes={scopes}"])

    @property
    def single(self) -> bool:
        """Whether the model is one item rather than a batch."""
        first = next(iter(self.tensors))
        return self.kind.graph or self.tensors[first].dim() == axes_of(self.kind, first, self.settings)

    def __repr__(self) -> str:
        """The kind and the shapes."""
        shapes = (f"{name} {tuple(tensor.shape)}" for name, tensor in self.tensors.items())
        return f"{type(self).__name__}({', '.join([self.kind.name, *shapes])})"


class Chain(Model):
    """The parameters of `zhat.Chain`, or with `segments` those of `zhat.SemiMarkov`, as tensors.

    >>> import torch, zhat.torch
    >>> chain = zhat.torch.Chain(torch.zeros(2, 3, 4), torch.zeros(4, 4), lengths=[3, 2])
    >>> zhat.torch.log_partition(chain).exp().round()           # the numbers of paths
    tensor([64., 16.])
    """

    def __init__(
        self,
        emissions: torch.Tensor,
        transitions: Any = None,
        start: torch.Tensor | None = None,
        left: torch.Tensor | None = None,
        right: torch.Tensor | None = None,
        segments: torch.Tensor | None = None,
        lengths: Any = None,
        log_left: torch.Tensor | None = None,
        log_right: torch.Tensor | None = None,
        end: torch.Tensor | None = None,
        indptr: Any = None,
        indices: Any = None,
    ) -> None:
        """The arguments are those of `zhat.Chain` and `zhat.SemiMarkov`."""
        if transitions is not None and not isinstance(transitions, torch.Tensor):
            sparse = unpacked(transitions)
            if sparse is not None:
                transitions, indices, indptr = sparse
        super().__init__(
            sequence.Chain if segments is None else sequence.SemiMarkov,
            emissions=emissions,
            transitions=transitions,
            start=start,
            left=left,
            right=right,
            log_left=log_left,
            log_right=log_right,
            end=end,
            indptr=indptr,
            indices=indices,
            lengths=lengths,
            **({} if segments is None else {"segments": segments}),
        )


def _real(name: str, value: Any, first: torch.Tensor | None) -> torch.Tensor:
    """A tensor of real numbers on the CPU; an array becomes one in the precision of the first parameter."""
    if not isinstance(value, torch.Tensor):
        # PyTorch makes single precision of Python's numbers if it is not told otherwise.
        dtype = None
        if first is not None and isinstance(value, (list, tuple, int, float)):
            dtype = first.dtype
        value = _made(name, value, "a tensor of real numbers", dtype)
        if first is not None and not value.is_complex():
            value = value.to(first.dtype)
    if not value.is_floating_point():
        raise InputError(f"{name}: has values of type {value.dtype}; expected real numbers, as by .float()")
    return on_cpu(name, value)


def _made(name: str, value: Any, expected: str, dtype: torch.dtype | None = None) -> torch.Tensor:
    """An array or a list as a tensor."""
    try:
        if isinstance(value, np.ndarray) and not value.flags.writeable:
            with warnings.catch_warnings():  # PyTorch warns of writing to the tensor; nothing here does
                warnings.filterwarnings("ignore", "The given NumPy array is not writ")
                return torch.as_tensor(value)
        return torch.as_tensor(value, dtype=dtype)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise InputError(f"{name}: expected {expected}, found {type(value).__name__}: {error}") from None


def _whole(name: str, value: Any) -> torch.Tensor:
    """A tensor of integers on the CPU."""
    if not isinstance(value, torch.Tensor):
        expected = "a tensor of integers"
        if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
            raise InputError(f"{name}: expected {expected}, found {value!r}")
        value = _made(name, value if isinstance(value, np.ndarray) else list(value), expected)
        if value.numel() == 0:
            value = value.long()
    if value.is_floating_point() or value.is_complex() or value.dtype is torch.bool:
        raise InputError(f"{name}: has values of type {value.dtype}; expected integers, as by .long()")
    return on_cpu(name, value)


def on_cpu(name: str, value: torch.Tensor) -> torch.Tensor:
    """The same numbers, if they are on the CPU and strided."""
    if value.device.type != "cpu":
        raise InputError(
            f"{name}: is on the device {value.device}; zhat.torch computes on the CPU, so call .cpu() first"
        )
    if value.layout is not torch.strided:
        raise InputError(f"{name}: has the layout {value.layout}; expected a strided tensor")
    if value.is_floating_point() or torch.compiler.is_compiling():
        return value
    return value.resolve_neg()  # PyTorch ignores the sign of a negated view of indices


def _without_names(parameters: dict[str, Any]) -> dict[str, Any]:
    """The parameters of trees without the names of symbols and words, which change no number."""
    names = parameters.pop("symbol_names", None)
    parameters.pop("word_names", None)
    if names is not None and parameters.get("symbols") is None:
        parameters["symbols"] = len(list(names))
    return parameters
