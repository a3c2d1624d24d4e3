"""The problems that every library solves, with the same numbers. A case is the name of a form and its sizes.

log Z_b = log Σ_x exp(start[x_1] + Σ_t emissions[b, t, x_t] + Σ_t transition(x_{t−1}, x_t))

| case | transitions |
|---|---|
| `N:T:B` | a table of N × N scores |
| `low-rank:N:R:T:B` | exp(transition(i, j)) = Σ_r exp(log_left[i, r] + log_right[j, r]) |
| `sparse:N:E:T:B` | E transitions from each state |

Emission scores are standard normal, and so are transition scores, then normalised so that the transition
probabilities from each state sum to 1; start scores are −log N. Libraries for hidden Markov models can
therefore use them as probabilities. The seed is always 0.
"""

from dataclasses import dataclass

import numpy as np

SIZES = {"dense": ("N", "T", "B"), "low-rank": ("N", "R", "T", "B"), "sparse": ("N", "E", "T", "B")}


@dataclass(frozen=True)
class Problem:
    """Scores in single precision, and the number of threads to use.

    `tables` has the scores of transitions by name: `transitions`; `log_left` and `log_right`; or those of a
    sparse table in CSR form, `transitions`, with `indptr` and `indices`.
    """

    form: str
    start: np.ndarray  # states
    tables: dict[str, np.ndarray]
    emissions: np.ndarray  # sequences × positions × states
    threads: int
    pattern: dict[str, np.ndarray]

    @property
    def shape(self) -> tuple[int, int, int]:
        """Sequences, positions, states."""
        return self.emissions.shape

    @property
    def transitions(self) -> np.ndarray:
        """The table of scores, or those of its entries."""
        return self.tables["transitions"]

    @property
    def bytes(self) -> int:
        """The size of the scores."""
        return self.emissions.nbytes + sum(table.nbytes for table in self.tables.values())


def parsed(case: str) -> tuple[str, list[int]]:
    """The form and the sizes of a case."""
    first, *rest = case.split(":")
    form, sizes = ("dense", [first, *rest]) if first.isdigit() else (first, rest)
    if form not in SIZES or first == "dense":
        raise ValueError(f"{case}: there is no form {first}; there are N:T:B, low-rank and sparse")
    names = SIZES[form]
    if len(sizes) != len(names) or not all(size.isdigit() and int(size) > 0 for size in sizes):
        expected = ":".join(names) if form == "dense" else f"{form}:{':'.join(names)}"
        raise ValueError(f"{case}: expected {expected} with positive integers")
    numbers = [int(size) for size in sizes]
    if form == "sparse" and numbers[1] > numbers[0]:
        raise ValueError(f"{case}: {numbers[0]} states have at most as many transitions each")
    return form, numbers


def random_problem(case: str, threads: int) -> Problem:
    """The problem of a case."""
    form, sizes = parsed(case)
    states, positions, sequences = sizes[0], sizes[-2], sizes[-1]
    random = np.random.default_rng(0)

    def normal(*shape: int) -> np.ndarray:
        return random.standard_normal(shape, np.float32) if form != "dense" else _doubles(random, shape)

    pattern: dict[str, np.ndarray] = {}
    if form == "dense":
        tables = {"transitions": _normalised(normal(states, states), 1)}
    elif form == "low-rank":
        rank = sizes[1]
        tables = {
            "log_left": _normalised(normal(states, rank), 1),
            "log_right": _normalised(normal(states, rank), 0),
        }
    else:
        entries = sizes[1]
        # Evenly spaced targets from a random one on, so that they are different.
        first = random.integers(states, size=(states, 1))
        targets = np.sort((first + np.arange(entries) * (states // entries)) % states, axis=1)
        pattern = {
            "indptr": np.arange(0, states * entries + 1, entries, dtype=np.int64),
            "indices": targets.ravel(),
        }
        tables = {"transitions": _normalised(normal(states, entries), 1).ravel()}
    emissions = normal(sequences, positions, states)
    start = np.full(states, -np.log(states), np.float32)
    return Problem(form, start, tables, emissions, threads, pattern)


def _doubles(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Drawn in double precision, as in all published results of the dense form."""
    return random.standard_normal(shape).astype(np.float32)


def _normalised(scores: np.ndarray, axis: int) -> np.ndarray:
    sums = np.exp(scores).sum(axis, keepdims=True, dtype=np.float64)
    return scores - np.log(sums).astype(np.float32)
