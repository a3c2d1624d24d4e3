"""Trees over the words of a sentence, as text and as pictures."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from . import _html, _zhat
from ._frames import Columns, Tabular


@dataclass(frozen=True)
class TreeNames:
    """The names of the symbols, the words of a sentence, and the symbols left out of printed trees."""

    symbols: tuple[str, ...]
    words: tuple[str, ...]
    hidden: frozenset[int] = frozenset()


@dataclass(frozen=True, eq=False)
class ParseTree(Tabular):
    """A tree over the words of a sentence, and its score.

    `nodes` is (n, 3), with the first word, the last word and the symbol of each node. A node is followed by
    its left and then by its right part; a node followed by one with the same words is rewritten by a unary
    rule. A sentence without a tree has no nodes and the score −inf.

    >>> import zhat
    >>> tree = zhat.Hypertree([[0.0], [0.0], [0.0]], symbol_names=["X"]).map().value
    >>> tree.nodes.tolist()
    [[0, 2, 0], [0, 0, 0], [1, 2, 0], [1, 1, 0], [2, 2, 0]]
    >>> tree.spans()
    [(0, 2), (1, 2)]
    >>> tree.bracketed()
    '(X (X w0) (X (X w1) (X w2)))'
    """

    nodes: NDArray[np.int64]
    score: float
    names: TreeNames | None = None

    def spans(self) -> list[tuple[int, int]]:
        """First and last word of every span of at least two words, from the root downwards."""
        pairs = [(first, last) for _, first, last in self.constituents() if first < last]
        return list(dict.fromkeys(pairs))

    def constituents(self) -> list[tuple[str, int, int]]:
        """Symbol, first and last word of every node, each before its parts, as in the printed tree."""
        rows = [row for row in self.nodes.tolist() if row[2] not in self._hidden]
        return [(self._symbol(symbol), first, last) for first, last, symbol in rows]

    def bracketed(self) -> str:
        """The tree in brackets, as in treebanks: `(S (NP (D the) (N dog)) (VP barks))`.

        Without names, symbols have their number and word i is `wi`. Parentheses in names become `-LRB-` and
        `-RRB-`, and white space becomes `_`.
        """
        parts: list[str] = []
        open_nodes = 0
        for level, name, is_word in self._entries():
            parts.append(")" * (open_nodes - level))
            parts.append(f" {_plain(name)}" if is_word else f" ({_plain(name)}")
            open_nodes = level if is_word else level + 1
        return "".join([*parts, ")" * open_nodes]).removeprefix(" ")

    @property
    def _hidden(self) -> frozenset[int]:
        return self.names.hidden if self.names is not None else frozenset()

    def _symbol(self, symbol: int) -> str:
        return str(symbol) if self.names is None else self.names.symbols[symbol]

    def _word(self, word: int) -> str:
        return f"w{word}" if self.names is None else self.names.words[word]

    def _entries(self) -> list[tuple[int, str, bool]]:
        """Symbols and words, each before its parts: the number of symbols above it, name, if it is a word."""
        entries: list[tuple[int, str, bool]] = []
        open_nodes: list[tuple[int, int]] = []
        for (first, last, symbol), is_word in zip(self.nodes.tolist(), self._is_word(), strict=True):
            while open_nodes and open_nodes[-1][0] < first:
                open_nodes.pop()
            level = open_nodes[-1][1] if open_nodes else 0
            if symbol not in self._hidden:
                entries.append((level, self._symbol(symbol), False))
                level += 1
            open_nodes.append((last, level))
            if is_word:
                entries.append((level, self._word(first), True))
        return entries

    def _is_word(self) -> list[bool]:
        """Whether each node is the lowest one of a single word."""
        first, last = self.nodes[:, 0], self.nodes[:, 1]
        following = np.append(first[1:], -1)
        return list((first == last) & (following != first))

    def _columns(self) -> Columns:
        columns: Columns = {"score": np.full(len(self.nodes), self.score)}
        return columns | {name: self.nodes[:, i] for i, name in enumerate(("first", "last", "symbol"))}

    def _repr_svg_(self) -> str:
        """A picture of the tree above its words, for notebooks."""
        return _zhat.draw_parse(self._entries())

    def _repr_html_(self) -> str:
        """The picture and the score, for notebooks."""
        score = _html.line(f"score {_zhat.format_number(self.score)}")
        return _html.block(_html.Markup(self._repr_svg_()), score)

    def __str__(self) -> str:
        """A short summary."""
        text = self.bracketed()
        shown = text if len(text) <= 200 else f"{text[:200]} …"
        return f"score {_zhat.format_number(self.score)} with {shown or 'no tree'}"


def _plain(name: str) -> str:
    return re.sub(r"\s", "_", name.replace("(", "-LRB-").replace(")", "-RRB-"))
