"""Weighted context-free grammars in text form."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, NoReturn

from . import _zhat
from ._arguments import FilePath, real, text, texts
from ._model import Model, of_kind
from .errors import InputError
from .hypertree import Hypertree

Rule = tuple[str, Sequence[str], float]
"""A symbol, the symbols and quoted words that replace it, and a weight."""

_SYMBOL = re.compile(r"(?!%)[^\s'\"\[\]|#]+")
_WORD = re.compile(r"'[^'\r\n]+'|\"[^\"\r\n]+\"")


class Grammar(Model[Any, Any, Any, Any, Any, Any], kind="grammar"):
    """A weighted context-free grammar.

    `rules` is a list of rules: a symbol, the list of the symbols and words that replace it, and a weight,
    which may be left out. Words are in single or double quotes, as in the text format, which
    `Grammar.from_text` and `zhat.read` accept (docs/grammars.md describes it). Weights are nonnegative
    numbers, not logarithms; a missing weight is 1. The start symbol is `start`, or else that of the first
    rule.

    A grammar has no answers by itself: `with_input` makes a `Hypertree` of the trees of sentences, and every
    query takes the sentences as `input`. Right-hand sides of three or more parts are divided into pairs by
    hidden symbols, which printed trees leave out.

    >>> import zhat
    >>> rules = [("S", ["S", "'and'", "S"], 0.4), ("S", ["'rain'"], 0.5), ("S", ["'snow'"], 0.1)]
    >>> grammar = zhat.Grammar(rules)
    >>> grammar
    Grammar(start S, 1 symbols, 3 words, 3 rules)
    >>> best = grammar.map(input="rain and snow and rain").value
    >>> best.bracketed()
    '(S (S rain) and (S (S snow) and (S rain)))'
    >>> trees = grammar.with_input(["rain", "rain and snow"])
    >>> trees.log_partition().value.round(4).tolist()
    [-0.6931, -3.912]
    """

    def __init__(
        self, rules: Iterable[Rule | tuple[str, Sequence[str]]], *, start: str | None = None
    ) -> None:
        """Builds and checks the grammar."""
        lines = [] if start is None else [f"%start {_symbol('start', start)}"]
        if isinstance(rules, (str, bytes)) or not isinstance(rules, Iterable):
            raise InputError(f"rules: expected a list of rules, found {rules!r}")
        lines += [_line(f"rules[{i}]", rule) for i, rule in enumerate(rules)]
        try:
            self._native = _zhat.grammar("\n".join(lines) + "\n")
        except InputError as error:
            message = _about_rules(str(error), start is not None)
            raise InputError(message, kind=error.kind) from None

    @classmethod
    def from_text(cls, rules: str) -> Grammar:
        """The grammar of a text, in the format of docs/grammars.md or in NLTK's.

        >>> import zhat
        >>> zhat.Grammar.from_text("S -> S S [0.4] | 'a' [0.6]").words
        ('a',)
        """
        return cls._wrap(_zhat.grammar(text("rules", rules)))

    @classmethod
    def read(cls, path: FilePath) -> Grammar:
        """Reads a grammar from a text or `.zhat` file. Any other kind of model is an error."""
        return cls._wrap(of_kind(cls._kind, _zhat.Model.read(path, None)))

    def with_input(self, sentences: str | os.PathLike[str] | Iterable[str | Iterable[str]]) -> Hypertree:
        """The trees of sentences.

        A sentence is a list of words, or a text in which white space separates them. A single text is one
        sentence, and the result is not a batch. A path (`pathlib.Path`) is a file with one sentence per line,
        plain or compressed.

        >>> import zhat
        >>> grammar = zhat.Grammar.from_text("S -> S S [0.4] | 'a' [0.6]")
        >>> grammar.with_input("a a a")
        Hypertree(3 words, 1 symbols, 1 rules, float64)
        >>> grammar.with_input(["a a a", ["a"]]).lengths
        (3, 1)
        """
        return self._trees("sentences", sentences)

    def _trees(self, name: str, sentences: object) -> Hypertree:
        """The trees of sentences; errors name the argument."""
        if isinstance(sentences, str):
            if len(sentences.splitlines()) > 1:
                raise InputError(f"{name}: a text is one sentence; for several, give a list of texts")
            return Hypertree._wrap(self._of_words(name, [_words(name, sentences)]), True)
        if isinstance(sentences, os.PathLike):
            return Hypertree._wrap(_zhat.grammar_trees_of_file(self._native, sentences), False)
        if isinstance(sentences, bytes) or not isinstance(sentences, Iterable):
            raise InputError(f"{name}: expected a text or a list of sentences, found {sentences!r}")
        words = [_words(f"{name}[{b}]", sentence) for b, sentence in enumerate(sentences)]
        if not words:
            raise InputError(f"{name}: expected at least one sentence")
        return Hypertree._wrap(self._of_words(name, words), False)

    def _of_words(self, name: str, sentences: list[list[str]]) -> _zhat.Model:
        try:
            return _zhat.grammar_trees(self._native, sentences)
        except InputError as error:
            message = str(error).removeprefix("sentences: ")
            raise InputError(f"{name}: {message}", kind=error.kind) from None

    def _applied(self, data: Any) -> Hypertree:
        return self._trees("input", data)

    def _given(self, evidence: Any) -> NoReturn:
        raise InputError("input: a grammar needs sentences before it is given evidence")

    @cached_property
    def _parts(self) -> tuple[str, str, list[str], list[str], int]:
        return _zhat.grammar_parts(self._native)

    @property
    def text(self) -> str:
        """The grammar as text, with its comments."""
        return self._parts[0]

    @property
    def start(self) -> str:
        """The start symbol."""
        return self._parts[1]

    @property
    def symbols(self) -> tuple[str, ...]:
        """The symbols, without hidden ones."""
        return tuple(self._parts[2])

    @property
    def words(self) -> tuple[str, ...]:
        """The words, in the order of their first use."""
        return tuple(self._parts[3])

    @property
    def n_rules(self) -> int:
        """The number of rules; every alternative is one."""
        return self._parts[4]

    def save(self, path: FilePath) -> None:
        """Writes the grammar as text (`.cfg`, `.pcfg`, `.grammar`) or to a `.zhat` file."""
        self._native.save(path)

    def _figures(self) -> dict[str, str]:
        return {
            "start": f"start {self.start}",
            "symbols": f"{len(self.symbols)} symbols",
            "words": f"{len(self.words)} words",
            "rules": f"{self.n_rules} rules",
        }

    def _numbers(self, raw: Any) -> Any:
        raise NotImplementedError

    def __hash__(self) -> int:
        """A hash that equal grammars share."""
        return hash(self.text)


def _symbol(name: str, value: object) -> str:
    symbol = text(name, value)
    if not _SYMBOL.fullmatch(symbol) or "->" in symbol or "→" in symbol:
        raise InputError(
            f"{name}: {symbol!r} is no symbol; symbols have no white space, quotes, brackets, |, # or arrows"
        )
    return symbol


def _part(name: str, value: object) -> str:
    part = text(name, value)
    if _WORD.fullmatch(part):
        return part
    if part[:1] in ("'", '"'):
        raise InputError(f"{name}: {part!r} is no word; a word is in quotes and has at least one character")
    return _symbol(name, part)


def _line(name: str, rule: object) -> str:
    """A rule as a line of text."""
    if isinstance(rule, str) or not isinstance(rule, Sequence) or len(rule) not in (2, 3):
        raise InputError(
            f"{name}: expected a symbol, a list of symbols and words, and a weight, found {rule!r}"
        )
    head, parts, *weight = rule
    if isinstance(parts, str) or not isinstance(parts, Iterable):
        raise InputError(f"{name}: expected a list of symbols and words, found {parts!r}")
    shown = [_part(f"{name}[1][{i}]", part) for i, part in enumerate(parts)]
    if not shown:
        raise InputError(f"{name}: the right-hand side is empty; expected at least one symbol or quoted word")
    number = real(f"{name}[2]", weight[0]) if weight else 1.0
    if not 0.0 <= number < float("inf"):
        raise InputError(f"{name}[2]: the weight {number} is not a finite number of at least 0")
    return f"{_symbol(f'{name}[0]', head)} -> {' '.join(shown)} [{number!r}]"


def _about_rules(message: str, started: bool) -> str:
    """Replaces line numbers in the message by numbers of rules."""
    first = 2 if started else 1

    def place(line: str) -> str:
        return "start" if int(line) < first else f"rules[{int(line) - first}]"

    if not message.startswith("line "):
        return f"rules: {message}"
    message = re.sub(r"^line (\d+)", lambda found: place(found[1]), message)
    return re.sub(r"on line (\d+)", lambda found: f"at {place(found[1])}", message)


def _words(name: str, sentence: object) -> list[str]:
    given: Any = sentence
    words = text(name, given).split() if isinstance(given, str) else texts(name, given)
    if not words:
        raise InputError(f"{name}: the sentence is empty; expected at least one word")
    return words
