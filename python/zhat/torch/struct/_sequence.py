"""Linear chains and hidden Markov models."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch

from ...errors import InputError
from .. import Chain, Model
from ._base import Event, Parts, StructDistribution, check_axes, indices, lengths_of


class LinearChainCRF(StructDistribution):
    """Sequences of N states out of C, by scores of neighbouring states.

    `log_potentials` is (B, N − 1, C, C), where entry [b, n, j, i] is for state i at position n and state j at
    position n + 1. The compact representation is (B, N): the state at each position. A sequence of length 1
    has no parts, so its event is zero and its C states are equally probable.
    """

    def _checked(self, parameters: tuple[torch.Tensor, ...]) -> tuple[int, ...]:
        check_axes("log_potentials", parameters[0], (4,), "(B, N - 1, C, C)")
        shape = tuple(parameters[0].shape)
        if shape[2] != shape[3] or 0 in (shape[0], shape[2]):
            raise InputError(f"log_potentials: found shape {shape}, expected (B, N - 1, C, C)")
        return shape

    def _longest(self, shape: tuple[int, ...]) -> int:
        return shape[1] + 1

    def _model(self, parameters: tuple[torch.Tensor, ...], lengths: list[int]) -> Model:
        (potentials,) = parameters
        size, steps, states = potentials.shape[:3]
        return Chain(
            potentials.new_zeros(size, steps + 1, states), potentials.transpose(-1, -2), lengths=lengths
        )

    def _parts(self, found: Sequence[Any]) -> Parts:
        paths = np.stack([getattr(each, "states", each) for each in found])
        count, steps = paths.shape[0], paths.shape[1] - 1
        number, place = np.divmod(np.arange(count * steps), max(steps, 1))
        return [np.column_stack([number, place, paths[:, 1:].ravel(), paths[:, :-1].ravel()])]

    def _drawn(self, samples: Any) -> Any:
        return samples.states

    def to_event(self, sequence: Any, extra: Any = None, lengths: Iterable[int] | None = None) -> torch.Tensor:
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

    def from_event(self, event: torch.Tensor) -> tuple[torch.Tensor, int]:
        """The states (…, B, N) of an event, zero after the end, and C."""
        marked = event != 0
        following, first = marked.any(-1), marked[..., :1, :, :].any(-2)
        states = torch.cat([first, following], -2).to(torch.uint8).argmax(-1)
        return states, event.shape[-1]


class HMM(LinearChainCRF):
    """The states of a hidden Markov model, given the observations.

    `transition` is (C, C), log p(z | y) at [z, y]: the previous state is the column. `emission` is (V, C),
    `init` (C,), and `observations` are (B, N) symbols. `partition` is the log-likelihood of each sequence.

    `partition`, `entropy`, `max`, `argmax`, `topk`, `sample` and divergences use these tables, and take memory
    proportional to B·N·C. `marginals`, `log_prob` and `log_potentials` use the (B, N − 1, C, C) table of a
    `LinearChainCRF`. A sequence of one observation has no parts, so it has no `log_prob`.
    """

    def __init__(
        self,
        transition: torch.Tensor,
        emission: torch.Tensor,
        init: torch.Tensor,
        observations: torch.Tensor,
        lengths: Iterable[int] | None = None,
    ) -> None:
        """The tables are logarithms of probabilities, or any scores."""
        check_axes("emission", emission, (2,), "(V, C)")
        symbols, states = emission.shape
        for name, table, shape in (("transition", transition, (states, states)), ("init", init, (states,))):
            check_axes(name, table, (len(shape),), str(shape))
            if tuple(table.shape) != shape:
                raise InputError(f"{name}: found shape {tuple(table.shape)}, expected {shape}")
        indices("observations", observations, (None, None), 0, symbols - 1)
        self.observations = torch.as_tensor(observations).to(emission.device)
        self.args: Any = {}
        self._set_up((transition, emission, init), lengths)

    def _checked(self, parameters: tuple[torch.Tensor, ...]) -> tuple[int, ...]:
        items, steps = self.observations.shape
        states = parameters[0].shape[0]
        if 0 in (items, steps, states):
            raise InputError(f"observations: found shape {(items, steps)}; every length is at least 1")
        return items, steps - 1, states, states

    def _model(self, parameters: tuple[torch.Tensor, ...], lengths: list[int]) -> Model:
        transition, emission, init = parameters
        return Chain(emission[self.observations], transition.transpose(0, 1), start=init, lengths=lengths)

    @cached_property
    def log_potentials(self) -> torch.Tensor:
        """The potentials of the same distribution as a `LinearChainCRF`."""
        transition, emission, init = self._parameters
        with torch.enable_grad():
            seen = emission[self.observations]
            first = (seen[:, :1] + init)[:, :, None, :]
            later = transition + seen[:, 1:, :, None]
            return torch.cat([later[:, :1] + first[:, : later.shape[1]], later[:, 1:]], 1)

    def _event_model(self, *potentials: torch.Tensor) -> Model:
        return super()._model(potentials, self._lengths)

    def _scores(self, found: Sequence[Sequence[Any]], events: tuple[torch.Tensor, ...]) -> torch.Tensor:
        transition, emission, init = self._parameters
        count = len(events[0])
        paths = np.zeros((count, len(found), self.observations.shape[1]), np.int64)
        for b, own in enumerate(found):
            for i, path in enumerate(own):
                paths[i, b, : len(path.states)] = path.states
        states = torch.from_numpy(paths).to(emission.device)
        ends = torch.tensor(self._lengths, device=emission.device)[:, None]
        inside = torch.arange(paths.shape[2], device=emission.device) < ends
        seen = emission[self.observations, states].masked_fill(~inside, 0.0).sum(-1)
        moves = transition[states[..., 1:], states[..., :-1]].masked_fill(~inside[:, 1:], 0.0).sum(-1)
        return init[states[..., 0]] + seen + moves

    def log_prob(self, value: Event) -> torch.Tensor:
        """The log-probability of events (sample_shape × batch × event)."""
        if 1 in self._lengths:
            b = self._lengths.index(1)
            raise InputError(f"value: sequence {b} has one observation, so an event does not show its state")
        return super().log_prob(value)
