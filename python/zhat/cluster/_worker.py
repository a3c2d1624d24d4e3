"""What a worker does: the units of one task.

A worker process keeps the models and divisions of its last tasks, so a model comes to it once.
"""

from __future__ import annotations

import platform
import signal
from collections import OrderedDict
from typing import NamedTuple

from .. import _zhat
from ..errors import InputError
from ..runtime import run as budgets
from ._division import native_division


class Job(NamedTuple):
    """What all tasks of a run have in common."""

    version: str
    level: str
    model: str
    query: str
    arguments: tuple[str, str, int, str]
    threads: int
    mixed: bool


def quiet() -> None:
    """Leaves Ctrl-C to the process that started this worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


_MOST = 4
_divisions: OrderedDict[Job, _zhat.Division] = OrderedDict()


def work(job: Job, start: int, stop: int, model: bytes | None) -> bytes | None:
    """The part with these units; `None` if the worker needs the model first.

    A worker with another version of zhat, other vector instructions or another model is refused before it
    does anything.
    """
    division = _divisions.get(job)
    if division is None:
        if model is None:
            return None
        _check(job)
        native = _zhat.Model.from_bytes(model)
        if (found := _zhat.model_hash(native)) != job.model:
            raise InputError(f"model: on {platform.node()} it has the hash {found}, expected {job.model}")
        division = native_division(native, job.query, job.arguments, job.threads)
        _divisions[job] = division
        while len(_divisions) > _MOST:
            _divisions.popitem(last=False)
    _, _, seed, memory = job.arguments
    return division.part(start, stop, budgets(seed, job.threads, memory))


def _check(job: Job) -> None:
    if _zhat.__version__ != job.version:
        raise InputError(
            f"on: {platform.node()} has zhat {_zhat.__version__}, expected {job.version} as here"
        )
    level = _zhat.machine()["simd"]
    if level != job.level and not job.mixed:
        raise InputError(
            f"on: {platform.node()} uses the vector instructions {level}, expected {job.level} as here; "
            f"set ZHAT_SIMD everywhere, or allow it with mixed=True"
        )
