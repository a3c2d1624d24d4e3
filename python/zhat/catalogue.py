"""The catalogue of methods."""

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
    """A one-line description."""
    queries: tuple[str, ...]
    """The supported queries."""
    options: dict[str, Any]
    """The options with their default values. They are keyword arguments of every query."""
    ranges: dict[str, str]
    """The ranges of the numeric options."""


def methods() -> list[Method]:
    """All methods.

    Besides these names, `method=` accepts `auto` and the guarantees `exact`, `bounds` and `unbiased`.

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
