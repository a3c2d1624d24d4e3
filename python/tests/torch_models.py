"""Small models of every kind as tensors, with all of their states, for the tests of `zhat.torch`.

The states are enumerated here. Sums over them, differentiated by PyTorch as often as needed, are the oracle
of log Z, entropy, marginals and their derivatives. The scores of states are those of `zhat.torch.score`,
which is tested against the `score` of the models.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import zhat

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed; zhat.torch is not tested")
zt: Any = pytest.importorskip("zhat.torch")

Rows = list[list[int]] | list[int]
EMBEDDINGS = {"left", "right", "span_embeddings", "symbol_embeddings"}


@dataclass
class Case:
    """A kind of model, its parameters, and all states that it may have, by item if it is a batch."""

    name: str
    kind: Callable[..., Any]
    real: dict[str, Any]
    other: dict[str, Any]
    states: list[list[Rows]]

    def model(self, *tensors: Any) -> Any:
        """The model with other parameters, or with its own."""
        given = dict(zip(self.real, tensors, strict=True)) if tensors else self.real
        if self.kind is zhat.FactorGraph:
            scopes = self.other["scopes"]
            factors = zip(scopes, given.values(), strict=True)
            return zt.Model(self.kind, cardinalities=self.other["cardinalities"], factors=factors)
        return zt.Model(self.kind, **given, **self.other)

    def tensors(self, dtype: Any = None, zeros: float = 0.0, seed: int = 7) -> list[Any]:
        """The parameters as leaves, a share of them −inf; embeddings are finite."""
        random, leaves = np.random.default_rng(seed), []
        for name, tensor in self.real.items():
            share = 0.0 if name in EMBEDDINGS else zeros
            array = np.where(random.random(tensor.shape) < share, -np.inf, tensor.numpy())
            leaves.append(torch.tensor(array, dtype=dtype or torch.float64, requires_grad=True))
        return leaves

    def padded(self) -> Any:
        """All states as one tensor, padded with −1."""
        most = max(len(own) for own in self.states)
        rows = max(len(state) for own in self.states for state in own)
        wide = np.shape(self.states[0][0])[1:]
        padded = np.full((len(self.states), most, rows, *wide), -1)
        for b, own in enumerate(self.states):
            for i, state in enumerate(own):
                padded[b, i, : len(state)] = state
        return torch.tensor(padded if self.batch else padded[0])

    @property
    def batch(self) -> bool:
        return not self.model().single


class Enumerated:
    """Log Z, entropy and marginals as sums over all states."""

    def __init__(self, case: Case, *tensors: Any) -> None:
        scores = zt.score(case.model(*tensors), case.padded())
        self.possible = ~torch.isneginf(scores)
        self.log_partition = torch.logsumexp(scores, -1)
        weights = torch.where(self.possible, scores, torch.zeros_like(scores))
        shift = torch.where(torch.isneginf(self.log_partition), 0.0, self.log_partition)
        self.log_probabilities = weights - shift.unsqueeze(-1)
        self.probabilities = torch.where(self.possible, self.log_probabilities.exp(), 0.0)

    @property
    def entropy(self) -> Any:
        found = -(self.probabilities * self.log_probabilities).sum(-1)
        return torch.where(self.possible.any(-1), found, -torch.inf)


def chains(steps: int, states: int) -> list[Rows]:
    return [list(path) for path in itertools.product(range(states), repeat=steps)]


def segmentations(steps: int, states: int, longest: int) -> Iterator[list[list[int]]]:
    if steps == 0:
        yield []
    for d in range(1, min(steps, longest) + 1):
        for j, rest in itertools.product(range(states), segmentations(steps - d, states, longest)):
            yield [[j, d], *rest]


def heads(words: int) -> list[Rows]:
    """Every head of every word, whether a tree or not."""
    return [list(own) for own in itertools.product(range(words + 1), repeat=words)]


def labelled(words: int, labels: int) -> list[Rows]:
    each = itertools.product(range(words + 1), range(labels))
    return [[[*pair] for pair in own] for own in itertools.product(list(each), repeat=words)]


def nodes(i: int, j: int, symbols: int, unary: list[list[int]]) -> list[list[list[int]]]:
    """Every tree over words i to j with any symbols; unary rules are used at most three times per node."""
    found = [[[i, j, k]] for k in range(symbols)] if i == j else []
    for middle in range(i, j):
        parts = itertools.product(nodes(i, middle, symbols, unary), nodes(middle + 1, j, symbols, unary))
        found += [[[i, j, k], *a, *b] for a, b in parts for k in range(symbols)]
    above = found
    for _ in range(3):
        above = [[[i, j, k], *own] for own in above for k, a in unary if own[0][2] == a]
        found = found + above
    return found


def cases() -> list[Case]:
    random = np.random.default_rng(20)

    def real(*shape: int) -> Any:
        return torch.tensor(0.8 * random.normal(size=shape))

    ends = {"start": real(2), "end": real(2)}
    ragged = {"lengths": torch.tensor([3, 1])}
    two = [chains(3, 2), chains(1, 2)]
    pattern = {"indptr": torch.tensor([0, 2, 3, 5]), "indices": torch.tensor([0, 2, 1, 1, 2])}
    pieces = [[*segmentations(n, 2, 2)] for n in (3, 1)]
    return [
        Case(
            "chain", zhat.Chain, {"emissions": real(2, 3, 2), "transitions": real(2, 2), **ends}, ragged, two
        ),
        Case("steps", zhat.Chain, {"emissions": real(3, 2), "transitions": real(2, 2, 2)}, {}, [two[0]]),
        Case(
            "sequences",
            zhat.Chain,
            {"emissions": real(2, 3, 2), "transitions": real(2, 2, 2, 2)},
            ragged,
            two,
        ),
        Case(
            "sparse", zhat.Chain, {"emissions": real(3, 3), "transitions": real(5)}, pattern, [chains(3, 3)]
        ),
        Case(
            "sparse steps",
            zhat.Chain,
            {"emissions": real(3, 3), "transitions": real(2, 5)},
            pattern,
            [chains(3, 3)],
        ),
        Case(
            "factored",
            zhat.Chain,
            {"emissions": real(2, 3, 2), "left": real(2, 2), "right": real(2, 2)},
            ragged,
            two,
        ),
        Case("tied", zhat.Chain, {"emissions": real(3, 2), "left": real(2, 2)}, {}, [two[0]]),
        Case(
            "low rank",
            zhat.Chain,
            {"emissions": real(3, 2), "log_left": real(2, 2), "log_right": real(2, 2)},
            {},
            [two[0]],
        ),
        Case(
            "one state", zhat.Chain, {"emissions": real(3, 1), "transitions": real(1, 1)}, {}, [chains(3, 1)]
        ),
        Case(
            "one step", zhat.Chain, {"emissions": real(1, 3), "transitions": real(3, 3)}, {}, [chains(1, 3)]
        ),
        Case(
            "segments",
            zhat.SemiMarkov,
            {"emissions": real(2, 3, 2), "transitions": real(2, 2), "segments": real(2, 2), **ends},
            ragged,
            pieces,
        ),
        Case(
            "segments by place",
            zhat.SemiMarkov,
            {"emissions": real(2, 3, 2), "transitions": real(2, 2, 2), "segments": real(2, 3, 2, 2)},
            ragged,
            pieces,
        ),
        Case(
            "projective",
            zhat.DependencyTree,
            {"arcs": real(2, 3, 3), "roots": real(2, 3)},
            {"lengths": [3, 2]},
            [heads(3), heads(2)],
        ),
        Case(
            "any tree",
            zhat.DependencyTree,
            {"arcs": real(4, 4)},
            {"projective": False, "single_root": True},
            [heads(4)],
        ),
        Case(
            "labelled",
            zhat.DependencyTree,
            {"arcs": real(2, 2, 2), "roots": real(2, 2)},
            {"labelled": True, "projective": False},
            [labelled(2, 2)],
        ),
        Case(
            "trees",
            zhat.Hypertree,
            {"words": real(2, 3, 2), "rules": real(2, 3, 3), "roots": real(2)},
            {"lengths": [3, 2]},
            [nodes(0, 2, 3, []), nodes(0, 1, 3, [])],
        ),
        Case(
            "rules by sentence",
            zhat.Hypertree,
            {"words": real(2, 2, 2), "rules": real(2, 1, 3, 3), "spans": real(2, 2, 2)},
            {},
            [nodes(0, 1, 3, [])] * 2,
        ),
        Case(
            "listed rules",
            zhat.Hypertree,
            {"words": real(3, 2), "rules": real(4), "unary": real(2)},
            {
                "rule_symbols": torch.tensor([[1, 0, 2], [0, 2, 2], [0, 1, 2], [1, 2, 2]]),
                "unary_symbols": torch.tensor([[0, 1], [1, 2]]),
                "heads": 2,
                "symbols": 3,
            },
            [nodes(0, 2, 3, [[0, 1], [1, 2]])],
        ),
        Case(
            "low-rank rules",
            zhat.Hypertree,
            {
                "words": real(3, 2),
                "rule_heads": real(2, 2),
                "rule_left": real(3, 2),
                "rule_right": real(3, 2),
            },
            {},
            [nodes(0, 2, 3, [])],
        ),
        Case("spans", zhat.Hypertree, {"spans": real(3, 3, 2)}, {}, [nodes(0, 2, 2, [])]),
        Case(
            "span embeddings",
            zhat.Hypertree,
            {"words": real(3, 2), "span_embeddings": real(3, 3, 2), "symbol_embeddings": real(2, 2)},
            {},
            [nodes(0, 2, 2, [])],
        ),
        Case(
            "graph",
            zhat.PairwiseGraph,
            {"nodes": real(3, 2), "interactions": real(2, 2)},
            {"edges": [(0, 1), (2, 1)]},
            [chains(3, 2)],
        ),
        Case(
            "edges",
            zhat.PairwiseGraph,
            {"nodes": real(3, 2), "interactions": real(2, 2, 2)},
            {"edges": [(0, 1), (2, 1)]},
            [chains(3, 2)],
        ),
        Case(
            "factored graph",
            zhat.PairwiseGraph,
            {"nodes": real(3, 2), "left": real(2, 2), "right": real(2, 2)},
            {"edges": [(0, 1), (2, 1)]},
            [chains(3, 2)],
        ),
        Case(
            "factors",
            zhat.FactorGraph,
            {"f": real(2, 2), "g": real(2, 2, 2), "h": real(2)},
            {"cardinalities": [2, 2, 2], "scopes": [(0, 1), (2, 0, 1), (2,)]},
            [chains(3, 2)],
        ),
    ]


CASES = {case.name: case for case in cases()}
