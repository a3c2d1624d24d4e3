"""Checks of the numbers in tensors, as operators.

A check in Python reads the numbers, which ends a graph of `torch.compile`. Operators read them when the
compiled code runs. The code uses their results in place of their arguments, so no backend removes a check.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..errors import InputError
from .operators import register


def _in_range(numbers: Tensor, name: str, low: int, high: int, what: str) -> Tensor:
    if numbers.numel():
        least, most = (int(each) for each in numbers.aminmax())
        if least < low or most > high:
            bad = least if least < low else most
            raise InputError(f"{name}: found {bad}, expected {what} from {low} to {high}")
    return numbers.clone()


def _in_range_fake(numbers: Tensor, name: str, low: int, high: int, what: str) -> Tensor:
    return torch.empty_like(numbers)


def _mask_lengths(inside: Tensor) -> Tensor:
    lengths = inside.sum(1)
    fits = torch.arange(inside.shape[1]) < lengths[:, None]
    wrong = (inside != fits).any(1) | (lengths == 0)
    if wrong.any():
        b = int(wrong.to(torch.uint8).argmax())
        raise InputError(
            f"mask: expected true at the first positions of every sequence and false after its end; "
            f"sequence {b} {'is empty' if lengths[b] == 0 else 'has a gap'}"
        )
    return lengths


def _mask_lengths_fake(inside: Tensor) -> Tensor:
    return inside.new_empty((inside.shape[0],), dtype=torch.int64)


def _equal_lengths(own: Tensor, others: Tensor) -> Tensor:
    if not torch.equal(own, others.to(own.dtype)):
        raise InputError(f"other: found lengths {others.tolist()}, expected {own.tolist()}")
    return own.clone()


def _like_own(own: Tensor, others: Tensor) -> Tensor:
    return torch.empty_like(own)


def _equal_edges(own: Tensor, others: Tensor) -> Tensor:
    different = own != others
    if different.any():
        e = int(different.nonzero()[0, 0])
        raise InputError(f"q: edges[{e}] is {others[e].tolist()}, expected {own[e].tolist()} as in p")
    return own.clone()


in_range = register(
    "in_range",
    "(Tensor numbers, str name, SymInt low, SymInt high, str what) -> Tensor",
    _in_range,
    _in_range_fake,
)
"""Integers of which all are between `low` and `high`."""

mask_lengths = register("mask_lengths", "(Tensor inside) -> Tensor", _mask_lengths, _mask_lengths_fake)
"""The lengths of sequences (B,) of a mask (B, T) that is true at their positions."""

equal_lengths = register("equal_lengths", "(Tensor own, Tensor others) -> Tensor", _equal_lengths, _like_own)
"""The lengths of a distribution, which are those of another one."""

equal_edges = register("equal_edges", "(Tensor own, Tensor others) -> Tensor", _equal_edges, _like_own)
"""The edges of a pairwise graph, which are those of another one with as many edges."""
