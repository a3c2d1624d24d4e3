"""Indexing of parameters by states, for batches of items with several states each."""

from __future__ import annotations

import torch
from torch import Tensor

from ..errors import InputError
from .model import Model, on_cpu


def own(model: Model, name: str) -> Tensor | None:
    """A parameter that every item has for itself, with an axis for the items."""
    tensor = model.tensors.get(name)
    return tensor.unsqueeze(0) if tensor is not None and model.single else tensor


def needed(model: Model, name: str) -> Tensor:
    """The same for a parameter that every model of the kind has."""
    tensor = own(model, name)
    assert tensor is not None
    return tensor


def items(table: Tensor) -> Tensor:
    """The index of the item, for tables with an axis for the items: (B, 1, 1)."""
    return torch.arange(table.shape[0]).view(-1, 1, 1)


def lengths_of(model: Model, tensor: Tensor) -> Tensor:
    """The length of each item."""
    lengths = model.tensors.get("lengths")
    return torch.full((tensor.shape[0],), tensor.shape[1]) if lengths is None else lengths


def precision(tensor: Tensor) -> torch.dtype:
    """The precision of sums."""
    return torch.float64 if tensor.dtype is torch.float64 else torch.float32


def summed(values: Tensor, used: Tensor) -> Tensor:
    """The sum over the last axis of the values that are used."""
    values = values.to(precision(values))
    return torch.where(used, values, torch.zeros_like(values)).sum(-1)


def log_sum_exp(terms: Tensor) -> Tensor:
    """The log-sum-exp over the last axis; if all terms are −inf it is −inf, with gradient zero."""
    impossible = torch.isneginf(terms).all(-1)
    found = torch.logsumexp(torch.where(impossible.unsqueeze(-1), torch.zeros_like(terms), terms), -1)
    return torch.where(impossible, torch.full_like(found, -torch.inf), found)


def listed(keys: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """The place of each wanted number in a list of different numbers, and whether it is in the list."""
    if keys.numel() == 0:
        return torch.zeros_like(wanted), torch.zeros_like(wanted, dtype=torch.bool)
    ascending, order = torch.sort(keys)
    place = torch.searchsorted(ascending, wanted.contiguous()).clamp(max=keys.numel() - 1)
    return order[place], ascending[place] == wanted


def integers(states: object) -> Tensor:
    """States as a tensor of integers on the CPU."""
    if not isinstance(states, Tensor):
        raise InputError(f"states: expected a tensor of integers, found {type(states).__name__}")
    if states.is_floating_point() or states.is_complex() or states.dtype is torch.bool:
        raise InputError(f"states: has values of type {states.dtype}; expected integers, as by .long()")
    return on_cpu("states", states).long()


def below(name: str, numbers: Tensor, high: int) -> None:
    """Checks that all numbers are below `high`; compiled code does not check it."""
    if not torch.compiler.is_compiling() and bool((numbers >= high).any()):
        raise InputError(f"{name}: found {int(numbers.max())}, expected numbers below {high}")


def state_axes(model: Model) -> int:
    """The number of axes of one state."""
    return 2 if model.kind.rows or model.settings.get("labelled") else 1
