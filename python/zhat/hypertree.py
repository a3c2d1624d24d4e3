"""Binary trees over the words of a sentence: weighted grammars and span models."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _html, _zhat
from ._arguments import integer, integers, scores, texts, unmasked
from ._batch import Batched
from ._frames import Columns, Tabular, stacked
from .answer import Layout
from .errors import InputError
from .parse_tree import ParseTree, TreeNames

_PER_SENTENCE = ("words", "spans", "span_embeddings")
"""The arrays whose first axis are always the sentences of a batch."""


@dataclass(frozen=True, eq=False)
class ParseSamples(Tabular):
    """Trees drawn from a `Hypertree`: one array of nodes per sample; for a batch one list per sentence.

    The rows of an array are the nodes of a tree, as in `ParseTree`. `trees` are the same with their scores.
    """

    nodes: Any
    model: Hypertree = field(repr=False)

    @property
    def trees(self) -> Any:
        """The samples as a list of `ParseTree`; for a batch one list per sentence."""
        return self.model._unbatched([[*map(self._tree(b), own)] for b, own in enumerate(self._sentences())])

    def _sentences(self) -> Any:
        return [self.nodes] if self.model._single else self.nodes

    def _tree(self, b: int) -> Any:
        names = self.model._names(b)
        return lambda nodes: ParseTree(nodes, self.model.score(nodes, b), names)

    def _columns(self) -> Columns:
        tables = [_samples_columns(own) for own in self._sentences()]
        return tables[0] if self.model._single else stacked(tables, "sentence")

    def _repr_html_(self) -> str:
        """The first samples in brackets, for notebooks."""
        single, rows = self.model._single, []
        for b, own in enumerate(self._sentences()):
            for i, nodes in enumerate(own[:10]):
                shown = ParseTree(nodes, 0.0, self.model._names(b)).bracketed()
                rows.append([*([] if single else [str(b)]), str(i), shown])
        header = [*([] if single else ["sentence"]), "sample", "tree"]
        total = sum(len(own) for own in self._sentences())
        rows = rows[: _html.MOST_ROWS]
        return _html.columns(header, rows, _html.and_more(total, len(rows), "samples"))

    def __str__(self) -> str:
        """A short summary."""
        what = "trees" if self.model._single else "sentences with trees"
        return f"{len(self.nodes)} {what}, exact"


@dataclass(frozen=True, eq=False)
class HypertreeGradient:
    """A gradient with respect to the scores of a `Hypertree`, in their shapes.

    For the sum of log Z these are the expected numbers of times that each score is used. Arrays that a model
    does not have are `None`. If the diagonal of `spans` is the scores of the words, it is also that of the
    gradient, and `words` is `None`.
    """

    words: NDArray[Any] | None
    roots: NDArray[Any]
    rules: NDArray[Any] | None = None
    rule_heads: NDArray[Any] | None = None
    rule_left: NDArray[Any] | None = None
    rule_right: NDArray[Any] | None = None
    spans: NDArray[Any] | None = None
    span_embeddings: NDArray[Any] | None = None
    symbol_embeddings: NDArray[Any] | None = None
    unary: NDArray[Any] | None = None

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays that are not `None`, by name."""
        return {name: value for name, value in vars(self).items() if value is not None}

    def _repr_html_(self) -> str:
        """A table of the shapes, for notebooks."""
        rows = [[name, str(value.shape)] for name, value in self.arrays().items()]
        return _html.columns(["parameter", "shape"], rows)

    def __str__(self) -> str:
        """A short summary."""
        return ", ".join(f"{name} {value.shape}" for name, value in self.arrays().items())


class _Given(NamedTuple):
    """How arrays were given, where the model stores them in another way."""

    orders: dict[str, NDArray[np.intp]] = {}
    """For listed rules in another than ascending order: the place of each in that order."""
    sets: frozenset[str] = frozenset()
    """The arrays with one set per sentence, for a batch of one sentence."""
    diagonal: bool = False
    """Whether the diagonal of `spans` is the scores of the words."""


class Hypertree(Batched, kind="hypertree"):
    """Binary trees over the words of a sentence, whose nodes have symbols: grammars and span models.

    A tree has one node per word and one per division of a span into two. With i ≤ j the first and the last
    word of a node, its score is

        root(symbol of the whole) + Σ words[i, symbol] + Σ rule(symbol → left right) + Σ spans[i, j, symbol],

    where the first sum is over the words and the others are over the divided nodes. There are S symbols: the
    first N can be divided (*heads*), the last P cover single words (*tags*), and the two ranges may overlap.

    - `words`: (T, P) for one sentence of T words, or (B, T, P) for a batch; only the first `lengths[b]` words
      of sentence b are used.
    - `rules`: (N, S, S), by head, left and right part. Instead: `rules` (R,) with the symbols of each rule,
      `rule_symbols` (R, 3), all other rules being forbidden; or `rule_heads` (N, R), `rule_left` (S, R) and
      `rule_right` (S, R), with weights Σ_r exp(headₖᵣ + leftₐᵣ + rightᵦᵣ). Without any of them every rule is
      allowed, with score 0.
    - `roots`: (N,), by default 0.
    - `spans`: (T, T) or (T, T, N), by first and last word; only entries above the diagonal are used. Instead:
      `span_embeddings` (T, T, D) and `symbol_embeddings` (N, D), whose products are the scores.
    - `unary_symbols` (U, 2) and `unary` (U,): rules k → a that rewrite a node any number of times.
    - `symbol_names`, and `word_names` for each word (a list, or one list per sentence): for printed trees.

    For a batch, `spans` and `span_embeddings` have a first axis B; `roots`, dense and low-rank rules may have
    one, for one set per sentence. If `words` is `None`, `spans` is (T, T, N) or (B, T, T, N) and its diagonal
    is the scores of the words: every symbol can be divided and can cover a word.

    N and S are those of the arrays. If no array has N, it is `heads`, or P without rules; if no array has S,
    it is `symbols`, the number of `symbol_names`, N + P for listed rules, and the larger of N and P without
    rules.

    All values are logarithms, and −inf forbids a symbol or a rule. The precision is that of `words`.
    C-contiguous arrays of that precision are used in place, without a copy; listed rules must be in
    ascending order for that.

    Every query of `zhat.queries` is a method. `marginals` is (T, T, S): the probability of a node with each
    symbol, by first and last word; with unary rules the expected number of such nodes; for a batch
    (B, T, T, S). `factor_marginals` is a `HypertreeGradient`, `map` a `ParseTree`, `k_best` a list of trees,
    `sample` a `ParseSamples`.

    >>> import numpy as np, zhat
    >>> words = np.log([[0.9, 0.1], [0.2, 0.8], [0.7, 0.3]])        # two tags, symbols 2 and 3
    >>> rules = np.full((2, 4, 4), -np.inf)
    >>> rules[0, 1, 3] = rules[0, 2, 1] = rules[0, 2, 0] = np.log(0.3)
    >>> rules[1, 2, 3] = rules[1, 3, 2] = np.log(0.5)
    >>> names = ["S", "X", "a", "b"]
    >>> model = zhat.Hypertree(words, rules, symbol_names=names, word_names=["un", "deux", "trois"])
    >>> model
    Hypertree(3 words, 4 symbols, 2 heads, 2 tags, dense rules, float64)
    >>> model.map().value.bracketed()
    '(S (a un) (X (b deux) (a trois)))'
    >>> model.marginals().value[0, 1].round(3)                      # of words 0 and 1
    array([0.   , 0.274, 0.   , 0.   ])
    >>> round(float(np.exp(zhat.Hypertree(np.zeros((5, 1))).log_partition().value)))   # binary trees
    14
    """

    _place_names = ("sentence", "word")
    _given_as = _Given()

    def __init__(
        self,
        words: ArrayLike | None = None,
        rules: ArrayLike | None = None,
        *,
        roots: ArrayLike | None = None,
        spans: ArrayLike | None = None,
        lengths: Iterable[int] | None = None,
        rule_heads: ArrayLike | None = None,
        rule_left: ArrayLike | None = None,
        rule_right: ArrayLike | None = None,
        rule_symbols: ArrayLike | None = None,
        span_embeddings: ArrayLike | None = None,
        symbol_embeddings: ArrayLike | None = None,
        unary_symbols: ArrayLike | None = None,
        unary: ArrayLike | None = None,
        heads: int | None = None,
        symbols: int | None = None,
        symbol_names: Iterable[str] | None = None,
        word_names: Iterable[Any] | None = None,
    ) -> None:
        """Builds and checks the model."""
        build = _Builder(words, spans)
        self._single = build.single
        if self._single and lengths is not None:
            raise InputError("lengths: are for a batch; one sentence is as long as its words")
        build.add_rules(rules, rule_symbols, (rule_heads, rule_left, rule_right))
        build.add_roots(roots)
        build.add_spans(None if build.diagonal else spans, span_embeddings, symbol_embeddings)
        names = None if symbol_names is None else texts("symbol_names", symbol_names)
        build.count(
            None if heads is None else integer("heads", heads, 1),
            None if symbols is None else integer("symbols", symbols, 1),
            names,
        )
        build.add_listed(rule_symbols, unary_symbols, unary)
        counts = [build.positions] * build.batch if lengths is None else integers("lengths", lengths)
        if len(counts) != build.batch:
            raise InputError(f"lengths: found {len(counts)} of them for {build.batch} sentences")
        named = build.names(names, word_names, counts)
        sizes = (build.symbols, build.heads, build.tags)
        self._native = _zhat.hypertree(build.arrays, counts, sizes, named)
        self._given_as = _Given(build.orders, frozenset(build.sets), build.diagonal)

    @property
    def n_words(self) -> int:
        """T, the number of words of the arrays."""
        return int(self._parameters["words"].shape[1])

    @property
    def n_symbols(self) -> int:
        """S, the number of symbols."""
        return int(self._parameters["symbols"][0])

    @property
    def n_heads(self) -> int:
        """N: the first N symbols can be divided."""
        return int(self._parameters["symbols"][1])

    @property
    def n_tags(self) -> int:
        """P: the last P symbols cover single words."""
        return int(self._parameters["symbols"][2])

    @property
    def dtype(self) -> np.dtype[Any]:
        """The precision: float32 or float64."""
        return np.asarray(self._parameters["words"]).dtype

    @property
    def words(self) -> NDArray[Any]:
        """The scores of the words, by tag. A read-only view of the model's memory."""
        return np.asarray(self._own("words", self._parameters["words"]))

    @property
    def roots(self) -> NDArray[Any]:
        """The scores of the symbol of the whole."""
        return np.asarray(self._own("roots", self._parameters["roots"]))

    @property
    def rules(self) -> NDArray[Any] | None:
        """The scores of the rules, dense or listed; `None` if they have another form."""
        return self._optional("rules")

    @property
    def rule_symbols(self) -> NDArray[Any] | None:
        """Head, left and right part of each listed rule."""
        return self._optional("rule_symbols")

    @property
    def rule_heads(self) -> NDArray[Any] | None:
        """The factors of the heads of low-rank rules."""
        return self._optional("rule_heads")

    @property
    def rule_left(self) -> NDArray[Any] | None:
        """The factors of the left parts of low-rank rules."""
        return self._optional("rule_left")

    @property
    def rule_right(self) -> NDArray[Any] | None:
        """The factors of the right parts of low-rank rules."""
        return self._optional("rule_right")

    @property
    def spans(self) -> NDArray[Any] | None:
        """The scores of spans."""
        return self._optional("spans")

    @property
    def span_embeddings(self) -> NDArray[Any] | None:
        """The embeddings of spans."""
        return self._optional("span_embeddings")

    @property
    def symbol_embeddings(self) -> NDArray[Any] | None:
        """The embeddings of symbols."""
        return self._optional("symbol_embeddings")

    @property
    def unary_symbols(self) -> NDArray[Any] | None:
        """Head and child of each unary rule."""
        return self._optional("unary_symbols")

    @property
    def unary(self) -> NDArray[Any] | None:
        """The scores of the unary rules."""
        return self._optional("unary")

    @cached_property
    def _all_names(self) -> tuple[list[str], list[int], list[list[str]]] | None:
        return _zhat.hypertree_names(self._native)

    @property
    def symbol_names(self) -> tuple[str, ...] | None:
        """The names of the symbols, if they are known."""
        return None if self._all_names is None else tuple(self._all_names[0])

    def condition(self, evidence: Mapping[Any, int | str]) -> Hypertree:
        """The model conditioned on `{word: symbol}`, or for a batch on `{(sentence, word): symbol}`.

        The symbol is that of the word's lowest node, by number or by name.

        >>> import numpy as np, zhat
        >>> model = zhat.Hypertree(np.zeros((3, 2))).condition({0: 1, 2: 1})
        >>> float(model.marginals().value[0, 0, 1])
        1.0
        """
        numbered: Any = evidence
        if isinstance(evidence, Mapping):
            numbered = {place: self._symbol(symbol) for place, symbol in evidence.items()}
        model = self._conditioned(numbered)
        model._given_as = self._given_as
        return model

    def score(self, nodes: ArrayLike | ParseTree, sentence: int = 0) -> float:
        """The log weight of a tree: a `ParseTree` or its nodes; −inf if it is no tree of the model.

        >>> import zhat
        >>> zhat.Hypertree([[1.0], [2.0]]).score([(0, 1, 0), (0, 0, 0), (1, 1, 0)])
        3.0
        """
        rows = _numbers("nodes", nodes.nodes if isinstance(nodes, ParseTree) else nodes, 3).tolist()
        return _zhat.parse_score(self._native, integer("sentence", sentence), [tuple(row) for row in rows])

    def log_partition_and_gradient(self, cotangent: ArrayLike = 1.0, **how: Any) -> tuple[Any, Any]:
        """Log Z and its gradient in one pass; see `zhat.ops.log_partition_and_gradient`."""
        from . import ops

        model: Any = self
        return ops.log_partition_and_gradient(model, cotangent, **how)

    def _symbol(self, symbol: int | str) -> int:
        if not isinstance(symbol, str):
            return symbol
        names = self.symbol_names or ()
        if symbol not in names:
            known = f"known are {', '.join(names)}" if names else "symbols have no names"
            raise InputError(f"evidence: there is no symbol {symbol!r}; {known}")
        return names.index(symbol)

    def _names(self, b: int) -> TreeNames | None:
        if self._all_names is None:
            return None
        symbols, hidden, words = self._all_names
        return TreeNames(tuple(symbols), tuple(words[b]), frozenset(hidden))

    def _optional(self, name: str) -> NDArray[Any] | None:
        array = self._parameters.get(name)
        return None if array is None else np.asarray(self._own(name, array))

    def _own(self, name: str, array: NDArray[Any]) -> NDArray[Any]:
        """An array of the model, or a gradient with respect to it, as the user gave the array."""
        order = self._given_as.orders.get(name)
        if order is not None:
            array = array[order]
        if name in _PER_SENTENCE:
            return np.asarray(self._unbatched(array))
        return array[np.newaxis] if name in self._given_as.sets else array

    def _marginals(self, raw: Any) -> NDArray[Any]:
        return np.asarray(self._unbatched(raw["marginals"]))

    def _factor_marginals(self, raw: Any) -> HypertreeGradient:
        arrays = dict(raw)
        if self._given_as.diagonal:
            places = np.arange(self.n_words)
            arrays["spans"][:, places, places] = arrays.pop("words")
        own: dict[str, Any] = {name: self._own(name, array) for name, array in arrays.items()}
        return HypertreeGradient(**{"words": None, **own})

    def _tree(self, b: int, nodes: NDArray[np.int64], score: float) -> ParseTree:
        return ParseTree(np.asarray(nodes).reshape(-1, 3), score, self._names(b))

    def _best(self, raw: Any) -> Any:
        return self._unbatched([self._tree(b, nodes, score) for b, (nodes, score) in enumerate(raw)])

    def _ranked(self, raw: Any) -> Any:
        each = enumerate(raw)
        return self._unbatched([[self._tree(b, nodes, score) for nodes, score in own] for b, own in each])

    def _samples(self, raw: Any) -> ParseSamples:
        return ParseSamples(self._unbatched([list(nodes) for nodes, *_ in raw]), self)

    def _layout(self, query: str) -> Layout:
        if query != "marginals":
            return Layout()
        axes = ("first", "last", "symbol")
        title = "expected number of nodes" if self.unary is not None else "nodes"
        axes = axes if self._single else ("sentence", *axes)
        return Layout(axes, title, lengths=self.lengths, spans=True)

    def _figures(self) -> dict[str, str]:
        shortest, longest = min(self.lengths), max(self.lengths)
        words = f"{longest} words" if shortest == longest else f"{shortest} to {longest} words"
        summary = json.loads(self._native.summary())
        listed = self._parameters.get("rule_symbols")
        forms = {"any": "every rule", "dense": "dense rules", "low-rank": f"rules of rank {summary.get('rank')}"}
        figures = {
            "sentences": words if self._single else f"{len(self.lengths)} sentences of {words}",
            "symbols": f"{self.n_symbols} symbols",
        }
        if (self.n_heads, self.n_tags) != (self.n_symbols, self.n_symbols):
            figures |= {"heads": f"{self.n_heads} heads", "tags": f"{self.n_tags} tags"}
        figures["rules"] = forms[summary["rules"]] if listed is None else f"{len(listed)} rules"
        if summary["spans"] != "none":
            spans = "factored scores of spans"
            figures["spans"] = spans if summary["spans"] == "factored" else f"scores {summary['spans']}"
        if self.unary is not None:
            figures["unary rules"] = f"{len(self.unary)} unary rules"
        return figures | {"precision": str(self.dtype)}

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles the model as the bytes of a `.zhat` file."""
        return _restore, (self._native.to_bytes(), self._single, tuple(self._given_as))


def _restore(data: bytes, single: bool, given: tuple[Any, ...]) -> Hypertree:
    model = Hypertree._wrap(_zhat.Model.from_bytes(data), single)
    model._given_as = _Given(*given)
    return model


class _Builder:
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
            where, shape = ("spans", np.shape(spans)) if words is None else ("words", np.shape(words))
            raise InputError(f"{where}: found shape {tuple(shape)}; every length is at least 1")
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
                "heads: the number of symbols that can be divided is not known from other arguments; give heads"
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
        """The names of symbols and words; numbers for those that have none."""
        if symbols is None and words is None:
            return None
        if words is None:
            each = [[str(i) for i in range(length)] for length in lengths]
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
        rows, own = _numbers(name, values, width), self.arrays[scored]
        if own.shape != (len(rows),):
            raise InputError(f"{scored}: found shape {own.shape}, expected ({len(rows)},), one per rule")
        limits = np.array([self.heads] + [self.symbols] * (width - 1))
        bad = (rows >= limits).any(axis=1)
        if bad.any():
            raise InputError(
                f"{name}: the rule {_rule(rows[bad.argmax()])} is out of range; heads are below {self.heads}, "
                f"symbols below {self.symbols}"
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


def _numbers(name: str, values: ArrayLike, width: int) -> NDArray[np.int64]:
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


def _samples_columns(drawn: Sequence[NDArray[np.int64]]) -> Columns:
    """The trees of one sentence, one row per node."""
    counts = [len(nodes) for nodes in drawn]
    nodes = np.concatenate(drawn) if drawn else np.empty((0, 3), np.int64)
    columns: Columns = {"sample": np.repeat(np.arange(len(drawn)), counts)}
    return columns | {name: nodes[:, i] for i, name in enumerate(("first", "last", "symbol"))}
