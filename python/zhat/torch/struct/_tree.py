"""Binary trees over the words of a sentence."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ... import hypertree
from ...errors import InputError
from ..model import Model
from ..queries import marginals
from ._base import Lengths, Places, StructDistribution, check_axes, counted, indices, lengths_of


class TreeCRF(StructDistribution):
    """Binary trees over N words, in which every span has one of NT symbols, chosen independently.

    `log_potentials` is (B, N, N, NT), by first word, last word and symbol; entries below the diagonal are not
    used. The compact representation is the event.

    >>> import torch, zhat.torch.struct
    >>> zhat.torch.struct.TreeCRF(torch.zeros(1, 5, 5, 1)).count
    tensor([14.])
    """

    def _checked(self, parameters: tuple[Tensor, ...]) -> tuple[int, ...]:
        check_axes("log_potentials", parameters[0], (4,), "(B, N, N, NT)")
        shape = tuple(parameters[0].shape)
        if shape[1] != shape[2] or 0 in shape:
            raise InputError(f"log_potentials: found shape {shape}, expected (B, N, N, NT)")
        return shape

    def _longest(self, shape: tuple[int, ...]) -> int:
        return shape[1]

    def _model(self, parameters: tuple[Tensor, ...], lengths: Lengths) -> Model:
        return Model(hypertree.Hypertree, spans=parameters[0], lengths=lengths)

    def _expected(self) -> tuple[Tensor, ...]:
        return (marginals(self._own_model).spans,)

    def _places(self, states: Tensor) -> tuple[Places, ...]:
        used = states[..., 2] >= 0
        return ((used, (*counted(used), *states.clamp(min=0).unbind(-1))),)


class SentCFG(StructDistribution):
    """Trees of a context-free grammar over N words, with NT nonterminals and T terminals.

    `log_potentials` is a tuple of `terms` (B, N, T), `rules` (B, NT, NT + T, NT + T), by the symbol, its left
    and its right part, and `roots` (B, NT). Symbols NT to NT + T − 1 are the terminals.

    An event is a tuple of four tensors: how often each of `terms`, `rules` and `roots` is used, and the spans
    (B, N, N, NT), where entry [b, w, i, k] is for symbol k over the words i to i + w + 1. `log_prob` does not
    read the last one. The compact representation is (B, N, N, NT + T), by first word, last word and symbol.

    Rules that all sentences share are stored once by `zhat.torch.Model(zhat.Hypertree, …)`.

    >>> import torch, zhat.torch.struct
    >>> grammar = torch.zeros(1, 4, 2), torch.zeros(1, 1, 3, 3), torch.zeros(1, 1)
    >>> zhat.torch.struct.SentCFG(grammar).count    # 5 trees over 4 words, 2 terminals for each word
    tensor([80.])
    """

    def __init__(self, log_potentials: tuple[Tensor, ...], lengths: Iterable[int] | None = None) -> None:
        """Potentials of the words, rules and roots, and the length of each sentence."""
        if isinstance(log_potentials, Tensor) or len(log_potentials) != 3:
            raise InputError("log_potentials: expected three tensors: terms, rules and roots")
        self.log_potentials = tuple(log_potentials)
        self.args: Any = {}
        self._set_up(self.log_potentials, lengths)

    def _checked(self, parameters: tuple[Tensor, ...]) -> tuple[int, ...]:
        terms, rules, roots = parameters
        check_axes("terms", terms, (3,), "(B, N, T)")
        check_axes("rules", rules, (4,), "(B, NT, NT + T, NT + T)")
        check_axes("roots", roots, (2,), "(B, NT)")
        items, _, tags = terms.shape
        heads = roots.shape[1]
        for name, tensor, shape in (
            ("roots", roots, (items, heads)),
            ("rules", rules, (items, heads, heads + tags, heads + tags)),
        ):
            if tuple(tensor.shape) != shape:
                raise InputError(f"{name}: found shape {tuple(tensor.shape)}, expected {shape}")
        if 0 in rules.shape or 0 in terms.shape:
            raise InputError(f"terms: found shape {tuple(terms.shape)}; every length is at least 1")
        return tuple(terms.shape)

    def _longest(self, shape: tuple[int, ...]) -> int:
        return shape[1]

    @property
    def _potentials(self) -> tuple[Tensor, ...]:
        return self._parameters

    def _model(self, parameters: tuple[Tensor, ...], lengths: Lengths) -> Model:
        terms, rules, roots, *spans = parameters
        given = {"words": terms, "rules": rules, "roots": roots} | ({"spans": spans[0]} if spans else {})
        return Model(hypertree.Hypertree, **given, lengths=lengths)

    def _expected(self) -> tuple[Tensor, ...]:
        terms, _, roots = self._parameters
        items, words, _ = terms.shape
        none = terms.new_zeros(items, words, words, roots.shape[1])
        found = marginals(self._model((*self._parameters, none), self._lengths))
        # By the number of words less two, and the first word.
        first = torch.arange(words).expand(words, words)
        last = first + first.transpose(0, 1) + 1
        spans = found.spans[:, first, last.clamp(max=words - 1)]
        return found.words, found.rules, found.roots, spans.masked_fill((last >= words)[..., None], 0.0)

    def _places(self, states: Tensor) -> tuple[Places, ...]:
        heads = self._parameters[2].shape[1]
        first, last, symbol = states.unbind(-1)
        leaf, above = (first == last) & (symbol >= 0), first < last
        number, item = counted(symbol)
        rows, most = torch.arange(symbol.shape[2]), symbol.shape[2] - 1
        # After a node come its left part, a tree of 2m − 1 nodes over m words, and its right part.
        left = (rows + 1).clamp(max=most).expand(symbol.shape)
        right = left + 2 * (last - first).gather(2, left) + 1
        parts = (symbol.gather(2, own.clamp(0, most)).clamp(min=0) for own in (left, right))
        start, end, own = (each.clamp(min=0) for each in (first, last, symbol))
        terms = (leaf, (number, item, start, torch.where(leaf, symbol - heads, 0)))
        head = torch.where(above, own, 0)
        rules = (above, (number, item, head, *parts))
        spans = (above, (number, item, (end - start - 1).clamp(min=0), start, head))
        root = symbol[..., 0]
        place = (number[..., 0], item[..., 0], torch.where(root >= 0, root, 0))
        return terms, rules, (root >= 0, place), spans

    def _event_shapes(self) -> tuple[tuple[int, ...], ...]:
        terms, rules, roots = (tuple(each.shape[1:]) for each in self._parameters)
        return terms, rules, roots, (terms[0], terms[0], roots[0])

    def to_event(self, sequence: Any, extra: Any = None, lengths: Iterable[int] | None = None) -> Any:
        """`terms`, `rules` and `roots` of trees, given as spans (B, N, N, NT + T) of ones and zeros.

        `extra` is (NT, T), by default those of the distribution; `lengths` are those of the distribution.
        """
        heads, tags = self._parameters[2].shape[1], self._parameters[0].shape[2]
        if extra is not None and tuple(map(int, extra)) != (heads, tags):
            raise InputError(f"extra: found {extra}, expected {(heads, tags)}")
        longest = self.event_shape[0]
        symbols = heads + tags
        ones = torch.as_tensor(sequence).long()  # events are real numbers
        array = indices("sequence", ones, (None, longest, longest, symbols), 0, 1)
        counts = lengths_of(lengths, self._lengths, len(array), longest)
        nodes = np.full((len(array), 1, 2 * longest - 1, 3), -1)
        for b, (own, count) in enumerate(zip(array, counts, strict=True)):
            nodes[b, 0, : 2 * count - 1] = _preorder(own, count, b)
        return tuple(each[0].long() for each in self._events(torch.from_numpy(nodes))[:3])

    def from_event(self, event: Any) -> tuple[Tensor, tuple[int, int]]:
        """The spans (…, B, N, N, NT + T) of an event of four tensors, and (NT, T)."""
        if len(event) != 4:
            raise InputError(f"event: found {len(event)} tensors; the spans are the last of four")
        terms, _, _, chart = event
        *outer, words, tags = terms.shape
        heads = chart.shape[-1]
        spans = terms.new_zeros(*outer, words, words, heads + tags)
        places = torch.arange(words, device=terms.device)
        spans[..., places, places, heads:] = terms
        for wide in range(1, words):
            spans[..., places[:-wide], places[wide:], :heads] = chart[..., wide - 1, : words - wide, :]
        return spans, (heads, tags)


def _preorder(spans: Any, words: int, b: int) -> Any:
    """The nodes of a tree, each before its parts."""
    symbols = {(i, j): k for i, j, k in np.argwhere(spans).tolist()}
    nodes, waiting = [], [(0, words - 1)]
    while waiting:
        first, last = waiting.pop()
        if (first, last) not in symbols:
            raise InputError(f"sequence: item {b} has no node over the words {first} to {last}")
        nodes.append((first, last, symbols[first, last]))
        if first < last:
            cuts = (j for j in range(first, last) if {(first, j), (j + 1, last)} <= symbols.keys())
            cut = next(cuts, None)
            if cut is None:
                raise InputError(f"sequence: item {b} does not divide the words {first} to {last} into two")
            waiting += [(cut + 1, last), (first, cut)]
    return np.array(nodes, np.int64)
