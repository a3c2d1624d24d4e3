"""A divided query, from its first task to the merged answer."""

from __future__ import annotations

import math
import time as clocks
from bisect import bisect_left
from collections.abc import Callable, Iterator
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
_PREPARATIONS = 20
"""The time that a task should take at least, relative to its preparation."""
_REPLICATES = 16
"""The fewest replicates whose standard error decides when to stop."""
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
    until: float | None = None,
    time: float | None = None,
    keep: FilePath | None = None,
    mixed: bool = False,
    task_seconds: float | None = None,
    workers: int | None = None,
    progress: bool | Callable[[str, int, int], object] | None = None,
    given: Any = None,
    input: Any = None,
    **options: object,
) -> Answer[Any]:
    """The answer of a query whose work is divided over processes and machines.

    Without `until` and `time` it has the bits of one run, whatever the workers and their number.

    - `on`: a number of local processes, a `concurrent.futures.Executor`, `"ray"` for a Ray cluster on this
      machine or the one that is connected, or the address of a Ray cluster
    - `threads`: threads of each task
    - `until`: stops when the interval is no wider than `until` to each side of its middle, in nats, or the
      relative standard error of at least 16 replicates is at most `until`
    - `time`: stops after this many seconds with the units that are complete
    - `keep`: a file to which finished parts are appended. A run with the same arguments continues from it
    - `mixed`: allows workers with other vector instructions; the answer then equals that of one run up to
      rounding
    - `task_seconds`: the time that a task should take, by forecast; by default 1 s, and at least 20 times the
      time of the preparation, which every task may repeat
    - `workers`: the number of tasks that an executor does at the same time, if it does not say so itself,
      such as that of a Dask client

    The other arguments are those of `Division`, and `error` is an option of several methods. With `until` or
    `time`, and after Ctrl-C, the answer is that of the last look (`Division.looks`) whose units are complete:
    its guarantee holds however the end was chosen, and `diagnostics["stopped_early"]` says whether units are
    missing. A mean that is unbiased in one run is not if its results decided when to stop; its guarantee is
    then a lower bound, and `diagnostics["relative_std_error"]` is its standard error.

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
    for name, value in (("until", until), ("time", time), ("task_seconds", task_seconds)):
        if value is not None and not (isinstance(value, (int, float)) and 0 < value < math.inf):
            raise InputError(f"{name}: found {value!r}, expected a positive number")
    if until is not None and len(division.looks) == 1:
        raise InputError(f"until: {method} has no answer before all units are done")
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
    # Parts of another task are refused before anything is computed or appended.
    kept = (
        None if keep is None else Kept(keep, lambda part, name: division.check_part(part, name, mixed=mixed))
    )
    work = _Work(division, kept, until, mixed, progress)
    backend: Backend | None = None
    try:
        work.begin()
        if not work.is_done():
            backend = backend_of(on, job, native.to_bytes(), workers)
            work.drive(backend, task_seconds, deadline)
        return work.answer(early=until is not None or time is not None)
    except KeyboardInterrupt:
        if backend is not None:
            work.collect(backend)
        if work.complete_looks() == 0:
            raise
        return work.answer(early=True)
    finally:
        if backend is not None:
            backend.close()
        if kept is not None:
            kept.close()
        work.end()


class _Ranges:
    """Disjoint ranges of units, joined where they touch."""

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.stops: list[int] = []
        self.total = 0

    def add(self, start: int, stop: int) -> bool:
        """Adds a range; false if some of its units are there already."""
        at = bisect_left(self.starts, start)
        if (at < len(self.starts) and self.starts[at] < stop) or (at > 0 and self.stops[at - 1] > start):
            return False
        self.total += stop - start
        first, last = at, at
        if at < len(self.starts) and self.starts[at] == stop:
            stop, last = self.stops[at], at + 1
        if at > 0 and self.stops[at - 1] == start:
            start, first = self.starts[at - 1], at - 1
        self.starts[first:last] = [start]
        self.stops[first:last] = [stop]
        return True

    def prefix(self) -> int:
        """The number of units from the first one without a gap."""
        return self.stops[0] if self.starts and self.starts[0] == 0 else 0

    def gaps(self, end: int) -> list[tuple[int, int]]:
        """The ranges below `end` that are not there."""
        bounds = zip([0, *self.stops], [*self.starts, end], strict=True)
        return [(start, stop) for start, stop in bounds if start < stop]


class _Work:
    """The units that are done, and the looks at them."""

    def __init__(
        self,
        division: Division,
        kept: Kept | None,
        until: float | None,
        mixed: bool,
        progress: bool | Callable[[str, int, int], object] | None,
    ) -> None:
        self.division, self.kept, self.until, self.mixed = division, kept, until, mixed
        self.native = division._native
        self.line = ProgressLine() if progress is True else None
        self.progress = self.line or (progress if callable(progress) else None)
        self.parts: list[bytes] = []
        self.ranges = _Ranges()
        self.looks = division.looks
        self.looked: tuple[int, Answer[Any]] | None = None

    def begin(self) -> None:
        """Takes the parts that were kept."""
        for part in self.kept.parts if self.kept is not None else []:
            self.add(part, fresh=False)

    def add(self, part: bytes, *, fresh: bool = True) -> None:
        """Adds a part, unless some of its units are there already."""
        start, stop = self.division.check_part(part, mixed=self.mixed)
        if not self.ranges.add(start, stop):
            return
        self.parts.append(part)
        if fresh and self.kept is not None:
            self.kept.add(part)
        if self.progress is not None:
            done = self.ranges.total
            self.progress(self._phase(), done, max(done, self.division.expected_units))

    def collect(self, backend: Backend) -> int:
        """Adds the parts that have ended; returns their number."""
        parts = backend.wait(0)
        for part in parts:
            self.add(part)
        return len(parts)

    def _phase(self) -> str:
        if self.looked is None:
            return "units"
        return f"units ({self.looked[1].guarantee})"

    def complete_looks(self) -> int:
        """The number of looks whose units are done."""
        done = self.ranges.prefix()
        return sum(look <= done for look in self.looks)

    def is_done(self) -> bool:
        """Whether all units are done, or the error is small enough."""
        if self.ranges.prefix() >= self.division.units:
            return True
        looks = self.complete_looks()
        if looks == 0 or (self.until is None and not self.native.ends_itself):
            return False
        if self.looked is not None and self.looked[0] == looks:
            return False
        answer = self._look(looks - 1)
        self.looked = (looks, answer)
        if self.native.ends_itself and not answer.diagnostics["stopped_early"]:
            return True
        return self.until is not None and _error_of(answer, self.looks[looks - 1]) <= self.until

    def _look(self, look: int) -> Answer[Any]:
        if len(self.looks) == 1:
            return self.division.merge(self.parts, mixed=self.mixed)
        return self.division.merge(self.parts, look=look, mixed=self.mixed)

    def tasks(self, workers: int, seconds: float | None) -> Iterator[tuple[int, int]]:
        """The units that are to be done, in tasks of about this time."""
        units = self.division.expected_units
        unit = max(self.division.unit_seconds, 1e-9)
        # Every worker has some tasks, so that they end together.
        size = min(int((seconds or TASK_SECONDS) / unit), units // (4 * workers))
        if seconds is None:
            least = math.ceil(_PREPARATIONS * self.division.preparation_seconds / unit)
            size = max(size, min(least, units // workers))
        # There are not too many.
        size = max(1, size, units // 10_000)
        for first, last in self.ranges.gaps(self.division.units):
            for start in range(first, last, size):
                yield start, min(start + size, last)

    def drive(self, backend: Backend, seconds: float | None, deadline: float | None) -> None:
        """Sends tasks until all are done, the error is small enough or time is up."""
        tasks = self.tasks(backend.workers, seconds)
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
                # Tasks that have ended since the last wait count too.
                self.collect(backend)
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
            return self.division.merge(self.parts, mixed=self.mixed)
        looks = self.complete_looks()
        if looks == 0:
            raise OverBudgetError(
                f"time: {self.ranges.prefix()} of {self.division.expected_units} units were complete in time"
                f"; there is no answer before {self.looks[0]}"
            )
        return self._look(looks - 1)

    def end(self) -> None:
        """Removes the line of progress."""
        if self.line is not None:
            self.line.clear()


def _error_of(answer: Answer[Any], replicates: int) -> float:
    """Half the width of the interval in nats, or the standard error; the largest of a batch."""
    guarantee = answer.guarantee
    each = getattr(guarantee, "each", None) or [guarantee]
    errors = []
    for own in each:
        if own.kind == "exact":
            errors.append(0.0)
        elif own.low is not None and own.high is not None and math.isfinite(own.high - own.low):
            errors.append(0.5 * (own.high - own.low))
        elif replicates >= _REPLICATES and "relative_std_error" in answer.diagnostics:
            errors.append(float(answer.diagnostics["relative_std_error"]))
        else:
            errors.append(math.inf)
    return max(errors)
