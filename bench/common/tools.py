"""A tool and one measured run of it."""

import dataclasses
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

HERE = Path(__file__).resolve().parent
THREADS = [f"{library}_NUM_THREADS" for library in ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "RAYON")]


@dataclass(frozen=True)
class Limits:
    """Limits of one run: wall seconds, bytes of memory, threads, and the processor it is pinned to.

    `bytes` limits the address space, or with `resident` the resident memory, checked 50 times per second.
    """

    seconds: float
    bytes: int
    threads: int = 1
    resident: bool = False
    cpu: int | None = None


@dataclass(frozen=True)
class Run:
    """Wall seconds, CPU seconds and peak bytes of a run.

    `answer` has a `value`, or a `status` that says why there is none.
    """

    wall: float
    cpu: float
    peak: float
    answer: dict[str, Any]


class Adapter(Protocol):
    """The command line of a program, and the parser of its output."""

    QUERIES: tuple[str, ...]

    def command(self, program: str, model: str, evidence: str, query: str, limits: Limits) -> list[str]:
        """The command line."""

    def parse(self, output: str, query: str) -> dict[str, Any]:
        """The answer."""


@dataclass(frozen=True)
class Tool:
    """A Python peer (the module `script`) or a program with its `adapter`."""

    name: str
    version: str
    script: str = ""
    program: str = sys.executable
    adapter: Adapter | None = None

    def run(self, model: str, evidence: str, query: str, limits: Limits) -> Run | None:
        """One measured run; `None` if the tool does not offer the query at all."""
        if adapter := self.adapter:
            if query not in adapter.QUERIES:
                return None
            command = adapter.command(self.program, model, evidence, query, limits)
            return measured(command, limits, lambda output: adapter.parse(output, query))
        run = measured([self.program, "-m", self.script, model, evidence, query], limits)
        return None if run.answer.get("status") == f"not offered: no {query}" else run


def last_answer(output: str) -> dict[str, Any]:
    """The last complete line of JSON: for a run that was stopped, the best answer so far."""
    return json.loads([line for line in output.split("\n")[:-1] if line.startswith("{")][-1])


def measured(command: list[str], limits: Limits, parse: Callable[[str], dict[str, Any]] = last_answer) -> Run:
    """Runs a command and parses its output."""
    started = time.monotonic()
    status, cpu, peak, stopped, output = measure(command, limits)
    wall = time.monotonic() - started
    try:
        answer = parse(output)
    except (IndexError, ValueError):
        answer = {"status": f"failed: exit status {status}"}
    if stopped and "value" not in answer:
        answer = {"status": stopped}
    return Run(wall, cpu, peak, answer)


def measure(command: list[str], limits: Limits) -> tuple[int, float, float, str, str]:
    """Exit status, CPU seconds, peak bytes, the limit that stopped the run (or ""), and the output."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report"
        script = HERE / "measure.py"
        limited = [sys.executable, "-S", "-E", script, json.dumps(dataclasses.asdict(limits)), report]
        environment = os.environ | dict.fromkeys(THREADS, str(limits.threads))
        environment["PYTHONPATH"] = f"{sys.path[0]}{os.pathsep}{HERE.parent}"
        done = subprocess.run(limited + command, cwd=folder, env=environment, capture_output=True, text=True)
        status, cpu, peak, *stopped = report.read_text().split()
    return int(status), float(cpu), float(peak), "".join(stopped), done.stdout or done.stderr


def version_of(program: str) -> str:
    """The first number with dots in the output of `program --version`."""
    done = subprocess.run([program, "--version"], capture_output=True, text=True)
    found = re.search(r"\d+\.\d+[.\d]*", done.stdout + done.stderr)
    return found[0] if found else "unknown"
