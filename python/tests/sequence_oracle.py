"""Small chains and semi-Markov chains with edge cases, and their answers by enumeration in NumPy."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

import zhat

FloatArray = NDArray[np.float64]
Segments = tuple[tuple[int, int], ...]


def terms(log_left: NDArray[Any], log_right: NDArray[Any]) -> FloatArray:
    """The terms (N, N, R) whose log-sum-exp are low-rank transitions."""
    return np.asarray(log_left.astype(float)[:, np.newaxis] + log_right.astype(float))


def table(model: zhat.Chain | zhat.SemiMarkov, t: int) -> FloatArray:
    """The log transitions from position t."""
    if model.left is not None:
        right = model.left if model.right is None else model.right
        return np.asarray(model.left.astype(float) @ right.astype(float).T)
    if model.log_left is not None and model.log_right is not None:
        return np.asarray(np.logaddexp.reduce(terms(model.log_left, model.log_right), axis=2))
    assert model.transitions is not None
    transitions = model.transitions if model.transitions.ndim == 2 else model.transitions[t]
    return np.asarray(transitions, float)


def emissions_of(model: zhat.Chain | zhat.SemiMarkov, b: int) -> FloatArray:
    emissions = model.emissions if model.batch is None else model.emissions[b]
    return np.asarray(emissions, float)


def paths(model: zhat.Chain, b: int) -> Iterator[tuple[Segments, float]]:
    """Every path as segments of one position, and its score by definition."""
    emissions = emissions_of(model, b)
    for path in itertools.product(range(model.n_states), repeat=model.lengths[b]):
        score = float(model.start[path[0]]) + sum(emissions[t, i] for t, i in enumerate(path))
        score += sum(table(model, t)[i, j] for t, (i, j) in enumerate(itertools.pairwise(path)))
        score += 0.0 if model.end is None else float(model.end[path[-1]])
        yield tuple((i, 1) for i in path), float(score)


def segmentations(model: zhat.SemiMarkov, b: int) -> Iterator[tuple[Segments, float]]:
    """Every segmentation and its score by definition."""
    emissions, length = emissions_of(model, b), model.lengths[b]
    per_place = model._parameters["segments"].ndim == 4
    places = model._parameters["segments"]

    def extend(t: int, before: Segments, score: float) -> Iterator[tuple[Segments, float]]:
        if t == length:
            yield before, score + (0.0 if model.end is None else float(model.end[before[-1][0]]))
            return
        for d in range(1, min(model.longest, length - t) + 1):
            for j in range(model.n_states):
                entry = model.start[j] if not before else table(model, t - 1)[before[-1][0], j]
                own = places[b, t, d - 1, j] if per_place else places[d - 1, j]
                gain = float(entry) + float(own) + float(emissions[t : t + d, j].sum())
                yield from extend(t + d, (*before, (j, d)), score + gain)

    yield from extend(0, (), 0.0)


@dataclass
class SequenceOracle:
    """The answers for one sequence of a batch."""

    model: zhat.Chain | zhat.SemiMarkov
    sequence: int
    states: list[Segments] = field(default_factory=list)
    scores: FloatArray = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        every = paths if isinstance(self.model, zhat.Chain) else segmentations
        pairs = list(every(self.model, self.sequence))  # type: ignore[operator]
        self.states = [states for states, _ in pairs]
        self.scores = np.array([score for _, score in pairs])

    @property
    def best(self) -> float:
        return float(self.scores.max())

    @property
    def log_partition(self) -> float:
        if self.best == -np.inf:
            return -np.inf
        return float(self.best + np.log(np.exp(self.scores - self.best).sum()))

    @property
    def probabilities(self) -> FloatArray:
        if self.best == -np.inf:
            return np.zeros_like(self.scores)
        return np.asarray(np.exp(self.scores - self.log_partition))

    @property
    def entropy(self) -> float:
        p = self.probabilities
        return float(-(p[p > 0] * np.log(p[p > 0])).sum()) if p.any() else -np.inf

    def expected(self) -> dict[str, FloatArray]:
        """The gradient of log Z with respect to every parameter."""
        model, b = self.model, self.sequence
        raw = model._parameters
        gradient = {name: np.zeros(array.shape) for name, array in raw.items()}
        for states, p in zip(self.states, self.probabilities, strict=True):
            t, before = 0, None
            for j, d in states:
                if before is None:
                    gradient["start"][j] += p
                elif model.left is not None:
                    right = model.left if model.right is None else model.right
                    gradient["left"][before] += p * right[j]
                    gradient["right" if model.right is not None else "left"][j] += p * model.left[before]
                elif model.log_left is not None and model.log_right is not None:
                    if p > 0:
                        part = terms(model.log_left, model.log_right)[before, j]
                        part = p * np.exp(part - np.logaddexp.reduce(part))
                        gradient["log_left"][before] += part
                        gradient["log_right"][j] += part
                elif gradient["transitions"].ndim == 2:
                    gradient["transitions"][before, j] += p
                else:
                    gradient["transitions"][t - 1, before, j] += p
                if "segments" in gradient:
                    place = gradient["segments"]
                    if place.ndim == 2:
                        place[d - 1, j] += p
                    else:
                        place[b, t, d - 1, j] += p
                gradient["emissions"][b, t : t + d, j] += p
                t, before = t + d, j
            if "end" in gradient:
                gradient["end"][before] += p
        return gradient


def total_gradient(model: zhat.Chain | zhat.SemiMarkov) -> dict[str, FloatArray]:
    """The gradient of the sum of log Z over the batch."""
    parts = [SequenceOracle(model, b).expected() for b in range(len(model.lengths))]
    return {name: np.sum([part[name] for part in parts], axis=0) for name in parts[0]}


def _random_chain(random: np.random.Generator, i: int) -> dict[str, Any]:
    """The arguments of a random chain; i determines the form, the scale and the zeros."""
    states, steps, batch = (int(random.integers(1, high)) for high in (4, 5, 4))
    dtype = [np.float64, np.float32][i % 2]
    scale, zeros = [(1.0, 0.0), (3.0, 0.0), (30.0, 0.0), (1.0, 0.5)][i // 2 % 4]

    def values(*shape: int) -> NDArray[Any]:
        scores = scale * random.normal(size=shape)
        return np.where(random.random(shape) < zeros, -np.inf, scores).astype(dtype)

    arguments: dict[str, Any] = {"start": values(states)}
    if i % 3:
        arguments["emissions"] = values(batch, steps, states)
        arguments["lengths"] = [steps, *random.integers(1, steps + 1, size=batch - 1)]
    else:
        arguments["emissions"] = values(steps, states)
    form = i // 3 % 5
    if form == 4:
        rank = int(random.integers(1, 4))
        arguments |= {"log_left": values(states, rank), "log_right": values(states, rank)}
    elif form < 2:
        shape = (states, states) if form == 0 else (steps - 1, states, states)
        arguments["transitions"] = values(*shape)
    else:
        arguments["left"] = random.normal(size=(states, 2)).astype(dtype)
        if form == 3:
            arguments["right"] = random.normal(size=(states, 2)).astype(dtype)
    if i % 4 in (1, 2):
        arguments["end"] = values(states)
    return arguments


def small_chains() -> dict[str, zhat.Chain]:
    """Chains by name; sequences may have Z = 0."""
    random = np.random.default_rng(2027)
    chains = {f"random {i}": zhat.Chain(**_random_chain(random, i)) for i in range(60)}
    chains["one state"] = zhat.Chain([[-1e4], [3.0]], [[1e4]])
    chains["one step"] = zhat.Chain([[0.0, 1.0, -np.inf]], np.zeros((3, 3)))
    chains["huge"] = zhat.Chain([[1e4, -1e4], [-1e4, 1e4], [1e4, 1e4]], [[-1e4, 1e4], [0.0, 1e4]])
    zeros = np.zeros((2, 3, 2)), np.zeros((2, 2))
    chains["end of one step"] = zhat.Chain(*zeros, lengths=[1, 3], end=[-np.inf, 1e4])
    chains["ties"] = zhat.Chain(*zeros)
    return chains


def small_semi_markov_chains() -> dict[str, zhat.SemiMarkov]:
    """Semi-Markov chains by name; sequences may have Z = 0."""
    random = np.random.default_rng(2028)
    models = {}
    for i in range(36):
        arguments = _random_chain(random, i)
        emissions = arguments["emissions"]
        longest, states = int(random.integers(1, 4)), emissions.shape[-1]
        shape = (longest, states) if i % 2 else (*emissions.shape[:-1], longest, states)
        segments = random.normal(size=shape).astype(emissions.dtype)
        models[f"random {i}"] = zhat.SemiMarkov(**arguments, segments=segments)
    return models
