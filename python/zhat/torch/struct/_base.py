"""The queries that all structured distributions share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch.distributions import Distribution

from ..._arguments import integer
from ...errors import InputError
from .. import Model, cross_entropy, entropy, kl, log_partition

Event: TypeAlias = "torch.Tensor | tuple[torch.Tensor, ...]"
Parts: TypeAlias = "list[NDArray[np.int64]]"

# Counts below this number are rounded to integers; their relative error is far below its inverse.
_EXACT_COUNT = 1e12


class StructDistribution(Distribution):
    """A distribution over structures: p(z) ∝ exp(Σ potentials of the parts of z).

    An *event* marks the parts of a structure by ones, in the shape of the potentials. Numbers have one entry
    per item of the batch. Properties are computed once and kept.
    """

    arg_constraints: dict[str, Any] = {}  # noqa: RUF012

    # The number of axes of a potential without the batch.
    _event_axes: tuple[int, ...]

    def __init__(
        self, log_potentials: torch.Tensor, lengths: Iterable[int] | None = None, args: Any = None
    ) -> None:
        """Potentials of shape batch × event, and the length of each item; `args` is kept and not used."""
        self.log_potentials = log_potentials
        self.args = {} if args is None else args
        self._set_up((log_potentials,), lengths)

    def _set_up(self, parameters: tuple[torch.Tensor, ...], lengths: Iterable[int] | None) -> None:
        """Keeps the tensors of which the model is made, after a check of their shapes."""
        self._parameters = parameters
        shape = self._checked(parameters)
        self.lengths = lengths
        self._lengths = _lengths(lengths, shape[0], self._longest(shape))
        super().__init__(torch.Size(shape[:1]), torch.Size(shape[1:]), validate_args=False)

    # What a kind of structure defines.

    def _checked(self, parameters: tuple[torch.Tensor, ...]) -> tuple[int, ...]:
        """The shape batch × event, after a check of the tensors."""
        raise NotImplementedError

    def _longest(self, shape: tuple[int, ...]) -> int:
        """The length of an item that uses all potentials."""
        raise NotImplementedError

    def _model(self, parameters: tuple[torch.Tensor, ...], lengths: list[int]) -> Model:
        """The model of zhat."""
        raise NotImplementedError

    def _parts(self, found: Sequence[Any]) -> Parts:
        """For structures of one item, rows (number of the structure, place of a part), one array per potential."""
        raise NotImplementedError

    def _drawn(self, samples: Any) -> Sequence[Sequence[Any]]:
        """The samples of each item, as they are in `k_best`."""
        raise NotImplementedError

    @property
    def _potentials(self) -> tuple[torch.Tensor, ...]:
        """The tensors of an event's shape."""
        return (self.log_potentials,)

    # Queries.

    @cached_property
    def partition(self) -> torch.Tensor:
        """Log Z (batch)."""
        with torch.enable_grad():
            return log_partition(self._own_model)

    @cached_property
    def marginals(self) -> Event:
        """The probability of each part (batch × event): the gradient of log Z."""
        return self._event(self._gradients(self._potentials, self._event_model))

    @cached_property
    def entropy(self) -> torch.Tensor:
        """The entropy in nats (batch)."""
        with torch.enable_grad():
            return entropy(self._own_model)

    def cross_entropy(self, other: StructDistribution) -> torch.Tensor:
        """−Σ p(z) log q(z), where q is `other` (batch)."""
        return cross_entropy(self._own_model, self._other(other))

    def kl(self, other: StructDistribution) -> torch.Tensor:
        """KL(p ‖ q) = Σ p(z) log(p(z) / q(z)), where q is `other` (batch)."""
        return kl(self._own_model, self._other(other))

    @cached_property
    def argmax(self) -> Event:
        """The event of the best structure (batch × event); of several best structures it is one."""
        return self._event(tuple(each[0] for each in self._best(1)[0]))

    @cached_property
    def max(self) -> torch.Tensor:
        """The score of the best structure (batch): its potentials summed; −inf if there is none."""
        with torch.enable_grad():
            return self._best(1)[1][0]

    @property
    def mode(self) -> Event:
        """`argmax` by another name."""
        return self.argmax

    def topk(self, k: int) -> Event:
        """The events of the k best structures (k × batch × event), zero where there are fewer."""
        return self._event(self._best(k)[0])

    def kmax(self, k: int) -> torch.Tensor:
        """The scores of the k best structures (k × batch), −inf where there are fewer."""
        return self._best(k)[1]

    def sample(self, sample_shape: Iterable[int] | int = ()) -> Event:
        """Exact samples (sample_shape × batch × event). `torch.manual_seed` sets the seed.

        An item without any structure raises `ZeroPartitionError`.
        """
        shape = (sample_shape,) if isinstance(sample_shape, int) else tuple(sample_shape)
        count = int(np.prod(shape, dtype=np.int64))
        seed = int(torch.randint(2**62, ()).item())
        with torch.no_grad():
            drawn = self._drawn(self._native.sample(count, seed=seed).value)
            events = self._events(drawn, count)
        return self._event(tuple(each.reshape(*shape, *each.shape[1:]) for each in events))

    def log_prob(self, value: Event) -> torch.Tensor:
        """The log-probability of events (sample_shape × batch × event), which must be structures."""
        return self._score(self._tensors(value)) - self.partition

    @cached_property
    def count(self) -> torch.Tensor:
        """The number of structures (batch) without a part of potential −inf."""
        with torch.no_grad():
            flat = tuple(
                torch.zeros_like(p, dtype=torch.float64).masked_fill(p.isneginf(), -torch.inf)
                for p in self._parameters
            )
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

    def _event_model(self, *potentials: torch.Tensor) -> Model:
        return self._model(potentials, self._lengths)

    @cached_property
    def _native(self) -> Any:
        """The model for queries without gradients."""
        with torch.no_grad():
            model = self._own_model
            arrays = {name: tensor.detach().contiguous().numpy() for name, tensor in model.tensors.items()}
        return model.kind(**arrays, **model.fixed)

    def _gradients(self, potentials: tuple[torch.Tensor, ...], model: Any) -> tuple[torch.Tensor, ...]:
        """The gradient of log Z; it has gradients itself if the potentials have."""
        own = tuple(p if p.requires_grad else p.detach().requires_grad_() for p in potentials)
        with torch.enable_grad():
            total = log_partition(model(*own)).sum()
        wanted = any(p.requires_grad for p in potentials)
        return tuple(torch.autograd.grad(total, own, create_graph=wanted))

    def _best(self, k: int) -> tuple[tuple[torch.Tensor, ...], torch.Tensor]:
        """The events and scores of the k best structures."""
        count = integer("k", k, 1)
        native = self._native
        found = native.k_best(count).value if count > 1 else [[best] for best in native.map().value]
        found = [[each for each in own if each.score > -np.inf] for own in found]
        events = self._events(found, count)
        known = torch.zeros(count, len(found), dtype=torch.bool)
        for b, own in enumerate(found):
            known[: len(own), b] = True
        scores = self._scores(found, events)
        return events, scores.masked_fill(~known.to(scores.device), -torch.inf)

    def _scores(self, found: Sequence[Sequence[Any]], events: tuple[torch.Tensor, ...]) -> torch.Tensor:
        """The scores of structures (k × batch), with gradients."""
        return self._score(events)

    def _score(self, events: tuple[torch.Tensor, ...]) -> torch.Tensor:
        """The sum of the potentials of the parts (… × batch)."""
        total: Any = 0.0
        for potential, event in zip(self._potentials, events, strict=False):
            own = event.to(potential.dtype)
            allowed = potential.masked_fill(potential.isneginf() & (own == 0), 0.0)
            total = total + (allowed * own).flatten(-(potential.dim() - 1)).sum(-1)
        return total  # type: ignore[no-any-return]

    def _events(self, found: Sequence[Sequence[Any]], count: int) -> tuple[torch.Tensor, ...]:
        """The events of up to `count` structures of each item (count × batch × event)."""
        shapes = self._event_shapes()
        first = self._parameters[0]
        events = tuple(
            torch.zeros(count, len(found), *shape, dtype=first.dtype, device=first.device) for shape in shapes
        )
        for b, own in enumerate(found):
            if not len(own):
                continue
            for event, rows in zip(events, self._parts(own), strict=True):
                number, *place = torch.from_numpy(np.ascontiguousarray(rows.T)).to(first.device)
                one = torch.ones((), dtype=event.dtype, device=event.device)
                event.index_put_((number, torch.full_like(number, b), *place), one, accumulate=True)
        return events

    def _event_shapes(self) -> tuple[tuple[int, ...], ...]:
        return (tuple(self.event_shape),)

    def _event(self, tensors: tuple[torch.Tensor, ...]) -> Event:
        return tensors[0] if len(tensors) == 1 else tensors

    def _tensors(self, value: Event) -> tuple[torch.Tensor, ...]:
        """The tensors of an event, after a check of their shapes."""
        tensors = (value,) if isinstance(value, torch.Tensor) else tuple(value)
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
            raise InputError(f"other: expected a distribution of zhat.torch.struct, found {type(other).__name__}")
        if (other.batch_shape, other.event_shape) != (self.batch_shape, self.event_shape):
            found, own = ((*each.batch_shape, *each.event_shape) for each in (other, self))
            raise InputError(f"other: found shape {found}, expected {own}")
        if other.lengths is not None and other._lengths != self._lengths:
            raise InputError(f"other: found lengths {other._lengths}, expected {self._lengths}")
        return other._model(other._parameters, self._lengths)


def check_axes(name: str, tensor: Any, axes: tuple[int, ...], form: str) -> None:
    """Checks that an argument is a tensor of real numbers with one of these numbers of axes."""
    if not isinstance(tensor, torch.Tensor):
        raise InputError(f"{name}: expected a tensor of shape {form}, found {type(tensor).__name__}")
    if tensor.dim() not in axes:
        raise InputError(f"{name}: found shape {tuple(tensor.shape)}, expected {form}")
    if not tensor.is_floating_point():
        raise InputError(f"{name}: found {tensor.dtype}, expected a tensor of real numbers")


def indices(name: str, values: Any, shape: tuple[int | None, ...], low: int, high: int) -> NDArray[np.int64]:
    """Integers between `low` and `high` in an array of this shape; `None` is any length."""
    tensor = torch.as_tensor(values)
    if tensor.is_floating_point() or tensor.is_complex():
        raise InputError(f"{name}: found {tensor.dtype}, expected integers")
    fits = tensor.dim() == len(shape) and all(
        want is None or want == have for want, have in zip(shape, tensor.shape, strict=True)
    )
    if not fits:
        form = ", ".join("…" if each is None else str(each) for each in shape)
        raise InputError(f"{name}: found shape {tuple(tensor.shape)}, expected ({form})")
    array = tensor.detach().cpu().numpy().astype(np.int64)
    if array.size and (array.min() < low or array.max() > high):
        bad = int(array.min() if array.min() < low else array.max())
        raise InputError(f"{name}: found {bad}, expected integers from {low} to {high}")
    return array


def _lengths(lengths: Iterable[int] | None, items: int, longest: int) -> list[int]:
    if lengths is None:
        return [longest] * items
    given = lengths.tolist() if isinstance(lengths, torch.Tensor) else list(lengths)
    if not isinstance(given, list) or len(given) != items:
        found = len(given) if isinstance(given, list) else 1
        raise InputError(f"lengths: found {found} of them for a batch of {items}")
    return [integer(f"lengths[{b}]", each, 1, longest) for b, each in enumerate(given)]


def lengths_of(lengths: Iterable[int] | None, own: list[int], items: int, longest: int) -> list[int]:
    """The lengths that `to_event` was given, or those of the distribution."""
    if lengths is None and items == len(own):
        return [min(each, longest) for each in own]
    return _lengths(lengths, items, longest)


def numbered(found: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """The rows of several arrays, each after the number of its array."""
    counts = [len(each) for each in found]
    return np.column_stack([np.repeat(np.arange(len(found)), counts), np.concatenate(found)])
