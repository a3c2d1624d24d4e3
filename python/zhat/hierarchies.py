"""`HierarchyClassifier`: nodes of a hierarchy with calibrated probabilities."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _zhat
from ._arguments import FilePath
from ._predictor import StructuredPredictor, pairs_of
from ._targets import (
    Observed,
    array_like,
    as_classes,
    binary,
    in_order,
    indicators,
    is_collection,
    matrix,
    place,
    places_of,
    plain,
    sets_of,
    sparse_indicators,
)
from .errors import InputError


class HierarchyClassifier(StructuredPredictor):
    """Hierarchical multi-label classification: sets of nodes that contain the parents of their members.

    p(y | x) ∝ exp(Σᵢ yᵢ·⟨wᵢ, x⟩) over the sets of nodes in which every node comes with its parent. A
    prediction is always consistent with the hierarchy, may have several paths, and may end above the
    leaves.

    `hierarchy` maps every node to its parent, `None` for a root, or lists paths such as "animal/dog".
    Without it, the nodes are the paths in `y`. Several roots are allowed; a node has one parent.

    `y` has one node or a collection of nodes per row, whose ancestors are added; a text can hold several
    nodes, separated by `@`. It can also be a matrix of zeros and ones (NumPy, SciPy sparse, or a frame,
    whose columns name the nodes) with one column per node, ancestors included. `predict` returns a matrix,
    `predict_proba` the probability of every node, which is at most that of its parent, `score` the share of
    rows whose whole set is right. `predict_structures` lists the deepest nodes. A vector `y` of two
    numbers, without `hierarchy`, is binary classification, as for `LabelSetClassifier`.

    - `pairs`: the pairs of siblings with a score: "none", "chow-liu", "chow-liu+M", "all" or a list of
      pairs.
    - `decision`: "most-probable", "hamming" or "f1".

    The other parameters and the attributes are those of `LabelSetClassifier`; `classes_` are the nodes, and
    `hierarchy_` maps them to their parents.

    >>> import zhat
    >>> X = [[-2.0, 0.0], [-1.0, 1.0], [-1.5, 1.0], [1.0, 1.0], [2.0, 0.0], [1.5, 0.5]]
    >>> y = ["animal/dog", "animal/cat", "animal/cat", "plant", "plant", "plant"]
    >>> model = zhat.HierarchyClassifier(alpha=0.01).fit(X, y)
    >>> model.classes_.tolist()
    ['animal', 'animal/cat', 'animal/dog', 'plant']
    >>> model.predict([[-1.0, 1.0]]).tolist()
    [[1, 1, 0, 0]]
    >>> model.predict_structures([[-1.0, 1.0]])[0].structure
    ('animal/cat',)
    """

    _space = "hierarchy"
    _kind = "classifier"
    _decisions = ("most-probable", "hamming", "f1")

    hierarchy_: dict[Any, Any]

    def __init__(
        self,
        *,
        hierarchy: Mapping[Any, Any] | Iterable[str] | None = None,
        pairs: str | Iterable[tuple[Any, Any]] = "none",
        pairs_by_input: bool = False,
        scaling: str = "auto",
        fourier: int | None = None,
        gamma: float | None = None,
        alpha: float | str | Iterable[float] = 1e-3,
        folds: int = 5,
        method: str = "batch",
        samples: int = 1,
        batch: int = 1,
        step_share: float = 1.0,
        gap: float = 1e-6,
        failure: float = 0.05,
        max_iter: int = 1000,
        decision: str = "most-probable",
        checkpoint: FilePath | None = None,
        keep_every: float = 30.0,
        seed: int = 0,
        threads: int | None = None,
        memory: int | str | None = None,
        time: float | str | None = None,
        progress: Callable[[str, int, int], object] | bool | None = None,
    ) -> None:
        """Stores the parameters."""
        self.hierarchy = hierarchy
        self.pairs = pairs
        self.pairs_by_input = pairs_by_input
        self.scaling = scaling
        self.fourier = fourier
        self.gamma = gamma
        self.alpha = alpha
        self.folds = folds
        self.method = method
        self.samples = samples
        self.batch = batch
        self.step_share = step_share
        self.gap = gap
        self.failure = failure
        self.max_iter = max_iter
        self.decision = decision
        self.checkpoint = checkpoint
        self.keep_every = keep_every
        self.seed = seed
        self.threads = threads
        self.memory = memory
        self.time = time
        self.progress = progress

    def _read(self, y: Any, training: bool) -> Observed:
        y = array_like(y)
        if not training:
            return binary(y, self.classes_) if self._binary else self._observed(y, self.hierarchy_)
        given = None if self.hierarchy is None else _forest(self.hierarchy)
        if given is None and hasattr(y, "columns"):
            given = _forest([str(name) for name in y.columns])
            extra = [name for name in given if name not in set(map(str, y.columns))]
            if extra:
                raise InputError(f"y: there is no column for the node {extra[0]!r}")
        elif given is None and _is_numeric(y):
            self.hierarchy_ = {1: None}
            return binary(y, None)
        elif given is None and not hasattr(y, "tocsr") and not _is_matrix(y):
            nodes = [node for row in y for node in _nodes(row)]
            paths = any(isinstance(node, str) and "/" in node for node in nodes)
            given = _forest(in_order(map(str, nodes))) if paths else dict.fromkeys(in_order(nodes))
        if given is None:
            width = (y if hasattr(y, "shape") else np.asarray(y)).shape[1]
            given = dict.fromkeys(range(width))
        if not given:
            raise InputError("y: there are no nodes")
        observed = self._observed(y, given)
        self.hierarchy_ = given
        return observed

    def _observed(self, y: Any, hierarchy: dict[Any, Any]) -> Observed:
        classes = as_classes(list(hierarchy))
        if hasattr(y, "tocsr"):
            return _closed(sparse_indicators(y, classes, "node"), hierarchy)
        if hasattr(y, "columns") or _is_matrix(y):
            return _closed(indicators(*matrix(y, classes, "node")), hierarchy)
        places = places_of(classes)
        above = _above(hierarchy)
        members = []
        for i, row in enumerate(y):
            found: set[int] = set()
            for node in _nodes(row):
                at: int | None = place(node, places, i, "node")
                while at is not None and at not in found:
                    found.add(at)
                    at = above[at]
            members.append(sorted(found))
        return sets_of(members, classes)

    def _parents(self) -> list[int | None]:
        return _above(self.hierarchy_)

    def _features(self, classes: NDArray[Any]) -> dict[str, Any]:
        return {
            "pairs": pairs_of(self.pairs, classes),
            "pairs_by_input": bool(self.pairs_by_input),
            "ranking": "plackett-luce",
        }

    def _shown(self, structure: NDArray[np.uint32]) -> tuple[Any, ...]:
        if self._binary:
            return (plain(self._as_target(structure[np.newaxis])[0]),)
        inner = {self._parents()[i] for i in np.flatnonzero(structure)}
        return tuple(plain(self.classes_[i]) for i in np.flatnonzero(structure) if i not in inner)

    @property
    def pairs_(self) -> list[tuple[Any, Any]]:
        """The pairs of nodes that have a score."""
        names = [plain(name) for name in self.classes_] if self.__sklearn_is_fitted__() else []
        return [(names[i], names[j]) for i, j in self._fitted().pairs]

    @classmethod
    def _restored(cls, native: _zhat.Predictor) -> dict[str, Any]:
        names = native.names
        pairs = [(names[i], names[j]) for i, j in native.pairs]
        parents = native.parents
        hierarchy = {
            name: None if parent is None else names[parent]
            for name, parent in zip(names, parents, strict=True)
        }
        return {**super()._restored(native), "hierarchy": hierarchy, "pairs": pairs or "none"}

    def _take(self, native: _zhat.Predictor, classes: NDArray[Any], names: list[str] | None) -> None:
        super()._take(native, classes, names)
        nodes = [plain(name) for name in (classes[-1:] if self._binary else classes)]
        self.hierarchy_ = {
            node: None if parent is None else nodes[parent]
            for node, parent in zip(nodes, native.parents, strict=True)
        }


def _is_matrix(y: Any) -> bool:
    """Whether `y` is a matrix of numbers."""
    if isinstance(y, np.ndarray):
        return y.ndim != 1
    rows = y if isinstance(y, (list, tuple)) else []
    return len(rows) > 0 and all(
        isinstance(row, (list, tuple, np.ndarray))
        and len(row) == len(rows[0])
        and all(isinstance(value, (int, float, np.number, np.bool_)) for value in row)
        for row in rows
    )


def _is_numeric(y: Any) -> bool:
    """Whether `y` is a vector of numbers."""
    return (
        not hasattr(y, "tocsr")
        and not _is_matrix(y)
        and np.asarray(y, dtype=object).ndim == 1
        and all(isinstance(value, (int, float, np.number, np.bool_)) for value in y)
    )


def _nodes(row: Any) -> list[Any]:
    """The nodes of a row."""
    if isinstance(row, str):
        return [part.strip() for part in row.split("@") if part.strip()]
    return [plain(node) for node in row] if is_collection(row) else [plain(row)]


def _forest(hierarchy: Mapping[Any, Any] | Iterable[str]) -> dict[Any, Any]:
    """Every node with its parent."""
    found: dict[Any, Any] = {}
    if not isinstance(hierarchy, Mapping):
        for path in hierarchy:
            if not isinstance(path, str) or not path or "" in path.split("/"):
                raise InputError(f"hierarchy: expected paths such as 'a/b', found {path!r}")
            parts = path.split("/")
            for depth in range(1, len(parts) + 1):
                found["/".join(parts[:depth])] = "/".join(parts[: depth - 1]) or None
        return found
    for node, parent in hierarchy.items():
        if is_collection(parent):
            raise InputError(f"hierarchy: node {node!r} has the parents {parent!r}: trees only")
        if parent is not None and parent not in hierarchy:
            raise InputError(f"hierarchy: the parent {parent!r} of node {node!r} is no node")
        found[plain(node)] = None if parent is None else plain(parent)
    for node in found:
        above, steps = found[node], 0
        while above is not None:
            steps += 1
            if above == node or steps > len(found):
                raise InputError(f"hierarchy: node {node!r} is its own ancestor: trees only")
            above = found[above]
    return found


def _above(hierarchy: dict[Any, Any]) -> list[int | None]:
    """The place of the parent of every node."""
    places = {node: i for i, node in enumerate(hierarchy)}
    return [None if parent is None else places[parent] for parent in hierarchy.values()]


def _closed(observed: Observed, hierarchy: dict[Any, Any]) -> Observed:
    """Refuses a row that has a node without its parent."""
    _, _, ends, members = observed.native
    above, nodes = _above(hierarchy), list(hierarchy)
    if any(parent is not None for parent in above):
        start = 0
        for row, end in enumerate(ends):
            own = set(members[start:end].tolist())
            for node in sorted(own):
                parent = above[node]
                if parent is not None and parent not in own:
                    raise InputError(
                        f"y: row {row} contains node {nodes[node]!r} without its parent {nodes[parent]!r}"
                    )
            start = end
    return observed
