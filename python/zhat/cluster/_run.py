"""A divided query, from its first task to the merged answer."""

from __future__ import annotations

import math
import time as clocks
from collections.abc import Callable
from typing import Any

from .. import _zhat
from .._arguments import FilePath
from .._model import Model
from ..answer import Answer
from ..errors import InputError, OverBudgetError
from ..runtime import ProgressLine
from ._backends import Backend, backend_of
from ._division import MEMORY, Division
from ._kept import Kept
from ._worker import Job

TASK_SECONDS = 1.0
"""The time that a task should take."""
_AHEAD = 2
"""Tasks that are sent ahead, for each worker."""


def run(
    model: Model[Any, Any, Any, Any, Any, Any],
    query: str = "log_partition",
    *,
    method: str,
    on: Any = 2,
    seed: int = 0,
    memory: int | str = MEMORY,
    threads: int = 1,
    error: float | None = None,
    time: float | None = None,
    keep: FilePath | None = None,
    mixed: bool = False,
    task_seconds: float = TASK_SECONDS,
    progress: bool | Callable[[str, int, int], object] | None = None,
    given: Any = None,
    input: Any = None,
    **options: object,
) -> Answer[Any]:
    """The answer of a query whose work is divided over processes and machines.

    Without `error` and `time` it has the bits of one run, whatever the workers and their number.

    - `on`: a number of local processes, a `concurrent.futures.Executor`, `"ray"` for a Ray cluster on this
      machine or the one that is connected, or the address of a Ray cluster
    - `threads`: threads of each task
    - `error`: stops when the interval is no wider than `error` to each side of its middle, in nats, or the
      standard error is at most `error`
    - `time`: stops after this many seconds with the units that are complete
    - `keep`: a file to which finished parts are appended. A run with the same arguments continues from it
    - `mixed`: allows workers with other vector instructions; the answer then equals that of one run up to
      rounding
    - `task_seconds`: the time that a task should take, by forecast

    The other arguments are those of `Division`. With `error` or `time`, and after Ctrl-C, the answer is that
    of the last look (`Division.looks`) whose units are complete: it is valid however the end was chosen, and
    `diagnostics["stopped_early"]` says whether units are missing.

    >>> import zhat, zhat.cluster
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> model = zhat.generate.ising(rows=6, columns=6, coupling=0.3, seed=1)
    >>> with ThreadPoolExecutor(2) as pool:
    ...     z = zhat.cluster.run(model, method="importance", samples=3200, on=pool)
    >>> z.value == model.log_partition(method="importance", samples=3200).value
    True
    """
    division = Division(
        model,
        query,
        method=method,
        seed=seed,
        memory=memory,
        threads=threads,
        given=given,
        input=input,
        **options,
    )
    for name, value in (("error", error), ("time", time), ("task_seconds", task_seconds)):
        if value is not None and not (isinstance(value, (int, float)) and 0 < value < math.inf):
            raise InputError(f"{name}: found {value!r}, expected a positive number")
    if error is not None and len(division.looks) == 1:
        raise InputError(f"error: {method} has no answer before all units are done")
    native = division.model._native
    job = Job(
        _zhat.__version__,
        _zhat.machine()["simd"],
        _zhat.model_hash(native),
        query,
        division._arguments,
        threads,
        bool(mixed),
    )
    deadline = None if time is None else clocks.monotonic() + time
    kept = None if keep is None else Kept(keep)
    work = _Work(division, kept, error, mixed, progress)
    backend: Backend | None = None
    try:
        if not work.is_done():
            backend = backend_of(on, job, native.to_bytes())
            work.drive(backend, task_seconds, deadline)
        return work.answer(early=error is not None or time is not None)
    except KeyboardInterrupt:
        if work.complete_looks() == 0:
            raise
        return work.answer(early=True)
    finally:
        if backend is not None:
            backend.close()
        if kept is not None:
            kept.close()
        work.end()


class _Work:
    """The units that are done, and the looks at them."""

    def __init__(
        self,
        division: Division,
        kept: Kept | None,
        error: float | None,
        mixed: bool,
        progress: bool | Callable[[str, int, int], object] | None,
    ) -> None:
        self.division, self.kept, self.error, self.mixed = division, kept, error, mixed
        self.line = ProgressLine() if progress is True else None
        self.progress = self.line or (progress if callable(progress) else None)
        self.parts: dict[tuple[int, int], bytes] = {}
        self.looked: tuple[int, Answer[Any]] | None = None
        for part in kept.parts if kept is not None else []:
            self.add(part, fresh=False)

    def add(self, part: bytes, *, fresh: bool = True) -> None:
        """Adds a part, unless its units are there already."""
        start, stop, _ = _zhat.part_facts(part)
        if any(first < stop and start < last for first, last in self.parts):
            return
        self.parts[start, stop] = part
        if fresh and self.kept is not None:
            self.kept.add(part)
        if self.progress is not None:
            self.progress(self._phase(), sum(b - a for a, b in self.parts), self.division.units)

    def _phase(self) -> str:
        if self.looked is None:
            return "units"
        return f"units ({self.looked[1].guarantee})"

    def prefix(self) -> int:
        """The number of units from the first one that are done without a gap."""
        end = 0
        for start, stop in sorted(self.parts):
            if start > end:
                break
            end = max(end, stop)
        return end

    def gaps(self) -> list[tuple[int, int]]:
        """The ranges of units that are to be done."""
        gaps, end = [], 0
        for start, stop in [*sorted(self.parts), (self.division.units, self.division.units)]:
            if start > end:
                gaps.append((end, start))
            end = max(end, stop)
        return gaps

    def complete_looks(self) -> int:
        """The number of looks whose units are done."""
        done = self.prefix()
        return sum(look <= done for look in self.division.looks)

    def is_done(self) -> bool:
        """Whether all units are done, or the error is small enough."""
        if self.prefix() >= self.division.units:
            return True
        looks = self.complete_looks()
        if self.error is None or looks == 0 or (self.looked is not None and self.looked[0] == looks):
            return False
        answer = self._look(looks - 1)
        self.looked = (looks, answer)
        return _error_of(answer) <= self.error

    def _look(self, look: int) -> Answer[Any]:
        if len(self.division.looks) == 1:
            return self.division.merge(self.parts.values(), mixed=self.mixed)
        return self.division.merge(self.parts.values(), look=look, mixed=self.mixed)

    def tasks(self, workers: int, seconds: float) -> list[tuple[int, int]]:
        """The units that are to be done, in tasks of about this time."""
        units = self.division.units
        size = int(seconds / max(self.division.unit_seconds, 1e-9))
        # Every worker has some tasks, so that they end together, and there are not too many.
        size = max(1, min(size, units // (4 * workers)), units // 10_000)
        return [
            (start, min(start + size, last))
            for first, last in self.gaps()
            for start in range(first, last, size)
        ]

    def drive(self, backend: Backend, seconds: float, deadline: float | None) -> None:
        """Sends tasks until all are done, the error is small enough or time is up."""
        tasks = iter(self.tasks(backend.workers, seconds))
        ahead = 0
        ended = False
        while True:
            while ahead < (1 + _AHEAD) * backend.workers and not ended:
                task = next(tasks, None)
                ended = task is None
                if task is not None:
                    backend.submit(*task)
                    ahead += 1
            if ahead == 0:
                return
            left = None if deadline is None else deadline - clocks.monotonic()
            if left is not None and left <= 0:
                return
            # Short waits let Ctrl-C through.
            for part in backend.wait(0.2 if left is None else min(0.2, left)):
                ahead -= 1
                self.add(part)
            if self.is_done():
                return

    def answer(self, *, early: bool) -> Answer[Any]:
        """The answer of all units, or with `early` of the last complete look."""
        if not early:
            return self.division.merge(self.parts.values(), mixed=self.mixed)
        looks = self.complete_looks()
        if looks == 0:
            raise OverBudgetError(
                f"time: {self.prefix()} of {self.division.units} units were complete in time; "
                f"there is no answer before {self.division.looks[0]}"
            )
        return self._look(looks - 1)

    def end(self) -> None:
        """Removes the line of progress."""
        if self.line is not None:
            self.line.clear()


def _error_of(answer: Answer[Any]) -> float:
    """Half the width of the interval in nats, or the standard error; the largest of a batch."""
    guarantee = answer.guarantee
    each = getattr(guarantee, "each", None) or [guarantee]
    errors = []
    for own in each:
        if own.kind == "exact":
            errors.append(0.0)
        elif own.low is not None and own.high is not None:
            errors.append(0.5 * (own.high - own.low))
        else:
            errors.append(math.inf if own.relative_std_error is None else own.relative_std_error)
    return max(errors)
