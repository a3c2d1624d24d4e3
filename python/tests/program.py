"""The command that runs the program.

`ZHAT_PROGRAM` names an executable, which starts faster than the module of the package.
"""

from __future__ import annotations

import os
import sys

COMMAND = [os.environ["ZHAT_PROGRAM"]] if os.environ.get("ZHAT_PROGRAM") else [sys.executable, "-m", "zhat"]
