"""`torch.compile(fullgraph=True)` of modules, distributions and graphs, and of checks of their arguments."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import pytest
from torch_models import CASES, torch, zt

import zhat

struct: Any = pytest.importorskip("zhat.torch.struct")
pytest.importorskip("torch._dynamo.testing")


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()


def flat(found: Any) -> list[Any]:
    """The tensors of a result."""
    if isinstance(found, torch.Tensor):
        return [found]
    return [tensor for part in found if part is not None for tensor in flat(part)]


def same(ask: Callable[..., Any], given: list[Any], others: list[Any], backend: str = "aot_eager") -> None:
    """Compiled code gives the same numbers and gradients as `ask`, and does not depend on the numbers."""
    compiled = torch.compile(ask, fullgraph=True, backend=backend)
    for tensors in (given, others):
        ours = [own.detach().clone().requires_grad_(own.requires_grad) for own in tensors]
        theirs = [own.detach().clone().requires_grad_(own.requires_grad) for own in tensors]
        found, want = flat(compiled(*ours)), flat(ask(*theirs))
        for results in (found, want):
            real = [own.square().sum() for own in results if own.requires_grad]
            if real:
                sum(real).backward()
        for own, expected in zip(found, want, strict=True):
            torch.testing.assert_close(own, expected, rtol=1e-12, atol=1e-12)
        for own, expected in zip(ours, theirs, strict=True):
            assert (own.grad is None) == (expected.grad is None)
            if own.grad is not None:
                torch.testing.assert_close(own.grad, expected.grad, rtol=1e-12, atol=1e-12)


# The module of pytorch-crf.


def batch(lengths: list[int], seed: int) -> list[Any]:
    """Emissions, tags and mask."""
    torch.manual_seed(seed)
    emissions = torch.randn(len(lengths), 4, 3, dtype=torch.float64, requires_grad=True)
    tags = torch.randint(3, (len(lengths), 4))
    return [emissions, tags, torch.arange(4) < torch.tensor(lengths)[:, None]]


def crf(**options: Any) -> Any:
    torch.manual_seed(3)
    return zt.CRF(3, batch_first=True, **options).double()


@pytest.mark.parametrize("reduction", ["none", "token_mean"])
@pytest.mark.parametrize("forbidden", [None, [(0, 1), (None, 2)]])
def test_crf(reduction: str, forbidden: Any) -> None:
    module = crf(forbidden=forbidden)

    def likelihood(emissions: Any, tags: Any, mask: Any) -> Any:
        value = module(emissions, tags, mask, reduction=reduction)
        return torch.where(torch.isneginf(value), 0.0, value), module.marginals(emissions, mask)

    same(likelihood, batch([4, 1, 3], 1), batch([2, 4, 4], 2))


def test_crf_without_a_mask_and_with_the_time_first() -> None:
    module = crf()
    module.batch_first = False
    given = [[own.transpose(0, 1) for own in batch([4, 4], seed)[:2]] for seed in (1, 2)]
    same(lambda emissions, tags: module(emissions, tags), *[[own.detach() for own in each] for each in given])


def test_parameters_of_a_compiled_crf() -> None:
    module, (emissions, tags, mask) = crf(), batch([4, 1, 3], 1)
    gradients = []
    for own in (torch.compile(module, fullgraph=True, backend="aot_eager"), module):
        module.zero_grad()
        own(emissions.detach(), tags, mask).backward()
        gradients.append([parameter.grad.clone() for parameter in module.parameters()])
    for found, want in zip(*gradients, strict=True):
        torch.testing.assert_close(found, want, rtol=1e-12, atol=1e-12)


BACKENDS = ["aot_eager", "inductor"]


def usable(backend: str) -> str:
    if backend == "inductor" and shutil.which("g++") is None:
        pytest.skip("PyTorch comparison: the default backend of torch.compile needs a C++ compiler")
    return backend


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_default_backend(backend: str) -> None:
    """Also with a check that fails: no backend removes it."""
    module, good = crf(), batch([4, 1, 3], 1)
    same(lambda *given: module(*given), good, batch([2, 4, 4], 2), usable(backend))
    compiled = torch.compile(module, fullgraph=True, backend=backend)
    emissions, tags, mask = good
    compiled(emissions, tags, mask)
    gap, empty = mask.clone(), mask.clone()
    gap[2, 1], empty[1] = False, False
    with pytest.raises(zhat.InputError, match=r"mask: .* sequence 2 has a gap"):
        compiled(emissions, tags, gap)
    with pytest.raises(zhat.InputError, match=r"mask: .* sequence 1 is empty"):
        compiled(emissions, tags, empty)
    with pytest.raises(zhat.InputError, match="tags: found 3, expected tags from 0 to 2"):
        compiled(emissions, tags + (tags == 2), torch.ones_like(mask))


# Graphs.


@pytest.mark.parametrize("name", ["factors", "graph", "edges", "factored graph"])
@pytest.mark.parametrize(
    "operation",
    [
        zt.best,
        lambda model: zt.k_best(model, 3),
        lambda model: zt.sample(model, 3, seed=1),
        lambda model: zt.log_prob(model, zt.best(model).states),
        lambda model: (zt.log_partition(model), zt.marginals(model)),
    ],
    ids=["best", "k_best", "sample", "log_prob", "log_partition"],
)
def test_graphs(name: str, operation: Any) -> None:
    case = CASES[name]
    same(lambda *tensors: operation(case.model(*tensors)), case.tensors(), case.tensors(zeros=0.2))


# Distributions.


SEEN = [[0, 1, 2, 1], [2, 0, 0, 1]]
"""The observations of two sequences."""
DISTRIBUTIONS: dict[str, tuple[Any, list[tuple[int, ...]]]] = {
    "LinearChainCRF": (struct.LinearChainCRF, [(2, 3, 2, 2)]),
    "SemiMarkovCRF": (struct.SemiMarkovCRF, [(2, 3, 3, 2, 2)]),
    "TreeCRF": (struct.TreeCRF, [(2, 4, 4, 2)]),
    "SentCFG": (lambda *own: struct.SentCFG(own[:-1], own[-1]), [(2, 4, 2), (2, 2, 4, 4), (2, 2)]),
    "DependencyCRF": (struct.DependencyCRF, [(2, 4, 4)]),
    "NonProjectiveDependencyCRF": (struct.NonProjectiveDependencyCRF, [(2, 4, 4)]),
    "DependencyCRF with labels": (struct.DependencyCRF, [(2, 4, 4, 2)]),
    "HMM": (lambda *own: struct.HMM(*own[:3], torch.tensor(SEEN), own[3]), [(2, 2), (3, 2), (2,)]),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
@pytest.mark.parametrize("query", ["numbers", "events"])
def test_distributions(name: str, query: str) -> None:
    """With lengths as a tensor, code is compiled once for all lengths."""
    make, shapes = DISTRIBUTIONS[name]

    def numbers(*given: Any) -> Any:
        dist = make(*given)
        return dist.partition, dist.entropy, dist.max, dist.kmax(2)

    def events(*given: Any) -> Any:
        dist = make(*given)
        best = dist.argmax
        return dist.marginals, best, dist.log_prob(best), dist.topk(2)

    def given(lengths: list[int], seed: int) -> list[Any]:
        torch.manual_seed(seed)
        tensors = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
        return [*tensors, torch.tensor(lengths)]

    same(numbers if query == "numbers" else events, given([4, 2], 1), given([3, 4], 2))


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_samples_of_distributions(name: str) -> None:
    make, shapes = DISTRIBUTIONS[name]
    tensors = [torch.randn(shape, dtype=torch.float64) for shape in shapes]

    def ask(*given: Any) -> Any:
        dist = make(*given)
        event = dist.sample((5,))
        return event, dist.log_prob(event)

    event, value = torch.compile(ask, fullgraph=True, backend="aot_eager")(*tensors, torch.tensor([4, 3]))
    dist = make(*tensors, torch.tensor([4, 3]))
    torch.testing.assert_close(dist.log_prob(event), value)
    assert (value <= 0).all()


def test_checks_of_compiled_distributions() -> None:
    def divergence(one: Any, other: Any, lengths: Any, others: Any) -> Any:
        return struct.LinearChainCRF(one, lengths).kl(struct.LinearChainCRF(other, others))

    one, other = torch.randn(2, 2, 3, 2, 2, dtype=torch.float64)
    compiled = torch.compile(divergence, fullgraph=True, backend="aot_eager")
    lengths = torch.tensor([4, 2])
    torch.testing.assert_close(compiled(one, other, lengths, lengths), divergence(one, other, [4, 2], [4, 2]))
    with pytest.raises(zhat.InputError, match=r"other: found lengths \[4, 3\], expected \[4, 2\]"):
        compiled(one, other, lengths, torch.tensor([4, 3]))
    with pytest.raises(zhat.InputError, match="lengths: found 5, expected integers from 1 to 4"):
        compiled(one, other, torch.tensor([5, 2]), torch.tensor([5, 2]))


def test_observations_in_compiled_code() -> None:
    """Other observations are not compiled again, and those that no symbol has are an error."""
    counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    tables = [torch.randn(shape, dtype=torch.float64) for shape in ((2, 2), (3, 2), (2,))]

    def ask(seen: Any) -> Any:
        return struct.HMM(*tables, seen).partition

    compiled = torch.compile(ask, fullgraph=True, backend=counter)
    for seen in (torch.tensor(SEEN), 2 - torch.tensor(SEEN)):
        torch.testing.assert_close(compiled(seen), ask(seen))
    with pytest.raises(zhat.InputError, match="observations: found 3, expected integers from 0 to 2"):
        compiled(1 + torch.tensor(SEEN))
    assert counter.frame_count == 1


# Operators.


def test_operators_of_checks_are_registered_correctly() -> None:
    operators = torch.ops.zhat
    checks: list[tuple[Any, tuple[Any, ...]]] = [
        (operators.in_range.default, (torch.tensor([[0, 2], [1, 1]]), "tags", 0, 2, "tags")),
        (operators.mask_lengths.default, (torch.tensor([[True, True], [True, False]]),)),
        (operators.equal_lengths.default, (torch.tensor([2, 1]), torch.tensor([2, 1]))),
        (operators.equal_edges.default, (torch.tensor([[0, 1]]), torch.tensor([[0, 1]]))),
    ]
    model = zt.Chain(torch.zeros(2, 3, 2), torch.zeros(2, 2), lengths=torch.tensor([3, 2]))
    checks.append((operators.drawn.default, (list(model.tensors.values()), model.text, 2, torch.tensor(7))))
    for operator, arguments in checks:
        torch.library.opcheck(operator, arguments)


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
@pytest.mark.parametrize("name", ["chain", "segments", "low rank", "projective", "trees"])
def test_operators_of_two_models_and_third_derivatives(name: str) -> None:
    case = CASES[name]
    model, other = case.model(*case.tensors()), case.model(*case.tensors(seed=8))
    tensors, text = list(model.tensors.values()), model.text
    real = tensors[: len(case.real)]
    items = zt.log_partition(model).shape
    weights = torch.linspace(0.5, 1.0, max(1, items.numel()), dtype=torch.float64).view(items)
    weights.requires_grad_()
    inner, outer = ([torch.ones_like(own).requires_grad_() for own in real] for _ in range(2))
    pair = ([*tensors, *other.tensors.values()], f"{text} | {text}", "")
    operators = torch.ops.zhat
    torch.library.opcheck(operators.cross_entropy.default, pair)
    # There are no fourth derivatives, so their backward pass is an error.
    forward = ("test_schema", "test_autograd_registration", "test_faketensor")
    third = ("log_partition", tensors, weights, inner, outer, text, "")
    torch.library.opcheck(operators.third.default, third, test_utils=forward)
    half, plain = torch.tensor(0.5, dtype=torch.float64), [own.detach() for own in tensors]
    soft, lengths, _, record = operators.relaxed_sample(plain, text, 2, half, 0)
    given = (tensors, soft, lengths, record, text, 2, half, 0)
    torch.library.opcheck(operators.relaxed_gradient.default, given, test_utils=forward)
