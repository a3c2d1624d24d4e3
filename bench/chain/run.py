"""Compares zhat with other libraries on chains: log Z and all gradients. Run by `cargo xtask bench chain`."""

import argparse
import os
import sys
from collections.abc import Iterator
from math import inf
from pathlib import Path

from common import tables
from common.tools import Limits, Run, measured
from tools import PEERS, ZHAT, Peer

CASES = "64:16:1,64:64:8,256:16:1,256:64:8,1000:16:1,1000:64:8,2000:16:1,2000:64:8"
# Calls of one library are repeated at most this long.
CALL_SECONDS = 15
HEADER = ("N:T:B", "library", "CPU ms", "× zhat", "peak MiB", "own MiB", "Δ gradient")  # noqa: RUF001


def arguments() -> argparse.Namespace:
    """The command line."""
    names = ",".join(peer.name for peer in PEERS)
    parser = argparse.ArgumentParser(prog="cargo xtask bench chain", description=__doc__)
    parser.add_argument(
        "--cases",
        default=CASES,
        metavar="N:T:B,…",
        help=f"numbers of states, positions and sequences, separated by commas ({CASES})",
    )
    parser.add_argument(
        "--peers", default=names, metavar="NAME,…", help=f"libraries, separated by commas ({names})"
    )
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="threads of each library (1)")
    parser.add_argument("--reps", type=int, default=20, metavar="N", help="timed calls (20)")
    parser.add_argument("--limit", type=float, default=60.0, metavar="SECONDS", help="wall time per run (60)")
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
        "# Chains: log Z and all gradients compared with other libraries",
        f"`cargo xtask bench chain {chosen} {limits}`",
        f"{tables.processor()}; {threads}. {options.note}".strip(),
        f"A run stops at {options.limit:g} s of wall time or {options.memory:g} GiB of resident memory. "
        "[README.md](README.md) explains the columns.",
        f"Versions: {', '.join(versions)}.",
    ]
    return "\n\n".join(lines)


def milliseconds(seconds: float) -> str:
    """Two decimals below 10 ms, one above."""
    return f"{1000 * seconds:.{2 if seconds < 0.01 else 1}f}"


def row(case: str, name: str, run: Run, zhat: Run) -> str:
    """One line of the table."""
    if "value" not in run.answer:
        return tables.line([case, name, "", "", "", "", run.answer["status"]])
    answer, reference = run.answer, zhat.answer
    agrees = abs(answer["value"] - reference["value"]) <= 1e-4 * max(1.0, abs(reference["value"]))
    largest = reference["transition_gradient_max"]
    difference = abs(answer["transition_gradient_max"] - largest) / largest
    figures = [
        milliseconds(answer["cpu_min"]),
        f"{answer['cpu_min'] / reference['cpu_min']:.3g}",
        f"{run.peak / 2**20:.0f}",
        f"{(run.peak - answer['base_bytes'] + answer['model_bytes']) / 2**20:.0f}",
        f"{difference:.0e}" if agrees else f"**log Z {answer['value']:.4f}**",
    ]
    return tables.line([case, name, *figures])


def compare(cases: list[str], peers: list[Peer], limits: Limits, calls: int) -> Iterator[str]:
    """The lines of the table: every library on every case, the fastest first."""
    yield from tables.header(HEADER)
    for case in cases:
        runs = {}
        for peer in (ZHAT, *peers):
            print(f"{case}: {peer.name}", file=sys.stderr, flush=True)
            sizes = [*case.split(":"), str(limits.threads), str(calls), str(CALL_SECONDS)]
            command = [sys.executable, "-m", f"peers.{peer.script}", peer.name, *sizes]
            runs[peer.name] = measured(command, limits)
        zhat = runs["zhat"]
        if "value" not in zhat.answer:
            sys.exit(f"zhat on {case}: {zhat.answer['status']}")
        for name, run in sorted(runs.items(), key=lambda item: item[1].answer.get("cpu_min", inf)):
            yield row(case, name, run, zhat)


def main() -> None:
    """Runs all libraries on all cases."""
    options = arguments()
    peers = installed(options.peers.split(","))
    os.environ |= {"CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu"}
    cpu = None
    if options.threads == 1:
        cpu = max(os.sched_getaffinity(0))
        os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    limits = Limits(options.limit, int(options.memory * 2**30), options.threads, resident=True, cpu=cpu)
    text = f"{head(options, peers)}\n\n"
    print(text, flush=True)
    for line in compare(options.cases.split(","), peers, limits, options.reps):
        print(line, flush=True)
        text += f"{line}\n"
        if options.output:
            options.output.write_text(text)


if __name__ == "__main__":
    main()
