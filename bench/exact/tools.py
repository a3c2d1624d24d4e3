"""The tools, whether they are here, and one measured run of one of them."""

import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from peers import zhat
from peers.toulbar2 import Toulbar2

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Limits:
    """Of one run: wall seconds and bytes of address space."""

    seconds: float
    bytes: int


@dataclass(frozen=True)
class Run:
    """What a run gave and took; `answer` has a `value`, or a `status` that says why not."""

    cpu: float
    peak: float
    answer: dict[str, Any]


@dataclass(frozen=True)
class Tool:
    """A Python peer (`script`) or a program with its `adapter`."""

    name: str
    version: str
    script: str = ""
    program: str = ""
    adapter: ModuleType | Toulbar2 | None = None

    def run(self, model: str, evidence: str, query: str, limits: Limits) -> Run | None:
        """One measured run; nothing if the tool has no such query at all."""
        if self.adapter:
            if query not in self.adapter.QUERIES:
                return None
            command = self.adapter.command(self.program, model, evidence, query, limits.bytes)
        else:
            command = [sys.executable, "-m", f"peers.{self.script}", model, evidence, query]
        status, cpu, peak, timed_out, output = measure(command, limits)
        if timed_out:
            return Run(cpu, peak, {"status": "time"})
        try:
            answer = (
                self.adapter.parse(output, query) if self.adapter else json.loads(output.splitlines()[-1])
            )
        except (IndexError, ValueError):
            answer = {"status": f"failed: exit status {status}"}
        return None if answer.get("status") == f"not offered: no {query}" else Run(cpu, peak, answer)


def measure(command: list[str], limits: Limits) -> tuple[int, float, float, bool, str]:
    """Exit status, CPU seconds, peak bytes, whether time ran out, and what was printed."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report"
        measured = [
            sys.executable,
            "-S",
            "-E",
            HERE / "measure.py",
            str(limits.seconds),
            str(limits.bytes),
            report,
        ]
        environment = os.environ | {"PYTHONPATH": str(HERE)}
        done = subprocess.run(measured + command, cwd=folder, env=environment, capture_output=True, text=True)
        status, cpu, peak, timed_out = report.read_text().split()
    return int(status), float(cpu), float(peak), timed_out == "1", done.stdout or done.stderr


def find(zhat_program: str) -> tuple[list[Tool], list[str]]:
    """The tools that are here, zhat first, and a line on each that is not."""
    tools, missing = [Tool("zhat", version_of(zhat_program), program=zhat_program, adapter=zhat)], []
    if program := shutil.which("toulbar2"):
        for neighbours in (12, 24):
            adapter = Toulbar2(neighbours)
            name = f"toulbar2, -p={neighbours}"
            tools.append(Tool(name, version_of(program), program=program, adapter=adapter))
    else:
        missing.append("toulbar2 is not on PATH (Debian package `toulbar2`)")
    for name, package, script in PYTHON:
        if importlib.util.find_spec(package):
            tools.append(Tool(name, importlib.metadata.version(package), script=script))
        else:
            missing.append(f"{name}: the Python package {package} is not installed")
    return tools, missing


PYTHON = (
    ("pyAgrum", "pyagrum", "pyagrum"),
    ("pyAgrum, own reader", "pyagrum", "pyagrum_reader"),
    ("pyGMs", "pygms", "pygms"),
    ("pgmpy", "pgmpy", "pgmpy"),
    ("pgmpy, own reader", "pgmpy", "pgmpy_reader"),
    ("NumPy elimination", "numpy", "numpy_elimination"),
)


def version_of(program: str) -> str:
    """The first number with dots that the program prints about itself."""
    done = subprocess.run([program, "--version"], capture_output=True, text=True)
    found = re.search(r"\d+\.\d+[.\d]*", done.stdout + done.stderr)
    return found[0] if found else "unknown"
