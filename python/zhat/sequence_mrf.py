"""Cyclic sequence models with shared parameters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _zhat
from ._arguments import in_place, integer, integers, real, unmasked
from ._model import Model
from .errors import InputError


class SequenceMrf(Model[float, Any, Any, Any, Any, Any], kind="sequence-mrf"):
    """N positions on a cycle: p(x) ∝ exp(Σᵢ θ⁰(xᵢ) + Σᵢ Σₗ θˡ(xᵢ, xᵢ₊ₗ)), l = 1 … K, the same for every i.

    `unary` is θ⁰ (C,), float64. `interactions` are θ¹ … θᴷ (K, C, C), float32. Alternatively, embeddings
    `left` (C, D) and `right` (K, C, D) define θˡ(x, y) = left[x] · right[l, y]. All values are logarithms,
    and −inf forbids a state or pair (but is not allowed in embeddings). The cost of the bounds does not
    depend on `length`.

    The methods for `log_partition` are "transfer-matrix" (exact, for few states), "spectral" and "star"
    (certified upper bounds) and "annealed" (unbiased).

    >>> import numpy as np, zhat
    >>> model = zhat.SequenceMrf(1_000_000, np.zeros(2), np.array([[[0.5, -1.0], [0.0, 2.0]]]))
    >>> model
    SequenceMrf(1000000 positions, 2 states, context 1, full matrices)
    >>> round(model.log_partition().value)
    2008542
    >>> model.log_partition(method="spectral").guarantee.kind
    'bounds'
    """

    def __init__(
        self,
        length: int,
        unary: ArrayLike,
        interactions: ArrayLike | None = None,
        *,
        left: ArrayLike | None = None,
        right: ArrayLike | None = None,
    ) -> None:
        """Builds and checks the model."""
        if (interactions is None) == (left is None) or (left is None) != (right is None):
            raise InputError("interactions: expected either these, or left and right")
        states = _array("unary", unary, np.float64, 1)
        assert states is not None
        self._native = _zhat.sequence_mrf(
            integer("length", length),
            states,
            _array("interactions", interactions, np.float32, 3),
            _array("left", left, np.float32, 2),
            _array("right", right, np.float32, 3),
        )

    @property
    def length(self) -> int:
        """N, the number of positions."""
        return int(self._parameters["length"][0])

    @property
    def unary(self) -> NDArray[np.float64]:
        """θ⁰, a read-only view."""
        array: NDArray[np.float64] = self._parameters["unary"]
        return array

    @property
    def interactions(self) -> list[NDArray[np.float32]] | None:
        """θ¹ … θᴷ, read-only views; `None` if the model has embeddings."""
        return _list(self._parameters.get("interactions"))

    @property
    def left(self) -> NDArray[np.float32] | None:
        """The left embeddings, a read-only view; `None` if the model has full matrices."""
        return self._parameters.get("left")

    @property
    def right(self) -> list[NDArray[np.float32]] | None:
        """The right embeddings of each distance, read-only views; `None` with full matrices."""
        return _list(self._parameters.get("right"))

    def score(self, states: Iterable[int]) -> float:
        """The log weight of a cycle of states.

        >>> import numpy as np, zhat
        >>> zhat.SequenceMrf(3, np.zeros(2), np.array([[[0.5, -1.0], [0.0, 2.0]]])).score([1, 1, 0])
        1.0
        """
        return _zhat.cycle_score(self._native, integers("states", states))

    def _numbers(self, raw: Any) -> float:
        return float(raw)

    def _figures(self) -> dict[str, str]:
        right, full = self.right, self.interactions
        form = "full matrices" if right is None else f"embeddings of length {right[0].shape[1]}"
        return {
            "positions": f"{self.length} positions",
            "states": f"{len(self.unary)} states",
            "context": f"context {len(right or full or [])}",
            "interactions": form,
        }

    def __hash__(self) -> int:
        """A hash that equal models share."""
        return hash((self.length, len(self.unary)))


def random_cycle(
    length: int = 1000,
    *,
    states: int = 10,
    context: int = 1,
    rank: int | None = None,
    strength: float = 1.0,
    coupling: float = 0.5,
    seed: int = 0,
) -> SequenceMrf:
    """A cycle of `length` positions with shared normal scores.

    Unary scores have standard deviation `strength`, interactions `coupling`. With `rank`, the interactions
    are products of embeddings.

    >>> import zhat
    >>> zhat.generate.sequence_mrf(states=20, context=2, rank=5)
    SequenceMrf(1000 positions, 20 states, context 2, embeddings of length 5)
    """
    native = _zhat.random_sequence_mrf(
        (
            integer("length", length),
            integer("states", states),
            integer("context", context),
            None if rank is None else integer("rank", rank),
        ),
        real("strength", strength),
        real("coupling", coupling),
        integer("seed", seed, 0, 2**64 - 1),
    )
    return SequenceMrf._wrap(native)


def _list(matrices: Any) -> list[NDArray[np.float32]] | None:
    """One matrix for each distance."""
    return None if matrices is None else list(matrices)


def _array(name: str, values: ArrayLike | None, dtype: type[Any], axes: int) -> NDArray[Any] | None:
    if values is None:
        return None
    try:
        unmasked(name, values)
        array = in_place(name, np.asarray(values), np.dtype(dtype))
    except (TypeError, ValueError) as error:
        raise InputError(f"{name}: {error}") from None
    if array.ndim != axes:
        raise InputError(f"{name}: found shape {array.shape}, expected {axes} axes")
    return array
