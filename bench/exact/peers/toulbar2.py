"""toulbar2: variables of at most 24 neighbours eliminated in min-fill order, branch and bound on the rest."""

import re
from math import log

QUERIES = ("logz",)
OPTIONS = ("-logz", "-p=24", "-O=-3")


def command(program, model, evidence, _query, _memory):
    """The command line."""
    return [program, model, *([evidence] if evidence else []), *OPTIONS]


def parse(output, _query):
    """The middle of its two bounds on ln Z, which it prints with three decimals."""
    bounds = re.search(r"(\S+) <= Log\(Z\) <= (\S+)", output)
    if not bounds:
        memory = "bad_alloc" in output or "memory" in output.lower()
        return {"status": "memory" if memory else "failed: no answer"}
    low, high = float(bounds[1]), float(bounds[2])
    return {"value": (low + high) / 2 / log(10), "resolution": (high - low + 1e-3) / 2 / log(10)}
