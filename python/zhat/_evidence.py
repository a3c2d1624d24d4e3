"""Evidence about a variable or position, checked and converted for the native module."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from ._arguments import integer, log_table
from .errors import InputError

Known: TypeAlias = "int | str | Set[int] | Set[str] | Set[int | str] | ArrayLike"
"""What is known about a state: the state, a set of possible states, or one likelihood for each state."""

Evidence: TypeAlias = "Mapping[Any, Known]"
"""What is known about variables, by number or by name."""


def number(state: object) -> int:
    """The number of a state."""
    return integer("evidence", state)


def finding(place: object, known: object, label: Callable[[Any], Any] = number) -> Any:
    """A state, a list of possible states, or a list of log-likelihoods; `label` checks a state."""
    if isinstance(known, Set):
        if not known:
            raise InputError(f"evidence[{place!r}]: the set of states is empty; name at least one")
        return [label(state) for state in known]
    if isinstance(known, (list, tuple)) or (hasattr(known, "__array__") and np.ndim(known) > 0):
        log_values = log_table(f"evidence[{place!r}]", known, log=False)
        if log_values.ndim != 1 or not log_values.size:
            raise InputError(
                f"evidence[{place!r}]: expected one likelihood for each state, "
                f"found an array of shape {log_values.shape}"
            )
        return log_values.tolist()
    return label(known)
