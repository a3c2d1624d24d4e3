"""Where tasks are done: local processes, an executor, or Ray."""

from __future__ import annotations

import multiprocessing
import os
import socket
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from typing import Any, Protocol

from .._arguments import integer
from ..errors import InputError
from ._worker import Job, work

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

    def submit(self, start: int, stop: int) -> None:
        """Starts a task."""
        self._send(start, stop, None)

    def _send(self, start: int, stop: int, model: bytes | None) -> None:
        self._waiting[self._executor.submit(work, self._job, start, stop, model)] = (start, stop)

    def wait(self, seconds: float | None) -> list[bytes]:
        """Parts of tasks that have ended."""
        done, _ = wait(self._waiting, seconds, FIRST_COMPLETED)
        parts = []
        for future in done:
            start, stop = self._waiting.pop(future)
            part = future.result()
            if part is None:
                self._send(start, stop, self._model)
            else:
                parts.append(part)
        return parts

    def close(self) -> None:
        """Cancels tasks that have not begun."""
        for future in self._waiting:
            future.cancel()
        if self._own:
            self._executor.shutdown(wait=False, cancel_futures=True)


class Ray:
    """A Ray cluster; the model is an object of the cluster, which comes to each machine once.

    Ray does the task of a worker that dies again.
    """

    def __init__(self, address: str | None, job: Job, model: bytes) -> None:
        """Connects to the cluster, unless that has been done."""
        try:
            import ray
        except ImportError:
            raise InputError("on: Ray is not installed; pip install ray") from None
        self._ray: Any = ray
        if not ray.is_initialized():
            if address is not None:
                _answers(address)
            ray.init(address=address, log_to_driver=False, include_dashboard=False)
        self.workers = max(1, int(ray.cluster_resources().get("CPU", 1)) // job.threads)
        self._job, self._model = job, ray.put(model)
        self._task = ray.remote(num_cpus=job.threads, max_retries=5, retry_exceptions=False)(work)
        self._waiting: list[Any] = []

    def submit(self, start: int, stop: int) -> None:
        """Starts a task."""
        self._waiting.append(self._task.remote(self._job, start, stop, self._model))

    def wait(self, seconds: float | None) -> list[bytes]:
        """Parts of tasks that have ended."""
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
        try:
            return [bytes(part) for part in self._ray.get(done)]
        except self._ray.exceptions.RayTaskError as error:
            raise error.cause if isinstance(error.cause, Exception) else error from None

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


def backend_of(on: Any, job: Job, model: bytes) -> Backend:
    """The backend that `on` names."""
    if isinstance(on, str):
        return Ray(None if on == "ray" else on, job, model)
    if isinstance(on, Executor):
        workers = getattr(on, "_max_workers", None) or os.cpu_count() or 1
        return Futures(on, job, model, int(workers), own=False)
    if hasattr(on, "submit") and hasattr(on, "shutdown"):
        return Futures(on, job, model, os.cpu_count() or 1, own=False)
    if not isinstance(on, int) or isinstance(on, bool):
        raise InputError(
            f"on: found {on!r}, expected a number of processes, an executor, 'ray' or the address of a cluster"
        )
    count = integer("on", on, 1, 1024)
    # A fork of a process with threads may hang.
    executor = ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn"))
    return Futures(executor, job, model, count, own=True)
