"""Structured distributions by enumeration: every structure is a list of its parts."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
# The place of a part in the potentials; for several potentials after the number of its potential.
Structure = list[tuple[int, ...]]


def chains(length: int, states: int) -> Iterator[Structure]:
    for path in itertools.product(range(states), repeat=length):
        yield [(t, path[t + 1], path[t]) for t in range(length - 1)]


def segmentations(length: int, width: int, states: int) -> Iterator[Structure]:
    """Boundaries at 0 and length − 1, less than `width` apart, with a label each."""
    for inner in itertools.product([False, True], repeat=max(length - 2, 0)):
        places = [t for t, on in enumerate([True, *inner, True][-length:]) if on]
        if all(b - a < width for a, b in itertools.pairwise(places)):
            for labels in itertools.product(range(states), repeat=len(places)):
                yield [
                    (a, b - a, after, before)
                    for (a, b), (before, after) in zip(
                        itertools.pairwise(places), itertools.pairwise(labels), strict=True
                    )
                ]


def _brackets(first: int, last: int) -> Iterator[list[tuple[int, int, int | None]]]:
    """The binary trees over words, as (first, last, last word of the left part)."""
    if first == last:
        yield [(first, last, None)]
    for cut in range(first, last):
        for left in _brackets(first, cut):
            for right in _brackets(cut + 1, last):
                yield [(first, last, cut), *left, *right]


def trees(length: int, symbols: int) -> Iterator[Structure]:
    for spans in _brackets(0, length - 1):
        for own in itertools.product(range(symbols), repeat=len(spans)):
            yield [(i, j, k) for (i, j, _), k in zip(spans, own, strict=True)]


def derivations(length: int, heads: int, tags: int) -> Iterator[Structure]:
    """Parts of terms (0, i, tag), rules (1, k, a, b), roots (2, k) and spans (3, width − 2, i, k)."""
    for spans in _brackets(0, length - 1):
        ranges = [range(tags) if cut is None else range(heads) for *_, cut in spans]
        for own in itertools.product(*ranges):
            symbol = {(i, j): k + heads * (cut is None) for (i, j, cut), k in zip(spans, own, strict=True)}
            if symbol[0, length - 1] >= heads:
                continue
            parts: Structure = [(2, symbol[0, length - 1])]
            for i, j, cut in spans:
                k = symbol[i, j]
                if cut is None:
                    parts.append((0, i, k - heads))
                else:
                    parts += [(1, k, symbol[i, cut], symbol[cut + 1, j]), (3, j - i - 1, i, k)]
            yield parts


def dependencies(
    length: int, *, projective: bool, multiroot: bool, labels: int | None = None
) -> Iterator[Structure]:
    for heads in itertools.product(range(length + 1), repeat=length):
        if not _is_tree(heads) or (not multiroot and heads.count(0) != 1):
            continue
        if projective and not _is_projective(heads):
            continue
        arcs = [(d if h == 0 else h - 1, d) for d, h in enumerate(heads)]
        if labels is None:
            yield list(arcs)
        else:
            for own in itertools.product(range(labels), repeat=length):
                yield [(*arc, label) for arc, label in zip(arcs, own, strict=True)]


def _ancestors(heads: tuple[int, ...], word: int) -> list[int]:
    """The words above a word (1-based), up to one more than there can be in a tree."""
    found = [word]
    while found[-1] and len(found) <= len(heads) + 1:
        found.append(heads[found[-1] - 1])
    return found


def _is_tree(heads: tuple[int, ...]) -> bool:
    return all(_ancestors(heads, d)[-1] == 0 for d in range(1, len(heads) + 1))


def _is_projective(heads: tuple[int, ...]) -> bool:
    return all(
        heads[d - 1] in _ancestors(heads, between)
        for d in range(1, len(heads) + 1)
        for between in range(min(d, heads[d - 1]) + 1, max(d, heads[d - 1]))
    )


@dataclass
class Enumeration:
    """One item of a batch: its structures, their scores and events."""

    structures: list[Structure]
    scores: FloatArray
    shapes: list[tuple[int, ...]]

    @classmethod
    def of(
        cls, structures: Iterator[Structure], potentials: list[FloatArray], shapes: list[Any]
    ) -> Enumeration:
        """Scores by potentials; parts of further shapes have none."""
        found = list(structures)

        def value(part: tuple[int, ...]) -> float:
            if len(shapes) == 1:
                return float(potentials[0][part])
            which, *place = part
            return float(potentials[which][tuple(place)]) if which < len(potentials) else 0.0

        scores = np.array([sum(value(part) for part in parts) for parts in found], np.float64)
        return cls(found, scores, shapes)

    @property
    def log_partition(self) -> float:
        best = self.scores.max(initial=-np.inf)
        return float(best if best == -np.inf else best + np.log(np.exp(self.scores - best).sum()))

    @property
    def probabilities(self) -> FloatArray:
        return np.asarray(np.exp(self.scores - self.log_partition))

    @property
    def entropy(self) -> float:
        p = self.probabilities[self.probabilities > 0]
        return float(-np.sum(p * np.log(p)))

    def cross_entropy(self, other: Enumeration) -> float:
        p, own = self.probabilities, other.scores - other.log_partition
        return float(-np.sum(p[p > 0] * own[p > 0]))

    @property
    def count(self) -> int:
        return int(np.sum(self.scores > -np.inf))

    def event(self, number: int) -> list[FloatArray]:
        arrays = [np.zeros(shape) for shape in self.shapes]
        for part in self.structures[number]:
            which, place = (0, part) if len(self.shapes) == 1 else (part[0], part[1:])
            arrays[which][place] += 1.0
        return arrays

    @property
    def marginals(self) -> list[FloatArray]:
        totals = [np.zeros(shape) for shape in self.shapes]
        for number, p in enumerate(self.probabilities):
            for total, one in zip(totals, self.event(number), strict=True):
                total += p * one
        return totals
