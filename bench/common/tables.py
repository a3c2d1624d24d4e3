"""Results as Markdown."""

from collections.abc import Iterable
from pathlib import Path


def line(cells: Iterable[str]) -> str:
    """One line of a Markdown table."""
    return "| " + " | ".join(cells) + " |"


def header(names: Iterable[str]) -> list[str]:
    """The first two lines of a Markdown table."""
    names = list(names)
    return [line(names), line(["---"] * len(names))]


def processor() -> str:
    """The name of the CPU, from /proc/cpuinfo."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")
