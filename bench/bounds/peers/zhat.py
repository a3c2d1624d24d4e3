"""zhat with one of its approximate methods, or `auto`."""

import json
from dataclasses import dataclass
from math import inf, log

# The share of the limits given to zhat; the rest is for startup, input and output, and memory besides tables.
SHARE = 0.9


@dataclass(frozen=True)
class Zhat:
    """The program with `--method METHOD`."""

    method: str
    QUERIES = ("logz", "marginals")

    def command(self, program, model, evidence, query, limits):
        """The command line."""
        options = ["--method", self.method, "--threads", "1", "--json"]
        options += ["--time", f"{SHARE * limits.seconds:g}s", "--memory", str(int(SHARE * limits.bytes))]
        return [program, query, model, *(["--evidence", evidence] if evidence else []), *options]

    def parse(self, output, query):
        """The result with its bounds, or the kind of the error."""
        answer = json.loads(output.splitlines()[-1])
        if "error" in answer:
            kind = answer["error"]["kind"]
            return {"status": f"not offered: no {query}" if kind == "unsupported" else f"failed: {kind}"}
        told = {"method": answer["method"], "seconds": answer["diagnostics"]["seconds"]}
        if query == "marginals":
            return told | {"value": [v["p"] for v in answer["variables"]]}
        guarantee = answer["guarantee"]
        if guarantee["kind"] == "exact":
            guarantee = dict.fromkeys(("low", "high"), answer["value"]) | {"confidence": 1.0}
        if "confidence" in guarantee:
            for end, none in (("low", -inf), ("high", inf)):
                told[end] = none if guarantee[end] is None else guarantee[end] / log(10)
            told["confidence"] = guarantee["confidence"]
        return told | {"value": -inf if answer["log10"] is None else answer["log10"]}
