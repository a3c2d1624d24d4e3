"""The problem that every library solves, with the same numbers: standard normal scores and random tags."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Problem:
    """Scores in single precision, tags, and the number of threads to use."""

    start: np.ndarray  # tags
    end: np.ndarray  # tags
    transitions: np.ndarray  # tags × tags, by the tag before and after
    emissions: np.ndarray  # sequences × positions × tags
    tags: np.ndarray  # sequences × positions
    threads: int


def parsed(case: str) -> tuple[int, int, int]:
    """The numbers of tags, positions and sequences of a case N:T:B."""
    sizes = case.split(":")
    if len(sizes) != 3 or not all(size.isdigit() and int(size) > 0 for size in sizes):
        raise ValueError(f"{case}: expected N:T:B with positive integers")
    return int(sizes[0]), int(sizes[1]), int(sizes[2])


def random_problem(case: str, threads: int) -> Problem:
    """The problem of a case; the seed is always 0."""
    tags, positions, sequences = parsed(case)
    random = np.random.default_rng(0)

    def normal(*shape: int) -> np.ndarray:
        return random.standard_normal(shape).astype(np.float32)

    start, end, transitions = normal(tags), normal(tags), normal(tags, tags)
    emissions = normal(sequences, positions, tags)
    return Problem(
        start, end, transitions, emissions, random.integers(tags, size=(sequences, positions)), threads
    )
