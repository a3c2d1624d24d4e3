"""Models and evidence in the UAI format, as NumPy arrays."""

from itertools import islice
from pathlib import Path

import numpy as np

Factor = tuple[list[int], np.ndarray]


def read_model(path: str) -> tuple[str, list[int], list[Factor]]:
    """The kind (MARKOV or BAYES), the number of states of each variable, and the factors (scope, table)."""
    tokens = iter(Path(path).read_text().split())

    def integers() -> list[int]:
        return list(map(int, islice(tokens, int(next(tokens)))))

    kind, card = next(tokens), integers()
    scopes = [integers() for _ in range(int(next(tokens)))]
    factors = []
    for scope in scopes:
        size = int(next(tokens))
        values = np.fromiter(map(float, islice(tokens, size)), float, size)
        factors.append((scope, values.reshape([card[v] for v in scope])))
    return kind, card, factors


def read_evidence(path: str) -> dict[int, int]:
    """The state of each observed variable; an empty path means no evidence."""
    numbers = [int(token) for token in Path(path).read_text().split()] if path else []
    if not numbers:
        return {}
    # Files of 2014 start with the number of pairs; older ones have the number of evidence sets before it.
    for header in (1, 2):
        pairs = numbers[header:]
        if len(numbers) >= header and len(pairs) == 2 * numbers[header - 1]:
            return dict(zip(pairs[::2], pairs[1::2], strict=True))
    raise ValueError(f"{path}: not an evidence file")


def condition(factors: list[Factor], observed: dict[int, int]) -> list[Factor]:
    """The factors with observed variables fixed and removed from the scopes."""
    conditioned = []
    for scope, table in factors:
        index = tuple(observed.get(v, slice(None)) for v in scope)
        conditioned.append(([v for v in scope if v not in observed], np.asarray(table[index])))
    return conditioned
