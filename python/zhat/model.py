"""Factor graphs and reading of models. Models are checked when built and immutable."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _zhat
from ._arguments import FilePath, integer, integers, log_table, text, texts
from ._evidence import Evidence, finding
from ._model import KINDS, Model, of_kind
from .answer import Answer, Beliefs, BestState, FactorBeliefs, Names, Samples
from .errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class FactorGraph(
    Model[float, Beliefs, FactorBeliefs, BestState, list[BestState], Samples], kind="factor-graph"
):
    """p(x) = exp(Σ θ(x)) / Z over discrete variables: a product of factors, tables over few variables each.

    `cardinalities` are the numbers of states. `factors` are pairs of a scope (the variables, by number) and
    the values θ: an array of real numbers with one axis per variable, or a flat array in which the last
    variable changes fastest. Values are logarithms, and −inf forbids a combination; with `log=False` they are
    nonnegative weights. `names` are the names of the variables, `state_names` those of the states of each
    variable (`None` if they are numbered).

    Every query of `zhat.queries` is a method. Models are immutable and can be compared, copied and pickled.

    >>> import zhat
    >>> rain = zhat.FactorGraph(
    ...     [2, 2],
    ...     [((0,), [0.8, 0.2]), ((0, 1), [[0.9, 0.1], [0.2, 0.8]])],
    ...     log=False,
    ...     names=["rain", "wet"],
    ...     state_names=[["no", "yes"], ["no", "yes"]],
    ... )
    >>> rain
    FactorGraph(2 variables, 2 states each, 2 factors)
    >>> rain.condition({"wet": "yes"}).marginals().value.by_name()["rain"].round(4).tolist()
    [0.3333, 0.6667]
    """

    def __init__(
        self,
        cardinalities: Iterable[int],
        factors: Iterable[tuple[Iterable[int], ArrayLike]] = (),
        *,
        log: bool = True,
        names: Iterable[str] | None = None,
        state_names: Iterable[Iterable[str] | None] | None = None,
    ) -> None:
        """Builds and checks the model."""
        sizes = integers("cardinalities", cardinalities)
        self._native = _zhat.Model(
            sizes,
            [_factor(f"factors[{f}]", factor, log) for f, factor in enumerate(factors)],
            _names(len(sizes), names, state_names),
        )

    @classmethod
    def read(cls, path: FilePath, evidence: FilePath | None = None) -> FactorGraph:
        """Reads a factor graph, as `zhat.read`; any other kind of model is an error."""
        return cls._wrap(of_kind("factor-graph", _zhat.Model.read(path, evidence)))

    @cached_property
    def cardinalities(self) -> tuple[int, ...]:
        """The number of states of each variable."""
        return tuple(self._native.cardinalities)

    @property
    def n_variables(self) -> int:
        """The number of variables."""
        return len(self.cardinalities)

    @property
    def n_factors(self) -> int:
        """The number of factors."""
        return self._native.factor_count

    @property
    def factors(self) -> list[tuple[tuple[int, ...], NDArray[np.float64]]]:
        """The factors: the scope, and a copy of the log values with one axis per variable."""
        return self._native.factors

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names of the variables, if they have any."""
        return self._names.variables if self._names else None

    @property
    def state_names(self) -> tuple[tuple[str, ...], ...] | None:
        """The names of each variable's states (empty if they are numbered), if the model has names."""
        return self._names.states if self._names else None

    @property
    def evidence(self) -> dict[int, int]:
        """The observed states by variable."""
        return dict(self._native.evidence)

    @property
    def uncertain_evidence(self) -> list[int]:
        """The variables about which sets of states or likelihoods were given; a variable may occur twice."""
        return self._native.uncertain_evidence

    @cached_property
    def _names(self) -> Names | None:
        names = self._native.names
        return names and Names(tuple(names[0]), tuple(tuple(states) for states in names[1]))

    def score(self, state: Iterable[int]) -> float:
        """The log weight of a state, given as one number per variable.

        >>> import zhat
        >>> zhat.FactorGraph([2, 2], [((0, 1), [[0.0, 1.0], [2.0, 3.0]])]).score([1, 0])
        2.0
        """
        return self._native.score(integers("state", state))

    def condition(self, evidence: Evidence) -> FactorGraph:
        """The model conditioned on what is known about variables: `{variable: state}`.

        Instead of a state: a set of possible states, or a list or array of likelihoods, one nonnegative
        weight per state, by which the weight of the model is multiplied. Variables and states are given by
        number or by name.

        The variables keep their numbers. The log partition function of the result is the log of the sum of
        all weights, each times its likelihoods; without likelihoods, that is the log weight of the
        evidence.

        >>> import zhat
        >>> model = zhat.FactorGraph([2, 3], [((0, 1), [[0.0, 1.0, 4.0], [2.0, 3.0, 5.0]])])
        >>> model.condition({0: 0}).map().value.state.tolist()
        [0, 2]
        >>> model.condition({0: [0.8, 0.1], 1: {0, 1}}).map().value.state.tolist()
        [0, 1]
        """
        if not isinstance(evidence, Mapping):
            raise InputError(f"evidence: expected a dict of variables and states, found {evidence!r}")
        return self._wrap(
            self._native.condition([(_label(v), finding(v, known, _label)) for v, known in evidence.items()])
        )

    def save(self, path: FilePath) -> None:
        """Writes the model. The file extension determines the format: `.zhat` (exact), `.uai` (text), or for
        Bayesian networks with names `.bif`, `.xmlbif` or `.net`."""
        self._native.save(path)

    def info(self, *, memory: int | str | None = None, time: float | str | None = None) -> dict[str, Any]:
        """Sizes, and under `methods` whether each method and query fits the budget, its cost and guarantee.

        `can` says whether the method fits the budget: 80% of the free memory and ten minutes by default.
        `free` is the number of variables that are not determined by evidence and zeros. `width` is the number
        of variables in the largest table of exact inference, minus one; `None` means that it is infeasible.
        `barren` is the number of variables that are not needed for log Z.

        >>> import zhat
        >>> info = zhat.generate.ising(rows=5, columns=5).info()
        >>> info["variables"], info["factors"], info["width"]
        (25, 65, 5)
        >>> info["methods"]["elimination"]["marginals"]["guarantee"]
        'exact'
        """
        return self._info(memory, time)

    def plot(self, marginals: Answer[Beliefs] | Beliefs | None = None, ax: Axes | None = None) -> Axes:
        """Draws the graph with matplotlib and returns the axes; a new figure is created without `ax`.

        Variables are circles. A factor of two variables is a line, one of more variables a square with a line
        to each. With `marginals`, the colour of a variable is the probability of its last state.

        >>> import zhat
        >>> grid = zhat.generate.ising(rows=5, columns=5)
        >>> ax = grid.plot(grid.marginals())  # doctest: +SKIP
        """
        from ._plot import graph

        return graph(self, marginals.value if isinstance(marginals, Answer) else marginals, ax)

    def to_pgmpy(self, network: bool | None = None) -> Any:
        """The model for pgmpy: a `DiscreteBayesianNetwork` if this is one, else a `DiscreteMarkovNetwork`.

        A model is a Bayesian network if it was read or converted from one and has no evidence; each factor is
        then the conditional table of its last variable. `network=True` asks for a Bayesian network, and
        explains what is missing if the model is none; with `network=False` the result is always a Markov
        network. Names, orders and scales are kept. In a Markov network, constants are multiplied into the
        first factor, and a variable without a factor gets one of ones.
        """
        from .bridges import to_pgmpy

        return to_pgmpy(self, network)

    def to_pyagrum(self, network: bool | None = None) -> Any:
        """The model for pyAgrum: a `BayesNet` if this is a Bayesian network, else a `MarkovRandomField`.

        `network` is that of `to_pgmpy`. pyAgrum stores a single factor per set of variables: factors over the
        same variables are multiplied.
        """
        from .bridges import to_pyagrum

        return to_pyagrum(self, network)

    def to_networkx(self, bipartite: bool = False) -> Any:
        """The model as a `networkx.Graph` with an edge between any two variables that share a factor.

        Nodes have the attribute `states` if the states are named, otherwise `cardinality`. If no factor has
        more than two variables, nodes and edges also have the attributes that `zhat.from_networkx` reads, so
        that it restores the model; tables of the same variables are added up.

        With `bipartite=True`, the result is the factor graph: variables have the attribute `bipartite=0`, and
        factor f is a node `("factor", f)` with `bipartite=1`, `variables` and `log_values`. `from_networkx`
        restores every model from it.
        """
        from .bridges import to_networkx

        return to_networkx(self, bipartite)

    def to_pomegranate(self) -> Any:
        """The model as a `BayesianNetwork` of pomegranate, in single precision and without names.

        A model that is not a Bayesian network is an error; see `to_pgmpy`.
        """
        from .bridges import to_pomegranate

        return to_pomegranate(self)

    def _chosen(self, marginals: Beliefs, variables: Iterable[int | str]) -> Beliefs:
        if isinstance(variables, (str, bytes)):
            raise InputError(f"variables: expected a list of names or numbers, found {variables!r}")
        return marginals.of([self._native.variable(_label(v)) for v in variables])

    def _numbers(self, raw: Any) -> float:
        return float(raw)

    def _marginals(self, raw: Any) -> Beliefs:
        return Beliefs(raw["marginals"], self.cardinalities, self._names)

    def _factor_marginals(self, raw: Any) -> FactorBeliefs:
        return FactorBeliefs(raw["factors"], tuple(self._native.scopes), self.cardinalities, self._names)

    def _samples(self, raw: Any) -> Samples:
        states, law, log_weights, distance = raw[0]
        return Samples(states, law, log_weights, distance, self._names)

    def _found(self, state: NDArray[np.int64], score: float) -> BestState:
        return BestState(state, score, self._names)

    def __repr__(self) -> str:
        """The sizes in one line."""
        observed = f", {self._observed()}" if self._observed() else ""
        variables = f"{self.n_variables} variables, {self._domains()}"
        return f"FactorGraph({variables}, {self.n_factors} factors{observed})"

    def _figures(self) -> dict[str, str]:
        rows = {"variables": f"{self.n_variables}, {self._domains()}", "factors": str(self.n_factors)}
        if self.names:
            rows["names"] = ", ".join(self.names[:8]) + (", …" if len(self.names) > 8 else "")
        if self._observed():
            rows["evidence"] = self._observed()
        return rows

    def _observed(self) -> str:
        counts = {"observed": len(self.evidence), "uncertain": len(self.uncertain_evidence)}
        return ", ".join(f"{count} {name}" for name, count in counts.items() if count)

    def _domains(self) -> str:
        sizes = sorted(Counter(self.cardinalities))
        if len(sizes) < 2:
            return f"{sizes[0]} states each" if sizes else "1 state in all"
        return f"{sizes[0]} to {sizes[-1]} states"

    def __hash__(self) -> int:
        """A hash that equal models share."""
        return hash((self.cardinalities, self.n_factors))


def read(path: FilePath, evidence: FilePath | None = None) -> Any:
    """Reads a model from a `.uai`, `.bif`, XMLBIF, `.net` or `.zhat` file or a text grammar, and evidence in
    the UAI format.

    Files may be compressed (`.gz`, `.zst`). The format and the kind of model are determined by the content,
    not by the file name. The class of the result depends on the kind, and may be `LanguageModel` or `Hmm`;
    `FactorGraph.read`, `Chain.read` and so on accept only their own kind. Evidence is supported only for
    factor graphs and is read only if given.

    >>> import os, tempfile, zhat
    >>> path = os.path.join(tempfile.mkdtemp(), "tree.zhat")
    >>> tree = zhat.generate.tree(variables=9)
    >>> tree.save(path)
    >>> zhat.read(path) == tree
    True
    """
    kind = _kind_in_header(path)
    if kind.startswith("language-model"):
        from .language import LanguageModel

        return LanguageModel.read(path)
    if kind == "hmm":
        from .hidden_markov import Hmm

        return Hmm.load(path)
    native = _zhat.Model.read(path, evidence)
    known = KINDS.get(native.kind)
    if known is None:
        raise InputError(f"the file has a {native.kind}, for which there is no class", kind="parse")
    return known._wrap(native)


def _kind_in_header(path: FilePath) -> str:
    """The kind in the header of a `.zhat` file; empty for other files."""
    name = os.fspath(path)  # a TypeError for a number, which `open` would take for a file descriptor
    try:
        with open(name, "rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = file.read(length) if 0 < length < 1 << 26 else b""
        return str(json.loads(header)["__metadata__"]["kind"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _factor(
    name: str, factor: tuple[Iterable[int], ArrayLike], log: bool
) -> tuple[list[int], NDArray[np.float64]]:
    try:
        scope, values = factor
    except (TypeError, ValueError):
        raise InputError(f"{name}: expected a pair of scope and values, found {factor!r}") from None
    return integers(f"{name} scope", scope), log_table(name, values, log)


def _names(
    variables: int, names: Iterable[str] | None, state_names: Iterable[Iterable[str] | None] | None
) -> tuple[list[str], list[list[str]]] | None:
    if names is None and state_names is None:
        return None
    own = [f"x{v}" for v in range(variables)] if names is None else texts("names", names)
    if state_names is None:
        return own, [[] for _ in own]
    states: Sequence[Iterable[str] | None] = list(state_names)
    return own, [texts(f"state_names[{v}]", () if s is None else s) for v, s in enumerate(states)]


def _label(label: int | str) -> int | str:
    return text("evidence", label) if isinstance(label, str) else integer("evidence", label)
