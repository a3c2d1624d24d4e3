"""What all models have in common: queries, files, comparison."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic

from . import _zhat, queries
from .errors import InputError
from .queries import B, F, K, M, N, S
from .runtime import run


class Model(ABC, Generic[N, M, F, B, K, S]):
    """A model, never changed once made. Its type says what its answers look like."""

    _native: _zhat.Model

    log_partition = queries.log_partition
    marginals = queries.marginals
    factor_marginals = queries.factor_marginals
    entropy = queries.entropy
    map = queries.map
    k_best = queries.k_best
    sample = queries.sample

    _items: int | None = None
    """How many answers there are, where the model is a batch."""

    _given: bool = False
    """Whether states were observed to make this model, where the native module does not know."""

    @abstractmethod
    def _numbers(self, raw: Any) -> N: ...
    @abstractmethod
    def _marginals(self, raw: Any) -> M: ...
    @abstractmethod
    def _factor_marginals(self, raw: Any) -> F: ...
    @abstractmethod
    def _best(self, raw: Any) -> B: ...
    @abstractmethod
    def _ranked(self, raw: Any) -> K: ...
    @abstractmethod
    def _samples(self, raw: Any) -> S: ...

    def _info(self, memory: int | str | None, time: float | str | None) -> dict[str, Any]:
        sizes, entries = self._native.info(run(memory=memory, time=time))
        methods: dict[str, dict[str, Any]] = {}
        for method, query, can, cost in entries:
            methods.setdefault(method, {})[query] = {"can": can, **cost}
        return {**sizes, "methods": methods}


def of_kind(kind: str, native: _zhat.Model) -> _zhat.Model:
    """The model, if it is of this kind."""
    if native.kind != kind:
        raise InputError(f"the file has a {native.kind}, expected a {kind}", kind="parse")
    return native
