"""Base class of all models: queries, files, comparison."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import cached_property
from typing import Any, Generic, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from . import _zhat, queries
from ._arguments import FilePath
from ._html import table
from .answer import BestState, Layout, Samples
from .errors import InputError
from .queries import B, F, K, M, N, S
from .runtime import run

Self = TypeVar("Self", bound="Model[Any, Any, Any, Any, Any, Any]")

KINDS: dict[str, type[Model[Any, Any, Any, Any, Any, Any]]] = {}
"""The classes by kind of model."""


class Model(ABC, Generic[N, M, F, B, K, S]):
    """An immutable model. The type parameters are the value types of its answers."""

    _native: _zhat.Model

    _kind: str
    """The name of the kind in files."""

    def __init_subclass__(cls, kind: str | None = None) -> None:
        """Registers the class of a kind of model."""
        super().__init_subclass__()
        if kind is not None:
            cls._kind = kind
            KINDS[kind] = cls

    log_partition = queries.log_partition
    marginals = queries.marginals
    factor_marginals = queries.factor_marginals
    entropy = queries.entropy
    map = queries.map
    k_best = queries.k_best
    sample = queries.sample

    _items: int | None = None
    """The number of items if the model is a batch."""

    @classmethod
    def _wrap(cls: type[Self], native: _zhat.Model) -> Self:
        model = cls.__new__(cls)
        model._native = native
        return model

    @classmethod
    def read(cls: type[Self], path: FilePath) -> Self:
        """Reads a model of this kind from a `.zhat` file. Any other kind is an error."""
        return cls._wrap(of_kind(cls._kind, _zhat.Model.read(path, None)))

    @abstractmethod
    def _figures(self) -> dict[str, str]:
        """The sizes by name."""

    @abstractmethod
    def _numbers(self, raw: Any) -> N: ...

    # Values of the native module; some kinds of model override these conversions.

    @cached_property
    def _parameters(self) -> dict[str, Any]:
        """The parameters by name, as read-only views."""
        return self._native.parameters()

    def _marginals(self, raw: Any) -> M:
        return cast("M", raw["marginals"])

    def _factor_marginals(self, raw: Any) -> F:
        return cast("F", raw)

    # A single model has one item.

    def _best(self, raw: Any) -> B:
        return self._found(*raw[0])

    def _ranked(self, raw: Any) -> K:
        return cast("K", [self._found(*found) for found in raw[0]])

    def _samples(self, raw: Any) -> S:
        return cast("S", Samples(*raw[0]))

    def _found(self, state: NDArray[np.int64], score: float) -> B:
        return cast("B", BestState(state, score))

    def _layout(self, query: str) -> Layout:
        """The meaning of the axes of the array that answers a query."""
        return Layout()

    def _given(self, evidence: Any) -> Model[N, M, F, B, K, S]:
        """The model conditioned on evidence."""
        condition = getattr(self, "condition", None)
        if condition is None:
            raise InputError(f"given: a {type(self).__name__} cannot be conditioned")
        return cast("Model[N, M, F, B, K, S]", condition(evidence))

    def _applied(self, data: Any) -> Model[Any, Any, Any, Any, Any, Any]:
        """The model of given data."""
        raise InputError(f"input: a {type(self).__name__} takes no input")

    def _chosen(self, marginals: M, variables: Iterable[int | str]) -> M:
        """The marginals of these variables."""
        raise InputError(
            f"variables: a {type(self).__name__} has no named variables; index the value instead"
        )

    def save(self, path: FilePath) -> None:
        """Writes the model to a `.zhat` file."""
        self._native.save(path)

    def clear_cache(self) -> None:
        """Clears the cache that queries of this model share.

        Exact methods and bounds preprocess a factor graph: they remove variables whose state is determined
        and find an elimination order. The result is cached. The cache affects only the time of a query, not
        its answer.
        """
        self._native.clear_cache()

    def info(self, *, memory: int | str | None = None, time: float | str | None = None) -> dict[str, Any]:
        """Sizes, and under `methods` whether each method and query fits the budget, its cost, guarantee."""
        return self._info(memory, time)

    def _info(self, memory: int | str | None, time: float | str | None) -> dict[str, Any]:
        figures, entries = self._native.info(run(memory=memory, time=time))
        methods: dict[str, dict[str, Any]] = {}
        for method, query, can, cost in entries:
            methods.setdefault(method, {})[query] = {"can": can, **cost}
        return {**json.loads(figures), "methods": methods}

    def __repr__(self) -> str:
        """The sizes in one line."""
        return f"{type(self).__name__}({', '.join(self._figures().values())})"

    def _repr_html_(self) -> str:
        """A small table, for notebooks."""
        size = json.loads(self._native.summary()).get("bytes")
        memory = {} if size is None else {"memory": _zhat.format_bytes(size)}
        figures = {label: _bare(label, text) for label, text in self._figures().items()}
        return table({"model": type(self).__name__} | figures | memory)

    def __eq__(self, other: object) -> bool:
        """Whether two models are equal in every number."""
        if not isinstance(other, Model) or type(other) is not type(self):
            return NotImplemented
        return self._native == other._native

    @abstractmethod
    def __hash__(self) -> int:
        """A hash that equal models share."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles the model as the bytes of a `.zhat` file."""
        return _restore, (type(self), self._native.to_bytes())


def _bare(label: str, text: str) -> str:
    """The text without the label next to it: `3 states` and `width 3` are `3`."""
    number = text.removeprefix(f"{label} ")
    return number if number.isdigit() else text.removesuffix(f" {label}")


def _restore(kind: type[Self], data: bytes) -> Self:
    return kind._wrap(_zhat.Model.from_bytes(data))


def of_kind(kind: str, native: _zhat.Model) -> _zhat.Model:
    """The model, if it is of this kind."""
    if native.kind != kind:
        raise InputError(f"the file has a {native.kind}, expected a {kind}", kind="parse")
    return native
