"""Divided queries: the bits of one run for any workers, looks, files of parts, workers that are refused."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zhat
import zhat.cluster
from zhat.cluster import _backends, _run, _worker

OPTIONS: dict[str, Any] = {"method": "wmb-is", "i_bound": 1, "samples": 4000, "seed": 3}


@pytest.fixture
def model() -> zhat.FactorGraph:
    return zhat.generate.ising(rows=6, columns=6, coupling=0.4, field=0.5, seed=2)


def whole(model: Any, **options: Any) -> Any:
    return model.log_partition(memory="4GiB", **options)


def test_processes_threads_and_one_run_have_the_same_bits(model: zhat.FactorGraph) -> None:
    want = whole(model, **OPTIONS)
    for on in (1, 2):
        found = zhat.cluster.run(model, on=on, task_seconds=1e-4, **OPTIONS)
        assert found.value == want.value
        assert found.guarantee == want.guarantee
        assert not found.diagnostics["stopped_early"]
    with ThreadPoolExecutor(3) as pool:
        found = zhat.cluster.run(model, on=pool, task_seconds=1e-4, **OPTIONS)
    assert (found.value, found.guarantee) == (want.value, want.guarantee)


def test_marginals_and_batches(model: zhat.FactorGraph) -> None:
    options: dict[str, Any] = {"method": "importance", "samples": 2000}
    with ThreadPoolExecutor(2) as pool:
        found = zhat.cluster.run(model, "marginals", on=pool, given={0: 1}, **options).value
        want = model.marginals(given={0: 1}, **options).value
        assert all(np.array_equal(own, other) for own, other in zip(found, want, strict=True))
        rng = np.random.default_rng(0)
        chain = zhat.Chain(rng.normal(size=(3, 9, 70)), rng.normal(size=(70, 70)))
        numbers = zhat.cluster.run(chain, method="randomized", states=10, on=pool)
    assert np.array_equal(numbers.value, chain.log_partition(method="randomized", states=10).value)
    assert len(numbers.guarantee.each or ()) == 3


def test_parts_by_hand(model: zhat.FactorGraph) -> None:
    division = zhat.cluster.Division(model, **OPTIONS)
    assert division.units == 32
    assert division.looks == [2, 4, 8, 16, 32]
    parts = [division.part(0, 5), division.part(5, 32)]
    assert division.merge(parts[::-1]).value == whole(model, **OPTIONS).value
    early = division.merge(parts[:1], look=1)
    assert early.diagnostics["stopped_early"]
    with pytest.raises(zhat.InputError, match=r"units 0\.\.5 of 32 are missing"):
        division.merge(parts[1:])
    other = zhat.cluster.Division(model, **{**OPTIONS, "seed": 4})
    with pytest.raises(zhat.InputError, match="different tasks: seed: 4, expected 3"):
        division.merge([other.part(0, 5), parts[1]])
    with pytest.raises(zhat.InputError, match="damaged"):
        division.merge([parts[0][:-1] + bytes([parts[0][-1] ^ 1]), parts[1]])


class Slow(Executor):
    """Runs every task twice, one after the other."""

    _max_workers = 2

    def __init__(self, then: Callable[[int], None] = lambda done: None) -> None:
        self.done, self.then = 0, then
        self.lock = threading.Lock()

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        with self.lock:
            future.set_running_or_notify_cancel()
            try:
                fn(*args, **kwargs)
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:
                future.set_exception(error)
            self.done += 1
        self.then(self.done)
        return future


def test_an_error_that_is_reached_ends_the_work(model: zhat.FactorGraph) -> None:
    executor = Slow()
    found = zhat.cluster.run(model, on=executor, until=0.5, task_seconds=1e-4, **OPTIONS)
    assert found.diagnostics["stopped_early"]
    assert found.guarantee.kind == "bounds"
    low, high = found.guarantee.low, found.guarantee.high
    assert low is not None
    assert high is not None
    assert 0.5 * (high - low) <= 0.5
    assert low <= model.log_partition(method="exact").value <= high
    assert found.guarantee.confidence == 0.95
    with pytest.raises(zhat.InputError, match="no answer before all units"):
        zhat.cluster.run(model, method="enumeration", until=0.1)


def test_time_ends_the_work_with_the_last_look(model: zhat.FactorGraph) -> None:
    executor = Slow(lambda done: time.sleep(0.05))
    found = zhat.cluster.run(model, on=executor, time=0.6, task_seconds=1e-4, **OPTIONS)
    assert found.diagnostics["replicates"] <= 32

    class Never(Slow):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            return Future()

    with pytest.raises(zhat.OverBudgetError, match="0 of 32 units were complete in time"):
        zhat.cluster.run(model, on=Never(), time=0.01, task_seconds=1e-4, **OPTIONS)


def test_tasks_that_end_with_the_time_count(model: zhat.FactorGraph) -> None:
    warm(model)
    # All tasks that were sent end after the deadline, before the next wait.
    executor = Slow(lambda done: time.sleep(0.1))
    found = zhat.cluster.run(model, on=executor, time=0.05, task_seconds=1e-4, **OPTIONS)
    assert found.diagnostics["stopped_early"]
    assert executor.done == 6


def test_a_file_of_parts_continues_a_run(model: zhat.FactorGraph, tmp_path: Path) -> None:
    keep = tmp_path / "parts"
    warm(model)

    def interrupt(done: int) -> None:
        if done == 9:
            raise RuntimeError("the driver dies")

    with pytest.raises(RuntimeError, match="dies"):
        zhat.cluster.run(model, on=Slow(interrupt), keep=keep, task_seconds=1e-4, **OPTIONS)
    # The last part may be cut off.
    content = keep.read_bytes()
    keep.write_bytes(content[:-3])
    executor = Slow()
    found = zhat.cluster.run(model, on=executor, keep=keep, task_seconds=1e-4, **OPTIONS)
    assert found.value == whole(model, **OPTIONS).value
    assert 0 < executor.done < 40
    # All parts are there now.
    idle = Slow()
    assert zhat.cluster.run(model, on=idle, keep=keep, **OPTIONS).value == found.value
    assert idle.done == 0
    # Parts of another task are refused before anything is computed or written.
    content = keep.read_bytes()
    with pytest.raises(zhat.InputError, match="different tasks"):
        zhat.cluster.run(model, on=idle, keep=keep, **{**OPTIONS, "seed": 9})
    assert idle.done == 0
    assert keep.read_bytes() == content
    # A damaged length is no end of the file.
    for at in (20, 24, 28):
        keep.write_bytes(content[:at] + bytes([content[at] ^ 8]) + content[at + 1 :])
        with pytest.raises(zhat.InputError, match="is damaged at byte 13"):
            zhat.cluster.run(model, on=idle, keep=keep, **OPTIONS)
        assert len(keep.read_bytes()) == len(content)
    # A file that was cut off within its first bytes is a new one.
    keep.write_bytes(content[:5])
    assert zhat.cluster.run(model, on=Slow(), keep=keep, **OPTIONS).value == found.value
    other = tmp_path / "other"
    other.write_text("text")
    with pytest.raises(zhat.InputError, match="is not a file of parts"):
        zhat.cluster.run(model, keep=other, **OPTIONS)


def job(model: Any, /, **changes: Any) -> _worker.Job:
    division = zhat.cluster.Division(model, **OPTIONS)
    native = model._native
    own = _worker.Job(
        zhat.__version__,
        zhat._zhat.machine()["simd"],
        zhat._zhat.model_hash(native),
        "log_partition",
        division._arguments,
        1,
        False,
    )
    return own._replace(**changes)


def warm(model: Any) -> None:
    """Gives this process the model of the tasks."""
    _worker.work(job(model), 0, 1, model._native.to_bytes())


def test_parts_of_other_processors_are_refused_by_the_file(model: zhat.FactorGraph) -> None:
    division = zhat.cluster.Division(model, **OPTIONS)
    assert division.check_part(division.part(3, 5)) == (3, 5)
    other = zhat.cluster.Division(model, **{**OPTIONS, "samples": 4001})
    with pytest.raises(zhat.InputError, match="different tasks: settings"):
        division.check_part(other.part(3, 5))


def test_error_is_an_option_of_the_method_and_ends_it() -> None:
    space = zhat.generate.space("permutation", size=6, strength=0.3, seed=3)
    options: dict[str, Any] = {"method": "importance", "error": 0.02}
    want = whole(space, **options)
    for on in (Slow(), 2):
        found = zhat.cluster.run(space, on=on, **options)
        assert (found.value, found.guarantee) == (want.value, want.guarantee)
        assert found.diagnostics["samples"] == want.diagnostics["samples"]
        assert not found.diagnostics["stopped_early"]
    early = zhat.cluster.run(space, on=Slow(), until=0.5, **options)
    assert early.diagnostics["samples"] < want.diagnostics["samples"]
    division = zhat.cluster.Division(space, **options)
    assert 4 <= division.expected_units < 1 << 20 < division.units
    for method in ("tpa", "telescoped"):
        own = zhat.cluster.run(space, method=method, error=0.4, on=Slow())
        assert own.value == whole(space, method=method, error=0.4).value


def test_a_mean_that_ends_its_own_work_has_a_lower_bound(model: zhat.FactorGraph) -> None:
    options: dict[str, Any] = {"method": "importance", "samples": 32_000}
    warm(model)
    found = zhat.cluster.run(model, on=Slow(), until=0.5, task_seconds=1e-6, **options)
    assert found.guarantee.kind == "bounds"
    assert found.guarantee.high is None or found.guarantee.high == float("inf")
    assert found.guarantee.confidence == 0.95
    assert found.diagnostics["relative_std_error"] <= 0.5
    # Fewer replicates do not decide.
    assert found.diagnostics["replicates"] == 16


def test_parts_beside_a_task_that_fails_are_kept(model: zhat.FactorGraph, tmp_path: Path) -> None:
    warm(model)

    class Failing(Slow):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            if self.done == 2:
                future: Future[Any] = Future()
                future.set_exception(RuntimeError("no memory"))
                self.done += 1
                return future
            return super().submit(fn, *args, **kwargs)

    keep = tmp_path / "parts"
    with pytest.raises(RuntimeError, match="no memory"):
        zhat.cluster.run(model, on=Failing(), keep=keep, task_seconds=1e-6, **OPTIONS)
    rest = Slow()
    found = zhat.cluster.run(model, on=rest, keep=keep, task_seconds=1e-6, **OPTIONS)
    assert found.value == whole(model, **OPTIONS).value
    assert rest.done <= 32 - 5


def test_the_number_of_workers_may_be_stated(model: zhat.FactorGraph) -> None:
    warm(model)
    for workers, tasks in ((1, 4), (2, 8)):
        executor = Slow()
        zhat.cluster.run(model, on=executor, workers=workers, task_seconds=100, **OPTIONS)
        assert executor.done == tasks
    with pytest.raises(zhat.InputError, match="workers: is for executors"):
        zhat.cluster.run(model, on=2, workers=2, **OPTIONS)
    with pytest.raises(zhat.InputError, match="workers"):
        zhat.cluster.run(model, on=Slow(), workers=0, **OPTIONS)


def test_own_processes_end_with_the_time() -> None:
    model = zhat.generate.ising(rows=20, columns=20, coupling=0.4, seed=1)
    start = time.monotonic()
    with pytest.raises(zhat.OverBudgetError):
        zhat.cluster.run(model, on=1, time=4, method="importance", samples=10**10)
    for child in multiprocessing.active_children():
        child.join(20)
        assert child.exitcode is not None
    assert time.monotonic() - start < 60


def test_ranges_are_joined() -> None:
    ranges = _run._Ranges()
    for start, stop, new in (
        (4, 6, True),
        (0, 2, True),
        (5, 7, False),
        (1, 3, False),
        (2, 4, True),
        (9, 10, True),
    ):
        assert ranges.add(start, stop) is new
    assert (ranges.starts, ranges.stops, ranges.total) == ([0, 9], [6, 10], 7)
    assert ranges.prefix() == 6
    assert ranges.gaps(12) == [(6, 9), (10, 12)]


def test_workers_that_do_not_fit_are_refused(model: zhat.FactorGraph) -> None:
    data = model._native.to_bytes()
    for changes, message in (
        ({"version": "0.0.1"}, "has zhat"),
        ({"level": "sse9"}, "uses the vector instructions"),
        ({"model": "0" * 32}, "has the hash"),
    ):
        with pytest.raises(zhat.InputError, match=message):
            _worker.work(job(model, **changes), 0, 1, data)
    # The model is asked for once.
    fresh = job(model, arguments=(*job(model).arguments[:2], 77, "4GiB"))
    assert _worker.work(fresh, 0, 1, None) is None
    assert _worker.work(fresh, 0, 1, data) is not None
    assert _worker.work(fresh, 1, 2, None) is not None


def test_arguments(model: zhat.FactorGraph) -> None:
    for on in (0, -1, 1.5, "nowhere", True, object()):
        with pytest.raises(zhat.InputError, match="on"):
            zhat.cluster.run(model, on=on, **OPTIONS)
    for name in ("until", "time", "task_seconds"):
        for value in (0, -1.0, float("nan"), "soon"):
            with pytest.raises(zhat.InputError, match=name):
                zhat.cluster.run(model, **{name: value}, **OPTIONS)
    with pytest.raises(zhat.InputError, match="these methods can"):
        zhat.cluster.run(model, method="elimination")
    with pytest.raises(zhat.UnknownOptionError):
        zhat.cluster.run(model, method="importance", colour=3)
    with pytest.raises(zhat.InputError, match="query"):
        zhat.cluster.run(model, "map", method="importance")
    with pytest.raises(zhat.InputError, match="within 0"):
        zhat.cluster.Division(model, **OPTIONS).part(30, 40)
    with pytest.raises(zhat.InputError, match="nobody answers"):
        _backends._answers("127.0.0.1:1")


def test_progress_has_units_and_the_interval_so_far(model: zhat.FactorGraph) -> None:
    seen: list[tuple[str, int, int]] = []
    with ThreadPoolExecutor(1) as pool:
        zhat.cluster.run(
            model,
            on=pool,
            task_seconds=1e-4,
            until=1e-9,
            progress=lambda *report: seen.append(report),
            **OPTIONS,
        )
    assert seen[-1][1:] == (32, 32)
    assert any("between" in phase for phase, _, _ in seen)


def test_a_killed_worker_is_an_error_and_the_parts_are_kept(model: zhat.FactorGraph, tmp_path: Path) -> None:
    keep = tmp_path / "parts"
    with ProcessPoolExecutor(1) as pool:
        victim = pool.submit(os.getpid).result()

        def kill(phase: str, done: int, total: int) -> None:
            if done >= 3:
                os.kill(victim, signal.SIGKILL)

        with pytest.raises(Exception, match="terminated abruptly"):
            zhat.cluster.run(model, on=pool, keep=keep, task_seconds=1e-4, progress=kill, **OPTIONS)
    found = zhat.cluster.run(model, on=1, keep=keep, task_seconds=1e-4, **OPTIONS)
    assert found.value == whole(model, **OPTIONS).value


def test_the_import_loads_nothing_large() -> None:
    program = """
        import sys
        import zhat
        assert "zhat.cluster" not in sys.modules
        import zhat.cluster
        assert not {"ray", "dask", "mpi4py"} & set(sys.modules)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True)
