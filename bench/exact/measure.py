"""Runs one command under limits and writes what it took: `measure.py WALL_SECONDS BYTES REPORT COMMAND…`.

A process of its own, and a small one: on Linux the peak memory of a child starts with what its parent held at
the fork, so a large parent would hide the peak of a small child.
"""

import os
import resource
import signal
import sys

THREADS = [f"{library}_NUM_THREADS" for library in ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "RAYON")]


def main() -> None:
    """Runs the command; the report says `STATUS CPU_SECONDS PEAK_BYTES TIMED_OUT`."""
    wall, memory, report, *command = sys.argv[1:]
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_AS, (int(memory), int(memory)))
        os.environ.update(dict.fromkeys(THREADS, "1"))
        try:
            os.execvp(command[0], command)
        finally:
            os._exit(127)
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


main()
