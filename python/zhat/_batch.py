"""Base class of models that may be a batch of items: sequences or sentences."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, TypeVar

from . import _zhat
from ._arguments import FilePath, integer
from ._evidence import Known, finding, number
from ._model import Model
from .errors import InputError

Self = TypeVar("Self", bound="Batched")


class Batched(Model[Any, Any, Any, Any, Any, Any]):
    """A model of one item, or of a batch of items that are answered one by one."""

    _single: bool
    _place_names = ("sequence", "position")

    @classmethod
    def _wrap(cls: type[Self], native: _zhat.Model, single: bool | None = None) -> Self:
        model = cls.__new__(cls)
        model._native = native
        model._single = len(model.lengths) == 1 if single is None else single
        return model

    @property
    def _items(self) -> int | None:  # type: ignore[override]
        return None if self._single else len(self.lengths)

    @property
    def batch(self) -> int | None:
        """The number of items of a batch; `None` if the model is a single one."""
        return self._items

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """The length of each item."""
        return tuple(self._native.lengths)

    @cached_property
    def _parameters(self) -> dict[str, Any]:
        return {name: array for name, array in self._native.parameters().items() if name != "lengths"}

    def _conditioned(self: Self, evidence: Mapping[Any, Known], label: Callable[[Any], int] = number) -> Self:
        if not isinstance(evidence, Mapping):
            raise InputError(f"evidence: expected a dict of places and states, found {evidence!r}")
        items = [(*self._place(key), finding(key, known, label)) for key, known in evidence.items()]
        return self._wrap(self._native.condition(items), self._single)

    def _place(self, key: Any) -> tuple[int, int]:
        if self._single:
            return 0, integer("evidence", key)
        try:
            item, place = key
        except (TypeError, ValueError):
            message = f"evidence: expected a pair of {' and '.join(self._place_names)}, found {key!r}"
            raise InputError(message) from None
        return integer("evidence", item), integer("evidence", place)

    def save(self, path: FilePath) -> None:
        """Writes the model to a `.zhat` file; a single short chain can also be written to a `.uai` file."""
        self._native.save(path)

    def info(self, *, memory: int | str | None = None, time: float | str | None = None) -> dict[str, Any]:
        """Sizes, and under `methods` whether each method and query fits the budget, its cost and guarantee.

        `can` says whether the method fits the budget: 80% of the free memory and ten minutes by default.
        """
        return self._info(memory, time)

    def _numbers(self, raw: Any) -> Any:
        return float(raw[0]) if self._single else raw

    def _best(self, raw: Any) -> Any:
        return self._unbatched([self._found(states, score) for states, score in raw])

    def _ranked(self, raw: Any) -> Any:
        return self._unbatched([[self._found(states, score) for states, score in each] for each in raw])

    def _found(self, states: Any, score: float) -> Any:
        raise NotImplementedError

    def _unbatched(self, items: Any) -> Any:
        return items[0] if self._single else items

    def __eq__(self, other: object) -> bool:
        """Whether two models are equal in all numbers and in being a batch."""
        if not isinstance(other, Batched):
            return NotImplemented
        return self._single == other._single and self._native == other._native

    def __hash__(self) -> int:
        """A hash that equal models share."""
        return hash((type(self), self.lengths))

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles the model as the bytes of a `.zhat` file."""
        return _restore, (type(self), self._native.to_bytes(), self._single)


def _restore(kind: type[Self], data: bytes, single: bool) -> Self:
    return kind._wrap(_zhat.Model.from_bytes(data), single)
