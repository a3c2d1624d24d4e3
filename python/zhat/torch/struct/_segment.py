"""Semi-Markov conditional random fields."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...errors import InputError
from ..model import Chain, Model
from ..queries import marginals
from ._base import Lengths, Places, StructDistribution, check_axes, counted, indices, lengths_of


class SemiMarkovCRF(StructDistribution):
    """Sequences of segments of less than K positions, with C labels.

    A structure is a set of boundaries 0 = p₀ < p₁ < … < pₘ = N − 1, each with a label. `log_potentials` is
    (B, N − 1, K, C, C), where entry [b, n, k, j, i] is for boundaries n with label i and n + k with label j;
    width k = 0 is not used. The compact representation is (B, N): the labels of boundaries, and −1 elsewhere.

    The potentials depend on both labels of a segment, so the chain of zhat has a state per pair. It takes
    time proportional to B·N·(K·C² + C³).

    >>> import torch, zhat.torch.struct
    >>> potentials = torch.zeros(1, 4, 3, 2, 2)
    >>> potentials[0, 1, 2, 1, 0] = 3.0             # from label 0 at position 1 to label 1 at position 3
    >>> dist = zhat.torch.struct.SemiMarkovCRF(potentials)
    >>> dist.from_event(dist.argmax)[0][0, 1:4].tolist()
    [0, -1, 1]
    """

    def _checked(self, parameters: tuple[Tensor, ...]) -> tuple[int, ...]:
        check_axes("log_potentials", parameters[0], (5,), "(B, N - 1, K, C, C)")
        shape = tuple(parameters[0].shape)
        if shape[3] != shape[4] or shape[2] < 2 or 0 in (shape[0], shape[3]):
            expected = "(B, N - 1, K, C, C) with K at least 2"
            raise InputError(f"log_potentials: found shape {shape}, expected {expected}")
        return shape

    def _longest(self, shape: tuple[int, ...]) -> int:
        return shape[1] + 1

    def _model(self, parameters: tuple[Tensor, ...], lengths: Lengths) -> Model:
        # State i·C + j is a segment from label i to label j; state C² + i is the boundary at the end, which
        # takes one more position.
        (potentials,) = parameters
        size, steps, width, states = potentials.shape[:4]
        pairs = states * states
        given = potentials[:, :, 1:].transpose(-1, -2).reshape(size, steps, width - 1, pairs)
        segments = torch.nn.functional.pad(given, (0, states, 0, 0, 0, 1), value=-torch.inf)
        segments[:, :, 0, pairs:] = 0.0
        end = potentials.new_zeros(pairs + states)
        end[:pairs] = -torch.inf
        indptr, targets = _followers(states)
        return Chain(
            potentials.new_zeros(size, steps + 1, pairs + states),
            potentials.new_zeros(len(targets)),
            segments=segments,
            end=end,
            indptr=torch.from_numpy(indptr),
            indices=torch.from_numpy(targets),
            lengths=lengths,
        )

    def _expected(self) -> tuple[Tensor, ...]:
        states = self.event_shape[-1]
        found = marginals(self._own_model).segments[:, :-1, :, : states * states]
        pairs = found.unflatten(-1, (states, states)).transpose(-1, -2)
        return (torch.nn.functional.pad(pairs, (0, 0, 0, 0, 1, 0)),)

    def _places(self, states: Tensor) -> tuple[Places, ...]:
        pair, width = states.unbind(-1)
        starts = width.clamp(min=0).cumsum(-1) - width
        number_of_states = self.event_shape[-1]
        used = (pair >= 0) & (pair < number_of_states**2)
        own = torch.where(used, pair, 0)
        before, after = own // number_of_states, own % number_of_states
        parts = (torch.where(used, starts, 0), torch.where(used, width, 0), after, before)
        return ((used, (*counted(pair), *parts)),)

    def to_event(self, sequence: Any, extra: Any = None, lengths: Iterable[int] | None = None) -> Tensor:
        """The event (B, N − 1, K, C, C) of labels (B, N), with −1 where there is no boundary.

        `extra` is (C, K), by default those of the distribution; `lengths` are those of the distribution.
        """
        states, width = (self.event_shape[-1], self.event_shape[1]) if extra is None else map(int, extra)
        array = indices("sequence", sequence, (None, None), -1, states - 1)
        items, longest = array.shape
        counts = lengths_of(lengths, self._lengths, items, longest)
        event = torch.zeros(items, longest - 1, width, states, states, dtype=torch.long)
        for b, count in enumerate(counts):
            places = np.flatnonzero(array[b, :count] >= 0)
            if count > 1 and (places.size == 0 or places[0] != 0 or places[-1] != count - 1):
                raise InputError(f"sequence: item {b} needs a label at positions 0 and {count - 1}")
            labels, widths = array[b, places], np.diff(places)
            if widths.size and widths.max() >= width:
                raise InputError(
                    f"sequence: item {b} has a segment of {widths.max()}, the longest is {width - 1}"
                )
            event[b, places[:-1], widths, labels[1:], labels[:-1]] = 1
        return event

    def from_event(self, event: Tensor) -> tuple[Tensor, tuple[int, int]]:
        """The labels (…, B, N) of an event, −1 where there is no boundary, and (C, K)."""
        *outer, steps, width, states, _ = event.shape
        labels = torch.full((*outer, steps + 1), -1, dtype=torch.long, device=event.device)
        *place, start, wide, after, before = event.nonzero().T
        labels[(*place, start)] = before
        labels[(*place, start + wide)] = after
        return labels, (states, width)


def _followers(states: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """For each state of the chain those that may follow, in compressed sparse rows."""
    every = np.arange(states)
    rows = np.column_stack([every[:, None] * states + every, states * states + every])
    targets = np.tile(rows, (states, 1)).ravel()
    indptr = np.minimum(np.arange(states * states + states + 1) * (states + 1), targets.size)
    return indptr, targets
