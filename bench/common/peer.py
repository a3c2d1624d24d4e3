"""Shared by the Python peers: reading a model, and the lines of JSON that a peer prints."""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from common import uai

MEMORY = ("bad_alloc", "Unable to allocate", "emory")


class NotOfferedError(Exception):
    """The library does not offer this query."""


def read(model: str, evidence: str) -> tuple[str, list[int], list, dict[int, int]]:
    """Kind, numbers of states, factors (scope, array) and evidence of a model in the UAI format."""
    return *uai.read_model(model), uai.read_evidence(evidence)


def point_mass(states: int, state: int) -> list[float]:
    """The marginal of an observed variable."""
    return [float(i == state) for i in range(states)]


def main(load: Callable[[str, str], Any], queries: dict[str, Callable[..., Any]]) -> None:
    """Answers one query: `seconds` is the CPU time of the query, without `load(model, evidence)`.

    A query may be a generator of successively better answers, each a dictionary; the last one counts.
    """
    model, evidence, query = sys.argv[1:4]
    answer: dict[str, Any] = {}
    try:
        if query not in queries:
            raise NotOfferedError(f"no {query}")
        loaded = load(model, evidence)
        started = time.process_time()
        found = queries[query](*loaded)
        for answer in found if isinstance(found, Iterator) else [{"value": found}]:
            tell(answer | {"seconds": time.process_time() - started})
    except Exception as error:  # any error of a library is a result here
        if not answer:
            tell({"status": status_of(error)})
    os._exit(0)


def status_of(error: Exception) -> str:
    """Why there is no answer."""
    if isinstance(error, NotOfferedError):
        return f"not offered: {error}"
    if isinstance(error, MemoryError) or any(word in str(error) for word in MEMORY):
        return "memory"
    first = next((line for line in str(error).splitlines() if line.strip()), "")
    return f"failed: {type(error).__name__}: {first.strip()}"


def tell(answer: dict[str, Any]) -> None:
    """Prints an answer on a line of its own, even if a library has printed half a line before."""
    print("\n" + json.dumps(answer), flush=True)
