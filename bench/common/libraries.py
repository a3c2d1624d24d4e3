"""Compares Python libraries: the command line, the runs and the table that chains and trees share."""

import argparse
import importlib.metadata
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

from common import tables
from common.tools import Limits, Run, measured

# Calls of one library are repeated at most this long.
CALL_SECONDS = 15


@dataclass(frozen=True)
class Peer:
    """A name in the table, its file in `peers/`, and the Python package it needs."""

    name: str
    script: str
    package: str

    @property
    def version(self) -> str | None:
        """The version of the package, or `None` if it is not installed."""
        try:
            return f"{self.package} {importlib.metadata.version(self.package)}"
        except importlib.metadata.PackageNotFoundError:
            return None


ZHAT = Peer("zhat", "zhat", "zhat")


@dataclass(frozen=True)
class Comparison:
    """A benchmark.

    `figures` gives the cells of a library's row from its run and that of zhat; rows are sorted by the time
    `key`. `check` raises a `ValueError` for a case that it does not know.
    """

    name: str
    title: str
    cases: str
    metavar: str
    cases_help: str
    seconds: float
    peers: tuple[Peer, ...]
    header: tuple[str, ...]
    key: str
    figures: Callable[[Run, Run], list[str]]
    check: Callable[[str], Any]

    def main(self) -> None:
        """Runs all libraries on all cases."""
        options = self.arguments()
        cases = options.cases.split(",")
        try:
            for case in cases:
                self.check(case)
        except ValueError as error:
            sys.exit(f"--cases: {error}")
        peers = self.installed(options.peers.split(","))
        os.environ |= {"CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu"}
        cpu = None
        if options.threads == 1:
            cpu = max(os.sched_getaffinity(0))
            os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
        limits = Limits(options.limit, int(options.memory * 2**30), options.threads, resident=True, cpu=cpu)
        text = f"{self.head(options, peers)}\n\n"
        print(text, flush=True)
        for line in self.compare(cases, peers, limits, options.reps):
            print(line, flush=True)
            text += f"{line}\n"
            if options.output:
                options.output.write_text(text)

    def arguments(self) -> argparse.Namespace:
        """The command line."""
        names = ",".join(peer.name for peer in self.peers)
        parser = argparse.ArgumentParser(prog=f"cargo xtask bench {self.name}", description=self.title)
        add = parser.add_argument
        cases = f"{self.cases_help} ({self.cases})"
        add("--cases", default=self.cases, metavar=f"{self.metavar},…", help=cases)
        add("--peers", default=names, metavar="NAME,…", help=f"libraries, separated by commas ({names})")
        add("--threads", type=int, default=1, metavar="N", help="threads of each library (1)")
        add("--reps", type=int, default=20, metavar="N", help="timed calls (20)")
        limit = f"wall time per run ({self.seconds:g})"
        add("--limit", type=float, default=self.seconds, metavar="SECONDS", help=limit)
        add("--memory", type=float, default=8.0, metavar="GIB", help="resident memory per run (8)")
        add("--note", default="", help="a sentence about the machine for the header")
        add("-o", "--output", type=Path, metavar="FILE", help="also write the results to FILE")
        return parser.parse_args()

    def installed(self, names: list[str]) -> list[Peer]:
        """The peers with these names that are installed."""
        known = {peer.name: peer for peer in self.peers}
        if unknown := [name for name in names if name not in known]:
            sys.exit(f"no library {', '.join(unknown)}; choose from {', '.join(known)}")
        for name in names:
            if known[name].version is None:
                print(f"left out: {name}: {known[name].package} is not installed", file=sys.stderr)
        return [known[name] for name in names if known[name].version]

    def head(self, options: argparse.Namespace, peers: list[Peer]) -> str:
        """The command, the machine and the versions."""
        names = ",".join(peer.name for peer in peers)
        chosen = f"--cases {options.cases} --peers {names} --threads {options.threads}"
        limits = f"--reps {options.reps} --limit {options.limit:g} --memory {options.memory:g}"
        threads = "one thread, pinned to one core" if options.threads == 1 else f"{options.threads} threads"
        versions = dict.fromkeys(peer.version or peer.name for peer in (ZHAT, *peers))
        lines = [
            f"# {self.title}",
            f"`cargo xtask bench {self.name} {chosen} {limits}`",
            f"{tables.processor()}; {threads}. {options.note}".strip(),
            f"A run stops at {options.limit:g} s of wall time or {options.memory:g} GiB of resident memory. "
            "[README.md](README.md) explains the columns.",
            f"Versions: {', '.join(versions)}.",
        ]
        return "\n\n".join(lines)

    def compare(self, cases: list[str], peers: list[Peer], limits: Limits, calls: int) -> Iterator[str]:
        """The lines of the table: every library on every case that it offers, the fastest first."""
        yield from tables.header(self.header)
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
            for name, run in sorted(runs.items(), key=lambda item: item[1].answer.get(self.key, inf)):
                yield self.row(case, name, run, zhat)

    def row(self, case: str, name: str, run: Run, zhat: Run) -> str:
        """One line of the table."""
        cells = self.figures(run, zhat) if "value" in run.answer else [run.answer["status"]]
        return tables.line([case, name, *cells, *[""] * (len(self.header) - 2 - len(cells))])


def milliseconds(seconds: float) -> str:
    """Two decimals below 10 ms, one above."""
    return f"{1000 * seconds:.{2 if seconds < 0.01 else 1}f}"


def memory(run: Run) -> list[str]:
    """The peak of resident memory, and what the library added to its imports and the problem."""
    own = run.peak - run.answer["base_bytes"] + run.answer["model_bytes"]
    return [f"{run.peak / 2**20:.0f}", f"{own / 2**20:.0f}"]


def repeated(solve: Callable[[], Any], calls: int, seconds: float) -> dict[str, Any]:
    """The smallest CPU and wall times of calls, until `calls` are done or `seconds` have passed."""
    wall: list[float] = []
    cpu: list[float] = []
    started = time.perf_counter()
    while not cpu or (len(cpu) < calls and time.perf_counter() - started < seconds):
        clocks = time.perf_counter(), time.process_time()
        solve()
        wall.append(time.perf_counter() - clocks[0])
        cpu.append(time.process_time() - clocks[1])
    return {"cpu_min": min(cpu), "wall_min": min(wall), "calls": len(cpu)}
