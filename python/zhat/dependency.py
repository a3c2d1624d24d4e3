"""Dependency trees of sentences."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _html, _zhat
from ._arguments import integer, integers, scores
from ._batch import Batched
from ._evidence import Known
from ._frames import Columns, Tabular, stacked
from .answer import Layout
from .errors import InputError


@dataclass(frozen=True, eq=False)
class Tree(Tabular):
    """A dependency tree: the head of each word (0 for the root, i + 1 for word i), labels, and its score.

    `labels` are the labels of the arcs into each word, or `None` if arcs have no labels.
    """

    heads: NDArray[np.int64]
    labels: NDArray[np.int64] | None
    score: float

    def _columns(self) -> Columns:
        columns: Columns = {"score": np.full(len(self.heads), self.score)}
        columns |= {"word": np.arange(len(self.heads)), "head": self.heads}
        return columns if self.labels is None else columns | {"label": self.labels}

    def _repr_html_(self) -> str:
        """A picture of the arcs above the words, for notebooks."""
        return _html.block(_arcs(self), _html.line(f"score {_zhat.format_number(self.score)}"))

    def __str__(self) -> str:
        """A short summary."""
        heads = np.array2string(self.heads, threshold=16, max_line_width=200)
        return f"score {_zhat.format_number(self.score)} with heads {heads}"


@dataclass(frozen=True, eq=False)
class TreeSamples(Tabular):
    """Trees drawn from a model, one per row; for a batch, lists with one array per sentence.

    If samples are weighted (`method="randomized-inside"`), sample s has weight exp(`log_weights[s]`). Exact
    samples have no weights.
    """

    heads: Any
    labels: Any = None
    log_weights: Any = None

    def _columns(self) -> Columns:
        single = not isinstance(self.heads, list)
        heads = [self.heads] if single else self.heads
        labels = [None] * len(heads) if self.labels is None else [self.labels] if single else self.labels
        weights = self.log_weights
        weights = [None] * len(heads) if weights is None else [weights] if single else weights
        tables = [_samples_columns(*own) for own in zip(heads, labels, weights, strict=True)]
        return tables[0] if single else stacked(tables, "sentence")

    def __str__(self) -> str:
        """A short summary."""
        kind = "exact" if self.log_weights is None else "weighted"
        if isinstance(self.heads, list):
            return f"{len(self.heads)} sentences with trees, {kind}"
        return f"{len(self.heads)} trees, {kind}"


@dataclass(frozen=True, eq=False)
class DependencyGradient:
    """A gradient with respect to the scores of a `DependencyTree`, in their shapes.

    For the sum of log Z these are the probabilities of the arcs.
    """

    arcs: NDArray[Any]
    roots: NDArray[Any]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays by name."""
        return dict(vars(self))

    def __str__(self) -> str:
        """A short summary."""
        return f"arcs {self.arcs.shape}, roots {self.roots.shape}"


class DependencyTree(Batched, kind="dependency-tree"):
    """Trees over the words of a sentence: p(y) ∝ exp(Σ arc(head, dependent) + Σ root(dependent)).

    `arcs` is (T, T) for one sentence of T words, with row h for the head and column d for the dependent, or
    (B, T, T) for a batch of B sentences; the diagonal is not used. `roots` is (T,) or (B, T): the scores of
    words that depend on the root, zero by default. With labels both have one more axis, the labels of an arc.
    Only the first `lengths[b]` words of sentence b are used.

    Trees are `projective` (every subtree covers consecutive words) or any; `single_root` admits only trees in
    which exactly one word depends on the root. All values are logarithms, and −inf forbids an arc. The
    precision is that of `arcs`. C-contiguous arrays of that precision are used in place, without a copy.

    Every query of `zhat.queries` is a method. `marginals` is (T, T + 1): the probability of each head of each
    word, where head 0 is the root and head i + 1 is word i; for a batch (B, T, T + 1). `factor_marginals` is
    a `DependencyGradient`, `map` a `Tree`, `k_best` a list of trees, `sample` a `TreeSamples`.

    >>> import numpy as np, zhat
    >>> model = zhat.DependencyTree([[0, 2, 0], [0, 0, 1], [0, 4, 0]], projective=False, single_root=True)
    >>> model
    DependencyTree(3 words, any tree with a single root, float64)
    >>> round(float(np.exp(zhat.DependencyTree(np.zeros((4, 4))).log_partition().value)))   # projective trees
    55
    >>> model.map().value.heads.tolist()
    [0, 3, 1]
    >>> model.marginals().value.round(3)
    array([[0.4  , 0.   , 0.284, 0.315],
           [0.031, 0.17 , 0.   , 0.799],
           [0.568, 0.307, 0.124, 0.   ]])
    """

    _place_names = ("sentence", "word")

    def __init__(
        self,
        arcs: ArrayLike,
        roots: ArrayLike | None = None,
        *,
        labelled: bool = False,
        projective: bool = True,
        single_root: bool = False,
        lengths: Iterable[int] | None = None,
    ) -> None:
        """Builds and checks the model."""
        array = scores("arcs", arcs)
        axes = 3 if labelled else 2
        if array.ndim not in (axes, axes + 1):
            shape = "(T, T, L) or (B, T, T, L)" if labelled else "(T, T) or (B, T, T)"
            raise InputError(f"arcs: found shape {array.shape}, expected {shape}")
        self._single = array.ndim == axes
        if self._single and lengths is not None:
            raise InputError("lengths: are for a batch; one sentence is as long as its arcs")
        batched = array[np.newaxis] if self._single else array
        if batched.shape[1] != batched.shape[2]:
            raise InputError(f"arcs: found shape {array.shape}; there are as many heads as dependents")
        if 0 in array.shape:
            raise InputError(f"arcs: found shape {array.shape}; every length is at least 1")
        expected = (batched.shape[0], *batched.shape[2:])
        if roots is None:
            own = np.zeros(expected, array.dtype)
        else:
            own = scores("roots", roots, array.dtype)
            own = own[np.newaxis] if self._single else own
            if own.shape != expected:
                raise InputError(f"roots: found shape {np.shape(roots)}, expected {expected[self._single :]}")
        size, words = expected[:2]
        self._native = _zhat.dependency(
            batched,
            own,
            [words] * size if lengths is None else integers("lengths", lengths),
            labelled,
            projective,
            single_root,
        )

    @property
    def n_words(self) -> int:
        """T, the number of words of the arrays."""
        return int(self._parameters["roots"].shape[1])

    @property
    def n_labels(self) -> int | None:
        """The number of labels; `None` if arcs have no labels."""
        roots = self._parameters["roots"]
        return int(roots.shape[2]) if roots.ndim == 3 else None

    @property
    def dtype(self) -> np.dtype[Any]:
        """The precision: float32 or float64."""
        return np.asarray(self._parameters["arcs"]).dtype

    @property
    def arcs(self) -> NDArray[Any]:
        """The scores of arcs, by head and dependent. A read-only view of the model's memory."""
        return np.asarray(self._unbatched(self._parameters["arcs"]))

    @property
    def roots(self) -> NDArray[Any]:
        """The scores of arcs from the root."""
        return np.asarray(self._unbatched(self._parameters["roots"]))

    @cached_property
    def _summary(self) -> dict[str, Any]:
        return dict(json.loads(self._native.summary()))

    @property
    def projective(self) -> bool:
        """Whether only projective trees are admitted."""
        return bool(self._summary["projective"])

    @property
    def single_root(self) -> bool:
        """Whether only trees with one root are admitted."""
        return bool(self._summary["single_root"])

    def condition(self, evidence: Mapping[Any, Known]) -> DependencyTree:
        """The model conditioned on `{word: head}`, or for a batch on `{(sentence, word): head}`.

        Head 0 is the root, head i + 1 is word i. Instead of a head: a set of possible heads, or
        likelihoods, one nonnegative weight for the root and for each word.

        >>> import numpy as np, zhat
        >>> zhat.DependencyTree(np.zeros((3, 3))).condition({0: 0, 2: 1}).map().value.heads[[0, 2]]
        array([0, 1])
        """
        return self._conditioned(evidence)

    def score(self, heads: Iterable[int], labels: Iterable[int] | None = None, sentence: int = 0) -> float:
        """The log weight of a tree.

        >>> import zhat
        >>> zhat.DependencyTree([[0, 2], [1, 0]], [5, 7]).score([0, 1])
        7.0
        """
        own = [] if labels is None else integers("labels", labels)
        return _zhat.tree_score(self._native, integer("sentence", sentence), integers("heads", heads), own)

    def log_partition_and_gradient(self, cotangent: ArrayLike = 1.0, **how: Any) -> tuple[Any, Any]:
        """Log Z and its gradient in one pass; see `zhat.ops.log_partition_and_gradient`."""
        from . import ops

        model: Any = self
        return ops.log_partition_and_gradient(model, cotangent, **how)

    def _marginals(self, raw: Any) -> NDArray[Any]:
        return np.asarray(self._unbatched(raw["marginals"]))

    def _factor_marginals(self, raw: Any) -> DependencyGradient:
        return DependencyGradient(**{name: self._unbatched(array) for name, array in raw.items()})

    def _found(self, states: NDArray[np.int64], score: float) -> Tree:
        if self.n_labels is None:
            return Tree(states, None, score)
        pairs = np.asarray(states).reshape(-1, 2)
        return Tree(pairs[:, 0], pairs[:, 1], score)

    def _samples(self, raw: Any) -> TreeSamples:
        drawn = [np.asarray(states) for states, *_ in raw]
        weighted = any(log_weights is not None for _, _, log_weights, _ in raw)
        weights = self._unbatched([log_weights for _, _, log_weights, _ in raw]) if weighted else None
        if self.n_labels is None:
            return TreeSamples(self._unbatched(drawn), None, weights)
        pairs = [own.reshape(len(own), own.size // max(2 * len(own), 1), 2) for own in drawn]
        heads, labels = [own[..., 0] for own in pairs], [own[..., 1] for own in pairs]
        return TreeSamples(self._unbatched(heads), self._unbatched(labels), weights)

    def _layout(self, query: str) -> Layout:
        if query != "marginals":
            return Layout()
        if self._single:
            return Layout(("word", "head"), "head")
        return Layout(("sentence", "word", "head"), "head", lengths=self.lengths)

    def _figures(self) -> dict[str, str]:
        shortest, longest = min(self.lengths), max(self.lengths)
        words = f"{longest} words" if shortest == longest else f"{shortest} to {longest} words"
        kind = "projective trees" if self.projective else "any tree"
        figures = {
            "sentences": words if self._single else f"{len(self.lengths)} sentences of {words}",
            "trees": f"{kind} with a single root" if self.single_root else kind,
        }
        if self.n_labels is not None:
            figures["labels"] = f"{self.n_labels} labels"
        return figures | {"precision": str(self.dtype)}


def _samples_columns(heads: Any, labels: Any, log_weights: Any) -> Columns:
    """The trees of one sentence, one row per word."""
    count, words = np.shape(heads)
    columns: Columns = {"sample": np.repeat(np.arange(count), words)}
    if log_weights is not None:
        columns["log_weight"] = np.repeat(log_weights, words)
    columns |= {"word": np.tile(np.arange(words), count), "head": np.ravel(heads)}
    return columns if labels is None else columns | {"label": np.ravel(labels)}


def _arcs(tree: Tree) -> _html.Markup:
    """The words in a row, with an arc above them for every dependency and a line for the root."""
    heads = [int(head) for head in tree.heads]
    labels = [] if tree.labels is None else [str(label) for label in tree.labels]
    return _html.Markup(_zhat.draw_dependency([str(d + 1) for d in range(len(heads))], heads, labels))
