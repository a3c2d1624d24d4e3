"""zhat beside other tools for exact inference, as a Markdown table; run by `cargo xtask bench exact`."""

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
    parser.add_argument("filters", nargs="*", metavar="FILTER", help="models whose family/name contains this")
    parser.add_argument("--zhat", required=True, type=os.path.abspath, help="the zhat program")
    parser.add_argument("--all", action="store_true", help="every model that zhat says fits")
    parser.add_argument("--query", choices=["logz", "marginals", "both"], default="both")
    parser.add_argument(
        "--tool", action="append", help="only tools whose name contains this; may be repeated"
    )
    parser.add_argument(
        "--limit", type=float, default=60.0, metavar="SECONDS", help="wall time of a run (60)"
    )
    parser.add_argument("--memory", type=float, default=8.0, metavar="GIB", help="address space of a run (8)")
    parser.add_argument("--forecast", action="store_true", help="zhat's forecasts beside what its runs take")
    parser.add_argument("--note", default="", help="a sentence on the machine for the file's head")
    parser.add_argument("-o", "--output", type=Path, help="also write the result to this file")
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
    """What was run, on what, with which versions."""
    switches = [name for name, on in (("--all", options.all), ("--forecast", options.forecast)) if on]
    limited = [f"--query {options.query}", f"--limit {options.limit:g}", f"--memory {options.memory:g}"]
    shown = " ".join([*options.filters, *switches, *limited])
    versions = dict.fromkeys(f"{tool.name.split(',')[0]} {tool.version}" for tool in tools)
    lines = [
        "# Exact inference: results",
        f"`cargo xtask bench exact {shown}`",
        f"{tables.processor()}; one thread. {options.note}".strip(),
        "CPU seconds are user and system time of the whole process; "
        f"a run ends at {limits.seconds:g} s of wall time or {limits.bytes / 2**30:g} GiB of address space. "
        "What the columns mean is said in [README.md](README.md).",
        "Versions: " + ", ".join(versions) + ".",
        *(f"Left out: {line}." for line in missing),
    ]
    return "\n\n".join(lines)


def main() -> None:
    """Compares, or checks the forecasts."""
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
