"""Execution of queries: threads, budgets, and the configuration of this build and machine."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeAlias

from . import _zhat
from ._arguments import integer
from .errors import InputError

Progress: TypeAlias = Callable[[str, int, int], object]
"""Called as `progress(phase, done, total)` several times per second, in the thread that runs the query."""

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


def run(
    seed: int = 0,
    threads: int | None = None,
    memory: int | str | None = None,
    time: float | str | None = None,
    progress: Progress | None = None,
) -> _zhat.Run:
    """Checks the arguments and returns the native description of a run."""
    if progress is not None and not callable(progress):
        raise InputError(f"progress: expected a function of (phase, done, total), found {progress!r}")
    return _zhat.Run(
        integer("seed", seed, 0, 2**64 - 1),
        get_num_threads() if threads is None else integer("threads", threads, 1, _MOST_THREADS),
        None if memory is None else str(memory),
        None if time is None else str(time),
        progress,
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
