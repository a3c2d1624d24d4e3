"""Models on combinatorial spaces: subsets, permutations, subtrees, cycles, partitions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _zhat
from ._arguments import integer, integers, real, scores, text
from ._model import Model
from .answer import BestState, Layout, Samples
from .errors import InputError

Pair = tuple[int, int, float]
"""Two elements and the score that is added if both are chosen."""


Condition = str | Callable[[list[int]], bool]
"""A condition on structures: text such as "before 0 3", or a function that returns whether it holds."""


_LAYOUTS = {
    "hypercube": Layout(("label",), "P(label is chosen)"),
    "signs": Layout(("label",), "P(label is chosen)"),
    "subtrees": Layout(("node",), "P(node is chosen)"),
    "subtrees-with-empty": Layout(("node",), "P(node is chosen)"),
    "permutations": Layout(("item", "position"), "P(item is at position)"),
    "cycles": Layout(("vertex", "other"), "P(neighbours); diagonal: P(on the cycle)"),
    "partitions": Layout(("element", "other"), "P(elements are in the same block)"),
}
"""The meaning of the marginals of each space."""


class SpaceModel(
    Model[float, NDArray[np.float64], NDArray[np.float64], BestState, list[BestState], Samples],
    kind="space",
):
    """A distribution over structures y of a space with log weights s(y) = ⟨θ, φ(y)⟩.

    Models are created by the class methods. A structure is an array of integers: 0 or 1 for each label
    (`hypercube`) or node (`subtrees`), the item at each position (`permutations`), the successor of each
    vertex, or the vertex itself if it is not on the cycle (`cycles`), or the block of each element
    (`partitions`). `factor_marginals` returns E[φ], the gradient of log Z with respect to θ. `marginals`
    returns the probability that a label or node is chosen, [n]; or, [n, n], that an item is at a position,
    that two vertices are neighbours on the cycle (on the diagonal: that the vertex is on the cycle), or that
    two elements are in the same block.

    >>> import zhat
    >>> model = zhat.SpaceModel.permutations(kendall=list(range(10)), spread=0.5)
    >>> model
    SpaceModel(permutations, distance scores, width 10)
    >>> round(model.log_partition().value, 9)
    7.334398364
    """

    @classmethod
    def hypercube(
        cls,
        unary: ArrayLike,
        pairs: Iterable[Pair] = (),
        *,
        signs: bool = False,
        inputs: ArrayLike | None = None,
    ) -> SpaceModel:
        """Subsets of labels with score Σ θᵢyᵢ + Σ w yᵢyⱼ, or Σ Θᵢⱼyᵢxⱼ with `inputs` x.

        With `inputs`, `unary` is Θ with one row per label. With `signs`, a label that is not chosen counts as
        −1 instead of 0.

        >>> import zhat
        >>> round(zhat.SpaceModel.hypercube([0.0, 1.0], [(0, 1, -1.0)]).log_partition().value, 6)
        1.743668
        """
        return cls._of_labels("signs" if signs else "hypercube", (), unary, pairs, inputs)

    @classmethod
    def subtrees(
        cls,
        parents: Sequence[int | None],
        unary: ArrayLike,
        pairs: Iterable[Pair] = (),
        *,
        empty: bool = True,
        inputs: ArrayLike | None = None,
    ) -> SpaceModel:
        """Sets of nodes closed under parents; the root's parent is None or -1.

        `empty` says whether the empty set is included.
        """
        space = "subtrees-with-empty" if empty else "subtrees"
        return cls._of_labels(space, parents, unary, pairs, inputs)

    @classmethod
    def _of_labels(
        cls,
        space: str,
        parents: Sequence[int | None],
        unary: ArrayLike,
        pairs: Iterable[Pair],
        inputs: ArrayLike | None,
    ) -> SpaceModel:
        numbers = _numbers("unary", unary)
        listed = _pairs(pairs)
        if inputs is None:
            kind = "pairwise" if listed else "unary"
            return cls._make(space, len(numbers), parents, kind, numbers, pairs=listed)
        if listed:
            raise InputError("pairs: there are none with inputs")
        x = _numbers("inputs", inputs)
        return cls._make(space, len(numbers), parents, "products", numbers, inputs=x)

    @classmethod
    def permutations(
        cls,
        *,
        position: ArrayLike | None = None,
        precedence: ArrayLike | None = None,
        spread: float = 1.0,
        **reference: Iterable[int],
    ) -> SpaceModel:
        """Permutations of n items.

        The score is Σ position[item, place], Σ precedence[i, j] over i before j, or −spread·distance to a
        reference order, which is given as `kendall=`, `cayley=`, `hamming=`, `footrule=` or `spearman=`.
        """
        given: dict[str, Any] = {**reference, "position": position, "precedence": precedence}
        named = [(name, value) for name, value in given.items() if value is not None]
        if len(named) != 1:
            raise InputError("permutations: expected one of position, precedence and a distance")
        name, value = named[0]
        if name in ("position", "precedence"):
            matrix = _numbers(name, value)
            return cls._make("permutations", len(matrix), (), name, matrix)
        order = integers(name, value)
        return cls._make(
            "permutations", len(order), (), name, np.array([real("spread", spread)]), reference=order
        )

    @classmethod
    def cycles(cls, links: ArrayLike) -> SpaceModel:
        """Undirected cycles through three or more of n vertices with score Σ links[u, v] over the edges.

        The matrix must be symmetric, or only one triangle is nonzero and is used for both.

        >>> import zhat
        >>> zhat.SpaceModel.cycles([[0, 1, 2], [0, 0, 3], [0, 0, 0]]).log_partition().value
        6.0
        """
        matrix = _links(links)
        return cls._make("cycles", len(matrix), (), "links", matrix)

    @classmethod
    def partitions(cls, links: ArrayLike) -> SpaceModel:
        """Partitions of n elements with score Σ links[i, j] over pairs in the same block.

        The matrix must be symmetric, or only one triangle is nonzero and is used for both.
        """
        matrix = _links(links)
        return cls._make("partitions", len(matrix), (), "links", matrix)

    @classmethod
    def of_function(
        cls,
        space: str,
        size: int,
        score: Callable[[list[int]], float],
        *,
        low: float,
        high: float,
        parents: Sequence[int | None] = (),
    ) -> SpaceModel:
        """A model whose score is a function of the structure; values outside [low, high] are an error.

        `space` is hypercube, signs, permutations, cycles, partitions, subtrees or subtrees-with-empty. The
        function gets a list of integers, which are -1 and 1 for `signs`. An exception that it raises becomes
        the `__cause__` of the `InputError` raised by the query.

        >>> import zhat
        >>> model = zhat.SpaceModel.of_function("hypercube", 3, lambda y: float(y[0] * y[2]), low=0, high=1)
        >>> round(model.log_partition().value, 6)
        2.436816
        """
        native = _zhat.space_model_of(
            text("space", space),
            integer("size", size),
            [_parent(p) for p in parents],
            score,
            real("low", low),
            real("high", high),
        )
        return cls._wrap(native)

    def restrict(self, *conditions: Condition) -> SpaceModel:
        """The model restricted to the structures that meet all conditions.

        A condition is a function of a structure, or text: `chosen i` (a label or node is chosen, a vertex is
        on the cycle), `at item position` and `before i j` (permutations), `linked i j` (neighbours on the
        cycle, elements in the same block), each optionally preceded by `not`, and `size least most` (number
        of labels, nodes, vertices or blocks). Exact methods still apply to most conditions given as text; the
        number of structures is estimated if it is unknown. A function has the same argument as in
        `of_function`.

        >>> import zhat
        >>> orders = zhat.SpaceModel.permutations(kendall=range(6), spread=0.0)
        >>> first = orders.restrict("before 5 0", "not at 5 0")
        >>> round(first.log_partition().value, 6) == round(float(np.log(360 - 120)), 6)
        True
        >>> first
        SpaceModel(restricted permutations, distance scores, width 6, 2 conditions)
        """
        given: list[Condition] = [
            condition if callable(condition) else text("conditions", condition) for condition in conditions
        ]
        return self._wrap(self._native.condition(given))

    def _given(self, evidence: Any) -> SpaceModel:
        conditions = [evidence] if isinstance(evidence, str) or callable(evidence) else list(evidence)
        return self.restrict(*conditions)

    @property
    def conditions(self) -> list[str]:
        """The conditions on the structures, as text."""
        return list(self._summary["conditions"])

    @classmethod
    def _make(
        cls,
        space: str,
        size: int,
        parents: Sequence[int | None],
        kind: str,
        numbers: NDArray[np.float64],
        *,
        inputs: NDArray[np.float64] | None = None,
        pairs: list[Pair] | None = None,
        reference: list[int] | None = None,
    ) -> SpaceModel:
        if kind in ("position", "precedence", "links") and numbers.shape != (size, size):
            raise InputError(f"{kind}: expected a square matrix, found the shape {numbers.shape}")
        parts = {
            "table": numbers.ravel().tolist(),
            "inputs": [] if inputs is None else inputs.ravel().tolist(),
            "pairs": pairs or [],
            "reference": reference or [],
        }
        return cls._wrap(_zhat.space_model(space, size, [_parent(p) for p in parents], kind, parts))

    @cached_property
    def _summary(self) -> dict[str, Any]:
        figures: dict[str, Any] = json.loads(self._native.summary())
        return figures

    @property
    def space(self) -> str:
        """The name of the space."""
        return str(self._summary["space"])

    @property
    def width(self) -> int:
        """The number of integers in a structure."""
        return int(self._summary["width"])

    @property
    def log_count(self) -> float | None:
        """The logarithm of the number of structures; None if it is unknown."""
        count = self._summary["log_count"]
        return None if count is None else float(count)

    @property
    def range(self) -> tuple[float, float]:
        """A lower and an upper bound on all scores."""
        return float(self._summary["lowest_score"]), float(self._summary["highest_score"])

    def score(self, structure: Iterable[int]) -> float:
        """The log weight of a structure.

        >>> import zhat
        >>> zhat.SpaceModel.cycles([[0, 1, 2], [1, 0, 3], [2, 3, 0]]).score([1, 2, 0])
        6.0
        """
        return _zhat.space_score(self._native, integers("structure", structure))

    def _layout(self, query: str) -> Layout:
        known = _LAYOUTS.get(self.space.removeprefix("restricted "))
        return known if known is not None and query == "marginals" else Layout()

    def _numbers(self, raw: Any) -> float:
        return float(raw)

    def _factor_marginals(self, raw: Any) -> NDArray[np.float64]:
        return np.asarray(raw["parameters"])

    def _figures(self) -> dict[str, str]:
        scores = f"{self._summary['scores']} scores"
        figures = {"space": self.space, "scores": scores, "width": f"width {self.width}"}
        conditions = len(self.conditions)
        if conditions:
            figures["conditions"] = f"{conditions} condition{'s' if conditions > 1 else ''}"
        return figures

    def __hash__(self) -> int:
        """A hash that equal models share."""
        return hash((self.space, self._summary["scores"], self.width, self.range))


def _numbers(name: str, values: Any) -> NDArray[np.float64]:
    return scores(name, values, np.dtype(np.float64))


def _pairs(pairs: Iterable[Any]) -> list[Pair]:
    return [(integer("pairs", i), integer("pairs", j), real("pairs", w)) for i, j, w in pairs]


def _links(values: ArrayLike) -> NDArray[np.float64]:
    """A symmetric matrix, given as such or by one triangle with zeros in the other."""
    matrix = _numbers("links", values)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        return matrix
    lower, upper = np.tril(matrix, -1), np.triu(matrix, 1)
    if not lower.any() or not upper.any():
        return matrix + lower.T + upper.T
    differ = np.argwhere((upper != lower.T) & ~np.isnan(matrix) & ~np.isnan(matrix.T))
    if len(differ):
        i, j = (int(index) for index in differ[0])
        raise InputError(
            f"links: the scores of ({i}, {j}) and ({j}, {i}) differ; "
            "expected a symmetric matrix, or one triangle and zeros in the other"
        )
    return matrix


def _parent(parent: int | None) -> int | None:
    """The parent as a nonnegative integer; None or -1 for the root."""
    return None if parent is None or parent == -1 else integer("parents", parent)
