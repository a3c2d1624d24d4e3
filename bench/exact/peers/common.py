"""What the Python peers share: the NumPy reader of ZHAT_DATA, and the line of JSON they end with."""

import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


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
    """Answers one question: `load(model, evidence)` is not counted in `seconds`, the query is."""
    model, evidence, query = sys.argv[1:4]
    try:
        if query not in queries:
            raise NotOfferedError(f"no {query}")
        loaded = load(model, evidence)
        started = time.process_time()
        answer = {"value": queries[query](*loaded)}
        answer["seconds"] = time.process_time() - started
    except MemoryError:
        answer = {"status": "memory"}
    except NotOfferedError as reason:
        answer = {"status": f"not offered: {reason}"}
    except Exception as error:  # whatever a library raises is a result here
        first = next((line for line in str(error).splitlines() if line.strip()), "")
        memory = any(word in str(error) for word in ("bad_alloc", "Unable to allocate", "emory"))
        answer = {"status": "memory" if memory else f"failed: {type(error).__name__}: {first.strip()}"}
    print("\n" + json.dumps(answer), flush=True)
    os._exit(0)
