"""toulbar2: min-fill elimination of variables with few neighbours, then branch and bound."""

import re
from math import log


class Toulbar2:
    """toulbar2 with a limit on neighbours at elimination; the best limit depends on the model."""

    QUERIES = ("logz",)

    def __init__(self, neighbours: int) -> None:
        """Eliminates variables with at most this many neighbours."""
        self.options = ["-logz", f"-p={neighbours}", "-O=-3"]

    def command(self, program, model, evidence, _query, _limits):
        """The command line."""
        return [program, model, *([evidence] if evidence else []), *self.options]

    def parse(self, output, _query):
        """The middle of the two bounds on ln Z that toulbar2 prints with three decimals."""
        bounds = re.search(r"(\S+) <= Log\(Z\) <= (\S+)", output)
        if not bounds:
            memory = "bad_alloc" in output or "memory" in output.lower()
            return {"status": "memory" if memory else "failed: no answer"}
        low, high = float(bounds[1]), float(bounds[2])
        return {"value": (low + high) / 2 / log(10), "resolution": (high - low + 1e-3) / 2 / log(10)}
