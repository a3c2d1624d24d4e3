"""Collects and checks the arrays of a `Hypertree`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._arguments import scores, texts, unmasked
from .errors import InputError


class Builder:
    """Collects and checks the arrays of a model; errors name the argument."""

    def __init__(self, words: ArrayLike | None, spans: ArrayLike | None) -> None:
        """The words, or spans whose diagonal is the words."""
        self.arrays: dict[str, NDArray[Any]] = {}
        self.orders: dict[str, NDArray[np.intp]] = {}
        self.sets: list[str] = []
        self.diagonal = words is None
        self.heads_of: list[tuple[str, int]] = []
        self.symbols_of: list[tuple[str, int]] = []
        if words is None:
            if spans is None:
                raise InputError("words: are missing; give words, or spans for every symbol and span")
            table = scores("spans", spans)
            if table.ndim not in (3, 4) or table.shape[-2] != table.shape[-3]:
                expected = "(T, T, N) or (B, T, T, N) if there are no words"
                raise InputError(f"spans: found shape {table.shape}, expected {expected}")
            self.single = table.ndim == 3
            batched = table[np.newaxis] if self.single else table
            self.arrays["spans"] = batched
            places = np.arange(batched.shape[1])
            array = np.ascontiguousarray(batched[:, places, places])
            self.heads_of.append(("spans", array.shape[2]))
        else:
            array = scores("words", words)
            if array.ndim not in (2, 3):
                raise InputError(f"words: found shape {array.shape}, expected (T, P) or (B, T, P)")
            self.single = array.ndim == 2
            array = array[np.newaxis] if self.single else array
        if 0 in array.shape:
            name, given = ("spans", spans) if words is None else ("words", words)
            found = scores(name, given).shape  # type: ignore[arg-type]
            raise InputError(f"{name}: found shape {found}; every length is at least 1")
        self.arrays["words"] = array
        self.batch, self.positions, self.tags = array.shape
        self.dtype = array.dtype

    def add_rules(
        self, rules: ArrayLike | None, listed: ArrayLike | None, factors: Sequence[ArrayLike | None]
    ) -> None:
        """Dense or low-rank rules; listed rules come later."""
        names = ("rule_heads", "rule_left", "rule_right")
        given = [name for name, factor in zip(names, factors, strict=True) if factor is not None]
        if listed is not None and rules is None:
            raise InputError("rules: listed rules need one score each; give rules of shape (R,)")
        if given and rules is not None:
            raise InputError(f"{given[0]}: give either rules or rule_heads, rule_left and rule_right")
        if given and len(given) < 3:
            missing = next(name for name in names if name not in given)
            raise InputError(f"{missing}: low-rank rules need rule_heads, rule_left and rule_right")
        self.listed = listed is not None
        self.any = rules is None and not given
        if self.listed:
            self.arrays["rules"] = scores("rules", rules, self.dtype)  # type: ignore[arg-type]
        elif rules is not None:
            shape = self._shared("rules", rules, 3, "(N, S, S)")
            if shape[1] != shape[2]:
                found = f"rules: found shape {np.shape(rules)}"
                raise InputError(f"{found}; the last two axes are the same symbols")
            self.heads_of.append(("rules", shape[0]))
            self.symbols_of.append(("rules", shape[2]))
        for name, factor in zip(names, factors, strict=True):
            if factor is None:
                continue
            heads = name == "rule_heads"
            shape = self._shared(name, factor, 2, "(N, R)" if heads else "(S, R)")
            (self.heads_of if heads else self.symbols_of).append((name, shape[0]))
            rank = self.arrays["rule_heads"].shape[-1]
            if shape[1] != rank:
                raise InputError(f"{name}: found rank {shape[1]}, but rule_heads have rank {rank}")

    def add_roots(self, roots: ArrayLike | None) -> None:
        """Scores of the symbol of the whole."""
        if roots is not None:
            self.heads_of.append(("roots", self._shared("roots", roots, 1, "(N,)")[0]))

    def add_spans(
        self, spans: ArrayLike | None, embeddings: ArrayLike | None, symbols: ArrayLike | None
    ) -> None:
        """Scores of spans, or embeddings of spans and symbols."""
        if (embeddings is None) != (symbols is None):
            missing = "span_embeddings" if embeddings is None else "symbol_embeddings"
            raise InputError(f"{missing}: give both span_embeddings and symbol_embeddings")
        if embeddings is not None and (spans is not None or self.diagonal):
            raise InputError("span_embeddings: give either these or spans")
        if spans is not None:
            array = self._by_span("spans", spans, (2, 3), "(T, T) or (T, T, N)")
            if array.ndim == 4:
                self.heads_of.append(("spans", array.shape[3]))
        if embeddings is not None and symbols is not None:
            array = self._by_span("span_embeddings", embeddings, (3,), "(T, T, D)")
            own = scores("symbol_embeddings", symbols, self.dtype)
            if own.ndim != 2 or own.shape[1] != array.shape[3]:
                expected = f"(N, D) with D = {array.shape[3]}"
                raise InputError(f"symbol_embeddings: found shape {own.shape}, expected {expected}")
            self.arrays["symbol_embeddings"] = own
            self.heads_of.append(("symbol_embeddings", own.shape[0]))

    def count(self, heads: int | None, symbols: int | None, names: list[str] | None) -> None:
        """Finds N and S, on which all arrays must agree."""
        if heads is not None:
            self.heads_of.insert(0, ("heads", heads))
        if symbols is not None:
            self.symbols_of.insert(0, ("symbols", symbols))
        if names is not None:
            self.symbols_of.append(("symbol_names", len(names)))
        if not self.heads_of and not self.any:
            raise InputError(
                "heads: give the number of symbols that can be divided; no other argument has it"
            )
        self.heads = self._agreed("N", self.heads_of) if self.heads_of else self.tags
        both = self.heads + self.tags
        least = max(self.heads, self.tags)
        self.symbols = (
            self._agreed("S", self.symbols_of) if self.symbols_of else both if self.listed else least
        )
        if not least <= self.symbols <= both:
            name = self.symbols_of[0][0]
            raise InputError(
                f"{name}: {self.symbols} symbols do not fit {self.heads} heads (the first symbols) and "
                f"{self.tags} tags (the last symbols); expected {least} to {both}"
            )

    def add_listed(
        self, rule_symbols: ArrayLike | None, unary_symbols: ArrayLike | None, unary: ArrayLike | None
    ) -> None:
        """Listed rules and unary rules."""
        if rule_symbols is not None:
            self._list("rule_symbols", rule_symbols, "rules", 3)
        if (unary_symbols is None) != (unary is None):
            missing = "unary_symbols" if unary_symbols is None else "unary"
            raise InputError(f"{missing}: give both unary_symbols and unary")
        if unary_symbols is not None and unary is not None:
            self.arrays["unary"] = scores("unary", unary, self.dtype)
            self._list("unary_symbols", unary_symbols, "unary", 2)

    def names(
        self, symbols: list[str] | None, words: Iterable[Any] | None, lengths: list[int]
    ) -> tuple[list[str], list[list[str]]] | None:
        """The names of symbols and words; for those without one its number, or `wi` for word i."""
        if symbols is None and words is None:
            return None
        if words is None:
            each = [[f"w{i}" for i in range(length)] for length in lengths]
        elif self.single:
            each = [texts("word_names", words)]
        else:
            each = [texts(f"word_names[{b}]", own) for b, own in enumerate(words)]
        if len(each) != len(lengths):
            raise InputError(f"word_names: found {len(each)} lists for {len(lengths)} sentences")
        for b, (own, length) in enumerate(zip(each, lengths, strict=True)):
            if len(own) != length:
                raise InputError(f"word_names: found {len(own)} for the {length} words of sentence {b}")
        return symbols or [str(k) for k in range(self.symbols)], each

    def _shared(self, name: str, values: ArrayLike, axes: int, form: str) -> tuple[int, ...]:
        """Adds an array with one set for all sentences, or with one per sentence; the shape of a set."""
        array = scores(name, values, self.dtype)
        per_sentence = array.ndim == axes + 1 and not self.single and array.shape[0] == self.batch
        if array.ndim != axes and not per_sentence:
            one = form.removesuffix(",)").removeprefix("(").removesuffix(")")
            either = "" if self.single else f" or (B, {one}) with B = {self.batch}"
            raise InputError(f"{name}: found shape {array.shape}, expected {form}{either}")
        if 0 in array.shape:
            raise InputError(f"{name}: found shape {array.shape}; every length is at least 1")
        if per_sentence and self.batch == 1:
            self.sets.append(name)
        self.arrays[name] = array
        return array.shape[-axes:]

    def _by_span(self, name: str, values: ArrayLike, axes: tuple[int, ...], form: str) -> NDArray[Any]:
        array = scores(name, values, self.dtype)
        batched = array[np.newaxis] if self.single else array
        expected = (self.batch, self.positions, self.positions)
        if batched.ndim - 1 not in axes or batched.shape[:3] != expected:
            sizes = f"T = {self.positions}" if self.single else f"B = {self.batch} and T = {self.positions}"
            form = form if self.single else form.replace("(T", "(B, T")
            raise InputError(f"{name}: found shape {array.shape}, expected {form} with {sizes}")
        self.arrays[name] = batched
        return batched

    def _agreed(self, what: str, found: list[tuple[str, int]]) -> int:
        first, number = found[0]
        for name, other in found[1:]:
            if other != number:
                raise InputError(f"{name}: found {what} = {other}, but {first} has {what} = {number}")
        return number

    def _list(self, name: str, values: ArrayLike, scored: str, width: int) -> None:
        """Rules by the numbers of their symbols, in ascending order, and their scores in the same order."""
        rows, own = rows_of(name, values, width), self.arrays[scored]
        if own.shape != (len(rows),):
            raise InputError(f"{scored}: found shape {own.shape}, expected ({len(rows)},), one per rule")
        limits = np.array([self.heads] + [self.symbols] * (width - 1))
        bad = (rows >= limits).any(axis=1)
        if bad.any():
            raise InputError(
                f"{name}: the rule {_rule(rows[bad.argmax()])} is out of range; "
                f"heads are below {self.heads}, symbols below {self.symbols}"
            )
        order = np.lexsort(rows.T[::-1])
        ascending = rows[order]
        twice = (ascending[1:] == ascending[:-1]).all(axis=1)
        if twice.any():
            raise InputError(f"{name}: the rule {_rule(ascending[twice.argmax()])} is given twice")
        self.arrays[name] = ascending
        if (order[1:] < order[:-1]).any():
            self.arrays[scored] = own[order]
            self.orders[name] = self.orders[scored] = np.argsort(order)


def rows_of(name: str, values: ArrayLike, width: int) -> NDArray[np.int64]:
    """Rows of `width` nonnegative integers."""
    unmasked(name, values)
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise InputError(f"{name}: not an array: {error}") from None
    if array.size == 0:
        array = np.empty((0, width), np.int64)
    if array.dtype.kind not in "iu":
        raise InputError(f"{name}: values of type {array.dtype} cannot be used; expected integers")
    if array.ndim != 2 or array.shape[1] != width:
        raise InputError(f"{name}: found shape {array.shape}, expected rows of {width} integers")
    if (array < 0).any():
        raise InputError(f"{name}: found {int(array.min())}; numbers start at 0")
    return np.ascontiguousarray(array, dtype=np.int64)


def _rule(symbols: NDArray[np.int64]) -> str:
    head, *parts = symbols.tolist()
    return f"{head} → {' '.join(map(str, parts))}"
