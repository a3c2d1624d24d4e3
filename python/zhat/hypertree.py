"""Binary trees over the words of a sentence: weighted grammars and span models."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _html, _zhat
from ._arguments import integer, integers, texts
from ._batch import Batched
from ._evidence import Known, number
from ._frames import Columns, Tabular, stacked
from ._hypertree import Builder, rows_of
from .answer import Layout
from .errors import InputError
from .parse_tree import ParseTree, TreeNames

_PER_SENTENCE = ("words", "spans", "span_embeddings")
"""The arrays whose first axis are always the sentences of a batch."""


@dataclass(frozen=True, eq=False)
class ParseSamples(Tabular):
    """Trees drawn from a `Hypertree`: one array of nodes per sample; for a batch one list per sentence.

    The rows of an array are the nodes of a tree, as in `ParseTree`. `trees` are the same with their scores.
    If samples are weighted (`method="randomized-inside"`), sample s has weight exp(`log_weights[s]`); for a
    batch `log_weights` is a list with one array per sentence. Exact samples have no weights.
    """

    nodes: Any
    model: Hypertree = field(repr=False)
    log_weights: Any = None

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
        drawn = self._sentences()
        weights = [self.log_weights] if self.model._single else self.log_weights or [None] * len(drawn)
        tables = [_samples_columns(own, each) for own, each in zip(drawn, weights, strict=True)]
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
        return f"{len(self.nodes)} {what}, {'exact' if self.log_weights is None else 'weighted'}"


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

    orders: Mapping[str, NDArray[np.intp]] = MappingProxyType({})
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
    array([0.   , 0.285, 0.   , 0.   ])
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
        build = Builder(words, spans)
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

    def condition(self, evidence: Mapping[Any, Known]) -> Hypertree:
        """The model conditioned on `{word: symbol}`, or for a batch on `{(sentence, word): symbol}`.

        The symbol is that of the word's lowest node, by number or by name. Instead of a symbol: a set of
        possible symbols, or likelihoods, one nonnegative weight for each symbol that can cover a word.

        >>> import numpy as np, zhat
        >>> model = zhat.Hypertree(np.zeros((3, 2))).condition({0: 1, 2: 1})
        >>> float(round(model.marginals().value[0, 0, 1], 9))
        1.0
        """
        model = self._conditioned(evidence, self._symbol)
        model._given_as = self._given_as
        return model

    def score(self, nodes: ArrayLike | ParseTree, sentence: int = 0) -> float:
        """The log weight of a tree: a `ParseTree` or its nodes; −inf if it is no tree of the model.

        >>> import zhat
        >>> zhat.Hypertree([[1.0], [2.0]]).score([(0, 1, 0), (0, 0, 0), (1, 1, 0)])
        3.0
        """
        rows = rows_of("nodes", nodes.nodes if isinstance(nodes, ParseTree) else nodes, 3).tolist()
        return _zhat.parse_score(self._native, integer("sentence", sentence), [tuple(row) for row in rows])

    def log_partition_and_gradient(self, cotangent: ArrayLike = 1.0, **how: Any) -> tuple[Any, Any]:
        """Log Z and its gradient in one pass; see `zhat.ops.log_partition_and_gradient`."""
        from . import ops

        model: Any = self
        return ops.log_partition_and_gradient(model, cotangent, **how)

    def _symbol(self, symbol: int | str) -> int:
        if not isinstance(symbol, str):
            return number(symbol)
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
        nodes = self._unbatched([list(nodes) for nodes, *_ in raw])
        weighted = any(log_weights is not None for _, _, log_weights, _ in raw)
        weights = self._unbatched([log_weights for _, _, log_weights, _ in raw]) if weighted else None
        return ParseSamples(nodes, self, weights)

    def _layout(self, query: str) -> Layout:
        if query != "marginals":
            return Layout()
        axes: tuple[str, ...] = ("first", "last", "symbol")
        title = "expected number of nodes" if self.unary is not None else "nodes"
        axes = axes if self._single else ("sentence", *axes)
        return Layout(axes, title, lengths=self.lengths, spans=True)

    def _figures(self) -> dict[str, str]:
        shortest, longest = min(self.lengths), max(self.lengths)
        words = f"{longest} words" if shortest == longest else f"{shortest} to {longest} words"
        summary = json.loads(self._native.summary())
        listed = self._parameters.get("rule_symbols")
        forms = {
            "any": "every rule",
            "dense": "dense rules",
            "low-rank": f"rules of rank {summary.get('rank')}",
        }
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
        orders, sets, diagonal = self._given_as
        return _restore, (self._native.to_bytes(), self._single, dict(orders), sets, diagonal)


def _restore(data: bytes, single: bool, orders: Any, sets: frozenset[str], diagonal: bool) -> Hypertree:
    model = Hypertree._wrap(_zhat.Model.from_bytes(data), single)
    model._given_as = _Given(orders, sets, diagonal)
    return model


def _samples_columns(drawn: Sequence[NDArray[np.int64]], log_weights: Any) -> Columns:
    """The trees of one sentence, one row per node."""
    counts = [len(nodes) for nodes in drawn]
    nodes = np.concatenate(drawn) if drawn else np.empty((0, 3), np.int64)
    columns: Columns = {"sample": np.repeat(np.arange(len(drawn)), counts)}
    if log_weights is not None:
        columns["log_weight"] = np.repeat(log_weights, counts)
    return columns | {name: nodes[:, i] for i, name in enumerate(("first", "last", "symbol"))}
