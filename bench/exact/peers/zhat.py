"""zhat with the exact method of lowest forecast cost."""

import json

QUERIES = ("logz", "marginals")


def command(program, model, evidence, query, limits):
    """The command line."""
    options = ["--method", "exact", "--threads", "1", "--memory", str(limits.bytes), "--json"]
    return [program, query, model, *(["--evidence", evidence] if evidence else []), *options]


def parse(output, query):
    """The result with its plan, or the kind of the error."""
    answer = json.loads(output.splitlines()[-1])
    if "error" in answer:
        kind = answer["error"]["kind"]
        return {"status": "memory" if "memory" in kind or "budget" in kind else f"failed: {kind}"}
    value = answer["log10"] if query == "logz" else [v["p"] for v in answer["variables"]]
    return {"value": value, "seconds": answer["diagnostics"]["seconds"], "plan": answer["plan"]}
