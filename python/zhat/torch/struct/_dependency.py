"""Dependency trees."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ... import dependency
from ...errors import InputError
from ..model import Model
from ..queries import marginals
from ._base import Lengths, Places, StructDistribution, check_axes, counted, indices, lengths_of


class DependencyCRF(StructDistribution):
    """Projective dependency trees over N words.

    `log_potentials` is (B, N, N), by head and dependent, with the scores of words that depend on the root on
    the diagonal; or (B, N, N, L), with one score per label. Without `multiroot` exactly one word depends on
    the root. The compact representation is (B, N): the head of each word, 0 for the root, i + 1 for word i.

    >>> import torch, zhat.torch.struct
    >>> zhat.torch.struct.DependencyCRF(torch.zeros(2, 4, 4), [4, 3], multiroot=False).count
    tensor([30.,  7.])
    """

    _projective = True

    def __init__(
        self,
        log_potentials: Tensor,
        lengths: Iterable[int] | None = None,
        args: Any = None,
        multiroot: bool = True,
    ) -> None:
        """Potentials of arcs, the length of each sentence, and whether there may be several roots."""
        self.multiroot = bool(multiroot)
        super().__init__(log_potentials, lengths, args)

    def _checked(self, parameters: tuple[Tensor, ...]) -> tuple[int, ...]:
        check_axes("log_potentials", parameters[0], (3, 4), "(B, N, N) or (B, N, N, L)")
        shape = tuple(parameters[0].shape)
        if shape[1] != shape[2] or 0 in shape:
            raise InputError(f"log_potentials: found shape {shape}, expected (B, N, N) or (B, N, N, L)")
        return shape

    def _longest(self, shape: tuple[int, ...]) -> int:
        return shape[1]

    def _model(self, parameters: tuple[Tensor, ...], lengths: Lengths) -> Model:
        (potentials,) = parameters
        roots = potentials.diagonal(dim1=1, dim2=2)
        labelled = potentials.dim() == 4
        return Model(
            dependency.DependencyTree,
            arcs=potentials,
            roots=roots.transpose(1, 2) if labelled else roots,
            labelled=labelled,
            projective=self._projective,
            single_root=not self.multiroot,
            lengths=lengths,
        )

    def _expected(self) -> tuple[Tensor, ...]:
        found = marginals(self._own_model)
        roots = found.roots.transpose(1, 2) if found.roots.dim() == 3 else found.roots
        return (found.arcs + torch.diag_embed(roots, dim1=1, dim2=2),)

    def _places(self, states: Tensor) -> tuple[Places, ...]:
        heads, *labels = states.unbind(-1) if len(self.event_shape) == 3 else (states,)
        word = torch.arange(heads.shape[2]).expand(heads.shape)
        head = torch.where(heads == 0, word, heads - 1).clamp(min=0)
        return ((heads >= 0, (*counted(heads), head, word, *(each.clamp(min=0) for each in labels))),)

    def to_event(self, sequence: Any, extra: Any = None, lengths: Iterable[int] | None = None) -> Tensor:
        """The event (B, N, N) of heads (B, N); with labels `extra` is (B, N), the label of each arc.

        Words after the end of a sentence are not read.
        """
        array = indices("sequence", sequence, (None, self.event_shape[0]), -(2**62), 2**62)
        items, longest = array.shape
        labelled = len(self.event_shape) == 3
        if labelled and extra is None:
            raise InputError("extra: give the label of each arc, in the shape of the heads")
        labels = indices("extra", extra, array.shape, -(2**62), 2**62) if labelled else None
        states = np.full((items, 1, longest, 2), -1)
        for b, count in enumerate(lengths_of(lengths, self._lengths, items, longest)):
            states[b, 0, :count, 0] = indices("sequence", array[b, :count], (count,), 0, count)
            if labels is not None:
                own = indices("extra", labels[b, :count], (count,), 0, self.event_shape[2] - 1)
                states[b, 0, :count, 1] = own
        return self._events(torch.from_numpy(states if labelled else states[..., 0]))[0][0].long()

    def from_event(self, event: Tensor) -> tuple[Tensor, Tensor | None]:
        """The heads (…, B, N) of an event, and the labels of the arcs or `None`.

        Words after the end of a sentence have head 0.
        """
        marked = event != 0
        labels = None
        if len(self.event_shape) == 3:
            labels = marked.any(-3).to(torch.uint8).argmax(-1)
            marked = marked.any(-1)
        words = torch.arange(marked.shape[-1], device=event.device)
        heads = marked.to(torch.uint8).argmax(-2)
        outside = ~marked.any(-2)
        return torch.where((heads == words) | outside, 0, heads + 1), labels


class NonProjectiveDependencyCRF(DependencyCRF):
    """Dependency trees over N words, projective or not; by default exactly one word depends on the root.

    The arguments are those of `DependencyCRF`.

    >>> import torch, zhat.torch.struct
    >>> zhat.torch.struct.NonProjectiveDependencyCRF(torch.zeros(2, 4, 4), [4, 3]).count
    tensor([64.,  9.])
    """

    _projective = False

    def __init__(
        self,
        log_potentials: Tensor,
        lengths: Iterable[int] | None = None,
        args: Any = None,
        multiroot: bool = False,
    ) -> None:
        """Potentials of arcs, the length of each sentence, and whether there may be several roots."""
        super().__init__(log_potentials, lengths, args, multiroot)
