"""Pairwise graphs of variables with very many states."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from . import _zhat
from ._arguments import FilePath, integer, integers, precision, real, scores, settings, text
from ._evidence import Known, finding, number
from ._model import Model
from .answer import Layout
from .errors import InputError
from .model import FactorGraph
from .runtime import Progress, run

_MOST_NUMBERS = 10**8
"""Of the tables of a factor graph that is made of a pairwise graph."""


@dataclass(frozen=True)
class PairwiseGradient:
    """A gradient with respect to every parameter of a pairwise graph, in the shapes of the parameters.

    The gradient of log Z consists of probabilities: `nodes` of the states of each variable, `interactions` of
    pairs of states, summed over the edges that share them. Parameters that a model does not have are `None`.
    """

    nodes: NDArray[Any]
    interactions: NDArray[Any] | None = None
    left: NDArray[Any] | None = None
    right: NDArray[Any] | None = None


class PairwiseGraph(Model[float, NDArray[Any], PairwiseGradient, Any, Any, Any], kind="pairwise-graph"):
    """V variables with N states each: p(x) ∝ exp(Σ node(v, xᵥ) + Σ interaction(xᵢ, xⱼ)) over edges (i, j).

    `nodes` is (V, N), `edges` are pairs of variables. `interactions` is (N, N), with the state of the first
    variable of an edge as the row, or (E, N, N) for one table per edge. Alternatively, embeddings `left` and
    `right` (N, D) define interaction(x, y) = left[x] · right[y]; `right` defaults to `left`. The table is
    then never computed, so N may be 100,000.

    All values are logarithms, and −inf forbids a state. The precision is that of `nodes`, float32 or float64.
    C-contiguous arrays of that precision are used in place, without a copy.

    `log_partition`, `marginals` (V, N), `factor_marginals` (a `PairwiseGradient`) and `entropy` are supported
    by the methods "bp" (exact on forests) and "randomized-bp" (keeps a few states of each variable, for very
    many states). `to_factor_graph` has every query, and is exact with cycles.

    >>> import numpy as np, zhat
    >>> graph = zhat.PairwiseGraph(np.zeros((3, 2)), [(0, 1), (1, 2)], [[1.0, 0.0], [0.0, 1.0]])
    >>> graph
    PairwiseGraph(3 variables, 2 edges, 2 states, shared interactions, float64)
    >>> round(graph.log_partition().value, 6)
    3.319671
    """

    def __init__(
        self,
        nodes: ArrayLike,
        edges: Iterable[tuple[int, int]],
        interactions: ArrayLike | None = None,
        *,
        left: ArrayLike | None = None,
        right: ArrayLike | None = None,
    ) -> None:
        """Builds and checks the model."""
        array = scores("nodes", nodes)
        if array.ndim != 2:
            raise InputError(f"nodes: found shape {array.shape}, expected (V, N)")
        if (interactions is None) == (left is None):
            raise InputError("interactions: expected either these, or left for factored ones")
        if right is not None and left is None:
            raise InputError("right: embeddings on the right need some on the left")

        def like(name: str, values: ArrayLike | None) -> NDArray[Any] | None:
            return None if values is None else scores(name, values, array.dtype)

        self._native = _zhat.pairwise(
            array,
            [_pair(edge) for edge in edges],
            like("interactions", interactions),
            like("left", left),
            like("right", right),
        )

    @property
    def nodes(self) -> NDArray[Any]:
        """The node scores (V, N). Like all parameters, a read-only view of the model's memory."""
        return np.asarray(self._parameters["nodes"])

    @property
    def edges(self) -> NDArray[Any]:
        """The edges (E, 2)."""
        return np.asarray(self._parameters["edges"])

    @property
    def interactions(self) -> NDArray[Any] | None:
        """The interactions, (N, N) or (E, N, N); `None` if they are factored."""
        return self._parameters.get("interactions")

    @property
    def left(self) -> NDArray[Any] | None:
        """The left embeddings (N, D) of factored interactions."""
        return self._parameters.get("left")

    @property
    def right(self) -> NDArray[Any] | None:
        """The right embeddings (N, D) of factored interactions, if they differ from `left`."""
        return self._parameters.get("right")

    @property
    def n_variables(self) -> int:
        """V, the number of variables."""
        return int(self.nodes.shape[0])

    @property
    def n_states(self) -> int:
        """N, the number of states of every variable."""
        return int(self.nodes.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """The precision: float32 or float64."""
        return self.nodes.dtype

    def condition(self, evidence: Mapping[int, Known]) -> PairwiseGraph:
        """The model conditioned on what is known about variables: `{variable: state}`.

        Instead of a state: a set of possible states, or likelihoods, one nonnegative weight per state.

        >>> import numpy as np, zhat
        >>> agree = zhat.PairwiseGraph(np.zeros((2, 2)), [(0, 1)], [[1.0, 0.0], [0.0, 1.0]])
        >>> agree.condition({0: [0.2, 0.7]}).marginals().value[0].round(4).tolist()
        [0.2222, 0.7778]
        """
        if not isinstance(evidence, Mapping):
            raise InputError(f"evidence: expected a dict of variables and states, found {evidence!r}")
        items = [(number(v), finding(v, known)) for v, known in evidence.items()]
        return self._wrap(self._native.condition(items))

    def score(self, state: Iterable[int]) -> float:
        """The log weight of a state of all variables.

        >>> import numpy as np, zhat
        >>> zhat.PairwiseGraph(np.zeros((2, 2)), [(0, 1)], [[1.0, 0.0], [0.0, 1.0]]).score([1, 1])
        1.0
        """
        return _zhat.graph_score(self._native, integers("state", state))

    def relaxed_sample(
        self,
        n: int = 1,
        temperature: float = 1.0,
        *,
        seed: int = 0,
        threads: int | None = None,
        memory: int | str | None = None,
        time: float | str | None = None,
        progress: Progress | None = None,
        **options: object,
    ) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """`n` relaxed samples over a few states of each variable: marginals under Gumbel noise.

        Entry e is `values[e]` at `index[e]`, a row (sample, variable, state); the values of a variable sum to
        one. The options are those of the method "randomized-bp". At a lower temperature, a sample is closer
        to a single state of each variable.

        >>> import zhat
        >>> graph = zhat.generate.pairwise(rows=2, columns=2, states=500)
        >>> index, values = graph.relaxed_sample(n=3, temperature=0.5, states=20)
        >>> index.shape[1], round(float(values.sum()), 6)  # three samples of four variables
        (3, 12.0)
        """
        how = run(seed, threads, memory, time, progress)
        own = (self._native, integer("n", n), real("temperature", temperature))
        return _zhat.pairwise_relaxed_sample(*own, settings(options), how)

    def to_factor_graph(self) -> FactorGraph:
        """The same distribution as a factor graph, which has more queries and methods.

        The factors are the scores of the V variables, then a table of each edge. They need memory for
        V·N + E·N² numbers; a graph with more than 10⁸ of them is an error.

        >>> import numpy as np, zhat
        >>> agree = [[1.0, 0.0], [0.0, 1.0]]
        >>> triangle = zhat.PairwiseGraph(np.zeros((3, 2)), [(0, 1), (1, 2), (0, 2)], agree)
        >>> graph = triangle.to_factor_graph()
        >>> graph.log_partition().guarantee.kind, graph.map().value.score
        ('exact', 3.0)
        """
        edges, n = self.edges.tolist(), self.n_states
        count = self.n_variables * n + len(edges) * n * n
        if count > _MOST_NUMBERS:
            raise InputError(f"model: its tables have {count} numbers; at most {_MOST_NUMBERS} are possible")
        table = self.interactions
        if self.left is not None:
            right = self.left if self.right is None else self.right
            table = self.left.astype(np.float64) @ right.astype(np.float64).T
        assert table is not None
        tables = [table] * len(edges) if table.ndim == 2 else list(table)
        factors = [([v], scores) for v, scores in enumerate(self.nodes)]
        factors += [(edge, own) for edge, own in zip(edges, tables, strict=True)]
        return FactorGraph([n] * self.n_variables, factors)

    def _is_forest(self) -> bool:
        """Whether the graph has no cycle."""
        leader = list(range(self.n_variables))
        for i, j in self.edges.tolist():
            while leader[i] != i:
                leader[i] = i = leader[leader[i]]
            while leader[j] != j:
                leader[j] = j = leader[leader[j]]
            if i == j:
                return False
            leader[i] = j
        return True

    def save(self, path: FilePath) -> None:
        """Writes the model to a `.zhat` file; a small model can also be written to a `.uai` file."""
        self._native.save(path)

    def _layout(self, query: str) -> Layout:
        return Layout(("variable", "state")) if query == "marginals" else Layout()

    def _numbers(self, raw: Any) -> float:
        return float(raw)

    def _factor_marginals(self, raw: Any) -> PairwiseGradient:
        return PairwiseGradient(**raw)

    def _figures(self) -> dict[str, str]:
        if self.left is not None:
            interactions = f"factored interactions of rank {self.left.shape[1]}"
        else:
            per_edge = self.interactions is not None and self.interactions.ndim == 3
            interactions = f"{'per-edge' if per_edge else 'shared'} interactions"
        return {
            "variables": f"{self.n_variables} variables",
            "edges": f"{len(self.edges)} edges",
            "states": f"{self.n_states} states",
            "interactions": interactions,
            "precision": str(self.dtype),
        }

    def __hash__(self) -> int:
        """A hash that equal models share."""
        return hash((self.n_variables, self.n_states, len(self.edges)))


def random_graph(
    rows: int = 10,
    columns: int = 10,
    *,
    tree: bool = False,
    states: int = 100,
    interactions: str = "shared",
    rank: int = 10,
    tied: bool = False,
    strength: float = 1.0,
    coupling: float = 0.5,
    dtype: DTypeLike = np.float64,
    seed: int = 0,
) -> PairwiseGraph:
    """A grid of variables with many states, or with `tree` a random tree of rows × columns variables.

    Node scores are normal with standard deviation `strength`, interactions with standard deviation
    `coupling`. `interactions` are `shared`, `per-step` (one table per edge) or `factored` with embeddings of
    dimension `rank`, the same on both sides if `tied`.

    >>> import zhat
    >>> zhat.generate.pairwise(rows=3, columns=4, states=20)
    PairwiseGraph(12 variables, 17 edges, 20 states, shared interactions, float64)
    """
    native = _zhat.random_pairwise(
        (integer("rows", rows), integer("columns", columns), bool(tree), integer("states", states)),
        (text("interactions", interactions), integer("rank", rank), bool(tied)),
        (real("strength", strength), real("coupling", coupling), precision(dtype)),
        integer("seed", seed, 0, 2**64 - 1),
    )
    return PairwiseGraph._wrap(native)


def _pair(edge: Any) -> tuple[int, int]:
    try:
        i, j = edge
    except (TypeError, ValueError):
        raise InputError(f"edges: expected pairs of variables, found {edge!r}") from None
    return integer("edges", i), integer("edges", j)
