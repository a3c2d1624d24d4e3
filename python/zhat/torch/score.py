"""Log weights of given states, as differentiable tensor operations.

A state is a tensor of integers, and numbers below 0 are padding:

- chains: (T,), the state at each position
- semi-Markov chains: (K, 2), a row (state, length) per segment
- dependency trees: (T,), the head of each word, 0 for the root; with labels (T, 2), rows (head, label)
- trees over words: (K, 3), a row (first word, last word, symbol) per node, in the order of `zhat.ParseTree`
- graphs: (V,), the state of each variable

Several states of one model have one more axis in front of these, and states of a batch have one axis before
all.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..errors import InputError
from ._indexing import (
    below,
    integers,
    items,
    lengths_of,
    listed,
    log_sum_exp,
    needed,
    own,
    precision,
    state_axes,
    summed,
)
from ._kinds import CHAIN, DEPENDENCY, FACTOR_GRAPH, HYPERTREE, PAIRWISE, SEMI_MARKOV
from ._tree_score import tree_score
from .model import Model


def score(model: Model, states: Tensor) -> Tensor:
    """The log weight of states; −inf, with gradient zero, if they are impossible or not of the model.

    `states` are those of `best`, `k_best` and `sample`. There may be several per item.

    >>> import torch, zhat.torch
    >>> emissions = torch.tensor([[0.0, 1.0], [0.0, 0.0]])
    >>> chain = zhat.torch.Chain(emissions, torch.tensor([[0.0, 0.0], [0.0, 2.0]]))
    >>> zhat.torch.score(chain, torch.tensor([[1, 1], [0, 1]]))
    tensor([3., 0.])
    """
    found, axes, single = integers(states), state_axes(model), model.single
    several = found.dim() - (not single) == axes + 1
    if not several and found.dim() - (not single) != axes:
        what = "state" if single else "batch of states"
        raise InputError(
            f"states: found shape {tuple(states.shape)}; one {what} has {axes + (not single)} axes"
        )
    found = found if not single else found.unsqueeze(0)
    found = found if several else found.unsqueeze(1)
    value, possible = _SCORES[model.kind.name](model, found)
    first = next(iter(model.tensors.values()))
    impossible = ~possible | torch.isneginf(value)
    value = torch.where(impossible, torch.full_like(value, -torch.inf), value).to(first.dtype)
    value = value if several else value.squeeze(1)
    return value.squeeze(0) if single else value


def _chain(model: Model, states: Tensor) -> tuple[Tensor, Tensor]:
    emissions = needed(model, "emissions")
    steps, lengths = emissions.shape[1], lengths_of(model, emissions)
    if states.shape[0] != emissions.shape[0] or states.shape[2] != steps:
        raise InputError(f"states: found shape {tuple(states.shape)} for emissions {tuple(emissions.shape)}")
    position = torch.arange(steps)
    used = position < lengths.view(-1, 1, 1)
    places = position.expand(states.shape)
    value, possible = _path(model, emissions, states, places, used)
    each = _emitted(emissions, states)
    return value + summed(each, used), possible


def _semi_markov(model: Model, segments: Tensor) -> tuple[Tensor, Tensor]:
    emissions = needed(model, "emissions")
    steps, lengths = emissions.shape[1], lengths_of(model, emissions)
    if segments.shape[0] != emissions.shape[0] or segments.shape[3] != 2:
        raise InputError(f"states: found shape {tuple(segments.shape)}, expected rows (state, length)")
    states, durations = segments[..., 0], segments[..., 1]
    used = states >= 0
    durations = torch.where(used, durations, 0)
    ends = durations.cumsum(-1)
    starts = (ends - durations).clamp(0, steps - 1)
    value, possible = _path(model, emissions, states, starts, used)
    possible = possible & (ends[..., -1] == lengths.view(-1, 1)) & ((durations > 0) == used).all(-1)
    # The state at each position is that of the first segment that ends after it.
    position = torch.arange(steps).expand(*states.shape[:2], steps).contiguous()
    segment = torch.searchsorted(ends.contiguous(), position, right=True).clamp(max=states.shape[2] - 1)
    each = _emitted(emissions, states.gather(-1, segment))
    value = value + summed(each, position < lengths.view(-1, 1, 1))
    table = model.tensors["segments"]
    longest = table.shape[-2]
    possible = possible & (durations <= longest).all(-1)
    at = (durations - 1).clamp(0, longest - 1), states.clamp(0, emissions.shape[2] - 1)
    if table.dim() == 2:
        gained = table[at]
    else:
        table = table if table.dim() == 4 else table.unsqueeze(0)
        gained = table[items(table), starts, at[0], at[1]]
    return value + summed(gained, used), possible


def _emitted(emissions: Tensor, states: Tensor) -> Tensor:
    """The emission of the state at each position."""
    number = emissions.shape[2]
    index = states.clamp(0, number - 1).transpose(1, 2)
    return emissions.gather(2, index).transpose(1, 2)


def _path(
    model: Model, emissions: Tensor, states: Tensor, places: Tensor, used: Tensor
) -> tuple[Tensor, Tensor]:
    """The scores of start, transitions and end of states that begin at these places."""
    number = emissions.shape[2]
    below("states", states, number)
    possible = ((states >= 0) | ~used).all(-1) & used[..., 0]
    states = states.clamp(0, number - 1)
    value = torch.zeros(states.shape[:2], dtype=precision(emissions))
    start, end = model.tensors.get("start"), model.tensors.get("end")
    if start is not None:
        value = value + start[states[..., 0]].to(value.dtype)
    if end is not None:
        last = (used.sum(-1, keepdim=True) - 1).clamp(min=0).expand(*states.shape[:2], 1)
        value = value + end[states.gather(-1, last)[..., 0]].to(value.dtype)
    if states.shape[2] > 1 and emissions.shape[1] > 1:
        before, after = states[..., :-1], states[..., 1:]
        step = (places[..., 1:] - 1).clamp(min=0)
        value = value + summed(_transitions(model, before, after, step), used[..., 1:])
    return value, possible


def _transitions(model: Model, before: Tensor, after: Tensor, step: Tensor) -> Tensor:
    """The scores of transitions, by step."""
    tensors = model.tensors
    table, indices = tensors.get("transitions"), tensors.get("indices")
    if "left" in tensors:
        left, right = tensors["left"], tensors.get("right", tensors["left"])
        return (left[before] * right[after]).sum(-1)
    if "log_left" in tensors:
        return log_sum_exp(tensors["log_left"][before] + tensors["log_right"][after])
    assert table is not None
    if indices is not None:
        number = tensors["indptr"].numel() - 1
        rows = torch.searchsorted(tensors["indptr"], torch.arange(indices.numel()), right=True) - 1
        entry, known = listed(rows * number + indices, before * number + after)
        entries = table[entry] if table.dim() == 1 else table[step, entry]
        return torch.where(known, entries, -torch.inf)
    if table.dim() == 2:
        return table[before, after]
    if table.dim() == 3:
        return table[step, before, after]
    return table[items(table), step, before, after]


def _dependency(model: Model, states: Tensor) -> tuple[Tensor, Tensor]:
    arcs, roots = needed(model, "arcs"), own(model, "roots")
    lengths = lengths_of(model, arcs)
    words = arcs.shape[1]
    if states.shape[0] != arcs.shape[0] or states.shape[2] != words:
        raise InputError(f"states: found shape {tuple(states.shape)} for arcs {tuple(arcs.shape)}")
    heads = states[..., 0] if states.dim() == 4 else states
    below("states", heads, words + 1)
    if roots is None:
        roots = torch.zeros_like(arcs[:, 0])
    table = torch.cat([roots.unsqueeze(1), arcs], 1)
    word = torch.arange(words)
    used = word < lengths.view(-1, 1, 1)
    place = (items(table), heads.clamp(0, words), word.expand(heads.shape))
    if states.dim() == 4:
        labels = states[..., 1]
        below("states", labels, table.shape[3])
        place = (*place, labels.clamp(0, table.shape[3] - 1))  # type: ignore[assignment]
    value = summed(table[place], used)
    possible = ((states.flatten(3).amin(-1) if states.dim() == 4 else states) >= 0).logical_or(~used).all(-1)
    projective, single_root = model.settings.get("projective", 1), model.settings.get("single_root", 0)
    heads = torch.where(used, heads.clamp(0, words), 0)
    return value, possible & _is_tree(heads, used, lengths, bool(projective), bool(single_root))


def _is_tree(heads: Tensor, used: Tensor, lengths: Tensor, projective: bool, single_root: bool) -> Tensor:
    """Whether heads, 0 after the end of a sentence, are a tree of the model."""
    words = heads.shape[2]
    good = (heads <= lengths.view(-1, 1, 1)).all(-1)
    above = torch.cat([torch.zeros_like(heads[..., :1]), heads], -1)
    for _ in range(words.bit_length()):
        above = above.gather(-1, above)
    good = good & (above == 0).all(-1)
    if single_root:
        good = good & (((heads == 0) & used).sum(-1) == 1)
    if projective:
        word = torch.arange(1, words + 1)
        low, high = torch.minimum(heads, word), torch.maximum(heads, word)
        inside = (low.unsqueeze(-1) < low.unsqueeze(-2)) & (low.unsqueeze(-2) < high.unsqueeze(-1))
        crossing = inside & (high.unsqueeze(-1) < high.unsqueeze(-2))
        both = used.unsqueeze(-1) & used.unsqueeze(-2)
        good = good & ~(crossing & both).flatten(-2).any(-1)
    return good


def _pairwise(model: Model, states: Tensor) -> tuple[Tensor, Tensor]:
    nodes, edges = model.tensors["nodes"], model.tensors["edges"]
    count, number = nodes.shape
    if states.shape[2] != count:
        raise InputError(f"states: found shape {tuple(states.shape)} for {count} variables")
    below("states", states, number)
    possible = (states >= 0).all(-1)
    states = states.clamp(0, number - 1)
    value = nodes[torch.arange(count), states].to(precision(nodes)).sum(-1)
    before, after = states[..., edges[:, 0]], states[..., edges[:, 1]]
    if "left" in model.tensors:
        left, right = model.tensors["left"], model.tensors.get("right", model.tensors["left"])
        pairs = (left[before] * right[after]).sum(-1)
    else:
        table = model.tensors["interactions"]
        shared = table.dim() == 2
        pairs = table[before, after] if shared else table[torch.arange(len(edges)), before, after]
    return value + pairs.to(value.dtype).sum(-1), possible


def _factors(model: Model, states: Tensor) -> tuple[Tensor, Tensor]:
    if states.shape[2] != len(model.cardinalities):
        raise InputError(
            f"states: found shape {tuple(states.shape)} for {len(model.cardinalities)} variables"
        )
    tables = list(model.tensors.values())
    value = torch.zeros(states.shape[:2], dtype=precision(tables[0]))
    for v, size in enumerate(model.cardinalities):
        below("states", states[..., v], size)
    possible = (states >= 0).all(-1)
    states = states.clamp(min=0)
    for table, scope in zip(tables, model.scopes, strict=True):
        sizes = [model.cardinalities[v] for v in scope]
        place = tuple(states[..., v] for v in scope)
        value = value + (table.reshape(sizes)[place] if scope else table.reshape(())).to(value.dtype)
    return value, possible


_SCORES = {
    CHAIN.name: _chain,
    SEMI_MARKOV.name: _semi_markov,
    DEPENDENCY.name: _dependency,
    HYPERTREE.name: tree_score,
    PAIRWISE.name: _pairwise,
    FACTOR_GRAPH.name: _factors,
}
