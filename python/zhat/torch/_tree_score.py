"""Log weights of trees over words."""

from __future__ import annotations

import torch
from torch import Tensor

from ..errors import InputError
from ._indexing import below, items, lengths_of, listed, log_sum_exp, own, precision, summed
from ._kinds import tree_sizes
from .model import Model


def tree_score(model: Model, nodes: Tensor) -> tuple[Tensor, Tensor]:
    """The score of trees whose nodes are (B, n, K, 3), and whether they are trees of the model."""
    sizes = tree_sizes(model.tensors, model.settings)
    words = _words(model)
    count = words.shape[1]
    if nodes.shape[0] != words.shape[0] or nodes.shape[3] != 3:
        raise InputError(f"states: found shape {tuple(nodes.shape)}, expected rows (first, last, symbol)")
    below("states", nodes[..., :2], count)
    below("states", nodes[..., 2], sizes.symbols)
    used = nodes[..., 0] >= 0
    first, last, symbol = nodes.clamp(min=0).unbind(-1)
    last = last.clamp(max=count - 1)
    first, symbol = torch.minimum(first, last), symbol.clamp(max=sizes.symbols - 1)
    lengths = lengths_of(model, words).view(-1, 1)

    def after(values: Tensor) -> Tensor:
        """The value of the next row."""
        return torch.cat([values[..., 1:], torch.zeros_like(values[..., :1])], -1)

    follows = after(used) & used
    rewritten = follows & (after(first) == first) & (after(last) == last)
    word, divided = used & (first == last) & ~rewritten, used & (first < last) & ~rewritten
    # The left part is the next row, the right part the first row with the rest of the words.
    middle = after(last)
    starts = (first.unsqueeze(-2) == middle.unsqueeze(-1) + 1) & used.unsqueeze(-2)
    fits = starts & (last.unsqueeze(-2) == last.unsqueeze(-1))
    rank = torch.arange(nodes.shape[2], 0, -1)
    right = (fits * rank).argmax(-1)
    parted = follows & (after(first) == first) & (middle < last) & fits.any(-1)
    possible = (divided <= parted).all(-1) & used[..., 0]
    possible = possible & (first[..., 0] == 0) & (last[..., 0] == lengths - 1)
    possible = possible & (divided.sum(-1) == lengths - 1) & (word.sum(-1) == lengths)
    tag = symbol - (sizes.symbols - sizes.tags)
    above = divided | rewritten
    heads = ((symbol < sizes.heads) | ~above).all(-1) & (symbol[..., 0] < sizes.heads)
    possible = possible & heads & ((tag >= 0) | ~word).all(-1)
    head = symbol.clamp(max=sizes.heads - 1)
    value = summed(words[items(words), first, tag.clamp(min=0)], word)
    value = value + summed(
        _rules(model, sizes.symbols, head, after(symbol), symbol.gather(-1, right)), divided
    )
    roots = model.tensors.get("roots")
    if roots is not None:
        own_roots = roots[head[..., 0]] if roots.dim() == 1 else roots[items(roots)[..., 0], head[..., 0]]
        value = value + own_roots.to(value.dtype)
    spans = _spans(model, first, last, head)
    if spans is not None:
        value = value + summed(spans, divided)
    if "unary" in model.tensors:
        keys = model.tensors["unary_symbols"].long() @ torch.tensor([sizes.symbols, 1])
        rule, known = listed(keys, head * sizes.symbols + after(symbol))
        gained = model.tensors["unary"][rule] if keys.numel() else torch.zeros(rule.shape)
        value = value + summed(torch.where(known, gained, -torch.inf), rewritten)
    else:
        possible = possible & ~rewritten.any(-1)
    return value, possible


def _words(model: Model) -> Tensor:
    words = own(model, "words")
    if words is None:
        spans = own(model, "spans")
        assert spans is not None
        words = torch.diagonal(spans, dim1=1, dim2=2).transpose(1, 2)
    return words


def _rules(model: Model, symbols: int, head: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """The scores of rules, by head, left and right part."""
    tensors = model.tensors
    table = tensors.get("rules")
    if "rule_heads" in tensors:
        factors = [
            own[place] if own.dim() == 2 else own[items(own), place]
            for own, place in (
                (tensors["rule_heads"], head),
                (tensors["rule_left"], left),
                (tensors["rule_right"], right),
            )
        ]
        return log_sum_exp(factors[0] + factors[1] + factors[2])
    if table is None:
        return torch.zeros(head.shape, dtype=precision(next(iter(tensors.values()))))
    if "rule_symbols" in tensors:
        base = torch.tensor([symbols * symbols, symbols, 1])
        keys = tensors["rule_symbols"].long() @ base
        rule, known = listed(keys, (head * symbols + left) * symbols + right)
        gained = table[rule] if keys.numel() else torch.zeros(rule.shape)
        return torch.where(known, gained, -torch.inf)
    return table[head, left, right] if table.dim() == 3 else table[items(table), head, left, right]


def _spans(model: Model, first: Tensor, last: Tensor, head: Tensor) -> Tensor | None:
    """The scores of spans; `None` if the model has none."""
    spans, embeddings = own(model, "spans"), own(model, "span_embeddings")
    if embeddings is not None:
        vectors = embeddings[items(embeddings), first, last]
        return (vectors * model.tensors["symbol_embeddings"][head]).sum(-1)
    if spans is None:
        return None
    at = items(spans), first, last
    return spans[at] if spans.dim() == 3 else spans[(*at, head)]
