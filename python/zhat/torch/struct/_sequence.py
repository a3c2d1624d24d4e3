"""Linear chains and hidden Markov models."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...errors import InputError
from .._cached import cached_property
from ..model import Chain, Model
from ..queries import marginals
from ._base import (
    Event,
    Lengths,
    Places,
    StructDistribution,
    check_axes,
    counted,
    indices,
    integers,
    lengths_of,
)


class LinearChainCRF(StructDistribution):
    """Sequences of N states out of C, by scores of neighbouring states.

    `log_potentials` is (B, N − 1, C, C), where entry [b, n, j, i] is for state i at position n and state j at
    position n + 1. The compact representation is (B, N): the state at each position. A sequence of length 1
    has no parts, so its event is zero and its C states are equally probable.

    >>> import torch, zhat.torch.struct
    >>> dist = zhat.torch.struct.LinearChainCRF(torch.zeros(2, 3, 5, 5), lengths=[4, 2])
    >>> dist.partition.exp().round()                                # the numbers of sequences
    tensor([625.,  25.])
    >>> dist.to_event(torch.tensor([[0, 1, 2, 3], [4, 0, 0, 0]])).nonzero().tolist()
    [[0, 0, 1, 0], [0, 1, 2, 1], [0, 2, 3, 2], [1, 0, 0, 4]]
    """

    def _checked(self, parameters: tuple[Tensor, ...]) -> tuple[int, ...]:
        check_axes("log_potentials", parameters[0], (4,), "(B, N - 1, C, C)")
        shape = tuple(parameters[0].shape)
        if shape[2] != shape[3] or 0 in (shape[0], shape[2]):
            raise InputError(f"log_potentials: found shape {shape}, expected (B, N - 1, C, C)")
        return shape

    def _longest(self, shape: tuple[int, ...]) -> int:
        return shape[1] + 1

    def _model(self, parameters: tuple[Tensor, ...], lengths: Lengths) -> Model:
        (potentials,) = parameters
        size, steps, states = potentials.shape[:3]
        by_state = potentials.transpose(-1, -2).contiguous()
        return Chain(potentials.new_zeros(size, steps + 1, states), by_state, lengths=lengths)

    def _expected(self) -> tuple[Tensor, ...]:
        model = LinearChainCRF._model(self, self._potentials, self._lengths)
        return (marginals(model).transitions.transpose(-1, -2),)

    def _places(self, states: Tensor) -> tuple[Places, ...]:
        before, after = states[..., :-1], states[..., 1:]
        place = (*counted(after), torch.arange(after.shape[2]).expand(after.shape))
        return ((after >= 0, (*place, after.clamp(min=0), before.clamp(min=0))),)

    def to_event(self, sequence: Any, extra: Any = None, lengths: Iterable[int] | None = None) -> Tensor:
        """The event (B, N − 1, C, C) of states (B, N); positions after the end are not read.

        `extra` is C, by default that of the distribution; `lengths` are those of the distribution.
        """
        states = self.event_shape[-1] if extra is None else int(extra)
        array = indices("sequence", sequence, (None, None), -(2**62), 2**62)
        items, longest = array.shape
        counts = lengths_of(lengths, self._lengths, items, longest)
        event = torch.zeros(items, longest - 1, states, states, dtype=torch.long)
        for b, count in enumerate(counts):
            path = indices("sequence", array[b, :count], (count,), 0, states - 1)
            event[b, np.arange(count - 1), path[1:], path[:-1]] = 1
        return event

    def from_event(self, event: Tensor) -> tuple[Tensor, int]:
        """The states (…, B, N) of an event, zero after the end, and C."""
        marked = event != 0
        following, first = marked.any(-1), marked[..., :1, :, :].any(-2)
        states = torch.cat([first, following], -2).to(torch.uint8).argmax(-1)
        return states, event.shape[-1]


class HMM(LinearChainCRF):
    """The states of a hidden Markov model, given the observations.

    `transition` is (C, C), log p(z | y) at [z, y]: the previous state is the column. `emission` is (V, C),
    `init` (C,), and `observations` are (B, N) symbols. `partition` is the log-likelihood of each sequence.

    `partition`, `entropy`, `max`, `argmax`, `topk`, `sample` and divergences use these tables and take memory
    proportional to B·N·C. `marginals`, `log_prob` and `log_potentials` use the (B, N − 1, C, C) table of a
    `LinearChainCRF`. A sequence of one observation has no parts, so it has no `log_prob`.

    >>> import torch, zhat.torch.struct
    >>> transition = torch.tensor([[0.9, 0.5], [0.1, 0.5]]).log()   # a column per previous state
    >>> emission = torch.tensor([[0.8, 0.3], [0.2, 0.7]]).log()     # a row per symbol
    >>> dist = zhat.torch.struct.HMM(transition, emission, torch.tensor([0.5, 0.5]).log(), [[0, 1, 1]])
    >>> dist.from_event(dist.argmax)[0].tolist()
    [[1, 1, 1]]
    """

    def __init__(
        self,
        transition: Tensor,
        emission: Tensor,
        init: Tensor,
        observations: Tensor,
        lengths: Iterable[int] | None = None,
    ) -> None:
        """The tables are logarithms of probabilities, or any scores."""
        check_axes("emission", emission, (2,), "(V, C)")
        symbols, states = emission.shape
        for name, table, shape in (("transition", transition, (states, states)), ("init", init, (states,))):
            check_axes(name, table, (len(shape),), "(C, C)" if name == "transition" else "(C,)")
            if tuple(table.shape) != shape:
                raise InputError(f"{name}: found shape {tuple(table.shape)}, expected {shape}")
        self.observations = integers("observations", observations, (None, None), 0, symbols - 1)
        self.args: Any = {}
        self._set_up((transition, emission, init), lengths)

    def _checked(self, parameters: tuple[Tensor, ...]) -> tuple[int, ...]:
        items, steps = self.observations.shape
        states = parameters[0].shape[0]
        if 0 in (items, steps, states):
            raise InputError(f"observations: found shape {(items, steps)}; every length is at least 1")
        return items, steps - 1, states, states

    def _model(self, parameters: tuple[Tensor, ...], lengths: Lengths) -> Model:
        transition, emission, init = parameters
        by_state = transition.transpose(0, 1).contiguous()
        return Chain(emission[self.observations], by_state, start=init, lengths=lengths)

    @cached_property
    def log_potentials(self) -> Tensor:  # type: ignore[override]
        """The potentials of the same distribution as a `LinearChainCRF`."""
        transition, emission, init = self._parameters
        with torch.enable_grad():
            seen = emission[self.observations]
            first = (seen[:, :1] + init)[:, :, None, :]
            later = transition + seen[:, 1:, :, None]
            return torch.cat([later[:, :1] + first[:, : later.shape[1]], later[:, 1:]], 1)

    def log_prob(self, value: Event) -> Tensor:
        """The log-probability of events (sample_shape × batch × event)."""
        if not torch.compiler.is_compiling() and 1 in self._lengths:
            b = [int(own) for own in self._lengths].index(1)
            raise InputError(f"value: sequence {b} has one observation, so an event does not show its state")
        return super().log_prob(value)
