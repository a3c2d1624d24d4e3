"""Compares zhat with other tools for exact inference. Run by `cargo xtask bench exact`."""

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import forecast
import report
from common import models, tables
from common.tools import Limits, Tool
from tools import find


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="cargo xtask bench exact", description=__doc__)
    parser.add_argument(
        "filters", nargs="*", metavar="FILTER", help="run models whose family/name contains FILTER"
    )
    parser.add_argument("--zhat", required=True, type=os.path.abspath, help="the zhat program")
    parser.add_argument(
        "--all",
        action="store_true",
        help="run every model for which zhat forecasts an exact result within --memory",
    )
    parser.add_argument("--query", choices=["logz", "marginals", "both"], default="both")
    parser.add_argument(
        "--tool",
        action="append",
        metavar="NAME",
        help="run only tools whose name contains NAME; may be repeated",
    )
    parser.add_argument("--limit", type=float, default=60.0, metavar="SECONDS", help="wall time per run (60)")
    parser.add_argument("--memory", type=float, default=8.0, metavar="GIB", help="address space per run (8)")
    parser.add_argument(
        "--forecast", action="store_true", help="run only zhat, and compare its forecasts with measurements"
    )
    parser.add_argument("--note", default="", help="a sentence about the machine for the header")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="also write the results to FILE")
    return parser.parse_args()


def compare(
    tools: list[Tool], chosen: list[models.Model], queries: list[str], limits: Limits
) -> Iterator[str]:
    """The lines of the table: every tool on every model and query."""
    yield from tables.header(report.HEADER)
    for model in chosen:
        for query in queries:
            runs = {}
            for tool in tools:
                print(f"{model.label} {query}: {tool.name}", file=sys.stderr, flush=True)
                if run := tool.run(str(model.path), model.evidence, query, limits):
                    runs[tool.name] = run
            yield from map(tables.line, report.group(model, query, runs))


def head(options: argparse.Namespace, tools: list[Tool], missing: list[str], limits: Limits) -> str:
    """The command, the machine and the versions."""
    switches = [name for name, on in (("--all", options.all), ("--forecast", options.forecast)) if on]
    limited = [f"--query {options.query}", f"--limit {options.limit:g}", f"--memory {options.memory:g}"]
    shown = " ".join([*options.filters, *switches, *limited])
    versions = dict.fromkeys(f"{tool.name.split(',')[0]} {tool.version}" for tool in tools)
    lines = [
        "# Exact inference: results",
        f"`cargo xtask bench exact {shown}`",
        f"{tables.processor()}; one thread. {options.note}".strip(),
        "CPU seconds are the user and system time of the whole process; "
        f"a run stops at {limits.seconds:g} s of wall time or {limits.bytes / 2**30:g} GiB of address space. "
        "[README.md](README.md) explains the columns.",
        "Versions: " + ", ".join(versions) + ".",
        *(f"Left out: {line}." for line in missing),
    ]
    return "\n\n".join(lines)


def main() -> None:
    """Compares tools, or checks forecasts."""
    options = arguments()
    data = os.environ.get("ZHAT_DATA") or sys.exit("ZHAT_DATA must name the folder with uai/INDEX.tsv")
    limits = Limits(options.limit, int(options.memory * 2**30))
    queries = ["logz", "marginals"] if options.query == "both" else [options.query]
    tools, missing = find(options.zhat)
    chosen = models.select(Path(data), options.filters, options.all)
    if options.all:
        chosen = [m for m in chosen if models.fits(m, options.zhat, queries[0], limits.bytes)]
    if not chosen:
        sys.exit("no model matches")
    for line in missing:
        print(f"left out: {line}", file=sys.stderr)
    if options.forecast:
        lines = forecast.check(tools[0], chosen, queries, limits)
    else:
        wanted = [t for t in tools if not options.tool or any(part in t.name for part in options.tool)]
        lines = compare(wanted, chosen, queries, limits)
    text = f"{head(options, tools, missing, limits)}\n\n"
    for line in lines:
        print(line, flush=True)
        text += f"{line}\n"
        if options.output:
            options.output.write_text(text)


if __name__ == "__main__":
    main()
