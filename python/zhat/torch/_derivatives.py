"""Values and derivatives of operations, as NumPy arrays.

The value and the gradient come from `zhat.ops`. Write f_b for the value of item b, w for one weight per item
and G(θ) = Σ_b w_b ∇f_b(θ) for the gradient. Automatic differentiation needs for a direction c

- `second`: ∇ of ⟨c, G⟩ with respect to θ and to w, that is Σ_b w_b H_b c and ⟨c, ∇f_b⟩
- `third`: ∇ of ⟨d, Σ_b w_b H_b c⟩ with respect to θ and to w

If f is log Z and scores are linear in θ, with features φ, the second derivatives are exact. The Hessian is
the covariance of the features, H_b c = Cov_b(φ, ⟨c, φ⟩), and ⟨c, ∇f_b⟩ = E_b⟨c, φ⟩. With the distribution q
of the parameters c, the cross-entropy is −E_b⟨c, φ⟩ + log Z_q, and its gradient with respect to θ is −H_b c.

Otherwise these are directional derivatives, because H_b is symmetric: `second` is the derivative of G and f
along c, and `third` the derivative of `second` along d. They are computed in float64 by central differences
with halved steps that are extrapolated to step 0 (Ridders, 1982). The error is about 1e-11 of the largest
entry.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import ops
from ..errors import InputError, ZeroPartitionError
from ..sparse import pattern
from ._graphs import of_parameters, with_method
from ._kinds import Plan

Array = NDArray[Any]

_FIRST_STEP = 0.25
_MOST_STEPS = 10


class Recorded:
    """The value of an operation, and what its gradient needs."""

    def __init__(
        self, plan: Plan, arrays: Sequence[Array], values: Any, gradient: Callable[[Array], Any] | None
    ) -> None:
        """`gradient` maps weights to one gradient per model; `None` if all values are −inf."""
        self.values = values
        """One number, or one per item."""
        self._plan = plan
        self._orders = orders(plan, arrays)
        self._shapes = [arrays[i].shape for i in plan.real]
        self._dtype = arrays[0].dtype
        self._gradient = gradient

    def gradient(self, weights: Array) -> list[Array]:
        """The gradient of Σ_b weight_b · value_b with respect to each tensor of real numbers.

        An infinite value has gradient zero. If another weight is not finite, every entry is NaN.
        """
        finite = np.isfinite(weights)
        if not finite.all():
            if (np.isfinite(self.values) & ~finite).any():
                return self._constant(math.nan)
            weights = np.where(finite, weights, 0.0)
        if self._gradient is None:
            return self._constant(0.0)
        return unpacked(self._plan, self._gradient(weights), self._orders)

    def _constant(self, value: float) -> list[Array]:
        return [np.full(shape, value, self._dtype) for shape in self._shapes]


def record(operation: str, plan: Plan, arrays: Sequence[Array], options: dict[str, Any]) -> Recorded:
    """The value of an operation."""
    models = plan.build(arrays)
    if plan.parts[0].kind.graph:
        return _of_graph(operation, plan, arrays, models[0], options)
    try:
        values, tape = getattr(ops, operation)(*models, **options)
    except ZeroPartitionError:
        return Recorded(plan, arrays, _nothing(models[0]), None)
    return Recorded(plan, arrays, values, tape.vjp)


def gradient_of_log_partition(
    plan: Plan, arrays: Sequence[Array], weights: Array, options: dict[str, Any]
) -> list[Array]:
    """The gradient of Σ_b weight_b · log Z_b in one pass, for finite weights."""
    gradient = ops.log_partition_and_gradient(plan.build(arrays)[0], weights, **options)[1]
    return unpacked(plan, gradient, orders(plan, arrays))


def orders(plan: Plan, arrays: Sequence[Array]) -> list[Array | None]:
    """For each model with sparse transitions, the order of its entries, if the model has to sort them."""
    found: list[Array | None] = []
    for part, own in zip(plan.parts, plan.slices, strict=True):
        given = dict(zip(part.names, arrays[own], strict=True))
        found.append(pattern(given["indices"], given["indptr"])[2] if "indices" in given else None)
    return found


def unpacked(plan: Plan, gradients: Any, orders: Sequence[Array | None]) -> list[Array]:
    """The arrays of gradients in the order of the tensors, and their entries in the order given."""
    each = gradients if isinstance(gradients, tuple) else (gradients,)
    arrays: list[Array] = []
    for part, own, order in zip(plan.parts, each, orders, strict=True):
        if isinstance(own, list):
            arrays += own
            continue
        for name in part.names[: part.real]:
            array = getattr(own, name)
            if name == "transitions" and order is not None:
                given = np.empty_like(array)
                given[..., order] = array
                array = given
            arrays.append(array)
    return arrays


def second(
    operation: str,
    plan: Plan,
    arrays: Sequence[Array],
    weights: Array,
    directions: Sequence[Array],
    options: dict[str, Any],
) -> list[Array]:
    """Σ_b w_b H_b c for each tensor of real numbers, and ⟨c, ∇f_b⟩."""
    if not plan.parts[0].kind.graph and options.get("method", "exact") != "exact":
        raise InputError("method: second derivatives need the method exact")
    directions = _masked(plan, arrays, directions)
    largest = _largest(directions)
    if not np.isfinite(weights).all():
        values = record(operation, plan, arrays, options).values
        weights = np.where(np.isfinite(weights) | np.isfinite(values), weights, 0.0)
    if not (math.isfinite(largest) and np.isfinite(weights).all()):
        return [np.full_like(own, math.nan) for own in (*directions, weights)]
    if largest == 0:
        return [np.zeros_like(own) for own in (*directions, weights)]
    part = plan.parts[0]
    if operation == "log_partition" and part.linear and not part.kind.graph:
        return _covariance(plan, arrays, weights, directions, largest)
    return _along(
        lambda moved: _first(operation, plan, moved, weights, options), plan, arrays, directions, largest
    )


def third(
    operation: str,
    plan: Plan,
    arrays: Sequence[Array],
    weights: Array,
    directions: tuple[Sequence[Array], Sequence[Array]],
    options: dict[str, Any],
) -> list[Array]:
    """The gradient of ⟨d, Σ_b w_b H_b c⟩ for each tensor of real numbers and with respect to w."""
    inner, outer = (_masked(plan, arrays, own) for own in directions)
    largest = _largest(outer)
    if not math.isfinite(largest):
        return [np.full_like(own, math.nan) for own in (*outer, weights)]
    if largest == 0:
        return [np.zeros_like(own) for own in (*outer, weights)]
    doubles = [own.astype(np.float64) for own in inner]
    return _along(
        lambda moved: second(operation, plan, moved, weights, doubles, options), plan, arrays, outer, largest
    )


def _covariance(
    plan: Plan, arrays: Sequence[Array], weights: Array, directions: Sequence[Array], largest: float
) -> list[Array]:
    """The second derivatives of log Z of linear scores."""
    given = list(arrays)
    for i, direction in zip(plan.real, directions, strict=True):
        given[i] = direction / largest
    p, q = plan.build(arrays)[0], plan.build(given)[0]
    try:
        cross, tape = ops.cross_entropy(p, q)
    except ZeroPartitionError:
        return [np.zeros_like(own) for own in (*directions, weights)]
    log_z = ops.log_partition(q)[0]
    by_p = unpacked(plan, tape.vjp(weights)[0], orders(plan, arrays))
    expected = np.where(np.isfinite(cross), largest * (log_z - cross), 0.0)
    return [*(-largest * array for array in by_p), expected]


def _first(
    operation: str, plan: Plan, arrays: Sequence[Array], weights: Array, options: dict[str, Any]
) -> list[Array]:
    recorded = record(operation, plan, arrays, options)
    return [*recorded.gradient(weights), np.asarray(recorded.values)]


def _along(
    function: Callable[[list[Array]], list[Array]],
    plan: Plan,
    arrays: Sequence[Array],
    directions: Sequence[Array],
    largest: float,
) -> list[Array]:
    """The derivative of `function` along a direction, in the precision of the direction."""
    places = dict(zip(plan.real, directions, strict=True))
    base = [own.astype(np.float64) if i in places else own for i, own in enumerate(arrays)]

    def at(step: float) -> list[Array]:
        moved = [own + step / largest * places[i] if i in places else own for i, own in enumerate(base)]
        return function(moved)

    found = extrapolated(at)
    types = [*(own.dtype for own in directions), np.dtype(np.float64)]
    return [(own * largest).astype(dtype) for own, dtype in zip(found, types, strict=True)]


def extrapolated(function: Callable[[float], list[Array]]) -> list[Array]:
    """The derivative of a function at 0, by central differences extrapolated to step 0.

    The k-th difference has the step 0.25 · 2⁻ᵏ. The k-th row of Richardson's table is free of the powers 2,
    4, …, 2k of the step. It ends when rounding errors grow or the rows agree.
    """
    row: list[list[Array]] = []
    best: list[Array] = []
    error = math.inf
    for k in range(_MOST_STEPS):
        step = _FIRST_STEP / 2**k
        pairs = zip(function(step), function(-step), strict=True)
        with np.errstate(invalid="ignore"):  # an infinite value on both sides is constant
            start = [np.nan_to_num((up - down) / (2 * step), posinf=0.0, neginf=0.0) for up, down in pairs]
        above, row = row, [start]
        for j, coarser in enumerate(above):
            finer, factor = row[j], 4.0 ** (j + 1) - 1
            row.append([f + (f - c) / factor for f, c in zip(finer, coarser, strict=True)])
        if k == 0:
            best = row[0]
            continue
        change = max(_distance(row[-1], row[-2]), _distance(row[-1], above[-1]))
        if change < error:
            best, error = row[-1], change
        elif change > 2 * error:
            break
        if error <= 1e-14 * _largest(best):
            break
    return best


def _masked(plan: Plan, arrays: Sequence[Array], directions: Sequence[Array]) -> list[Array]:
    """The directions without those of parameters that are −inf, which do not matter."""
    pairs = zip(plan.real, directions, strict=True)
    return [np.where(np.isneginf(arrays[i]), own.dtype.type(0), own) for i, own in pairs]


def _largest(arrays: Sequence[Array]) -> float:
    return max((float(np.abs(own).max()) for own in arrays if own.size), default=0.0)


def _distance(one: Sequence[Array], other: Sequence[Array]) -> float:
    return max((float(np.abs(a - b).max()) for a, b in zip(one, other, strict=True) if a.size), default=0.0)


def _nothing(model: Any) -> Any:
    """The values of items without a state of positive weight."""
    return -math.inf if model._items is None else np.full(model._items, -math.inf)


def _of_graph(
    operation: str, plan: Plan, arrays: Sequence[Array], model: Any, options: dict[str, Any]
) -> Recorded:
    """Log Z of a graph, whose gradient is the factor marginals of the same method."""
    if operation != "log_partition":
        raise InputError(f"model: a {type(model).__name__} has no operation {operation}")
    how = {"method": "exact", **options}
    graph = with_method(model, how["method"])
    try:
        value = graph.log_partition(**how).value
    except ZeroPartitionError:
        return Recorded(plan, arrays, -math.inf, None)

    def gradient(weights: Array) -> Any:
        weight = float(weights)
        found = graph.factor_marginals(**how).value
        if graph is not model:
            found = of_parameters(model, found)
        if isinstance(found, list):
            return [weight * own.reshape(array.shape) for own, array in zip(found, arrays, strict=True)]
        own = {name: weight * array for name, array in vars(found).items() if array is not None}
        return type(found)(**own)

    return Recorded(plan, arrays, value, gradient)
