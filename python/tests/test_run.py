"""Execution of queries: threads, progress, budgets, interruption, other threads, forks."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import zhat

GRID = zhat.generate.ising(rows=9, columns=9, coupling=0.4, seed=11)
ENDLESS = zhat.FactorGraph([2] * 40)


GRAPH_METHODS = [method.name for method in zhat.methods() if method.kind == "factor-graph"]


@pytest.mark.parametrize("method", GRAPH_METHODS)
def test_answers_do_not_depend_on_threads(method: str) -> None:
    model = zhat.generate.ising(rows=4, columns=4, seed=2) if method == "enumeration" else GRID
    if method == "sccq-published":  # it has no answer for anything but weak models
        model = zhat.generate.ising(rows=3, columns=3, coupling=0.001, field=0.001, seed=2)
    answers = model.info()["methods"][method]
    queries: dict[str, Callable[[int], Any]] = {
        "log_partition": lambda k: model.log_partition(method=method, seed=4, threads=k).value,
        "entropy": lambda k: model.entropy(method=method, seed=4, threads=k).value,
        "map": lambda k: model.map(method=method, seed=4, threads=k).value.score,
        "marginals": lambda k: model.marginals(method=method, seed=4, threads=k).value.flat.tobytes(),
        "factor_marginals": lambda k: model.factor_marginals(
            method=method, seed=4, threads=k
        ).value.flat.tobytes(),
        "sample": lambda k: model.sample(700, method=method, seed=4, threads=k).value.states.tobytes(),
    }
    with warnings.catch_warnings():
        if method == "gibbs":  # 700 samples are too few
            warnings.simplefilter("ignore", RuntimeWarning)
        one, two, three = (
            [ask(threads) for query, ask in queries.items() if query in answers] for threads in (1, 2, 3)
        )
    assert one == two == three


def test_the_number_of_threads_is_kept() -> None:
    before = zhat.get_num_threads()
    try:
        zhat.set_num_threads(3)
        assert zhat.get_num_threads() == 3
        assert zhat.config()["threads"] == 3
        three = GRID.log_partition(method="importance").value
        zhat.set_num_threads(1)
        assert GRID.log_partition(method="importance").value == three
        for bad in (0, -1, 1.5, "2", None, 10**9):
            with pytest.raises(zhat.InputError, match="n: expected an integer"):
                zhat.set_num_threads(bad)  # type: ignore[arg-type]
        assert zhat.get_num_threads() == 1
    finally:
        zhat.set_num_threads(before)


def test_progress_is_reported_in_this_thread() -> None:
    news: list[tuple[str, int, int]] = []
    threads = set()

    def progress(phase: str, done: int, total: int) -> None:
        threads.add(threading.current_thread())
        news.append((phase, done, total))

    silent = GRID.log_partition(method="importance")
    assert GRID.log_partition(method="importance", progress=progress).value == silent.value
    assert threads == {threading.current_thread()}
    assert {phase for phase, _, _ in news} <= {"eliminating variables", "drawing samples"}
    assert all(0 <= done <= total for _, done, total in news)
    phase, done, total = news[-1]
    assert (phase, done) == ("drawing samples", total)


def test_an_error_in_progress_stops_the_query() -> None:
    def progress(phase: str, done: int, total: int) -> None:
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        GRID.log_partition(method="importance", samples=10**12, progress=progress)


def test_a_time_budget_returns_the_result_so_far() -> None:
    answer = GRID.log_partition(method="importance", samples=10**12, time=0.05)
    assert answer.diagnostics["stopped_early"]
    assert 0 < answer.diagnostics["samples"] < 10**12
    assert answer.guarantee.low is not None
    assert answer.guarantee.low < GRID.log_partition().value


@contextmanager
def interrupt_soon() -> Iterator[None]:
    """Sends Ctrl-C after a delay; the block must then end soon with KeyboardInterrupt."""
    sent = []

    def send() -> None:
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    # A process started in the background ignores Ctrl-C by default.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.3, send)
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            yield
    finally:
        signal.signal(signal.SIGINT, before)
    # Typically 0.05 s; an enumeration that is not stopped would take an hour.
    assert time.monotonic() - sent[0] < 2
    timer.join()


def test_control_c_stops_a_query() -> None:
    for threads in (1, 2):
        with interrupt_soon():
            ENDLESS.log_partition(method="enumeration", threads=threads)


def test_control_c_is_raised_even_if_there_is_a_partial_result() -> None:
    with interrupt_soon():
        GRID.log_partition(method="importance", samples=10**12)


def test_queries_work_after_control_c() -> None:
    with interrupt_soon():
        ENDLESS.marginals(method="enumeration")
    assert ENDLESS.log_partition().value == pytest.approx(40 * np.log(2))


def test_another_signal_handler_can_replace_control_c() -> None:
    def handler(number: int, frame: object) -> None:
        raise TimeoutError("handled")

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        with pytest.raises(TimeoutError, match="handled"):
            ENDLESS.entropy(method="enumeration")
    finally:
        signal.signal(signal.SIGALRM, before)


def test_other_threads_run_during_a_query() -> None:
    ticks, stop = [0], threading.Event()

    def tick() -> None:
        while not stop.wait(0.001):
            ticks[0] += 1

    thread = threading.Thread(target=tick)
    thread.start()
    before = ticks[0]
    GRID.log_partition(method="importance", samples=10**12, time=0.5)
    during = ticks[0] - before
    stop.set()
    thread.join()
    assert during > 10


def test_queries_from_several_threads_at_once() -> None:
    want = GRID.log_partition(method="importance", samples=3000).value
    got: list[float] = []
    threads = [
        threading.Thread(
            target=lambda: got.append(GRID.log_partition(method="importance", samples=3000).value)
        )
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == [want] * 8


def answer_in_child(queue: Any) -> None:
    beliefs = GRID.marginals(threads=2).value.flat
    queue.put((GRID.log_partition(method="importance", threads=2).value, beliefs.tobytes()))


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_queries_work_in_a_forked_child() -> None:
    want = (
        GRID.log_partition(method="importance", threads=2).value,
        GRID.marginals(threads=2).value.flat.tobytes(),
    )
    context = multiprocessing.get_context("fork")
    queue: Any = context.Queue()
    children = [context.Process(target=answer_in_child, args=(queue,)) for _ in range(2)]
    for child in children:
        child.start()
    assert [queue.get(timeout=30) for _ in children] == [want, want]
    for child in children:
        child.join(timeout=30)
        assert child.exitcode == 0
    assert GRID.log_partition(method="importance", threads=2).value == want[0]


def test_a_bad_simd_level_is_refused_at_import() -> None:
    def run(level: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", "import zhat; print(zhat.config()['simd'])"]
        return subprocess.run(
            command, env=os.environ | {"ZHAT_SIMD": level}, capture_output=True, text=True, check=False
        )

    assert run("portable").stdout == "portable\n"
    bad = run("sse9")
    assert bad.returncode != 0
    assert "InputError: ZHAT_SIMD: unknown value `sse9`; known are portable, avx2 and avx512" in bad.stderr


def test_the_configuration_is_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZHAT_DATA", "somewhere")
    facts = zhat.config()
    assert facts["version"] == zhat.__version__
    assert facts["simd"] in ("portable", "avx2", "avx512")
    assert facts["simd_detected"] in ("portable", "avx2", "avx512")
    assert isinstance(facts["memory"], int)
    assert facts["ZHAT_DATA"] == "somewhere"
    zhat.show_config()
    shown = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in shown] == list(facts)
    assert shown[-1].endswith("somewhere")
