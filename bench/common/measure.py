"""Runs a command under limits, on Linux: `measure.py WALL_SECONDS BYTES REPORT COMMAND…`.

The peak memory of a process starts with what its parent held at the fork, and that of a Python parent would
hide the peak of a small program. So a shell starts the command and ends; this process adopts its orphan.
"""

import ctypes
import os
import resource
import signal
import sys

THREADS = [f"{library}_NUM_THREADS" for library in ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "RAYON")]
PR_SET_CHILD_SUBREAPER = 36


def start(command: list[str], memory: int, report: str) -> int:
    """Starts the command through the shell; its process number."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    os.environ.update(dict.fromkeys(THREADS, "1"))
    shell = os.fork()
    if shell == 0:
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        os.execv(
            "/bin/sh", ["sh", "-c", 'report=$1; shift; "$@" & echo $! > "$report"', "sh", report, *command]
        )
    os.waitpid(shell, 0)
    with open(report) as file:
        return int(file.read())


def main() -> None:
    """Runs the command; the report says `STATUS CPU_SECONDS PEAK_BYTES TIMED_OUT`."""
    wall, memory, report, *command = sys.argv[1:]
    child = start(command, int(memory), report)
    timed_out = False

    def stop(*_: object) -> None:
        nonlocal timed_out
        timed_out = True
        os.kill(child, signal.SIGKILL)

    signal.signal(signal.SIGALRM, stop)
    signal.signal(signal.SIGTERM, stop)
    signal.setitimer(signal.ITIMER_REAL, float(wall))
    _, status, usage = os.wait4(child, 0)
    signal.setitimer(signal.ITIMER_REAL, 0)
    cpu = usage.ru_utime + usage.ru_stime
    with open(report, "w") as file:
        file.write(f"{os.waitstatus_to_exitcode(status)} {cpu} {usage.ru_maxrss * 1024} {int(timed_out)}")


if __name__ == "__main__":
    main()
