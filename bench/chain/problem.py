"""The problem that every library solves, with the same numbers.

log Z_b = log Σ_x exp(start[x_1] + Σ_t emissions[b, t, x_t] + Σ_t transitions[x_{t−1}, x_t])

Emission scores are standard normal. Transition scores are standard normal, then normalised so that each row
of exp(transitions) sums to 1; start scores are −log N. Libraries for hidden Markov models can therefore use
them as probabilities.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Problem:
    """Scores in single precision, and the number of threads to use."""

    start: np.ndarray  # states
    transitions: np.ndarray  # states × states
    emissions: np.ndarray  # sequences × positions × states
    threads: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """Sequences, positions, states."""
        return self.emissions.shape


def parsed(case: str) -> tuple[int, int, int]:
    """The numbers of states, positions and sequences of a case N:T:B."""
    sizes = case.split(":")
    if len(sizes) != 3 or not all(size.isdigit() and int(size) > 0 for size in sizes):
        raise ValueError(f"{case}: expected N:T:B with positive integers")
    return int(sizes[0]), int(sizes[1]), int(sizes[2])


def random_problem(case: str, threads: int) -> Problem:
    """The problem of a case; the seed is always 0."""
    states, positions, sequences = parsed(case)
    random = np.random.default_rng(0)
    transitions = random.standard_normal((states, states)).astype(np.float32)
    sums = np.exp(transitions.astype(np.float64)).sum(1, keepdims=True)
    transitions = transitions - np.log(sums).astype(np.float32)
    emissions = random.standard_normal((sequences, positions, states)).astype(np.float32)
    start = np.full(states, -np.log(states), np.float32)
    return Problem(start, transitions, emissions, threads)
