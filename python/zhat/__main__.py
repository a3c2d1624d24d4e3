"""The `zhat` program: `python -m zhat` is the same as the command."""

from __future__ import annotations

import signal
import sys

from . import _zhat


def main() -> int:
    """Runs the program with the arguments of this process and returns its exit status."""
    # Until the program installs its own handler, Ctrl-C ends the process as usual.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _zhat.run_program(["zhat", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
