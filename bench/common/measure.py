"""Runs a command under limits, on Linux: `measure.py LIMITS REPORT COMMAND…`.

LIMITS is a `common.tools.Limits` as JSON. The peak memory of a process includes what its parent held at the
fork, and that of a Python parent would hide the peak of a small program. So a shell starts the command and
ends; this process adopts the orphan.
"""

import ctypes
import json
import os
import resource
import signal
import sys
import time

PR_SET_CHILD_SUBREAPER = 36
POLL_SECONDS = 0.02


def start(command: list[str], limits: dict, report: str) -> int:
    """Starts the command through the shell and returns its process number."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    shell = os.fork()
    if shell == 0:
        if limits["cpu"] is not None:
            os.sched_setaffinity(0, {limits["cpu"]})
        if not limits["resident"]:
            resource.setrlimit(resource.RLIMIT_AS, (limits["bytes"], limits["bytes"]))
        os.execv(
            "/bin/sh", ["sh", "-c", 'report=$1; shift; "$@" & echo $! > "$report"', "sh", report, *command]
        )
    os.waitpid(shell, 0)
    with open(report) as file:
        return int(file.read())


def resident_bytes(process: int) -> int:
    """The resident memory of a process; 0 if it has ended."""
    try:
        with open(f"/proc/{process}/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except (OSError, IndexError):
        return 0


def main() -> None:
    """Runs the command; the report is `STATUS CPU_SECONDS PEAK_BYTES`, then the limit if one was reached."""
    limits, (report, *command) = json.loads(sys.argv[1]), sys.argv[2:]
    deadline = time.monotonic() + limits["seconds"]
    child = start(command, limits, report)
    stopped = ""

    def stop(reason: str) -> None:
        nonlocal stopped
        stopped = stopped or reason
        os.kill(child, signal.SIGKILL)

    def check(*_: object) -> None:
        if time.monotonic() >= deadline:
            stop("time")
        elif limits["resident"] and resident_bytes(child) > limits["bytes"]:
            stop("memory")

    signal.signal(signal.SIGALRM, check)
    signal.signal(signal.SIGTERM, lambda *_: stop("time"))
    signal.setitimer(
        signal.ITIMER_REAL, POLL_SECONDS if limits["resident"] else limits["seconds"], POLL_SECONDS
    )
    _, status, usage = os.wait4(child, 0)
    signal.setitimer(signal.ITIMER_REAL, 0)
    cpu = usage.ru_utime + usage.ru_stime
    with open(report, "w") as file:
        file.write(f"{os.waitstatus_to_exitcode(status)} {cpu} {usage.ru_maxrss * 1024} {stopped}")


if __name__ == "__main__":
    main()
