"""Trees over the words of a sentence, as text and as pictures."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import NDArray

from . import _html, _zhat
from ._frames import Columns, Tabular
from .palette import category

_STEP = 34
"""The height of a level of a picture."""


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
        pairs = [(first, last) for first, last, _ in self.nodes.tolist() if first < last]
        return list(dict.fromkeys(pairs))

    def bracketed(self) -> str:
        """The tree in brackets, as in treebanks: `(S (NP (D the) (N dog)) (VP barks))`.

        Without names, symbols have their number and word i is `wi`. Parentheses in names become `-LRB-` and
        `-RRB-`, and white space becomes `_`.
        """
        hidden = self.names.hidden if self.names is not None else frozenset[int]()
        parts: list[str] = []
        open_nodes: list[tuple[int, bool]] = []
        for (first, last, symbol), is_word in zip(self.nodes.tolist(), self._is_word(), strict=True):
            while open_nodes and open_nodes[-1][0] < first:
                parts.append(")" * open_nodes.pop()[1])
            shown = symbol not in hidden
            open_nodes.append((last, shown))
            if shown:
                parts.append(f" ({_plain(self._symbol(symbol))}")
            if is_word:
                parts.append(f" {_plain(self._word(first))}")
        parts += [")" * shown for _, shown in reversed(open_nodes)]
        return "".join(parts).removeprefix(" ")

    def _symbol(self, symbol: int) -> str:
        return str(symbol) if self.names is None else self.names.symbols[symbol]

    def _word(self, word: int) -> str:
        return f"w{word}" if self.names is None else self.names.words[word]

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
        rows = self.nodes.tolist()
        count = 1 + max((last for _, last, _ in rows), default=-1)
        labels = [self._symbol(symbol) for _, _, symbol in rows]
        words = [self._word(i) for i in range(count)]
        # Each word has the width of its longest text.
        widths = [max(40.0, 7.0 * len(word) + 14) for word in words]
        for (first, last, _), label in zip(rows, labels, strict=True):
            if first == last:
                widths[first] = max(widths[first], 7.0 * len(label) + 14)
        starts = np.concatenate([[0.0], np.cumsum(widths)])
        parents, levels = self._shape()
        height = _STEP * (max(levels, default=0) + 1) + 8
        across = [float(starts[first] + starts[last + 1]) / 2 for first, last, _ in rows]
        up = [float(height - 6 - _STEP * level) for level in levels]
        parts = []
        for node, parent in enumerate(parents):
            colour = f'stroke="{category(rows[node][2])}" stroke-width="1.5"'
            if parent is not None:
                ends = f'x1="{across[parent]:g}" y1="{up[parent] + 4:g}" x2="{across[node]:g}"'
                parts.append(f'<line {ends} y2="{up[node] - 12:g}" {colour}/>')
        for is_word, x, y in zip(self._is_word(), across, up, strict=True):
            if is_word:
                ends = f'x1="{x:g}" y1="{y + 4:g}" x2="{x:g}" y2="{height - 18:g}"'
                parts.append(f'<line {ends} stroke="currentColor" stroke-opacity="0.4"/>')
        for label, x, y in zip(labels, across, up, strict=True):
            parts.append(f'<text x="{x:g}" y="{y:g}" text-anchor="middle">{escape(label)}</text>')
        for word, start, width in zip(words, starts, widths, strict=False):
            place = f'x="{start + width / 2:g}" y="{height - 6:g}" text-anchor="middle"'
            parts.append(f'<text {place} font-style="italic">{escape(word)}</text>')
        size = f'width="{starts[-1]:g}" height="{height}" viewBox="0 0 {starts[-1]:g} {height}"'
        style = 'font-family="sans-serif" font-size="12" fill="currentColor"'
        title = f"<title>Tree over {count} words</title>"
        return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>{title}{"".join(parts)}</svg>'

    def _shape(self) -> tuple[list[int | None], list[int]]:
        """The parent of each node, and its level above the words, which have level 0."""
        rows = self.nodes.tolist()
        parents: list[int | None] = []
        above: list[int] = []
        for node, (first, _, _) in enumerate(rows):
            while above and rows[above[-1]][1] < first:
                above.pop()
            parents.append(above[-1] if above else None)
            above.append(node)
        levels = [1] * len(rows)
        for node in range(len(rows) - 1, 0, -1):
            parent = parents[node]
            if parent is not None:
                levels[parent] = max(levels[parent], levels[node] + 1)
        return parents, levels

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
