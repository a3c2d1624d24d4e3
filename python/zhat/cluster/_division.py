"""A query whose work is divided by hand."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .. import _zhat
from .._arguments import integer, settings, text
from .._model import Model
from ..answer import Answer
from ..errors import InputError
from ..queries import answered
from ..runtime import run as budgets

MEMORY = "4GiB"
"""The default memory budget: a part of the task, so it must not depend on the machine."""

_CONVERTERS = {
    "log_partition": "_numbers",
    "marginals": "_marginals",
    "factor_marginals": "_factor_marginals",
    "entropy": "_numbers",
}


class Division:
    """A query about a model by one method, in units that any process can do.

    `query` is `log_partition`, `marginals`, `factor_marginals` or `entropy`. `method` has to be named; the
    error for a method whose work cannot be divided names those that can. Options of the method are keyword
    arguments. Seed, memory budget and options are the task: parts of equal tasks can be merged.
    """

    def __init__(
        self,
        model: Model[Any, Any, Any, Any, Any, Any],
        query: str = "log_partition",
        *,
        method: str,
        seed: int = 0,
        memory: int | str = MEMORY,
        threads: int | None = None,
        given: Any = None,
        input: Any = None,
        **options: object,
    ) -> None:
        """Prepares the method far enough to know the number of units."""
        if not isinstance(getattr(model, "_native", None), _zhat.Model):
            raise InputError(
                f"model: expected a model such as zhat.FactorGraph, found {type(model).__name__}"
            )
        if input is not None:
            model = model._applied(input)
        if given is not None:
            model = model._given(given)
        if query not in _CONVERTERS:
            raise InputError(f"query: found {query!r}, expected one of {', '.join(_CONVERTERS)}")
        self.model = model
        self.query = query
        self.threads = threads
        self._arguments = (text("method", method), settings(options), integer("seed", seed), str(memory))
        self._native = native_division(model._native, query, self._arguments, threads)

    @property
    def units(self) -> int:
        """The number of units."""
        return self._native.units

    @property
    def expected_units(self) -> int:
        """The number of units that will probably be needed.

        It is smaller than `units` if the method itself ends at a look (uniform `importance` of a space):
        `merge` then needs the units up to that look only.
        """
        return self._native.expected_units

    @property
    def preparation_seconds(self) -> float:
        """The time that the preparation took here; every part and every merge repeats at least some of it."""
        return self._native.preparation_seconds

    @property
    def unit_seconds(self) -> float:
        """The estimated time of a unit in seconds."""
        return self._native.unit_seconds

    @property
    def looks(self) -> list[int]:
        """The numbers of units after which the answer so far may be looked at; the last is all of them.

        They are fixed before the first unit is done, and the k-th look has the share 6/(π²k²) of the error
        probability, so the answer where the work ends has its confidence, however that look is chosen.
        """
        return self._native.looks if self._native.is_anytime else [self.units]

    def part(self, start: int, stop: int, *, time: float | str | None = None) -> bytes:
        """The results of units `start` to `stop` − 1, for a file or another process."""
        seed, memory = self._arguments[2:]
        return self._native.part(
            integer("start", start), integer("stop", stop), budgets(seed, self.threads, memory, time)
        )

    def check_part(self, part: bytes, name: str = "part", *, mixed: bool = False) -> tuple[int, int]:
        """The units of a part, first and last + 1; an error if it does not belong to this task."""
        return self._native.check_part(part, name, bool(mixed))

    def merge(self, parts: Iterable[bytes], *, look: int | None = None, mixed: bool = False) -> Answer[Any]:
        """The answer from parts, in any order; the bits are those of one run.

        With `look`, the answer after the units `looks[look]`, of which there have to be parts. The guarantee
        of an unbiased estimate is then its lower bound only, because its results may have chosen the look,
        and `diagnostics["relative_std_error"]` is its standard error. With `mixed`, parts may come from
        processors with different vector instructions; the answer equals that of one run up to rounding,
        and has a warning.
        """
        seed, memory = self._arguments[2:]
        found = self._native.merge(
            [bytes(part) for part in parts],
            bool(mixed),
            None if look is None else integer("look", look),
            budgets(seed, self.threads, memory),
        )
        converter = getattr(self.model, _CONVERTERS[self.query])
        return answered(self.model, self.query, found, converter, stacklevel=3)


def native_division(
    model: _zhat.Model, query: str, arguments: tuple[str, str, int, str], threads: int | None
) -> _zhat.Division:
    """The native division of a query; also called in the workers."""
    method, options, seed, memory = arguments
    return _zhat.Division(model, query, method, options, budgets(seed, threads, memory))
