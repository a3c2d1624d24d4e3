"""Execution of queries: threads, budgets, and the configuration of this build and machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TypeAlias

from . import _zhat
from ._arguments import integer
from .errors import InputError

Progress: TypeAlias = "Callable[[str, int, int], object] | bool"
"""Called as `progress(phase, done, total)` several times per second, in the thread that runs the query.

`True` shows a line on stderr instead.
"""

# Creating a pool with more threads takes longer than any query would gain.
_MOST_THREADS = 1024

_threads: int | None = None


def set_num_threads(n: int) -> None:
    """Sets the default number of threads of queries. Answers do not depend on it.

    >>> import zhat
    >>> before = zhat.get_num_threads()
    >>> zhat.set_num_threads(1)
    >>> zhat.get_num_threads()
    1
    >>> zhat.set_num_threads(before)
    """
    global _threads
    _threads = integer("n", n, 1, _MOST_THREADS)


def get_num_threads() -> int:
    """The default number of threads of queries; initially the number of processors."""
    return _zhat.processors() if _threads is None else _threads


class ProgressLine:
    """Shows the progress of a query as one line on stderr, which it clears at the end."""

    def __init__(self) -> None:
        """Nothing is shown yet."""
        self._width = 0

    def __call__(self, phase: str, done: int, total: int) -> None:
        """Replaces the line."""
        share = f" {100 * done // total:3d}%" if total else ""
        self._show(f"{phase}{share}")

    def clear(self) -> None:
        """Removes the line."""
        if self._width:
            self._show("")
            sys.stderr.write("\r")
            sys.stderr.flush()

    def _show(self, line: str) -> None:
        sys.stderr.write("\r" + line.ljust(self._width))
        sys.stderr.flush()
        self._width = len(line)


def run(
    seed: int = 0,
    threads: int | None = None,
    memory: int | str | None = None,
    time: float | str | None = None,
    progress: Progress | None = None,
    partial: bool = False,
) -> _zhat.Run:
    """Checks the arguments and returns the native description of a run."""
    shown = ProgressLine() if progress is True else (progress or None)
    if shown is not None and not callable(shown):
        raise InputError(f"progress: expected True or a function of (phase, done, total), found {progress!r}")
    return _zhat.Run(
        integer("seed", seed, 0, 2**64 - 1),
        get_num_threads() if threads is None else integer("threads", threads, 1, _MOST_THREADS),
        None if memory is None else str(memory),
        None if time is None else str(time),
        shown,
        bool(partial),
    )


def config() -> dict[str, object]:
    """The configuration printed by `show_config`, as a dict."""
    machine = _zhat.machine()
    return {
        "version": _zhat.__version__,
        "simd": machine["simd"],
        "simd_detected": machine["simd_detected"],
        "threads": get_num_threads(),
        "memory": machine["memory"],
        "ZHAT_SIMD": os.environ.get("ZHAT_SIMD"),
        "ZHAT_DATA": os.environ.get("ZHAT_DATA"),
    }


def show_config() -> None:
    """Prints the version, SIMD instructions, number of threads, memory budget and environment variables.

    >>> import zhat
    >>> zhat.show_config()  # doctest: +ELLIPSIS
    version        ...
    simd           ...
    simd_detected  ...
    threads        ...
    memory         ...
    ZHAT_SIMD      ...
    ZHAT_DATA      ...
    """
    facts = config() | {"memory": _zhat.format_bytes(_zhat.machine()["memory"])}
    for name, value in facts.items():
        print(f"{name:<13}  {'not set' if value is None else value}")
