"""`zhat.torch.struct`: enumeration, and torch-struct where it has the query and is right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from struct_oracle import (
    Enumeration,
    chains,
    dependencies,
    derivations,
    segmentations,
    trees,
)

import zhat

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed; zhat.torch is not tested")
struct: Any = pytest.importorskip("zhat.torch.struct")

# PyTorch warns of how torch-struct uses it.
pytestmark = pytest.mark.filterwarnings("ignore:.*does not define `arg_constraints`")

INF = float("inf")


@dataclass(frozen=True)
class Case:
    """A class, its shapes with a batch of `len(lengths)`, and its structures."""

    name: str
    shapes: tuple[tuple[int, ...], ...]
    lengths: tuple[int, ...]
    structures: Callable[[int], Any]
    options: tuple[tuple[str, Any], ...] = ()
    event_shapes: tuple[tuple[int, ...], ...] = ()
    label: str = ""

    @property
    def longest(self) -> int:
        return max(self.lengths)

    def potentials(self, seed: int, zeros: bool = False, scale: float = 1.0) -> list[Any]:
        rng = np.random.default_rng(seed)
        arrays = [rng.normal(scale=scale, size=(len(self.lengths), *shape)) for shape in self.shapes]
        if zeros:
            arrays = [np.where(rng.random(array.shape) < 0.15, -np.inf, array) for array in arrays]
        return [torch.tensor(array) for array in arrays]

    def make(self, potentials: list[Any], lengths: Any = "own", module: Any = struct) -> Any:
        counts = list(self.lengths) if lengths == "own" else lengths
        if module is not struct and counts is not None:
            counts = torch.tensor(counts)
        given = potentials[0] if len(potentials) == 1 else tuple(potentials)
        return getattr(module, self.name)(given, counts, **dict(self.options))

    def enumerations(self, potentials: list[Any], lengths: Any = "own") -> list[Enumeration]:
        counts = self.lengths if lengths == "own" else lengths or [self.longest] * len(self.lengths)
        arrays = [potential.detach().numpy() for potential in potentials]
        shapes = list(self.event_shapes or self.shapes)
        return [
            Enumeration.of(self.structures(count), [array[b] for array in arrays], shapes)
            for b, count in enumerate(counts)
        ]

    def __str__(self) -> str:
        return self.label or self.name


def dependency(name: str, multiroot: bool, labels: int | None = None) -> Case:
    shape = (4, 4) if labels is None else (3, 3, labels)
    lengths = (4, 3, 1, 2) if labels is None else (3, 1, 2)
    kind = {"projective": name == "DependencyCRF", "multiroot": multiroot, "labels": labels}
    label = f"{name}-{'many roots' if multiroot else 'one root'}-{labels or 'no'} labels"
    options = (("multiroot", multiroot),)
    return Case(name, (shape,), lengths, lambda n: dependencies(n, **kind), options, label=label)  # type: ignore[arg-type]


CASES = [
    Case("LinearChainCRF", ((3, 3, 3),), (4, 2, 1, 3), lambda n: chains(n, 3)),
    Case("SemiMarkovCRF", ((4, 4, 2, 2),), (5, 2, 1, 4), lambda n: segmentations(n, 4, 2)),
    Case("TreeCRF", ((4, 4, 2),), (4, 2, 1, 3), lambda n: trees(n, 2)),
    Case(
        "SentCFG",
        ((4, 2), (2, 4, 4), (2,)),
        (4, 2, 3),
        lambda n: derivations(n, 2, 2),
        event_shapes=((4, 2), (2, 4, 4), (2,), (4, 4, 2)),
    ),
    *(
        dependency(name, roots)
        for name in ("DependencyCRF", "NonProjectiveDependencyCRF")
        for roots in (True, False)
    ),
    dependency("DependencyCRF", True, 2),
    dependency("NonProjectiveDependencyCRF", False, 2),
]

each_case = pytest.mark.parametrize("case", CASES, ids=str)


def tensors(event: Any) -> list[Any]:
    return [event] if torch.is_tensor(event) else list(event)


def close(found: Any, expected: Any, tolerance: float = 1e-9) -> None:
    np.testing.assert_allclose(
        found.detach().numpy() if torch.is_tensor(found) else found, expected, rtol=tolerance, atol=tolerance
    )


def same_event(found: Any, expected: list[list[Any]], tolerance: float = 1e-9) -> None:
    """Compares events with one list of arrays per item."""
    for tensor, own in zip(tensors(found), zip(*expected, strict=True), strict=True):
        close(tensor, np.stack(own), tolerance)


@each_case
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("lengths", ["own", None])
def test_queries_by_enumeration(case: Case, zeros: bool, lengths: Any) -> None:
    potentials, others = case.potentials(1, zeros), case.potentials(2)
    dist, other = case.make(potentials, lengths), case.make(others, lengths)
    oracle, second = case.enumerations(potentials, lengths), case.enumerations(others, lengths)
    assert all(own.count for own in oracle)
    close(dist.partition, [own.log_partition for own in oracle])
    close(dist.entropy, [own.entropy for own in oracle])
    close(dist.max, [own.scores.max() for own in oracle])
    close(dist.count, [own.count for own in oracle])
    close(dist.cross_entropy(other), [p.cross_entropy(q) for p, q in zip(oracle, second, strict=True)])
    close(dist.kl(other), [p.cross_entropy(q) - p.entropy for p, q in zip(oracle, second, strict=True)])
    same_event(dist.marginals, [own.marginals for own in oracle])
    same_event(dist.argmax, [own.event(int(own.scores.argmax())) for own in oracle])
    assert dist.mode is dist.argmax
    assert dist.batch_shape == (len(case.lengths),)
    assert dist.event_shape == case.shapes[0]


@each_case
@pytest.mark.parametrize("k", [1, 3, 40])
def test_the_k_best_by_enumeration(case: Case, k: int) -> None:
    potentials = case.potentials(3)
    dist, oracle = case.make(potentials), case.enumerations(potentials)
    scores, events = dist.kmax(k), dist.topk(k)
    assert scores.shape == (k, len(case.lengths))
    for b, own in enumerate(oracle):
        order = np.argsort(-own.scores, kind="stable")[:k]
        wanted = np.full(k, -np.inf)
        wanted[: len(order)] = own.scores[order]
        close(scores[:, b], wanted)
        for i in range(k):
            expected = own.event(order[i]) if i < len(order) else [np.zeros(shape) for shape in own.shapes]
            for tensor, array in zip(tensors(events), expected, strict=True):
                if len(np.unique(own.scores[order])) == len(order):  # a sequence of one position has ties
                    close(tensor[i, b], array)


@each_case
def test_probabilities_of_all_structures_add_up_to_one(case: Case) -> None:
    potentials = case.potentials(4)
    dist, oracle = case.make(potentials), case.enumerations(potentials)
    for b, own in enumerate(oracle):
        # Every structure of item b, beside the first structure of the other items.
        total = 0.0
        firsts = [each.event(0) for each in oracle]
        for number in range(len(own.structures)):
            chosen = [own.event(number) if i == b else first for i, first in enumerate(firsts)]
            event = tuple(torch.tensor(np.stack(each)) for each in zip(*chosen, strict=True))
            value = dist.log_prob(event if len(event) > 1 else event[0])
            close(value[b], own.scores[number] - own.log_partition)
            total += float(value[b].exp())
        assert abs(total - 1) < 1e-9


@each_case
def test_samples_have_the_right_distribution(case: Case) -> None:
    from scipy.stats import chi2

    potentials = case.potentials(5)
    dist, oracle = case.make(potentials), case.enumerations(potentials)
    torch.manual_seed(7)
    drawn = dist.sample((5000,))
    again = dist.sample((5000,))
    torch.manual_seed(7)
    for one, other, more in zip(tensors(drawn), tensors(dist.sample((5000,))), tensors(again), strict=True):
        assert torch.equal(one, other)
        assert not torch.equal(one, more)
    for b, own in enumerate(oracle):
        flat = np.concatenate([each[:, b].reshape(5000, -1).numpy() for each in tensors(drawn)], axis=1)
        keys: dict[bytes, float] = {}
        for number, p in enumerate(own.probabilities):
            key = np.concatenate([array.ravel() for array in own.event(number)]).tobytes()
            keys[key] = keys.get(key, 0.0) + p
        found = dict.fromkeys(keys, 0)
        for row in flat:
            found[np.ascontiguousarray(row).tobytes()] += 1
        order = sorted(keys, key=keys.__getitem__)
        cells: list[list[float]] = []
        for key in order:  # rare structures share a cell
            if cells and cells[-1][0] < 5:
                cells[-1][0] += 5000 * keys[key]
                cells[-1][1] += found[key]
            else:
                cells.append([5000 * keys[key], found[key]])
        statistic = sum((seen - want) ** 2 / want for want, seen in cells)
        if len(cells) > 1:
            assert statistic < chi2.isf(1e-6, len(cells) - 1)


@each_case
def test_shapes_of_samples(case: Case) -> None:
    dist = case.make(case.potentials(5))
    for shape in ((), (3,), (2, 3), (0,)):
        drawn = tensors(dist.sample(shape))
        wanted = case.event_shapes or case.shapes
        assert [tuple(each.shape) for each in drawn] == [(*shape, len(case.lengths), *own) for own in wanted]
    assert tensors(dist.sample(torch.Size([2])))[0].shape[0] == 2
    value = dist.sample((2, 3))
    assert dist.log_prob(value).shape == (2, 3, len(case.lengths))


@each_case
def test_gradients(case: Case) -> None:
    own = [p.requires_grad_() for p in case.potentials(6)]
    others = case.potentials(7)
    event = tuple(each.double() for each in tensors(case.make(others).argmax))

    def queries(*given: Any) -> Any:
        dist = case.make(list(given))
        other = case.make(others)
        yes = event if len(event) > 1 else event[0]
        return (
            dist.partition,
            dist.entropy,
            dist.max,
            dist.kmax(2)[:, :2],
            dist.kl(other),
            other.cross_entropy(dist),
            dist.log_prob(yes),
        )

    assert torch.autograd.gradcheck(queries, own)


@each_case
def test_gradients_of_marginals(case: Case) -> None:
    own = [p.requires_grad_() for p in case.potentials(8)]
    assert torch.autograd.gradcheck(lambda *given: tuple(tensors(case.make(list(given)).marginals)), own)


@each_case
def test_forbidden_parts_have_gradient_zero(case: Case) -> None:
    own = [p.requires_grad_() for p in case.potentials(1, zeros=True)]
    dist = case.make(own)
    (dist.partition.sum() + dist.entropy.sum() + dist.max.sum()).backward()
    for tensor in own:
        assert not tensor.grad.isnan().any()
        assert (tensor.grad[tensor.isneginf()] == 0).all()


@each_case
def test_no_structure_at_all(case: Case) -> None:
    potentials = case.potentials(1)
    for potential in potentials:
        potential[0] = -INF
        potential.requires_grad_()
    dist = case.make(potentials)
    oracle = case.enumerations(potentials)
    close(dist.partition, [own.log_partition for own in oracle])
    assert dist.partition[0] == dist.max[0] == dist.kmax(2)[0, 0] == -INF
    assert dist.count[0] == 0
    for tensor in (
        *tensors(dist.argmax),
        *tensors(dist.topk(2)[0] if len(potentials) == 1 else dist.topk(2)),
    ):
        assert not tensor.isnan().any()
    dist.partition.sum().backward()
    assert not any(potential.grad.isnan().any() for potential in potentials)
    assert not any(each.isnan().any() for each in tensors(dist.marginals))
    with pytest.raises(zhat.ZeroPartitionError):
        dist.sample((2,))


@each_case
@pytest.mark.parametrize("scale", [1e3, 1e5])
def test_scores_of_any_size(case: Case, scale: float) -> None:
    potentials = case.potentials(9, scale=scale)
    dist, oracle = case.make(potentials), case.enumerations(potentials)
    close(dist.partition, [own.log_partition for own in oracle])
    same_event(dist.marginals, [own.marginals for own in oracle], 1e-7)


@each_case
def test_single_precision_and_the_callers_tensors(case: Case) -> None:
    potentials = case.potentials(10)
    single = [potential.float() for potential in potentials]
    dist, exact = case.make(single), case.make(potentials)
    for name in ("partition", "entropy", "max", "count", "marginals", "argmax"):
        for found, wanted in zip(tensors(getattr(dist, name)), tensors(getattr(exact, name)), strict=True):
            assert found.dtype == torch.float32
            close(found.double(), wanted.detach(), 1e-4)
    assert not any(potential.requires_grad for potential in single)
    assert not dist.partition.requires_grad


@each_case
def test_values_under_no_grad_have_gradients_later(case: Case) -> None:
    own = [p.requires_grad_() for p in case.potentials(11)]
    dist = case.make(own)
    with torch.no_grad():
        _ = dist.partition, dist.max
    (dist.partition.sum() + dist.max.sum()).backward()
    assert all(tensor.grad.abs().sum() > 0 for tensor in own)


# Conventions, by tables that are not symmetric.


def test_chains_have_the_next_state_first() -> None:
    potentials = torch.zeros(1, 1, 2, 2)
    potentials[0, 0, 1, 0] = 5.0  # from state 0 to state 1
    states, extra = struct.LinearChainCRF(potentials).from_event(struct.LinearChainCRF(potentials).argmax)
    assert (states.tolist(), extra) == ([[0, 1]], 2)


def test_segments_have_the_next_state_first() -> None:
    potentials = torch.full((1, 3, 3, 2, 2), -9.0)
    potentials[0, 0, 2, 1, 0] = potentials[0, 2, 1, 0, 1] = 1.0
    dist = struct.SemiMarkovCRF(potentials)
    labels, extra = dist.from_event(dist.argmax)
    assert (labels.tolist(), extra) == ([[0, -1, 1, 0]], (2, 3))


def test_rules_are_by_head_left_and_right() -> None:
    rules = torch.full((1, 1, 3, 3), -9.0)
    rules[0, 0, 1, 2] = 1.0
    dist = struct.SentCFG((torch.zeros(1, 2, 2), rules, torch.zeros(1, 1)))
    spans, extra = dist.from_event(dist.argmax)
    assert spans[0].nonzero().tolist() == [[0, 0, 1], [0, 1, 0], [1, 1, 2]]
    assert extra == (1, 2)


@pytest.mark.parametrize("name", ["DependencyCRF", "NonProjectiveDependencyCRF"])
def test_arcs_are_by_head_and_dependent(name: str) -> None:
    potentials = torch.zeros(1, 3, 3)
    potentials[0, 1, 1] = potentials[0, 1, 0] = potentials[0, 0, 2] = 5.0
    if name == "DependencyCRF":
        potentials[0, 0, 2], potentials[0, 1, 2] = 0.0, 5.0
    dist = getattr(struct, name)(potentials)
    heads, labels = dist.from_event(dist.argmax)
    assert heads.tolist() == [[2, 0, 2 if name == "DependencyCRF" else 1]]
    assert labels is None


# Events and compact representations.


@each_case
def test_events_and_back(case: Case) -> None:
    dist = case.make(case.potentials(12))
    event = dist.sample()
    compact, extra = dist.from_event(event)
    labels = extra if "labels" in case.label and case.label.endswith("2 labels") else None
    again = dist.to_event(compact, labels)
    for found, wanted in zip(tensors(again), tensors(event), strict=False):
        for b, length in enumerate(case.lengths):
            if case.name != "SemiMarkovCRF" or length > 1:
                close(found[b].double(), wanted[b])
    several, _ = dist.from_event(dist.sample((2,)))
    assert several.shape == (2, *compact.shape)


def test_states_after_the_end_are_not_read() -> None:
    dist = struct.LinearChainCRF(torch.zeros(2, 2, 2, 2), [3, 2])
    states = torch.tensor([[0, 1, 1], [1, 0, -100]])
    assert dist.to_event(states, 2).nonzero().tolist() == [[0, 0, 1, 0], [0, 1, 1, 1], [1, 0, 0, 1]]
    assert dist.to_event(states.clamp(0), 2, lengths=[3, 3]).sum() == 4
    heads = struct.DependencyCRF(torch.zeros(2, 2, 2), [2, 1])
    assert heads.to_event(torch.tensor([[0, 1], [0, 9]])).nonzero().tolist() == [
        [0, 0, 0],
        [0, 0, 1],
        [1, 0, 0],
    ]


# Hidden Markov models.


def hmm(module: Any, lengths: Any = None, longest: int = 4, grad: bool = False) -> Any:
    rng = np.random.default_rng(1)
    tables = [torch.tensor(rng.normal(size=size), requires_grad=grad) for size in [(3, 3), (5, 3), (3,)]]
    observations = torch.tensor(rng.integers(5, size=(3, longest)))
    return module.HMM(*tables, observations, lengths), tables, observations


def likelihood(tables: list[Any], symbols: list[int]) -> float:
    transition, emission, init = (table.detach().numpy() for table in tables)
    forward = init + emission[symbols[0]]
    for symbol in symbols[1:]:
        forward = np.logaddexp.reduce(transition + forward, axis=1) + emission[symbol]
    return float(np.logaddexp.reduce(forward))


@pytest.mark.parametrize("lengths", [None, [4, 2, 1]])
def test_hidden_markov_models(lengths: list[int] | None) -> None:
    dist, tables, observations = hmm(struct, lengths)
    counts = lengths or [4, 4, 4]
    expected = [likelihood(tables, own[:n].tolist()) for own, n in zip(observations, counts, strict=True)]
    close(dist.partition, expected)
    single = struct.LinearChainCRF(dist.log_potentials, lengths)
    rows = [b for b, n in enumerate(counts) if n > 1]  # a sequence of one position has no potentials
    for name in ("partition", "entropy", "max", "argmax", "marginals", "count"):
        close(getattr(dist, name)[rows], getattr(single, name)[rows].detach())
    close(dist.kmax(3)[:, rows], single.kmax(3)[:, rows])
    close(dist.topk(3)[:, rows], single.topk(3)[:, rows])
    close(dist.kl(hmm(struct, lengths)[0]), np.zeros(3))
    if lengths is None:
        event = dist.sample((2,))
        close(dist.log_prob(event), single.log_prob(event))
    else:
        with pytest.raises(zhat.InputError, match="sequence 2 has one observation"):
            dist.log_prob(dist.sample())
        best = (tables[1][observations[2, 0]] + tables[2]).sort(descending=True).values
        close(dist.kmax(3)[:, 2], best)


def test_gradients_of_hidden_markov_models() -> None:
    _, tables, observations = hmm(struct, grad=True)

    def queries(*tables: Any) -> Any:
        dist = struct.HMM(*tables, observations, [4, 1, 2])
        return dist.partition, dist.entropy, dist.max, dist.kmax(2), dist.log_potentials

    assert torch.autograd.gradcheck(queries, tables)


def test_one_observation() -> None:
    dist, tables, observations = hmm(struct, longest=1)
    close(dist.partition, [likelihood(tables, own.tolist()) for own in observations])
    assert dist.event_shape == (0, 3, 3)
    assert dist.argmax.shape == dist.marginals.shape == (3, 0, 3, 3)


# Beside torch-struct.

QUERIES = ("partition", "marginals", "argmax", "max", "entropy", "count")
# torch-struct 0.5 has no other query of a class, or it raises an error.
MISSING = {
    "SentCFG": {"count", "cross_entropy", "kl", "topk", "log_prob"},
    "SemiMarkovCRF": {"cross_entropy", "kl"},
    "DependencyCRF": {"count", "cross_entropy", "kl"},
}


def peer() -> Any:
    return pytest.importorskip("torch_struct", reason="PyTorch comparison: torch-struct is not installed")


def right(case: Case) -> Any:
    """The lengths for which torch-struct 0.5 is right."""
    return None if case.name == "SemiMarkovCRF" else "own"


PEERS = [case for case in CASES if not case.name.startswith("NonProjective")]


@pytest.mark.parametrize("case", PEERS, ids=str)
def test_queries_beside_torch_struct(case: Case) -> None:
    module, missing = peer(), MISSING.get(case.name, set())
    potentials, others = case.potentials(13), case.potentials(14)
    lengths = right(case)
    own, other = case.make(potentials, lengths), case.make(others, lengths)

    def theirs(given: list[Any]) -> Any:
        # Dependency trees fail there with tensors that do not require gradients.
        return case.make([each.clone().requires_grad_() for each in given], lengths, module)

    for name in QUERIES:
        if name in missing:
            continue
        pairs = zip(tensors(getattr(own, name)), tensors(getattr(theirs(potentials), name)), strict=True)
        for found, wanted in pairs:
            assert found.shape == wanted.shape
            assert found.dtype == wanted.dtype
            close(found, wanted.detach())
    for name in ("cross_entropy", "kl"):
        if name not in missing:
            wanted = getattr(theirs(potentials), name)(theirs(others))
            close(getattr(own, name)(other), wanted.detach())
    close(own.kmax(2), theirs(potentials).kmax(2).detach().where(own.kmax(2) > -INF, -INF))
    if "topk" not in missing:
        found, wanted = own.topk(2), theirs(potentials).topk(2).detach()
        longer = [b for b, n in enumerate(case.lengths) if n > 1]  # one word has one structure, or ties
        close(found[:, longer], wanted[:, longer])
    if "log_prob" not in missing:
        event = own.sample((3,))
        close(own.log_prob(event), theirs(potentials).log_prob(event).detach())


@pytest.mark.parametrize("case", PEERS, ids=str)
def test_gradients_beside_torch_struct(case: Case) -> None:
    module, lengths = peer(), right(case)
    potentials = case.potentials(15)
    weights = torch.tensor(np.random.default_rng(16).normal(size=len(case.lengths)))
    for name in ("partition", "entropy", "max"):
        gradients = []
        for which in (struct, module):
            own = [each.clone().requires_grad_() for each in potentials]
            (getattr(case.make(own, lengths, which), name) * weights).sum().backward()
            gradients.append([each.grad for each in own])
        for found, wanted in zip(*gradients, strict=True):
            close(found, wanted)


def test_hidden_markov_models_beside_torch_struct() -> None:
    (own, *_), (theirs, *_) = hmm(struct, [4, 2, 3]), hmm(peer(), torch.tensor([4, 2, 3]))
    for name in ("log_potentials", *QUERIES):
        close(getattr(own, name), getattr(theirs, name).detach())


@pytest.mark.parametrize("case", PEERS[:3], ids=str)
def test_representations_beside_torch_struct(case: Case) -> None:
    module = peer()
    own = case.make(case.potentials(17), None)
    theirs = case.make(case.potentials(17), None, module)
    event = own.sample()
    (found, extra), (wanted, more) = own.from_event(event), theirs.from_event(event)
    assert torch.equal(found, wanted)
    assert extra == more
    assert torch.equal(own.to_event(found, extra), theirs.to_event(found, extra))


def test_representations_of_trees_beside_torch_struct() -> None:
    module = peer()
    case = PEERS[3]
    own = case.make(case.potentials(18))
    spans, extra = own.from_event(own.sample())
    lengths = torch.tensor(case.lengths)
    theirs = module.SentCFG.struct.to_parts(spans, extra, lengths)
    for found, wanted in zip(own.to_event(spans, extra), theirs, strict=True):
        close(found, wanted)
    heads = CASES[4].make(CASES[4].potentials(19), None)
    theirs = CASES[4].make(CASES[4].potentials(19), None, module)
    event = heads.sample()
    assert torch.equal(heads.from_event(event)[0], theirs.from_event(event)[0])
    compact = heads.from_event(event)[0]
    assert torch.equal(heads.to_event(compact), theirs.to_event(compact, None))


# Where torch-struct 0.5 is wrong; the documentation says so.


@pytest.mark.parametrize("roots", [True, False])
def test_non_projective_trees_beside_torch_struct(roots: bool) -> None:
    case = dependency("NonProjectiveDependencyCRF", roots)
    potentials = case.potentials(20)
    potentials = [each.float() for each in potentials]
    own, theirs = case.make(potentials), case.make(potentials, module=peer())
    close(own.partition, theirs.partition, 1e-3)
    close(own.marginals, theirs.marginals, 1e-3)
    rare = [potential - 12.0 for potential in potentials]  # weights near 1e-5
    own, theirs = case.make(rare), case.make(rare, module=peer())
    close(own.partition, [each.log_partition for each in case.enumerations(rare)], 1e-5)
    assert (own.partition - theirs.partition).abs().max() > 0.1


def test_ragged_segments_beside_torch_struct() -> None:
    case = CASES[1]
    potentials = case.potentials(21)
    own, theirs = case.make(potentials), case.make(potentials, module=peer())
    close(own.partition, [each.log_partition for each in case.enumerations(potentials)])
    assert (own.partition - theirs.partition).abs().max() > 0.1


def test_large_scores_beside_torch_struct() -> None:
    case = CASES[3]
    potentials = case.potentials(22)
    potentials[0] -= 1e6
    own, theirs = case.make(potentials), case.make([each.clone() for each in potentials], module=peer())
    close(own.partition, [each.log_partition for each in case.enumerations(potentials)])
    assert (own.partition - theirs.partition).abs().min() > 1e5


# Bad input.


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: struct.LinearChainCRF(torch.zeros(2, 3, 3)), "log_potentials: found shape"),
        (lambda: struct.LinearChainCRF(torch.zeros(2, 3, 3, 4)), "log_potentials: found shape"),
        (lambda: struct.LinearChainCRF(np.zeros((2, 3, 3, 3))), "log_potentials: expected a tensor"),
        (
            lambda: struct.LinearChainCRF(torch.zeros(2, 3, 3, 3, dtype=torch.long)),
            "expected a tensor of real",
        ),
        (lambda: struct.LinearChainCRF(torch.zeros(2, 3, 3, 3), [4]), "lengths: found 1 of them"),
        (lambda: struct.LinearChainCRF(torch.zeros(2, 3, 3, 3), [4, 5]), r"lengths\[1\]"),
        (lambda: struct.LinearChainCRF(torch.zeros(2, 3, 3, 3), [0, 4]), r"lengths\[0\]"),
        (lambda: struct.LinearChainCRF(torch.full((2, 3, 3, 3), INF)).partition, "transitions"),
        (lambda: struct.LinearChainCRF(torch.full((2, 3, 3, 3), float("nan"))).partition, "transitions"),
        (lambda: struct.SemiMarkovCRF(torch.zeros(2, 3, 1, 3, 3)), "K at least 2"),
        (lambda: struct.TreeCRF(torch.zeros(2, 3, 4, 3)), "log_potentials: found shape"),
        (lambda: struct.SentCFG(torch.zeros(2, 3, 4)), "expected three tensors"),
        (
            lambda: struct.SentCFG((torch.zeros(2, 3, 4), torch.zeros(2, 1, 5, 4), torch.zeros(2, 1))),
            "rules: found shape",
        ),
        (lambda: struct.DependencyCRF(torch.zeros(2, 3, 4)), "log_potentials: found shape"),
        (
            lambda: struct.HMM(torch.zeros(2, 2), torch.zeros(3, 2), torch.zeros(2), torch.tensor([[0, 3]])),
            "observations: found 3",
        ),
        (lambda: struct.LinearChainCRF(torch.zeros(1, 1, 2, 2)).topk(0), "k: expected"),
        (
            lambda: struct.LinearChainCRF(torch.zeros(1, 1, 2, 2)).log_prob(torch.zeros(1, 2, 2)),
            "value: found",
        ),
        (
            lambda: struct.LinearChainCRF(torch.zeros(1, 1, 2, 2)).kl(
                struct.LinearChainCRF(torch.zeros(1, 1, 3, 3))
            ),
            "other: found shape",
        ),
        (lambda: struct.LinearChainCRF(torch.zeros(1, 1, 2, 2)).to_event(torch.tensor([[0, 2]])), "sequence"),
        (
            lambda: struct.SemiMarkovCRF(torch.zeros(1, 3, 2, 2, 2)).to_event(torch.tensor([[0, -1, 0, 1]])),
            "has a segment of 2",
        ),
        (
            lambda: struct.SemiMarkovCRF(torch.zeros(1, 2, 2, 2, 2)).to_event(torch.tensor([[0, 1, -1]])),
            "needs a label at positions 0 and 2",
        ),
    ],
)
def test_bad_input(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(zhat.InputError, match=message):
        make()


@each_case
def test_tensors_on_other_devices(case: Case) -> None:
    """PyTorch's device `meta` is everywhere, so it stands for any device."""
    potentials = case.potentials(1)
    for p in range(len(potentials)):
        given = [own.to("meta") if i == p else own for i, own in enumerate(potentials)]
        with pytest.raises(zhat.InputError, match=r"is on the device meta; .* call .cpu\(\) first"):
            case.make(given)
    with pytest.raises(zhat.InputError, match="lengths: is on the device meta"):
        case.make(potentials, torch.tensor(case.lengths).to("meta"))


def test_hidden_markov_models_on_other_devices() -> None:
    tables, observations = [torch.zeros(2, 2), torch.zeros(3, 2), torch.zeros(2)], torch.zeros(1, 3).long()
    for p, name in enumerate(("transition", "emission", "init")):
        given = [own.to("meta") if i == p else own for i, own in enumerate(tables)]
        with pytest.raises(zhat.InputError, match=f"{name}: is on the device meta"):
            struct.HMM(*given, observations)
    with pytest.raises(zhat.InputError, match="observations: is on the device meta"):
        struct.HMM(*tables, observations.to("meta"))
