"""Where tasks are done: local processes, an executor, or Ray."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import socket
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from typing import Any, Protocol

from .._arguments import integer
from ..errors import InputError
from ._worker import Job, quiet, work

_PATIENCE = 10.0
"""Seconds to wait for an address to answer."""


class Backend(Protocol):
    """Does tasks and returns their results in the order in which they end."""

    workers: int
    """The number of tasks that are done at the same time, as far as known."""

    def submit(self, start: int, stop: int) -> None:
        """Starts a task with these units."""

    def wait(self, seconds: float | None) -> list[bytes]:
        """The parts of tasks that have ended, waiting at most this long for the first one."""

    def close(self) -> None:
        """Cancels tasks that have not begun."""


class Futures:
    """A `concurrent.futures.Executor`.

    A task is sent without the model first. A worker that does not have it says so, and is sent it once.
    """

    def __init__(self, executor: Executor, job: Job, model: bytes, workers: int, own: bool) -> None:
        """`own`: whether the executor is shut down at the end."""
        self.workers = workers
        self._executor, self._job, self._model, self._own = executor, job, model, own
        self._waiting: dict[Future[bytes | None], tuple[int, int]] = {}
        self._error: BaseException | None = None

    def submit(self, start: int, stop: int) -> None:
        """Starts a task."""
        self._send(start, stop, None)

    def _send(self, start: int, stop: int, model: bytes | None) -> None:
        self._waiting[self._executor.submit(work, self._job, start, stop, model)] = (start, stop)

    def wait(self, seconds: float | None) -> list[bytes]:
        """Parts of tasks that have ended."""
        if self._error is not None:
            raise self._error
        done, _ = wait(self._waiting, seconds, FIRST_COMPLETED)
        parts = []
        for future in done:
            start, stop = self._waiting.pop(future)
            try:
                part = future.result()
            except Exception as error:
                # The parts of other tasks are returned first.
                self._error = self._error or error
                continue
            if part is None:
                self._send(start, stop, self._model)
            else:
                parts.append(part)
        if self._error is not None and not parts:
            raise self._error
        return parts

    def close(self) -> None:
        """Cancels tasks that have not begun, and ends own processes."""
        for future in self._waiting:
            future.cancel()
        if not self._own:
            return
        # Nobody needs the tasks that are still being done.
        processes = list((getattr(self._executor, "_processes", None) or {}).values())
        self._executor.shutdown(wait=False, cancel_futures=True)
        if self._waiting:
            for process in processes:
                process.terminate()


class Ray:
    """A Ray cluster; the model is an object of the cluster, which comes to each machine once.

    Ray does the task of a worker that dies again.
    """

    def __init__(self, address: str | None, job: Job, model: bytes, workers: int | None) -> None:
        """Connects to the cluster, unless that has been done."""
        try:
            ray: Any = importlib.import_module("ray")
        except ImportError:
            raise InputError("on: Ray is not installed; pip install ray") from None
        self._ray: Any = ray
        if not ray.is_initialized():
            if address is not None:
                _answers(address)
            ray.init(address=address, log_to_driver=False, include_dashboard=False)
        elif address is not None and address != (known := ray.get_runtime_context().gcs_address):
            raise InputError(
                f"on: Ray is connected to {known} already; pass on='ray', or call ray.shutdown() first"
            )
        nodes = [int(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"]]
        most = max(nodes, default=0)
        if most < job.threads:
            raise InputError(f"threads: found {job.threads}, but no node of the cluster has more than {most}")
        self.workers = workers or sum(node // job.threads for node in nodes)
        self._job, self._model = job, ray.put(model)
        self._task = ray.remote(num_cpus=job.threads, max_retries=5, retry_exceptions=False)(work)
        self._waiting: list[Any] = []
        self._error: BaseException | None = None

    def submit(self, start: int, stop: int) -> None:
        """Starts a task."""
        self._waiting.append(self._task.remote(self._job, start, stop, self._model))

    def wait(self, seconds: float | None) -> list[bytes]:
        """Parts of tasks that have ended."""
        if self._error is not None:
            raise self._error
        if not self._waiting:
            return []
        done, self._waiting = self._ray.wait(self._waiting, num_returns=1, timeout=seconds)
        if done:
            more, self._waiting = (
                self._ray.wait(self._waiting, num_returns=len(self._waiting), timeout=0)
                if self._waiting
                else ([], [])
            )
            done = done + more
        parts = []
        for task in done:
            try:
                parts.append(bytes(self._ray.get(task)))
            except self._ray.exceptions.RayTaskError as error:
                # The parts of other tasks are returned first.
                self._error = self._error or (error.cause if isinstance(error.cause, Exception) else error)
        if self._error is not None and not parts:
            raise self._error from None
        return parts

    def close(self) -> None:
        """Cancels tasks that have not begun."""
        for task in self._waiting:
            self._ray.cancel(task)


def _answers(address: str) -> None:
    """An error if nobody answers at an address of the form `host:port` or `ray://host:port`."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not port.isdigit() or not host:
        if address in ("auto", "local"):
            return
        raise InputError(f"on: found {address!r}, expected an address such as '10.0.0.1:6379' or 'auto'")
    try:
        socket.create_connection((host, int(port)), timeout=_PATIENCE).close()
    except OSError as error:
        raise InputError(f"on: nobody answers at {address} within {_PATIENCE:g} s: {error}") from None


def backend_of(on: Any, job: Job, model: bytes, workers: int | None = None) -> Backend:
    """The backend that `on` names; `workers` is the number of tasks at the same time, if stated."""
    if workers is not None:
        workers = integer("workers", workers, 1, 1 << 20)
    if isinstance(on, str):
        return Ray(None if on == "ray" else on, job, model, workers)
    if isinstance(on, Executor) or (hasattr(on, "submit") and hasattr(on, "shutdown")):
        known = workers or getattr(on, "_max_workers", None) or os.cpu_count() or 1
        return Futures(on, job, model, int(known), own=False)
    if not isinstance(on, int) or isinstance(on, bool):
        raise InputError(
            f"on: found {on!r}, expected a number of processes, an executor, 'ray' or the address of "
            "a cluster"
        )
    count = integer("on", on, 1, 1024)
    if workers is not None:
        raise InputError(f"workers: is for executors and clusters; on={on} starts {count} processes")
    # A fork of a process with threads may hang.
    executor = ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn"), initializer=quiet)
    return Futures(executor, job, model, count, own=True)
