"""What the Python peers share: the NumPy reader of ZHAT_DATA, and the lines of JSON they print."""

import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

MEMORY = ("bad_alloc", "Unable to allocate", "emory")


class NotOfferedError(Exception):
    """The library does not answer this question."""


def numpy_reader() -> Any:
    """The module `peers/uai_elimination.py` of ZHAT_DATA."""
    path = Path(os.environ["ZHAT_DATA"]) / "peers" / "uai_elimination.py"
    spec = importlib.util.spec_from_file_location("uai_elimination", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def read(model: str, evidence: str) -> tuple[str, list[int], list, dict[int, int]]:
    """Kind, domain sizes, factors (scope, array) and evidence."""
    reader = numpy_reader()
    return *reader.read_uai(model), reader.read_evid(evidence)


def point_mass(states: int, state: int) -> list[float]:
    """The marginal of an observed variable."""
    return [float(i == state) for i in range(states)]


def main(load: Callable[[str, str], Any], queries: dict[str, Callable[..., Any]]) -> None:
    """Answers one question: `load(model, evidence)` is not counted in `seconds`, the query is.

    A query that is a generator gives answers that get better, each a dictionary; the last one counts.
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
    except Exception as error:  # whatever a library raises is a result here
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
    """On a line of its own, whatever a library printed before."""
    print("\n" + json.dumps(answer), flush=True)
