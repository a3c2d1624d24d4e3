"""The operators `zhat::…` of PyTorch, with gradients of gradients.

`log_partition`, `entropy`, `cross_entropy` and `kl` take the tensors of one or two models, a text that
describes them, and the options of the method as JSON. They return the values and a record: a tensor of one
byte whose memory belongs to the tape of the forward pass. `gradient` finds the tape by the address of this
memory, and runs the forward pass again if it is gone, such as after a copy. The tape lives as long as the
tensor.

`second` and `third` are the derivatives of `gradient` and of `second`; see `zhat.torch._derivatives`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import torch
from numpy.typing import NDArray

from .._arguments import LARGE, warn_of_copy
from ..errors import InputError
from . import _derivatives
from ._kinds import FACTOR_GRAPH, Plan, plan_of

Tensors = Sequence[torch.Tensor]


class _Memory(np.ndarray[Any, np.dtype[np.uint8]]):
    """One byte of memory that belongs to a record."""

    recorded: Any


_records: WeakValueDictionary[int, _Memory] = WeakValueDictionary()


def kept(recorded: Any) -> torch.Tensor:
    """A tensor that keeps the record alive."""
    memory = np.zeros(1, np.uint8).view(_Memory)
    memory.recorded = recorded
    tensor = torch.from_numpy(memory)
    _records[tensor.data_ptr()] = memory
    return tensor


def record_of(record: torch.Tensor | None) -> Any:
    """The record that this tensor keeps alive; `None` if there is none."""
    memory = None if record is None else _records.get(record.data_ptr())
    return None if memory is None else memory.recorded


def arrays_of(plan: Plan, tensors: Tensors) -> list[NDArray[Any]]:
    """The parameters as arrays in the precision of the first one, in place if they have it."""
    dtype = precision(tensors)
    arrays = []
    for name, tensor, real in zip(plan.names, tensors, plan.is_real, strict=False):
        own = tensor.detach()
        if real and own.dtype is not dtype:
            own = own.to(dtype)
        array = array_of(own)
        if array.nbytes > LARGE and plan.parts[0].kind is not FACTOR_GRAPH:
            _warn_of_copy(name, tensor, array)
        arrays.append(array)
    return arrays


def array_of(tensor: torch.Tensor) -> NDArray[Any]:
    """The memory of a tensor as a C-contiguous array; copied only if the tensor is a view of another kind."""
    return np.asarray(tensor.detach().resolve_neg().contiguous().numpy())


def _warn_of_copy(name: str, tensor: torch.Tensor, array: NDArray[Any]) -> None:
    """Warns if a large tensor was copied for another reason than that its numbers are short."""
    if array.ctypes.data == tensor.data_ptr() or tensor.element_size() < 4:
        return
    if tensor.element_size() != array.itemsize:
        reason = f"the tensor has the type {tensor.dtype}"
    else:
        reason = "the tensor is a negated view" if tensor.is_contiguous() else "the tensor is not contiguous"
    warn_of_copy(name, array.nbytes, f"{reason}; a contiguous tensor of {array.dtype}")


def precision(tensors: Tensors) -> torch.dtype:
    """The precision of the computation."""
    return torch.float64 if tensors[0].dtype is torch.float64 else torch.float32


def options_of(plan: Plan, tensors: Tensors, options: str) -> dict[str, Any]:
    """The options, with the scores of a proposal if there is a tensor after those of the models."""
    how: dict[str, Any] = json.loads(options) if options else {}
    if len(tensors) > plan.count:
        how["scores"] = array_of(tensors[plan.count].to(torch.float64))
    return how


def _weights(weights: torch.Tensor) -> NDArray[np.float64]:
    return array_of(weights.to(torch.float64))


def _numbers(values: Any, dtype: torch.dtype) -> torch.Tensor:
    if isinstance(values, float):
        return torch.tensor(values, dtype=dtype)
    return torch.from_numpy(np.asarray(values)).to(dtype)


def like(plan: Plan, tensors: Tensors, arrays: Sequence[NDArray[Any]]) -> list[torch.Tensor]:
    """Arrays as tensors of the types of the parameters of real numbers."""
    pairs = zip(plan.real, arrays, strict=False)
    return [torch.from_numpy(array).to(tensors[i].dtype) for i, array in pairs]


def spread(plan: Plan, tensors: Tensors, gradients: Sequence[torch.Tensor]) -> list[torch.Tensor | None]:
    """One gradient per tensor; `None` for integers."""
    spread: list[torch.Tensor | None] = [None] * len(tensors)
    for i, gradient in zip(plan.real, gradients, strict=False):
        spread[i] = gradient
    return spread


class Operator:
    """An operator of PyTorch that computes in float32 under autocast.

    A registered operator takes about 0.1 ms to dispatch. Outside of compilation, autocast and other modes of
    PyTorch, a call takes a shorter way with the same functions.
    """

    def __init__(
        self,
        name: str,
        schema: str,
        compute: Callable[..., Any],
        fake: Callable[..., Any],
        setup: Callable[..., Any] | None = None,
        backward: Callable[..., Any] | None = None,
    ) -> None:
        """Registers `zhat::name`; without `backward` its results have no gradient."""
        self.compute, self.setup, self.backward = compute, setup, backward
        self.registered = torch.library.custom_op(f"zhat::{name}", compute, mutates_args=(), schema=schema)
        self.registered.register_fake(fake)
        if backward is not None:
            self.registered.register_autograd(backward, setup_context=setup)
        torch.library.register_autocast(self.registered, "cpu", torch.float32)

    def __call__(self, *arguments: Any) -> Any:
        """The result of the operator."""
        if torch.compiler.is_compiling():
            return self.registered(*arguments)
        tensors = [own for each in arguments for own in (each if isinstance(each, (list, tuple)) else [each])]
        tensors = [own for own in tensors if isinstance(own, torch.Tensor)]
        if _moded() or not all(type(own) in _PLAIN for own in tensors):
            return self.registered(*arguments)
        if self.backward is None or not (
            torch.is_grad_enabled() and any(own.requires_grad for own in tensors)
        ):
            return self.compute(*arguments)
        places = [len(own) if isinstance(own, (list, tuple)) else None for own in arguments]
        flat = [own for each in arguments for own in (each if isinstance(each, (list, tuple)) else [each])]
        found = _Direct.apply(self, places, *flat)
        return list(found) if len(found) > 1 or self.lists else found[0]

    @cached_property
    def lists(self) -> bool:
        """Whether the result is a list of tensors."""
        return str(self.registered._opoverload._schema.returns[0].type) == "List[Tensor]"


_PLAIN = (torch.Tensor, torch.nn.Parameter)


def _moded() -> bool:
    """Whether PyTorch is tracing, or changes the meaning of operators in another way."""
    return bool(
        torch.is_autocast_enabled("cpu")
        or torch._C._len_torch_dispatch_stack()
        or torch._C._len_torch_function_stack()
        or torch._C._are_functorch_transforms_active()
    )


class _Direct(torch.autograd.Function):
    """An operator with its gradient, without the dispatcher."""

    @staticmethod
    def forward(ctx: Any, operator: Operator, places: list[int | None], *flat: Any) -> tuple[Any, ...]:
        rest, arguments = iter(flat), []
        for place in places:
            arguments.append(next(rest) if place is None else [next(rest) for _ in range(place)])
        output = operator.compute(*arguments)
        ctx.operator, ctx.places = operator, places
        assert operator.setup is not None
        operator.setup(ctx=ctx, inputs=tuple(arguments), output=output)
        return tuple(output) if isinstance(output, (list, tuple)) else (output,)

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        operator = ctx.operator
        found = operator.backward(ctx, *((cotangents,) if operator.lists else cotangents))
        flat: list[Any] = []
        for place, own in zip(ctx.places, found, strict=True):
            flat += [own] if place is None else list(own) if own is not None else [None] * place
        return None, None, *flat


register = Operator


# Values.


def _value(operation: str) -> Any:
    def compute(tensors: list[torch.Tensor], model: str, options: str) -> tuple[torch.Tensor, torch.Tensor]:
        plan = plan_of(model)
        how = options_of(plan, tensors, options)
        recorded = _derivatives.record(operation, plan, arrays_of(plan, tensors), how)
        return _numbers(recorded.values, tensors[0].dtype), kept(recorded)

    def fake(tensors: list[torch.Tensor], model: str, options: str) -> tuple[torch.Tensor, torch.Tensor]:
        shape = plan_of(model).parts[0].items(tensors)
        return tensors[0].new_empty(shape), tensors[0].new_empty((1,), dtype=torch.uint8)

    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        tensors, ctx.model, ctx.options = inputs
        ctx.save_for_backward(*tensors, output[1])

    def backward(ctx: Any, weights: torch.Tensor, _: Any) -> Any:
        *tensors, record = ctx.saved_tensors
        found = gradient(operation, tensors, weights, record, ctx.model, ctx.options)
        return spread(plan_of(ctx.model), tensors, found), None, None

    schema = "(Tensor[] tensors, str model, str options) -> (Tensor, Tensor)"
    return register(operation, schema, compute, fake, setup, backward)


# The gradient of Σ_b weight_b · value_b.


_ONE_PASS = {"checkpoint", "threads", "memory", "time"}
"""The options of `zhat.ops.log_partition_and_gradient`."""


def _gradient(
    operation: str,
    tensors: list[torch.Tensor],
    weights: torch.Tensor,
    record: torch.Tensor | None,
    model: str,
    options: str,
) -> list[torch.Tensor]:
    plan, own = plan_of(model), _weights(weights)
    recorded = record_of(record)
    if recorded is None:
        how, arrays = options_of(plan, tensors, options), arrays_of(plan, tensors)
        simple = operation == "log_partition" and not plan.parts[0].kind.graph and how.keys() <= _ONE_PASS
        if simple and np.isfinite(own).all():
            found = _derivatives.gradient_of_log_partition(plan, arrays, own, how)
            return like(plan, tensors, found)
        recorded = _derivatives.record(operation, plan, arrays, how)
    return like(plan, tensors, recorded.gradient(own))


def _gradient_fake(
    operation: str,
    tensors: list[torch.Tensor],
    weights: torch.Tensor,
    record: torch.Tensor | None,
    model: str,
    options: str,
) -> list[torch.Tensor]:
    return [tensors[i].new_empty(tensors[i].shape) for i in plan_of(model).real]


def _gradient_setup(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.operation, tensors, weights, _, ctx.model, ctx.options = inputs
    ctx.save_for_backward(*tensors, weights)


def _gradient_backward(ctx: Any, directions: Any) -> Any:
    *tensors, weights = ctx.saved_tensors
    how = ctx.model, ctx.options
    *found, by_weights = second(ctx.operation, tensors, weights, _given(directions, tensors, ctx), *how)
    return None, spread(plan_of(ctx.model), tensors, found), by_weights, None, None, None


def _given(directions: Any, tensors: Tensors, ctx: Any) -> list[torch.Tensor]:
    """The cotangents of a list of tensors, with zeros in place of missing ones."""
    pairs = zip(plan_of(ctx.model).real, directions, strict=False)
    return [torch.zeros_like(tensors[i]) if own is None else own for i, own in pairs]


# The gradient of ⟨c, gradient⟩, with respect to the tensors and to the weights.


def _second(
    operation: str,
    tensors: list[torch.Tensor],
    weights: torch.Tensor,
    directions: list[torch.Tensor],
    model: str,
    options: str,
) -> list[torch.Tensor]:
    plan = plan_of(model)
    how, arrays = options_of(plan, tensors, options), arrays_of(plan, tensors)
    along = _directions(tensors, directions)
    found = _derivatives.second(operation, plan, arrays, _weights(weights), along, how)
    return [*like(plan, tensors, found[:-1]), _numbers(found[-1], weights.dtype)]


def _directions(tensors: Tensors, directions: Tensors) -> list[NDArray[Any]]:
    dtype = precision(tensors)
    return [array_of(own.to(dtype)) for own in directions]


def _second_fake(
    operation: str,
    tensors: list[torch.Tensor],
    weights: torch.Tensor,
    directions: list[torch.Tensor],
    model: str,
    options: str,
) -> list[torch.Tensor]:
    own = [tensors[i] for i in plan_of(model).real]
    return [tensor.new_empty(tensor.shape) for tensor in (*own, weights)]


def _second_setup(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.operation, tensors, weights, directions, ctx.model, ctx.options = inputs
    ctx.tensors = len(tensors)
    ctx.save_for_backward(*tensors, weights, *directions)


def _second_backward(ctx: Any, cotangents: Any) -> Any:
    saved = ctx.saved_tensors
    tensors, weights, inner = saved[: ctx.tensors], saved[ctx.tensors], saved[ctx.tensors + 1 :]
    outer, of_weights = _given(cotangents[:-1], tensors, ctx), cotangents[-1]
    if of_weights is None:
        of_weights = torch.zeros_like(weights)
    operation, how = ctx.operation, (ctx.model, ctx.options)
    *by_tensors, by_weights = third(operation, tensors, weights, inner, outer, *how)
    mixed = second(operation, tensors, of_weights, inner, *how)[:-1]
    by_tensors = [a + b for a, b in zip(by_tensors, mixed, strict=True)]
    along = second(operation, tensors, weights, outer, *how)[:-1]
    expected = gradient(operation, tensors, of_weights, None, *how)
    by_inner = [a + b for a, b in zip(along, expected, strict=True)]
    return None, spread(plan_of(ctx.model), tensors, by_tensors), by_weights, by_inner, None, None


# The gradient of ⟨d, second⟩, with respect to the tensors and to the weights.


def _third(
    operation: str,
    tensors: list[torch.Tensor],
    weights: torch.Tensor,
    inner: list[torch.Tensor],
    outer: list[torch.Tensor],
    model: str,
    options: str,
) -> list[torch.Tensor]:
    plan = plan_of(model)
    how, arrays = options_of(plan, tensors, options), arrays_of(plan, tensors)
    along = _directions(tensors, inner), _directions(tensors, outer)
    found = _derivatives.third(operation, plan, arrays, _weights(weights), along, how)
    return [*like(plan, tensors, found[:-1]), _numbers(found[-1], weights.dtype)]


def _third_fake(
    operation: str,
    tensors: list[torch.Tensor],
    weights: torch.Tensor,
    inner: list[torch.Tensor],
    outer: list[torch.Tensor],
    model: str,
    options: str,
) -> list[torch.Tensor]:
    return _second_fake(operation, tensors, weights, inner, model, options)


def _third_backward(ctx: Any, _: Any) -> Any:
    raise InputError("backward: fourth derivatives are not available; log Z has three, entropy two")


log_partition = _value("log_partition")
entropy = _value("entropy")
cross_entropy = _value("cross_entropy")
kl = _value("kl")

_MANY = "str operation, Tensor[] tensors, Tensor weights"

gradient = register(
    "gradient",
    f"({_MANY}, Tensor? record, str model, str options) -> Tensor[]",
    _gradient,
    _gradient_fake,
    _gradient_setup,
    _gradient_backward,
)
second = register(
    "second",
    f"({_MANY}, Tensor[] directions, str model, str options) -> Tensor[]",
    _second,
    _second_fake,
    _second_setup,
    _second_backward,
)
third = register(
    "third",
    f"({_MANY}, Tensor[] inner, Tensor[] outer, str model, str options) -> Tensor[]",
    _third,
    _third_fake,
    lambda ctx, inputs, output: None,
    _third_backward,
)
