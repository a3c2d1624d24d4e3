"""Properties that are computed once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from functools import cached_property
else:

    def cached_property(compute: Callable[[Any], Any]) -> property:
        """`functools.cached_property` without its lock, which `torch.compile` cannot trace in Python 3.11."""
        name = f"_{compute.__name__}_kept"

        def read(self: Any) -> Any:
            if not hasattr(self, name):
                setattr(self, name, compute(self))
            return getattr(self, name)

        return property(read, doc=compute.__doc__)


__all__ = ["cached_property"]
