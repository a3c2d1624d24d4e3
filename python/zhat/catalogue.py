"""Which method answers which query."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from . import _zhat


@dataclass(frozen=True)
class Method:
    """A method for a kind of model."""

    name: str
    """The value of `method=`."""
    kind: str
    """The kind of model."""
    about: str
    """What it does, in a line."""
    queries: tuple[str, ...]
    """The queries it answers."""
    options: dict[str, Any]
    """Its options, keyword arguments of every query, with their default values."""
    ranges: dict[str, str]
    """The values that its numeric options can have."""


def methods() -> list[Method]:
    """All methods.

    Besides their names `method=` takes `auto` and the kinds of promise `exact`, `bounds` and `unbiased`.

    >>> import zhat
    >>> for method in zhat.methods():
    ...     print(method.name, "|", method.about)  # doctest: +ELLIPSIS
    elimination | variable elimination along the best order found
    ...
    """
    return [
        Method(
            row["name"],
            row["kind"],
            row["about"],
            tuple(row["queries"]),
            json.loads(row["options"]),
            dict(row["ranges"]),
        )
        for row in _zhat.methods()
    ]
