"""A tool and one measured run of it."""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Limits:
    """Of one run: wall seconds and bytes of address space."""

    seconds: float
    bytes: int


@dataclass(frozen=True)
class Run:
    """What a run gave and took; `answer` has a `value`, or a `status` that says why not."""

    wall: float
    cpu: float
    peak: float
    answer: dict[str, Any]


class Adapter(Protocol):
    """How a program is asked, and what its output says."""

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
        """One measured run; nothing if the tool has no such query at all."""
        if self.adapter:
            if query not in self.adapter.QUERIES:
                return None
            command = self.adapter.command(self.program, model, evidence, query, limits)
        else:
            command = [self.program, "-m", self.script, model, evidence, query]
        started = time.monotonic()
        status, cpu, peak, timed_out, output = measure(command, limits)
        wall = time.monotonic() - started
        try:
            answer = self.adapter.parse(output, query) if self.adapter else last_answer(output)
        except (IndexError, ValueError):
            answer = {"status": f"failed: exit status {status}"}
        if timed_out and "value" not in answer:
            answer = {"status": "time"}
        return None if answer.get("status") == f"not offered: no {query}" else Run(wall, cpu, peak, answer)


def last_answer(output: str) -> dict[str, Any]:
    """The last line of JSON that was printed whole: of a run that time ended, the best answer so far."""
    return json.loads([line for line in output.split("\n")[:-1] if line.startswith("{")][-1])


def measure(command: list[str], limits: Limits) -> tuple[int, float, float, bool, str]:
    """Exit status, CPU seconds, peak bytes, whether time ran out, and what was printed."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report"
        script = HERE / "measure.py"
        limited = [sys.executable, "-S", "-E", script, str(limits.seconds), str(limits.bytes), report]
        environment = os.environ | {"PYTHONPATH": f"{sys.path[0]}{os.pathsep}{HERE.parent}"}
        done = subprocess.run(limited + command, cwd=folder, env=environment, capture_output=True, text=True)
        status, cpu, peak, timed_out = report.read_text().split()
    return int(status), float(cpu), float(peak), timed_out == "1", done.stdout or done.stderr


def version_of(program: str) -> str:
    """The first number with dots that the program prints about itself."""
    done = subprocess.run([program, "--version"], capture_output=True, text=True)
    found = re.search(r"\d+\.\d+[.\d]*", done.stdout + done.stderr)
    return found[0] if found else "unknown"
