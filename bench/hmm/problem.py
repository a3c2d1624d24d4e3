"""The problem that every library solves, with the same numbers: 20 steps of EM from the same parameters.

Cases: `categorical:N:T:B` has 32 symbols, `gaussian:N:T:B` diagonal normal distributions of 8 columns. The
data are drawn from a random model; training starts at another one.
"""

from dataclasses import dataclass

import numpy as np

STEPS = 20
SYMBOLS = 32
COLUMNS = 8


@dataclass(frozen=True)
class Problem:
    """Initial parameters, data and the number of threads."""

    family: str
    start: np.ndarray  # states
    transitions: np.ndarray  # states × states
    emissions: np.ndarray  # states × symbols, or means: states × columns
    observations: np.ndarray  # rows × 1 of whole numbers, or rows × columns
    lengths: list[int]
    threads: int


def parsed(case: str) -> tuple[str, int, int, int]:
    """The family and the numbers of states, positions and sequences of a case."""
    family, *sizes = case.split(":")
    if (
        family not in ("categorical", "gaussian")
        or len(sizes) != 3
        or not all(size.isdigit() and int(size) > 0 for size in sizes)
    ):
        raise ValueError(f"{case}: expected categorical:N:T:B or gaussian:N:T:B with positive integers")
    return family, int(sizes[0]), int(sizes[1]), int(sizes[2])


def random_problem(case: str, threads: int) -> Problem:
    """The problem of a case; the seed is always 0."""
    family, states, positions, sequences = parsed(case)
    random = np.random.default_rng(0)

    def rows(count: int, width: int) -> np.ndarray:
        table = random.gamma(1.0, size=(count, width)) + 0.01
        return table / table.sum(axis=1, keepdims=True)

    width = SYMBOLS if family == "categorical" else COLUMNS
    true_transitions, true_table = rows(states, states), rows(states, width)
    true_means = 3.0 * random.standard_normal((states, width))
    observed = []
    for _ in range(sequences):
        state = random.integers(states)
        for _ in range(positions):
            if family == "categorical":
                observed.append([random.choice(width, p=true_table[state])])
            else:
                observed.append(true_means[state] + random.standard_normal(width))
            state = random.choice(states, p=true_transitions[state])
    observations = np.array(observed)
    emissions = rows(states, width)
    if family == "gaussian":
        emissions = observations[random.choice(len(observations), states, replace=False)]
    return Problem(
        family,
        np.full(states, 1.0 / states),
        rows(states, states),
        emissions,
        observations,
        [positions] * sequences,
        threads,
    )
