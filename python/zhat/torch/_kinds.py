"""Kinds of models as lists of tensors.

An operator takes tensors and texts, so a model is a list of tensors and a text that describes them: the kind,
the names of the tensors in order, and the settings, such as `dependency-tree arcs roots lengths
projective=0`. Two models are separated by ` | `. A factor graph also has `cardinalities=2,3` and
`scopes=0;0,1`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..dependency import DependencyTree
from ..errors import InputError
from ..hypertree import Hypertree
from ..model import FactorGraph
from ..pairwise import PairwiseGraph
from ..sequence import Chain, SemiMarkov


@dataclass(frozen=True)
class Kind:
    """The parameters of a kind of model by name, those of real numbers first."""

    name: str
    make: Callable[..., Any]
    real: tuple[str, ...]
    whole: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    nonlinear: frozenset[str] = frozenset()
    """Parameters of which the score of a state is not a linear function."""
    rows: bool = False
    """Whether a state is a list of rows, such as segments, rather than of numbers."""
    graph: bool = False
    """Whether the gradient comes from factor marginals rather than from a tape."""


_TRANSITIONS = ("transitions", "start", "end", "left", "right", "log_left", "log_right")
_FACTORED = frozenset({"left", "right", "log_left", "log_right"})
_PATTERN = ("indptr", "indices", "lengths")
_RULES = ("rules", "rule_heads", "rule_left", "rule_right", "symbol_embeddings", "span_embeddings")

CHAIN = Kind("chain", Chain, ("emissions", *_TRANSITIONS), _PATTERN, nonlinear=_FACTORED)
SEMI_MARKOV = Kind(
    "semi-markov",
    SemiMarkov,
    ("emissions", "segments", *_TRANSITIONS),
    _PATTERN,
    nonlinear=_FACTORED,
    rows=True,
)
DEPENDENCY = Kind(
    "dependency-tree",
    DependencyTree,
    ("arcs", "roots"),
    ("lengths",),
    ("labelled", "projective", "single_root"),
)
HYPERTREE = Kind(
    "hypertree",
    Hypertree,
    ("words", "spans", "roots", *_RULES, "unary"),
    ("rule_symbols", "unary_symbols", "lengths"),
    ("heads", "symbols"),
    frozenset(_RULES[1:]),
    rows=True,
)
PAIRWISE = Kind(
    "pairwise-graph",
    PairwiseGraph,
    ("nodes", "interactions", "left", "right"),
    ("edges",),
    nonlinear=_FACTORED,
    graph=True,
)
FACTOR_GRAPH = Kind("factor-graph", FactorGraph, (), graph=True)

KINDS = {kind.name: kind for kind in (CHAIN, SEMI_MARKOV, DEPENDENCY, HYPERTREE, PAIRWISE, FACTOR_GRAPH)}
_BY_CLASS = {kind.make: kind for kind in KINDS.values()}


def kind_of(make: object) -> Kind:
    """The kind of a class of models."""
    found: Kind | None = _BY_CLASS.get(make)  # type: ignore[call-overload]
    if found is None:
        known = ", ".join(f"zhat.{kind.make.__name__}" for kind in KINDS.values())  # type: ignore[attr-defined]
        raise InputError(f"kind: expected one of the classes {known}, found {make!r}")
    return found


def axes_of(kind: Kind, first: str, settings: Mapping[str, int]) -> int:
    """The number of axes that the first parameter of one item has; a batch has one more."""
    if kind is DEPENDENCY:
        return 2 + settings.get("labelled", 0)
    return 3 if first == "spans" else 2


@dataclass(frozen=True)
class Part:
    """One model of an operation: its kind, the names of its tensors in order, and its settings."""

    kind: Kind
    names: tuple[str, ...]
    settings: dict[str, str]

    @cached_property
    def real(self) -> int:
        """The number of tensors of real numbers, which are the first ones."""
        if self.kind is FACTOR_GRAPH:
            return len(self.names)
        return sum(name in self.kind.real for name in self.names)

    @cached_property
    def flags(self) -> dict[str, int]:
        """The settings as numbers."""
        convert = bool if self.kind is DEPENDENCY else int
        return {name: convert(int(value)) for name, value in self.settings.items()}

    @cached_property
    def cardinalities(self) -> list[int]:
        """The numbers of states of a factor graph."""
        return _numbers(self.settings["cardinalities"])

    @cached_property
    def scopes(self) -> list[list[int]]:
        """The scopes of a factor graph."""
        return [_numbers(scope) for scope in self.settings["scopes"].split(";")] if self.names else []

    @cached_property
    def linear(self) -> bool:
        """Whether the score of a state is a linear function of all parameters."""
        return not self.kind.nonlinear.intersection(self.names)

    @cached_property
    def axes(self) -> int:
        """The number of axes of the first parameter of one item; a batch has one more."""
        return axes_of(self.kind, self.names[0], self.flags)

    def items(self, tensors: Sequence[Any]) -> tuple[Any, ...]:
        """The shape of numbers: empty, or (B,) for a batch."""
        if self.kind.graph or tensors[0].ndim == self.axes:
            return ()
        return (tensors[0].shape[0],)

    def build(self, arrays: Sequence[Any]) -> Any:
        """The model with these parameters."""
        if self.kind is FACTOR_GRAPH:
            return FactorGraph(self.cardinalities, zip(self.scopes, arrays, strict=True))
        given = dict(zip(self.names, arrays, strict=True))
        for name in ("lengths", "edges"):
            if name in given:
                given[name] = given[name].tolist()
        return self.kind.make(**given, **self.flags)


@dataclass(frozen=True)
class Plan:
    """The models of an operation."""

    parts: tuple[Part, ...]

    @cached_property
    def slices(self) -> tuple[slice, ...]:
        """The places of each model's tensors in the list of all."""
        ends = np.cumsum([len(part.names) for part in self.parts]).tolist()
        return tuple(slice(a, b) for a, b in zip([0, *ends], ends, strict=False))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the tensors of all models."""
        return tuple(name for part in self.parts for name in part.names)

    @cached_property
    def count(self) -> int:
        """The number of tensors of all models."""
        return len(self.names)

    @cached_property
    def real(self) -> tuple[int, ...]:
        """The places of the tensors of real numbers."""
        pairs = zip(self.parts, self.slices, strict=True)
        return tuple(i for part, own in pairs for i in range(own.start, own.start + part.real))

    @cached_property
    def is_real(self) -> tuple[bool, ...]:
        """For each tensor, whether it has real numbers."""
        return tuple(i in self.real for i in range(self.count))

    def build(self, arrays: Sequence[Any]) -> list[Any]:
        """The models with these parameters."""
        return [part.build(arrays[own]) for part, own in zip(self.parts, self.slices, strict=True)]


@lru_cache(maxsize=4096)
def plan_of(text: str) -> Plan:
    """The models that a text describes."""
    return Plan(tuple(_part(one.split()) for one in text.split(" | ")))


class TreeSizes(NamedTuple):
    """The numbers of heads, tags and symbols of trees over words."""

    heads: int
    tags: int
    symbols: int


def tree_sizes(tensors: Mapping[str, Any], settings: Mapping[str, int]) -> TreeSizes:
    """The numbers of symbols of trees over words with these parameters."""
    shapes = {name: tensor.shape for name, tensor in tensors.items()}
    tags = shapes["words" if "words" in shapes else "spans"][-1]
    listed = "rule_symbols" in shapes
    heads = [settings["heads"]] if "heads" in settings else []
    if "words" not in shapes or len(shapes.get("spans", ())) == 4 - (len(shapes["words"]) == 2):
        heads.append(shapes["spans"][-1])
    if "rules" in shapes and not listed:
        heads.append(shapes["rules"][-3])
    heads += [shapes["rule_heads"][-2]] if "rule_heads" in shapes else []
    heads += [shapes["roots"][-1]] if "roots" in shapes else []
    heads += [shapes["symbol_embeddings"][-2]] if "symbol_embeddings" in shapes else []
    number = (heads or [tags])[0]
    symbols = [settings["symbols"]] if "symbols" in settings else []
    if "rules" in shapes and not listed:
        symbols.append(shapes["rules"][-1])
    symbols += [shapes["rule_left"][-2]] if "rule_left" in shapes else []
    symbols.append(number + tags if listed else max(number, tags))
    return TreeSizes(number, tags, symbols[0])


def _part(words: list[str]) -> Part:
    names = tuple(word for word in words[1:] if "=" not in word)
    return Part(KINDS[words[0]], names, dict(word.split("=", 1) for word in words[1:] if "=" in word))


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",") if number]
