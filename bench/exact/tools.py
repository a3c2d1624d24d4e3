"""The tools, and which of them are installed."""

import importlib.metadata
import importlib.util
import shutil

from common.tools import Tool, version_of
from peers import zhat
from peers.toulbar2 import Toulbar2


def find(zhat_program: str) -> tuple[list[Tool], list[str]]:
    """The installed tools, zhat first, and one line for each that is not installed."""
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
            tools.append(Tool(name, importlib.metadata.version(package), script=f"peers.{script}"))
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
