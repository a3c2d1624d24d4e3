"""Models of sequences: chains of hidden states and semi-Markov chains."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _zhat
from ._arguments import integer, integers, scores
from ._batch import Batched
from ._evidence import Known
from .answer import Layout
from .errors import InputError
from .sequence_answer import ChainGradient, Path, PathSamples, Segmentation
from .sparse import Sparse, pattern, unpacked

Self = TypeVar("Self", bound="_Sequences")

_TABLES = {3: "per-step", 4: "per-sequence"}


class _Sequences(Batched):
    """Common base class of chains and semi-Markov chains."""

    @property
    def n_states(self) -> int:
        """N, the number of states."""
        return int(self.start.size)

    @property
    def n_steps(self) -> int:
        """T, the number of positions of the emissions array."""
        return int(self._parameters["emissions"].shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """The precision: float32 or float64."""
        return self.start.dtype

    @property
    def start(self) -> NDArray[Any]:
        """The start scores (N,). Like all parameters, a read-only view of the model's memory."""
        return np.asarray(self._parameters["start"])

    @property
    def end(self) -> NDArray[Any] | None:
        """The end scores (N,); `None` if there are none."""
        return self._parameters.get("end")

    @property
    def emissions(self) -> NDArray[Any]:
        """The emission scores, (T, N), or (B, T, N) for a batch."""
        return np.asarray(self._unbatched(self._parameters["emissions"]))

    @property
    def transitions(self) -> NDArray[Any] | None:
        """The transition scores; `None` if they are factored or of low rank.

        The shape is (N, N), (T − 1, N, N) or (B, T − 1, N, N); of sparse ones (E,) or (T − 1, E).
        """
        return self._parameters.get("transitions")

    @property
    def indptr(self) -> NDArray[np.int64] | None:
        """The first entry of each row of sparse transitions, and the number of entries (N + 1,)."""
        return self._parameters.get("indptr")

    @property
    def indices(self) -> NDArray[np.int64] | None:
        """The target state of each entry of sparse transitions (E,), ascending in each row."""
        return self._parameters.get("indices")

    @property
    def left(self) -> NDArray[Any] | None:
        """The left embeddings (N, D) of factored transitions."""
        return self._parameters.get("left")

    @property
    def right(self) -> NDArray[Any] | None:
        """The right embeddings (N, D) of factored transitions, if they differ from `left`."""
        return self._parameters.get("right")

    @property
    def log_left(self) -> NDArray[Any] | None:
        """The log factors (N, R) of source states of low-rank transitions."""
        return self._parameters.get("log_left")

    @property
    def log_right(self) -> NDArray[Any] | None:
        """The log factors (N, R) of target states of low-rank transitions."""
        return self._parameters.get("log_right")

    def condition(self: Self, evidence: Mapping[Any, Known]) -> Self:
        """The model conditioned on `{position: state}`, or for a batch on `{(sequence, position): state}`.

        Instead of a state: a set of possible states, or likelihoods, one nonnegative weight per state.

        The log partition function of the result is the log of the sum of all weights, each times its
        likelihoods; without likelihoods, that is the log weight of the evidence.

        >>> import zhat
        >>> chain = zhat.Chain([[0.0, 1.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 2.0]])
        >>> chain.condition({0: 0}).map().value.states.tolist()
        [0, 0]
        >>> chain.condition({0: [0.01, 0.99], 1: {0, 1}}).map().value.states.tolist()
        [1, 1]
        """
        return self._conditioned(evidence)

    def log_partition_and_gradient(
        self, cotangent: ArrayLike = 1.0, *, checkpoint: bool = False, **how: Any
    ) -> tuple[Any, ChainGradient]:
        """Log Z and its gradient in one pass; see `zhat.ops.log_partition_and_gradient`."""
        from . import ops

        model: Any = self
        return ops.log_partition_and_gradient(model, cotangent, checkpoint=checkpoint, **how)

    def _marginals(self, raw: Any) -> NDArray[Any]:
        return np.asarray(self._unbatched(raw["marginals"]))

    def _factor_marginals(self, raw: Any) -> ChainGradient:
        arrays = dict(raw, emissions=self._unbatched(raw["emissions"]))
        if arrays.get("segments") is not None and arrays["segments"].ndim == 4:
            arrays["segments"] = self._unbatched(arrays["segments"])
        return ChainGradient(**arrays)

    def _found(self, states: NDArray[np.int64], score: float) -> Any:
        return Path(states, score)

    def _drawn(self, raw: Any) -> tuple[Any, Any]:
        """The samples and their log weights; `None` if they are not weighted."""
        weights = [log_weights for _, _, log_weights, _ in raw]
        weighted = any(log_weights is not None for log_weights in weights)
        return self._unbatched([states for states, *_ in raw]), self._unbatched(weights) if weighted else None

    def _layout(self, query: str) -> Layout:
        if query != "marginals":
            return Layout()
        if self._single:
            return Layout(("position", "state"))
        return Layout(("sequence", "position", "state"), lengths=self.lengths)

    def _figures(self) -> dict[str, str]:
        shortest, longest = min(self.lengths), max(self.lengths)
        positions = f"{longest} positions" if shortest == longest else f"{shortest} to {longest} positions"
        if self.left is not None:
            transitions = f"factored transitions of rank {self.left.shape[1]}"
        elif self.log_left is not None:
            transitions = f"low-rank transitions of rank {self.log_left.shape[1]}"
        elif self.indices is not None:
            transitions = f"sparse transitions with {self.indices.size} entries"
        else:
            axes = 2 if self.transitions is None else self.transitions.ndim
            transitions = f"{_TABLES.get(axes, 'shared')} transitions"
        return {
            "sequences": positions if self._single else f"{len(self.lengths)} sequences of {positions}",
            "states": f"{self.n_states} states",
            "transitions": transitions if self.end is None else f"{transitions} and end scores",
            "precision": str(self.dtype),
        }


class Chain(_Sequences, kind="chain"):
    """Chains of hidden states: p(x) ∝ exp(start(x₀) + Σ emission(t, xₜ) + Σ transition(xₜ, xₜ₊₁)).

    `emissions` is (T, N) for one sequence of T positions and N states, or (B, T, N) for a batch of B
    sequences that share all other parameters; only the first `lengths[b]` positions of sequence b are used.
    `transitions` is (N, N), with row i for transitions from state i, (T − 1, N, N) for one table per step, or
    (B, T − 1, N, N) for one table per sequence and step. Sparse transitions are a `zhat.Sparse` or a CSR
    matrix of SciPy whose entries are log scores; transitions that are not listed have weight zero. They can
    also be given as the scores (E,) or (T − 1, E) of the entries with `indptr` and `indices`.
    Alternatively, embeddings `left` and `right` (N, D) define transition(i, j) = left[i] · right[j]; `right`
    defaults to `left`. Log factors `log_left` and `log_right` (N, R) define exp(transition(i, j)) =
    Σᵣ exp(log_left[i, r] + log_right[j, r]), a matrix of rank R. In both cases the table is never computed.
    `start` (N,) is added at the first position of each sequence and `end` (N,) at the last; both are zero by
    default.

    All values are logarithms, and −inf forbids a state or transition. The precision is that of `emissions`,
    float32 or float64. C-contiguous arrays of that precision are used in place, without a copy: do not change
    them while the model is in use.

    Every query of `zhat.queries` is a method. For one sequence, numbers are floats and arrays have the shapes
    above; for a batch, numbers are arrays (B,), and paths are lists. `marginals` is (B, T, N) and zero after
    the end of a sequence. `factor_marginals` is a `ChainGradient`: the gradient of log Z with respect to
    every parameter, summed over the batch. `map` returns a `Path`, `k_best` a list of paths, `sample` a
    `PathSamples`.

    >>> import numpy as np, zhat
    >>> chain = zhat.Chain(np.zeros((3, 2)), [[0.0, 1.0], [1.0, 0.0]])
    >>> chain
    Chain(3 positions, 2 states, shared transitions, float64)
    >>> round(chain.log_partition().value, 6)
    3.319671
    >>> chain.map().value.states.tolist()
    [0, 1, 0]
    >>> batch = zhat.Chain(np.zeros((2, 3, 2)), [[0.0, 1.0], [1.0, 0.0]], lengths=[3, 1])
    >>> batch.log_partition().value.round(6).tolist()
    [3.319671, 0.693147]
    """

    def __init__(
        self,
        emissions: ArrayLike,
        transitions: ArrayLike | Sparse | None = None,
        *,
        start: ArrayLike | None = None,
        left: ArrayLike | None = None,
        right: ArrayLike | None = None,
        log_left: ArrayLike | None = None,
        log_right: ArrayLike | None = None,
        lengths: Iterable[int] | None = None,
        end: ArrayLike | None = None,
        indptr: ArrayLike | None = None,
        indices: ArrayLike | None = None,
    ) -> None:
        """Builds and checks the model."""
        array = scores("emissions", emissions)
        if array.ndim not in (2, 3):
            raise InputError(f"emissions: found shape {array.shape}, expected (T, N) or (B, T, N)")
        if sum(values is not None for values in (transitions, left, log_left)) != 1:
            raise InputError(
                "transitions: expected either these, or left for factored ones, or log_left for low-rank ones"
            )
        if right is not None and left is None:
            raise InputError("right: embeddings on the right need some on the left")
        if (log_left is None) != (log_right is None):
            raise InputError("log_right: low-rank transitions need both log_left and log_right")
        self._single = array.ndim == 2
        if self._single and lengths is not None:
            raise InputError("lengths: are for a batch; one sequence is as long as its emissions")
        batched = array[np.newaxis] if self._single else array
        size, steps, states = batched.shape

        def like(name: str, values: ArrayLike) -> NDArray[Any]:
            return scores(name, values, array.dtype)

        embeddings = None
        if left is not None:
            embeddings = like("left", left), None if right is None else like("right", right)
        factors = None
        if log_left is not None and log_right is not None:
            factors = like("log_left", log_left), like("log_right", log_right)
        table: Any = transitions
        sparse = unpacked(transitions)
        if sparse is not None:
            if indptr is not None or indices is not None:
                raise InputError("indptr: the sparse table already has it")
            table, indices, indptr = sparse
        lists = None
        if (indptr is None) != (indices is None) or (indptr is not None and table is None):
            raise InputError("indices: sparse transitions need transitions, indptr and indices")
        if indptr is not None:
            starts, targets, order = pattern(indices, indptr)
            lists = starts, targets
            if order is not None:
                table = np.asarray(table)[..., order]
        self._native = _zhat.chain(
            np.zeros(states, array.dtype) if start is None else scores("start", start, array.dtype),
            batched,
            [steps] * size if lengths is None else integers("lengths", lengths),
            None if table is None else like("transitions", table),
            embeddings,
            factors,
            None if end is None else like("end", end),
            lists,
        )

    @classmethod
    def crf(
        cls,
        emissions: ArrayLike,
        transitions: ArrayLike | Sparse | None = None,
        *,
        left: ArrayLike | None = None,
        right: ArrayLike | None = None,
        log_left: ArrayLike | None = None,
        log_right: ArrayLike | None = None,
        lengths: Iterable[int] | None = None,
    ) -> Chain:
        """A linear-chain conditional random field: a chain without start scores."""
        return cls(
            emissions,
            transitions,
            left=left,
            right=right,
            log_left=log_left,
            log_right=log_right,
            lengths=lengths,
        )

    @classmethod
    def hmm(
        cls,
        start: ArrayLike,
        transitions: ArrayLike,
        emissions: ArrayLike,
        observations: Iterable[int] | Iterable[Iterable[int]],
    ) -> Chain:
        """A hidden Markov model with discrete observations; log Z is the log-likelihood of the observations.

        `start` (N,), `transitions` (N, N) and `emissions` (N, V) are probabilities, with row i for state i;
        `start` and every row must sum to 1 within 1e-4. `observations` are symbols 0 … V−1: one sequence, or
        a list of sequences for a batch.

        >>> import zhat
        >>> weather = zhat.Chain.hmm([0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]], [[1.0, 0.0], [0.5, 0.5]], [0, 1])
        >>> round(float(np.exp(weather.log_partition().value)), 6)
        0.125
        """
        first = scores("start", start)
        tables = scores("transitions", transitions, first.dtype), scores("emissions", emissions, first.dtype)
        n = first.size
        for name, array, good in (
            ("start", first, first.ndim == 1),
            ("transitions", tables[0], tables[0].shape == (n, n)),
            ("emissions", tables[1], tables[1].ndim == 2 and tables[1].shape[0] == n),
        ):
            if not good:
                raise InputError(f"{name}: found shape {array.shape} in a model of {n} states")
        sequences = list(observations)
        single = not any(isinstance(symbols, Iterable) for symbols in sequences)
        symbols = [sequences] if single else sequences
        lists = [integers(f"observations[{b}]", one) for b, one in enumerate(symbols)]  # type: ignore[arg-type]
        return cls._wrap(_zhat.hmm(first, *tables, lists), single)

    def score(self, path: Iterable[int], sequence: int = 0) -> float:
        """The log weight of a path in a sequence.

        >>> import zhat
        >>> zhat.Chain([[0.0, 1.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 2.0]]).score([1, 1])
        3.0
        """
        return _zhat.path_score(self._native, integer("sequence", sequence), integers("path", path))

    def _samples(self, raw: Any) -> PathSamples:
        drawn, weights = self._drawn(raw)
        return PathSamples(drawn, None, weights)


class SemiMarkov(_Sequences, kind="semi-markov"):
    """Chains whose states last for segments of 1 to L positions.

    A sequence is divided into segments. A segment of state j and length d adds segment(j, d) and the
    emissions of its positions to the score; transitions are between segments. `segments` is (L, N), with row
    d − 1 for length d, or has scores for each start position: (T, L, N), or (B, T, L, N) for a batch. The
    other arguments are those of `Chain`; in a (T − 1, N, N) array of transitions, entry t is for transitions
    into a segment that starts at t + 1.

    Answers are as for `Chain`, except that paths are `Segmentation`s and the gradient has `segments`.

    >>> import numpy as np, zhat
    >>> model = zhat.SemiMarkov(np.zeros((3, 1)), [[0.0]], segments=np.zeros((2, 1)))
    >>> model
    SemiMarkov(3 positions, 1 states, shared transitions, float64, segments of up to 2)
    >>> round(float(np.exp(model.log_partition().value)), 6)  # 1+1+1, 1+2, 2+1
    3.0
    """

    def __init__(
        self,
        emissions: ArrayLike,
        transitions: ArrayLike | Sparse | None = None,
        *,
        segments: ArrayLike,
        start: ArrayLike | None = None,
        left: ArrayLike | None = None,
        right: ArrayLike | None = None,
        log_left: ArrayLike | None = None,
        log_right: ArrayLike | None = None,
        lengths: Iterable[int] | None = None,
        end: ArrayLike | None = None,
        indptr: ArrayLike | None = None,
        indices: ArrayLike | None = None,
    ) -> None:
        """Builds and checks the model."""
        chain = Chain(
            emissions,
            transitions,
            start=start,
            left=left,
            right=right,
            log_left=log_left,
            log_right=log_right,
            lengths=lengths,
            end=end,
            indptr=indptr,
            indices=indices,
        )
        array = scores("segments", segments, chain.dtype)
        self._single = chain._single
        if self._single and array.ndim == 3:
            array = array[np.newaxis]
        self._native = _zhat.semi_markov(chain._native, array)

    @property
    def segments(self) -> NDArray[Any]:
        """The segment scores, (L, N), or for each start position (T, L, N) or (B, T, L, N)."""
        scores: NDArray[Any] = self._parameters["segments"]
        return scores if scores.ndim == 2 else np.asarray(self._unbatched(scores))

    @property
    def longest(self) -> int:
        """L, the length of the longest segment."""
        return int(self._parameters["segments"].shape[-2])

    def score(self, segments: Iterable[tuple[int, int]], sequence: int = 0) -> float:
        """The log weight of a segmentation of a sequence: (state, length) of each segment in order."""
        pairs = [integers(f"segments[{i}]", pair) for i, pair in enumerate(segments)]
        if not all(len(pair) == 2 for pair in pairs):
            raise InputError("segments: expected pairs of a state and a length")
        pair_list = [(state, length) for state, length in pairs]
        return _zhat.segments_score(self._native, integer("sequence", sequence), pair_list)

    def _figures(self) -> dict[str, str]:
        return {**super()._figures(), "segments": f"segments of up to {self.longest}"}

    def _found(self, states: NDArray[np.int64], score: float) -> Any:
        return Segmentation(states, score)

    def _samples(self, raw: Any) -> PathSamples:
        drawn, weights = self._drawn(raw)
        return PathSamples(None, drawn, weights)
