"""The queries that all structured distributions share."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.distributions import Distribution

from ..._arguments import integer
from ...errors import InputError
from .._cached import cached_property
from .._checks import equal_lengths, in_range
from .._states import drawn
from ..model import Model, on_cpu
from ..queries import best, cross_entropy, entropy, k_best, kl, log_partition

Event: TypeAlias = "Tensor | tuple[Tensor, ...]"
# The length of each item; a tensor in compiled code.
Lengths: TypeAlias = "list[int] | Tensor"
# Which parts there are, and their places in a tensor of structures × batch × event, one index per axis. The
# places of other parts are not used, but valid.
Places: TypeAlias = "tuple[Tensor, tuple[Tensor, ...]]"

# Counts below this number are rounded to integers; their relative error is far below its inverse.
_EXACT_COUNT = 1e12


class StructDistribution(Distribution):
    """A distribution over structures: p(z) ∝ exp(Σ potentials of the parts of z).

    An *event* marks the parts of a structure by ones, in the shape of the potentials. Numbers have one entry
    per item of the batch. Properties are computed once and kept.
    """

    arg_constraints: dict[str, Any] = {}  # noqa: RUF012

    def __init__(
        self, log_potentials: Tensor, lengths: Iterable[int] | None = None, args: Any = None
    ) -> None:
        """Potentials of shape batch × event, and the length of each item; `args` is kept and not used."""
        self.log_potentials: Any = log_potentials
        self.args = {} if args is None else args
        self._set_up((log_potentials,), lengths)

    def _set_up(self, parameters: tuple[Tensor, ...], lengths: Iterable[int] | None) -> None:
        """Keeps the tensors of which the model is made, after a check of their shapes."""
        self._parameters = parameters
        shape = self._checked(parameters)
        self.lengths = lengths
        self._lengths = _lengths(lengths, shape[0], self._longest(shape))
        super().__init__(torch.Size(shape[:1]), torch.Size(shape[1:]), validate_args=False)

    # What a kind of structure defines.

    def _checked(self, parameters: tuple[Tensor, ...]) -> tuple[int, ...]:
        """The shape batch × event, after a check of the tensors."""
        raise NotImplementedError

    def _longest(self, shape: tuple[int, ...]) -> int:
        """The length of an item that uses all potentials."""
        raise NotImplementedError

    def _model(self, parameters: tuple[Tensor, ...], lengths: Lengths) -> Model:
        """The model of zhat."""
        raise NotImplementedError

    def _expected(self) -> tuple[Tensor, ...]:
        """The expected event."""
        raise NotImplementedError

    def _places(self, states: Tensor) -> tuple[Places, ...]:
        """The parts of states (batch × structures × state), for each tensor of an event."""
        raise NotImplementedError

    @property
    def _potentials(self) -> tuple[Tensor, ...]:
        """The tensors of an event's shape."""
        return (self.log_potentials,)

    # Queries.

    @cached_property
    def partition(self) -> Tensor:
        """Log Z (batch)."""
        with torch.enable_grad():
            return log_partition(self._own_model)

    @cached_property
    def marginals(self) -> Event:
        """The probability of each part (batch × event): the gradient of log Z."""
        with torch.enable_grad():
            return self._event(self._expected())

    @cached_property
    def entropy(self) -> Tensor:  # type: ignore[override]
        """The entropy in nats (batch)."""
        with torch.enable_grad():
            return entropy(self._own_model)

    def cross_entropy(self, other: StructDistribution) -> Tensor:
        """−Σ p(z) log q(z), where q is `other` (batch)."""
        return cross_entropy(self._own_model, self._other(other))

    def kl(self, other: StructDistribution) -> Tensor:
        """KL(p ‖ q) = Σ p(z) log(p(z) / q(z)), where q is `other` (batch)."""
        return kl(self._own_model, self._other(other))

    @cached_property
    def _best(self) -> tuple[Tensor, Tensor]:
        """The best structure and its score."""
        with torch.enable_grad():
            return best(self._own_model)

    @cached_property
    def argmax(self) -> Event:
        """The event of the best structure (batch × event); of several best structures it is one."""
        events = self._events(self._best[0].unsqueeze(1))
        return self._event(tuple(each[0] for each in events))

    @property
    def max(self) -> Tensor:
        """The score of the best structure (batch): its potentials summed; −inf if there is none."""
        return self._best[1]

    @property
    def mode(self) -> Event:  # type: ignore[override]
        """`argmax` by another name."""
        return self.argmax

    def topk(self, k: int) -> Event:
        """The events of the k best structures (k × batch × event), zero where there are fewer."""
        return self._event(self._events(k_best(self._own_model, integer("k", k, 1)).states))

    def kmax(self, k: int) -> Tensor:
        """The scores of the k best structures (k × batch), −inf where there are fewer."""
        return k_best(self._own_model, integer("k", k, 1)).scores.transpose(0, 1)

    def sample(self, sample_shape: Iterable[int] | int = ()) -> Event:  # type: ignore[override]
        """Exact samples (sample_shape × batch × event). `torch.manual_seed` sets the seed.

        An item without any structure raises `ZeroPartitionError`.
        """
        given = (sample_shape,) if isinstance(sample_shape, int) else tuple(sample_shape)
        shape = [integer("sample_shape", size) for size in given]
        own, seed = self._own_model, torch.randint(2**62, ())
        states = drawn([tensor.detach() for tensor in own.tensors.values()], own.text, prod(shape), seed)
        events = self._events(states)
        return self._event(tuple(each.reshape(*shape, *each.shape[1:]) for each in events))

    def log_prob(self, value: Event) -> Tensor:
        """The log-probability of events (sample_shape × batch × event), which must be structures."""
        return self._score(self._tensors(value)) - self.partition

    @cached_property
    def count(self) -> Tensor:
        """The number of structures (batch) without a part of potential −inf."""
        with torch.no_grad():
            zeros = ((p, torch.zeros_like(p, dtype=torch.float64)) for p in self._parameters)
            flat = tuple(zero.masked_fill(p.isneginf(), -torch.inf) for p, zero in zeros)
            counts = log_partition(self._model(flat, self._lengths)).exp()
            counts = torch.where(counts < _EXACT_COUNT, counts.round(), counts)
            return counts.to(self._parameters[0].dtype)

    def to_event(self, sequence: Any, extra: Any = None, lengths: Iterable[int] | None = None) -> Any:
        """The event of a structure in its compact representation; here they are the same."""
        return sequence

    def from_event(self, event: Any) -> Any:
        """The compact representation of an event, and what else `to_event` needs."""
        return event, None

    # Shared work.

    @property
    def _own_model(self) -> Model:
        return self._model(self._parameters, self._lengths)

    def _score(self, events: tuple[Tensor, ...]) -> Tensor:
        """The sum of the potentials of the parts (… × batch)."""
        total: Any = 0.0
        for potential, event in zip(self._potentials, events, strict=False):
            own = event.to(potential.dtype)
            allowed = potential.masked_fill(~potential.isfinite() & (own == 0), 0.0)
            total = total + (allowed * own).flatten(-(potential.dim() - 1)).sum(-1)
        return total  # type: ignore[no-any-return]

    def _events(self, states: Tensor) -> tuple[Tensor, ...]:
        """The events (structures × batch × event) of states (batch × structures × state), padded with −1."""
        items, count = states.shape[:2]
        first, events = self._parameters[0], []
        for shape, (used, place) in zip(self._event_shapes(), self._places(states), strict=True):
            event = torch.zeros(count, items, *shape, dtype=first.dtype)
            events.append(event.index_put_(place, used.to(event.dtype), accumulate=True))
        return tuple(events)

    def _event_shapes(self) -> tuple[tuple[int, ...], ...]:
        return (tuple(self.event_shape),)

    def _event(self, tensors: tuple[Tensor, ...]) -> Event:
        return tensors[0] if len(tensors) == 1 else tensors

    def _tensors(self, value: Event) -> tuple[Tensor, ...]:
        """The tensors of an event, after a check of their shapes."""
        tensors = (value,) if isinstance(value, Tensor) else tuple(value)
        if len(tensors) < len(self._potentials):
            raise InputError(f"value: expected {len(self._potentials)} tensors, found {len(tensors)}")
        for tensor, potential in zip(tensors, self._potentials, strict=False):
            if tuple(tensor.shape[-potential.dim() :]) != tuple(potential.shape):
                expected = f"(…, {', '.join(map(str, potential.shape))})"
                raise InputError(f"value: found shape {tuple(tensor.shape)}, expected {expected}")
        return tensors

    def _other(self, other: StructDistribution) -> Model:
        """The model of another distribution over the same structures."""
        if not isinstance(other, StructDistribution):
            raise InputError(
                f"other: expected a distribution of zhat.torch.struct, found {type(other).__name__}"
            )
        if (other.batch_shape, other.event_shape) != (self.batch_shape, self.event_shape):
            found, own = ((*each.batch_shape, *each.event_shape) for each in (other, self))
            raise InputError(f"other: found shape {found}, expected {own}")
        lengths = self._lengths
        if other.lengths is not None:
            lengths = same_lengths(lengths, other._lengths)
        return other._model(other._parameters, lengths)


def counted(states: Tensor) -> tuple[Tensor, Tensor]:
    """The number of the structure and of the item of each entry of a tensor (batch × structures × …)."""
    shape, ones = states.shape, [1] * (states.dim() - 2)
    number, item = torch.arange(shape[1]).view(1, -1, *ones), torch.arange(shape[0]).view(-1, 1, *ones)
    return number.expand(shape), item.expand(shape)


def same_lengths(own: Lengths, others: Lengths) -> Lengths:
    """The lengths, which have to be those of another distribution."""
    if isinstance(own, Tensor) or isinstance(others, Tensor):
        found: Tensor = equal_lengths(torch.as_tensor(own), torch.as_tensor(others))
        return found
    if own != others:
        raise InputError(f"other: found lengths {others}, expected {own}")
    return own


def check_axes(name: str, tensor: Any, axes: tuple[int, ...], form: str) -> None:
    """Checks that an argument is a tensor of real numbers with one of these numbers of axes."""
    if not isinstance(tensor, Tensor):
        raise InputError(f"{name}: expected a tensor of shape {form}, found {type(tensor).__name__}")
    if tensor.dim() not in axes:
        raise InputError(f"{name}: found shape {tuple(tensor.shape)}, expected {form}")
    if not tensor.is_floating_point():
        raise InputError(f"{name}: found {tensor.dtype}, expected a tensor of real numbers")
    on_cpu(name, tensor)


def indices(name: str, values: Any, shape: tuple[int | None, ...], low: int, high: int) -> NDArray[np.int64]:
    """Integers between `low` and `high` in an array of this shape; `None` is any length."""
    tensor = _whole(name, values, shape)
    array: NDArray[np.int64] = tensor.detach().resolve_neg().numpy().astype(np.int64)
    if array.size and (array.min() < low or array.max() > high):
        bad = int(array.min() if array.min() < low else array.max())
        raise InputError(f"{name}: found {bad}, expected integers from {low} to {high}")
    return array


def integers(name: str, values: Any, shape: tuple[int | None, ...], low: int, high: int) -> Tensor:
    """The same as a tensor, which is also checked in compiled code."""
    found: Tensor = in_range(_whole(name, values, shape).long(), name, low, high, "integers")
    return found


def _whole(name: str, values: Any, shape: tuple[int | None, ...]) -> Tensor:
    """A tensor of integers of this shape on the CPU."""
    try:
        tensor = on_cpu(name, torch.as_tensor(values))
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{name}: expected a tensor of integers: {error}") from None
    if tensor.is_floating_point() or tensor.is_complex():
        raise InputError(f"{name}: found {tensor.dtype}, expected integers")
    fits = tensor.dim() == len(shape) and all(
        want is None or want == have for want, have in zip(shape, tensor.shape, strict=True)
    )
    if not fits:
        form = ", ".join("…" if each is None else str(each) for each in shape)
        raise InputError(f"{name}: found shape {tuple(tensor.shape)}, expected ({form})")
    return tensor


def _lengths(lengths: Iterable[int] | None, items: int, longest: int) -> Lengths:
    if lengths is None:
        return [longest] * items
    if isinstance(lengths, Tensor):
        on_cpu("lengths", lengths)
        if torch.compiler.is_compiling() and tuple(lengths.shape) == (items,):
            checked: Tensor = in_range(lengths, "lengths", 1, longest, "integers")
            return checked
    try:
        given = lengths.tolist() if isinstance(lengths, Tensor) else list(lengths)
    except TypeError:
        raise InputError(f"lengths: expected a list of integers, found {lengths!r}") from None
    if not isinstance(given, list) or len(given) != items:
        found = len(given) if isinstance(given, list) else 1
        raise InputError(f"lengths: found {found} of them for a batch of {items}")
    return [integer(f"lengths[{b}]", each, 1, longest) for b, each in enumerate(given)]


def lengths_of(lengths: Iterable[int] | None, own: Lengths, items: int, longest: int) -> list[int]:
    """The lengths that `to_event` was given, or those of the distribution."""
    if lengths is None and items == len(own):
        return [min(int(each), longest) for each in own]
    return [int(each) for each in _lengths(lengths, items, longest)]
