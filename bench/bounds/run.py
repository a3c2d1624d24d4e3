"""Compares zhat with other tools for approximate inference. Run by `cargo xtask bench bounds`."""

import argparse
import json
import os
import sys
from pathlib import Path

import report
import score
from common import models
from common.tools import Limits, Run, Tool
from tools import find


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="cargo xtask bench bounds", description=__doc__)
    parser.add_argument(
        "filters", nargs="*", metavar="FILTER", help="run models whose family/name contains FILTER"
    )
    parser.add_argument("--zhat", required=True, type=os.path.abspath, help="the zhat program")
    parser.add_argument("--python", metavar="PROGRAM", help="a Python interpreter that has pomegranate")
    parser.add_argument("--query", choices=["logz", "marginals", "both"], default="both")
    parser.add_argument(
        "--tool",
        action="append",
        metavar="NAME",
        help="run only methods whose name contains NAME; may be repeated",
    )
    parser.add_argument("--limit", type=float, default=20.0, metavar="SECONDS", help="wall time per run (20)")
    parser.add_argument("--memory", type=float, default=8.0, metavar="GIB", help="address space per run (8)")
    parser.add_argument(
        "--results",
        type=Path,
        required=True,
        metavar="FILE",
        help="append one line of JSON per run to FILE; runs that are in FILE are not repeated",
    )
    parser.add_argument("--report", action="store_true", help="run nothing; print the file as Markdown")
    parser.add_argument("--note", default="", help="a sentence about the machine for the header")
    return parser.parse_args()


def recorded(model: models.Model, query: str, tool: Tool, limits: Limits, run: Run) -> dict:
    """The record of a run: the error of marginals; log Z with its bounds."""
    record = key(model, query, tool, limits)
    record |= {"version": tool.version, "memory": limits.bytes}
    record |= {"wall": run.wall, "cpu": run.cpu, "peak": run.peak}
    answer = dict(run.answer)
    if "value" in answer:
        answer["error"] = score.error(model, query, answer["value"])
    if query == "marginals":
        answer.pop("value", None)
    return record | answer


def key(model: models.Model, query: str, tool: Tool, limits: Limits) -> dict:
    """Identifies a run."""
    return {"model": model.label, "query": query, "tool": tool.name, "limit": limits.seconds}


def main() -> None:
    """Runs what is not in the file, or prints the file."""
    options = arguments()
    data = os.environ.get("ZHAT_DATA") or sys.exit("ZHAT_DATA must name the folder with uai/INDEX.tsv")
    chosen = models.select(Path(data), options.filters, everything=True)
    known = [json.loads(line) for line in options.results.open()] if options.results.exists() else []
    if options.report:
        print(report.render(chosen, known, options.note))
        return
    tools, missing = find(options.zhat, options.python)
    for line in missing:
        print(f"left out: {line}", file=sys.stderr)
    if options.tool:
        tools = [t for part in options.tool for t in tools if part in t.name]
    limits = Limits(options.limit, int(options.memory * 2**30))
    queries = ["logz", "marginals"] if options.query == "both" else [options.query]
    with options.results.open("a") as file:
        for tool in tools:
            for query in queries:
                for model in (m for m in chosen if m.reference(query)):
                    wanted = key(model, query, tool, limits)
                    if any(wanted.items() <= record.items() for record in known):
                        continue
                    run = tool.run(str(model.path), model.evidence, query, limits)
                    if run is None:
                        break
                    record = recorded(model, query, tool, limits, run)
                    file.write(json.dumps(record) + "\n")
                    file.flush()
                    shown = record.get("error", record.get("status"))
                    print(*wanted.values(), f"{run.wall:.1f} s: {shown}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
