"""Compares zhat with other libraries on trees. Run by `cargo xtask bench tree`."""

import argparse
import os
import sys
from collections.abc import Iterator
from math import inf
from pathlib import Path

from common import tables
from common.tools import Limits, Run, measured
from problem import parsed
from tools import PEERS, ZHAT, Peer

CASES = (
    "dependency:20:32,dependency:40:32,dependency:80:32,nonprojective:40:32,span:20:40:8,"
    "cfg:30:60:20:8,cfg:30:60:40:8,cfg:64:64:20:8,grammar:60:4,grammar:1200:25"
)
# Calls of one library are repeated at most this long.
CALL_SECONDS = 15
HEADER = ("case", "library", "ms", "× zhat", "CPU ms", "peak MiB", "own MiB", "Δ log Z", "Δ gradient")  # noqa: RUF001


def arguments() -> argparse.Namespace:
    """The command line."""
    names = ",".join(peer.name for peer in PEERS)
    parser = argparse.ArgumentParser(prog="cargo xtask bench tree", description=__doc__)
    parser.add_argument(
        "--cases",
        default=CASES,
        metavar="CASE,…",
        help=f"kinds of problem with their sizes, separated by commas; README.md lists them ({CASES})",
    )
    parser.add_argument(
        "--peers", default=names, metavar="NAME,…", help=f"libraries, separated by commas ({names})"
    )
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="threads of each library (1)")
    parser.add_argument("--reps", type=int, default=20, metavar="N", help="timed calls (20)")
    parser.add_argument(
        "--limit", type=float, default=300.0, metavar="SECONDS", help="wall time per run (300)"
    )
    parser.add_argument(
        "--memory", type=float, default=8.0, metavar="GIB", help="resident memory per run (8)"
    )
    parser.add_argument("--note", default="", help="a sentence about the machine for the header")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="also write the results to FILE")
    return parser.parse_args()


def installed(names: list[str]) -> list[Peer]:
    """The peers with these names that are installed."""
    known = {peer.name: peer for peer in PEERS}
    if unknown := [name for name in names if name not in known]:
        sys.exit(f"no library {', '.join(unknown)}; choose from {', '.join(known)}")
    for name in names:
        if known[name].version is None:
            print(f"left out: {name}: {known[name].package} is not installed", file=sys.stderr)
    return [known[name] for name in names if known[name].version]


def head(options: argparse.Namespace, peers: list[Peer]) -> str:
    """The command, the machine and the versions."""
    names = ",".join(peer.name for peer in peers)
    chosen = f"--cases {options.cases} --peers {names} --threads {options.threads}"
    limits = f"--reps {options.reps} --limit {options.limit:g} --memory {options.memory:g}"
    threads = "one thread, pinned to one core" if options.threads == 1 else f"{options.threads} threads"
    versions = dict.fromkeys(peer.version or peer.name for peer in (ZHAT, *peers))
    lines = [
        "# Trees: log Z, gradients and best trees compared with other libraries",
        f"`cargo xtask bench tree {chosen} {limits}`",
        f"{tables.processor()}; {threads}. {options.note}".strip(),
        f"A run stops at {options.limit:g} s of wall time or {options.memory:g} GiB of resident memory. "
        "[README.md](README.md) explains the columns.",
        f"Versions: {', '.join(versions)}.",
    ]
    return "\n\n".join(lines)


def milliseconds(seconds: float) -> str:
    """Two decimals below 10 ms, one above."""
    return f"{1000 * seconds:.{2 if seconds < 0.01 else 1}f}"


def difference(value: float, reference: float) -> str:
    """Relative to the reference, and in bold if it is more than rounding in single precision."""
    relative = abs(value - reference) / max(1.0, abs(reference))
    return f"{relative:.0e}" if relative <= 1e-4 else f"**{relative:.0e}**"


def row(case: str, name: str, run: Run, zhat: Run) -> str:
    """One line of the table."""
    if "value" not in run.answer:
        return tables.line([case, name, "", "", "", "", "", run.answer["status"], ""])
    answer, reference = run.answer, zhat.answer
    gradient = reference["gradient_norm"]
    figures = [
        milliseconds(answer["wall_min"]),
        f"{answer['wall_min'] / reference['wall_min']:.3g}",
        milliseconds(answer["cpu_min"]),
        f"{run.peak / 2**20:.0f}",
        f"{(run.peak - answer['base_bytes'] + answer['model_bytes']) / 2**20:.0f}",
        difference(answer["value"], reference["value"]),
        difference(answer["gradient_norm"], gradient) if gradient else "",
    ]
    return tables.line([case, name, *figures])


def compare(cases: list[str], peers: list[Peer], limits: Limits, calls: int) -> Iterator[str]:
    """The lines of the table: every library on every case that it offers, the fastest first."""
    yield from tables.header(HEADER)
    for case in cases:
        runs = {}
        for peer in (ZHAT, *peers):
            print(f"{case}: {peer.name}", file=sys.stderr, flush=True)
            sizes = [case, str(limits.threads), str(calls), str(CALL_SECONDS)]
            run = measured([sys.executable, "-m", f"peers.{peer.script}", peer.name, *sizes], limits)
            if not run.answer.get("status", "").startswith("not offered"):
                runs[peer.name] = run
        zhat = runs["zhat"]
        if "value" not in zhat.answer:
            sys.exit(f"zhat on {case}: {zhat.answer['status']}")
        for name, run in sorted(runs.items(), key=lambda item: item[1].answer.get("wall_min", inf)):
            yield row(case, name, run, zhat)


def main() -> None:
    """Runs all libraries on all cases."""
    options = arguments()
    cases = options.cases.split(",")
    try:
        for case in cases:
            parsed(case)
    except ValueError as error:
        sys.exit(f"--cases: {error}")
    peers = installed(options.peers.split(","))
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    cpu = max(os.sched_getaffinity(0)) if options.threads == 1 else None
    limits = Limits(options.limit, int(options.memory * 2**30), options.threads, resident=True, cpu=cpu)
    text = f"{head(options, peers)}\n\n"
    print(text, flush=True)
    for line in compare(cases, peers, limits, options.reps):
        print(line, flush=True)
        text += f"{line}\n"
        if options.output:
            options.output.write_text(text)


if __name__ == "__main__":
    main()
