"""Operators for best states, samples and relaxed samples, as padded tensors of integers.

The shape of one state depends only on the shapes of the parameters: T positions of a chain, up to T segments
of a semi-Markov chain, 2T − 1 nodes of a tree over words (with unary rules as many as the largest tree has).
Numbers after the end of a state are −1; so are all numbers of a state that does not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from .. import ops, queries
from .._arguments import integer
from ..errors import InputError, ZeroPartitionError
from ._derivatives import orders, unpacked
from ._graphs import with_every_query
from ._kinds import DEPENDENCY, FACTOR_GRAPH, HYPERTREE, SEMI_MARKOV, Part, plan_of, tree_sizes
from .operators import Tensors, array_of, arrays_of, kept, like, options_of, record_of, register, spread

Array = NDArray[Any]


def _shape(part: Part, tensors: Tensors, rows: Any) -> tuple[Any, ...]:
    """The shape of one state; `rows` is the number of nodes of trees with unary rules."""
    if part.kind is FACTOR_GRAPH:
        return (len(part.cardinalities),)
    steps = tensors[0].shape[len(part.items(tensors))]
    if part.kind is HYPERTREE:
        return (rows if "unary" in part.names else 2 * steps - 1, 3)
    if part.kind is SEMI_MARKOV or part.flags.get("labelled"):
        return (steps, 2)
    return (steps,)


def _dynamic(part: Part) -> Any:
    """A size that is known only when the operator runs, for trees with unary rules."""
    return torch.library.get_ctx().new_dynamic_size() if "unary" in part.names else None


def _padded(
    part: Part, tensors: Tensors, found: Sequence[Sequence[Array]], count: int, name: str = "n"
) -> torch.Tensor:
    """States by item and number as one array (B, count, …)."""
    rows = max((len(own) for each in found for own in each), default=0)
    shape = _shape(part, tensors, max(rows, 1))
    try:
        padded = np.full((len(found), count, *shape), -1, np.int64)
    except (MemoryError, ValueError):  # more than there is, or than an array can have
        raise InputError(f"{name}: a tensor of {count} states does not fit in memory") from None
    for b, each in enumerate(found):
        for i, own in enumerate(each):
            own = np.asarray(own, np.int64).reshape(-1, *shape[1:])
            padded[b, i, : len(own)] = own
    return torch.from_numpy(padded if part.items(tensors) else padded[0])


def _items(part: Part, tensors: Tensors, value: Any) -> Any:
    """The values by item."""
    return value if part.items(tensors) else [value]


def _array(found: Any) -> Array:
    """The numbers of a best state."""
    if getattr(found, "labels", None) is not None:
        return np.stack([found.heads, found.labels], axis=-1)
    names = ("segments", "nodes", "heads", "states", "state")
    return np.asarray(next(getattr(found, name) for name in names if hasattr(found, name)))


def _drawn(part: Part, samples: Any) -> Any:
    """The numbers of samples, of one item or by item."""
    if getattr(samples, "log_weights", None) is not None:
        raise InputError(
            "method: its samples have weights, which tensors of states cannot hold; use zhat.sample"
        )
    if part.kind is DEPENDENCY:
        return _labelled(samples)
    if part.kind is HYPERTREE:
        return samples.nodes
    return samples.segments if part.kind is SEMI_MARKOV else samples.states


def _labelled(samples: Any) -> Any:
    """Heads, or with labels rows (head, label)."""
    if samples.labels is None:
        return samples.heads
    if not isinstance(samples.heads, list):
        return np.stack([samples.heads, samples.labels], axis=-1)
    pairs = zip(samples.heads, samples.labels, strict=True)
    return [np.stack([heads, labels], axis=-1) for heads, labels in pairs]


_CONVERTERS: dict[str, Callable[[Any], Callable[[Any], Any]]] = {
    "map": lambda own: own._best,
    "k_best": lambda own: own._ranked,
    "sample": lambda own: own._samples,
}


def _value(model: Any, query: str, count: int = 0, **options: Any) -> Any:
    """The value of a query without warnings: items without a state have states −1 and score −inf here."""
    how = queries._how(**options)
    return how.answer(model, query, count, _CONVERTERS[query], warn=False).value


def _best(tensors: list[torch.Tensor], model: str, options: str) -> torch.Tensor:
    plan = plan_of(model)
    part, built = plan.parts[0], plan.build(arrays_of(plan, tensors))[0]
    try:
        found = _value(with_every_query(built), "map", **options_of(plan, tensors, options))
        each = [[_array(own)] for own in _items(part, tensors, found)]
    except ZeroPartitionError:
        each = [[]] * (tensors[0].shape[0] if part.items(tensors) else 1)
    states = _padded(part, tensors, each, 1)
    return states.squeeze(len(part.items(tensors)))


def _best_fake(tensors: list[torch.Tensor], model: str, options: str) -> torch.Tensor:
    part = plan_of(model).parts[0]
    shape = (*part.items(tensors), *_shape(part, tensors, _dynamic(part)))
    return tensors[0].new_empty(shape, dtype=torch.int64)


def _k_best(tensors: list[torch.Tensor], model: str, k: int, options: str) -> torch.Tensor:
    plan = plan_of(model)
    part, built = plan.parts[0], plan.build(arrays_of(plan, tensors))[0]
    try:
        own = options_of(plan, tensors, options)
        found = _value(with_every_query(built), "k_best", integer("k", k), **own)
        each = [[_array(own) for own in ranked] for ranked in _items(part, tensors, found)]
    except ZeroPartitionError:
        each = [[]] * (tensors[0].shape[0] if part.items(tensors) else 1)
    return _padded(part, tensors, each, k, "k")


def _several_fake(tensors: list[torch.Tensor], model: str, count: int, options: str) -> torch.Tensor:
    part = plan_of(model).parts[0]
    shape = (*part.items(tensors), count, *_shape(part, tensors, _dynamic(part)))
    return tensors[0].new_empty(shape, dtype=torch.int64)


def _sample(tensors: list[torch.Tensor], model: str, n: int, seed: int, options: str) -> torch.Tensor:
    plan = plan_of(model)
    part, built = plan.parts[0], plan.build(arrays_of(plan, tensors))[0]
    try:
        own = options_of(plan, tensors, options)
        found = _value(with_every_query(built), "sample", integer("n", n), seed=seed, **own)
        each = _items(part, tensors, _drawn(part, found))
    except ZeroPartitionError:
        each = [[]] * (tensors[0].shape[0] if part.items(tensors) else 1)
    return _padded(part, tensors, each, n)


def _sample_fake(tensors: list[torch.Tensor], model: str, n: int, seed: int, options: str) -> torch.Tensor:
    return _several_fake(tensors, model, n, options)


def _drawn_by_tensor(tensors: list[torch.Tensor], model: str, n: int, seed: torch.Tensor) -> torch.Tensor:
    states = _sample(tensors, model, n, int(seed), "")
    missing = (states.flatten(1)[:, :1] < 0).any(1)
    if missing.any():
        item = int(missing.to(torch.uint8).argmax())
        raise ZeroPartitionError(f"zero partition: item {item} has no structure of positive weight")
    return states


def _drawn_by_tensor_fake(
    tensors: list[torch.Tensor], model: str, n: int, seed: torch.Tensor
) -> torch.Tensor:
    return _several_fake(tensors, model, n, "")


# Relaxed samples.

_Relaxed = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def _relaxed(
    tensors: list[torch.Tensor], model: str, n: int, temperature: torch.Tensor, seed: int
) -> _Relaxed:
    plan = plan_of(model)
    part, built = plan.parts[0], plan.build(arrays_of(plan, tensors))[0]
    samples, tape = ops.relaxed_sample(built, n, float(temperature), seed=seed)
    hard = samples.hard if part.kind is not DEPENDENCY else _labelled(samples.hard)
    kind = tensors[0].dtype
    lengths = np.empty(0, np.float32) if samples.lengths is None else samples.lengths
    padded = _padded(part, tensors, _items(part, tensors, hard), n)
    soft = torch.from_numpy(np.asarray(samples.soft)).to(kind)
    return soft, torch.from_numpy(np.asarray(lengths)).to(kind), padded, kept(tape)


def _relaxed_fake(
    tensors: list[torch.Tensor], model: str, n: int, temperature: torch.Tensor, seed: int
) -> _Relaxed:
    part = plan_of(model).parts[0]
    items, first = (*part.items(tensors), n), tensors[0]
    steps = first.shape[len(items) - 1]
    soft: tuple[Any, ...] = (steps, first.shape[-1])
    lengths: tuple[Any, ...] = (0,)
    if part.kind is DEPENDENCY:
        soft = (steps, steps + 1, *first.shape[len(items) + 1 :])
    elif part.kind is HYPERTREE:
        soft = (steps, steps, tree_sizes(dict(zip(part.names, tensors, strict=False)), part.flags).symbols)
    elif part.kind is SEMI_MARKOV:
        lengths = (*items, steps, tensors[part.names.index("segments")].shape[-2])
    hard = (*items, *_shape(part, tensors, _dynamic(part)))
    return (
        first.new_empty((*items, *soft)),
        first.new_empty(lengths),
        first.new_empty(hard, dtype=torch.int64),
        first.new_empty((1,), dtype=torch.uint8),
    )


def _relaxed_setup(ctx: Any, inputs: Any, output: Any) -> None:
    tensors, ctx.model, ctx.n, temperature, ctx.seed = inputs
    ctx.save_for_backward(*tensors, temperature, output[3])


def _relaxed_backward(ctx: Any, soft: Any, lengths: Any, _hard: Any, _record: Any) -> Any:
    *tensors, temperature, record = ctx.saved_tensors
    how = ctx.model, ctx.n, temperature, ctx.seed
    gradients = relaxed_gradient(tensors, soft, lengths, record, *how)
    return spread(plan_of(ctx.model), tensors, gradients), None, None, None, None


def _relaxed_gradient(
    tensors: list[torch.Tensor],
    soft: torch.Tensor,
    lengths: torch.Tensor,
    record: torch.Tensor,
    model: str,
    n: int,
    temperature: torch.Tensor,
    seed: int,
) -> list[torch.Tensor]:
    plan = plan_of(model)
    arrays = arrays_of(plan, tensors)
    tape = record_of(record)
    if tape is None:
        _, tape = ops.relaxed_sample(plan.build(arrays)[0], n, float(temperature), seed=seed)
    weights = [array_of(own.double()) for own in (soft, lengths)]
    if not all(np.isfinite(own).all() for own in weights):
        return [torch.full_like(tensors[i], torch.nan) for i in plan.real]
    found = tape.vjp(tuple(weights) if plan.parts[0].kind is SEMI_MARKOV else weights[0])
    return like(plan, tensors, unpacked(plan, found, orders(plan, arrays)))


def _relaxed_gradient_fake(
    tensors: list[torch.Tensor],
    soft: torch.Tensor,
    lengths: torch.Tensor,
    record: torch.Tensor,
    model: str,
    n: int,
    temperature: torch.Tensor,
    seed: int,
) -> list[torch.Tensor]:
    return [tensors[i].new_empty(tensors[i].shape) for i in plan_of(model).real]


def _no_second(ctx: Any, _: Any) -> Any:
    raise InputError("backward: relaxed samples have first derivatives only")


_MODEL = "Tensor[] tensors, str model"
_HOW = "int n, Tensor temperature, SymInt seed"

best = register("best", f"({_MODEL}, str options) -> Tensor", _best, _best_fake)
k_best = register("k_best", f"({_MODEL}, int k, str options) -> Tensor", _k_best, _several_fake)
sample = register("sample", f"({_MODEL}, int n, SymInt seed, str options) -> Tensor", _sample, _sample_fake)
drawn = register(
    "drawn", f"({_MODEL}, int n, Tensor seed) -> Tensor", _drawn_by_tensor, _drawn_by_tensor_fake
)
"""Samples of a batch of which every item has a state of positive weight; the seed is a tensor."""
relaxed = register(
    "relaxed_sample",
    f"({_MODEL}, {_HOW}) -> (Tensor, Tensor, Tensor, Tensor)",
    _relaxed,
    _relaxed_fake,
    _relaxed_setup,
    _relaxed_backward,
)
relaxed_gradient = register(
    "relaxed_gradient",
    f"(Tensor[] tensors, Tensor soft, Tensor lengths, Tensor record, str model, {_HOW}) -> Tensor[]",
    _relaxed_gradient,
    _relaxed_gradient_fake,
    lambda ctx, inputs, output: None,
    _no_second,
)
