"""The methods, and which of them are installed."""

import subprocess
import sys

from common.tools import Tool, version_of
from peers.zhat import Zhat

ZHAT = ("bp", "mean-field", "trw", "wmb", "anytime-bounds", "wmb-is", "auto")
PYTHON = (
    ("pyGMs LBP", "pyGMs", "pygms_lbp"),
    ("pyGMs WMB", "pyGMs", "pygms_wmb"),
    ("pomegranate LBP", "pomegranate", "pomegranate"),
)


def find(zhat_program: str, other_python: str | None) -> tuple[list[Tool], list[str]]:
    """The installed methods, zhat first, and one line for each that is not installed."""
    version = version_of(zhat_program)
    tools = [Tool(f"zhat {name}", version, program=zhat_program, adapter=Zhat(name)) for name in ZHAT]
    missing = []
    for name, package, script in PYTHON:
        for python in filter(None, (sys.executable, other_python)):
            if version := package_version(python, package):
                tools.append(Tool(name, version, script=f"peers.{script}", program=python))
                break
        else:
            missing.append(f"{name}: the Python package {package} is not installed")
    return tools, missing


def package_version(python: str, package: str) -> str:
    """The version of a package of this Python interpreter; empty if it is not installed."""
    code = f"import importlib.metadata as m; print(m.version({package!r}))"
    return subprocess.run([python, "-c", code], capture_output=True, text=True).stdout.strip()
