"""An extension of the Python reference: examples in docstrings, `>>> …`, are shown as code."""

from __future__ import annotations

import re
from typing import Any

import griffe

# An example: lines from the first prompt up to the next empty line.
EXAMPLE = re.compile(r"(?:^>>> .*\n?(?:^(?!\s*$).*\n?)*)+", re.MULTILINE)


def fenced(text: str) -> str:
    """The text with every example in a block of code."""
    return EXAMPLE.sub(lambda found: f"\n```pycon\n{found[0].rstrip()}\n```\n", text)


class Doctests(griffe.Extension):
    """Encloses the examples of every docstring."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for every object with its docstring."""
        if obj.docstring:
            obj.docstring.value = fenced(obj.docstring.value)
