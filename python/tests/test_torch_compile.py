"""`zhat.torch` in PyTorch's machinery: opcheck, compilation, autocast, short numbers, threads."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from torch_models import CASES, torch, zt

import zhat

pytest.importorskip("torch._dynamo.testing")

OPERATIONS = {
    "log_partition": zt.log_partition,
    "entropy": zt.entropy,
    "cross_entropy": lambda model: zt.cross_entropy(model, model),
    "kl": lambda model: zt.kl(model, model),
    "marginals": zt.marginals,
    "best": zt.best,
    "k_best": lambda model: zt.k_best(model, 3),
    "sample": lambda model: zt.sample(model, 3, seed=1),
    "log_prob": lambda model: zt.log_prob(model, zt.best(model).states),
    "relaxed_sample": lambda model: zt.relaxed_sample(model, 2, 0.5, seed=1),
}
COMPILED = ["chain", "sparse", "low rank", "segments", "projective", "labelled", "trees", "listed rules"]


def flat(found: Any) -> list[Any]:
    """The tensors of a result."""
    if isinstance(found, torch.Tensor):
        return [found]
    return [tensor for part in found if part is not None for tensor in flat(part)]


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()


@pytest.mark.parametrize("name", COMPILED)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_one_graph(name: str, operation: str) -> None:
    case, ask = CASES[name], OPERATIONS[operation]

    def asked(*tensors: Any) -> list[Any]:
        return flat(ask(case.model(*tensors)))

    compiled = torch.compile(asked, fullgraph=True, backend="aot_eager")
    ours, theirs = case.tensors(), case.tensors()
    found, want = compiled(*ours), asked(*theirs)
    for own, expected in zip(found, want, strict=True):
        torch.testing.assert_close(own, expected, rtol=1e-12, atol=1e-12)
    if any(own.requires_grad for own in want):
        for results in (found, want):
            sum(own.square().sum() for own in results if own.requires_grad).backward()
        for own, expected in zip(ours, theirs, strict=True):
            torch.testing.assert_close(own.grad, expected.grad, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["factors", "graph"])
@pytest.mark.parametrize("operation", ["log_partition", "marginals", "entropy", "kl"])
def test_graphs_of_factors_in_one_graph(name: str, operation: str) -> None:
    test_one_graph(name, operation)


def test_batches_of_other_lengths_are_not_compiled_again() -> None:
    compilations = 0

    def backend(graph: Any, inputs: Any) -> Any:
        nonlocal compilations
        compilations += 1
        return graph.forward

    def asked(emissions: Any, lengths: Any) -> Any:
        return zt.log_partition(zt.Chain(emissions, torch.zeros(2, 2), lengths=lengths))

    compiled = torch.compile(asked, fullgraph=True, backend=backend)
    emissions = torch.zeros(2, 4, 2)
    for lengths in ([4, 3], [2, 4], [1, 1]):
        found = compiled(emissions, torch.tensor(lengths))
        torch.testing.assert_close(found, torch.tensor(lengths) * torch.log(torch.tensor(2.0)))
    assert compilations == 1


def test_other_seeds_and_temperatures_are_not_compiled_again() -> None:
    """A number is a constant until it changes, so there are two compilations: more would end in an error."""
    counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")

    def asked(emissions: Any, seed: int, temperature: float) -> Any:
        chain = zt.Chain(emissions, torch.eye(2, dtype=emissions.dtype))
        soft, hard = zt.relaxed_sample(chain, 2, temperature, seed=seed)
        return soft, hard, zt.sample(chain, 3, seed=seed)

    compiled = torch.compile(asked, fullgraph=True, backend=counter)
    compilations = []
    for seed in range(2, 14):
        ours, theirs = (torch.ones(4, 2, dtype=torch.float64, requires_grad=True) for _ in range(2))
        found, want = compiled(ours, seed, 0.1 * seed), asked(theirs, seed, 0.1 * seed)
        for own, expected in zip(found, want, strict=True):
            torch.testing.assert_close(own, expected, rtol=1e-12, atol=0)
        for own in (found, want):
            own[0].square().sum().backward()
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-12, atol=1e-12)
        compilations.append(counter.frame_count)
    assert compilations[-1] == compilations[1]


def test_other_sizes_with_dynamic_shapes() -> None:
    def asked(emissions: Any, lengths: Any) -> Any:
        chain = zt.Chain(emissions, torch.zeros(2, 2), lengths=lengths)
        return zt.log_partition(chain), zt.best(chain).states, zt.marginals(chain).emissions

    compiled = torch.compile(asked, fullgraph=True, dynamic=True, backend="aot_eager")
    for size, steps in ((2, 4), (3, 7), (5, 2)):
        given = torch.randn(size, steps, 2), torch.randint(1, steps + 1, (size,))
        for own, expected in zip(compiled(*given), asked(*given), strict=True):
            torch.testing.assert_close(own, expected)


# The check itself asks for such gradients.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
@pytest.mark.parametrize("name", [*COMPILED, "factors", "graph"])
def test_operators_are_registered_correctly(name: str) -> None:
    case = CASES[name]
    model = case.model(*case.tensors())
    tensors, text = list(model.tensors.values()), model.text
    real = tensors[: len(case.real)]
    items = zt.log_partition(model).shape
    weights = (
        torch.linspace(0.5, 1.0, max(1, items.numel()), dtype=torch.float64).view(items).requires_grad_()
    )
    directions = [torch.ones_like(tensor).requires_grad_() for tensor in real]
    first, second = ("log_partition", tensors, weights), (text, "")
    checks: list[tuple[Any, tuple[Any, ...]]] = [
        (torch.ops.zhat.log_partition.default, (tensors, text, "")),
        (torch.ops.zhat.gradient.default, (*first, None, *second)),
        (torch.ops.zhat.second.default, (*first, directions, *second)),
    ]
    if name not in ("factors", "graph"):
        plain = [tensor.detach() for tensor in tensors]
        half = torch.tensor(0.5, dtype=torch.float64)
        checks += [
            (torch.ops.zhat.entropy.default, (tensors, text, "")),
            (torch.ops.zhat.kl.default, ([*tensors, *tensors], f"{text} | {text}", "")),
            (torch.ops.zhat.best.default, (plain, text, "")),
            (torch.ops.zhat.k_best.default, (plain, text, 2, "")),
            (torch.ops.zhat.sample.default, (plain, text, 2, 0, "")),
            (torch.ops.zhat.relaxed_sample.default, (tensors, text, 2, half, 0)),
        ]
    for operator, arguments in checks:
        torch.library.opcheck(operator, arguments)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["chain", "segments", "projective", "trees", "factors"])
def test_short_numbers(dtype: Any, name: str) -> None:
    case = CASES[name]
    tensors, exact = case.tensors(dtype=dtype), case.tensors(dtype=dtype)
    doubles = [own.detach().double().requires_grad_() for own in exact]
    value, want = zt.log_partition(case.model(*tensors)), zt.log_partition(case.model(*doubles))
    assert value.dtype is dtype
    # Rounded once, from float32.
    torch.testing.assert_close(value.double(), want, rtol=torch.finfo(dtype).eps, atol=0)
    value.sum().backward()
    want.sum().backward()
    for own, expected in zip(tensors, doubles, strict=True):
        assert own.grad.dtype is dtype
        torch.testing.assert_close(own.grad.double(), expected.grad, rtol=torch.finfo(dtype).eps, atol=1e-6)
    for own in flat(zt.marginals(case.model(*tensors))):
        assert own.dtype is dtype
    if name != "factors":
        assert zt.relaxed_sample(case.model(*tensors))[1].dtype is torch.int64
    assert zt.best(case.model(*tensors)).scores.dtype is dtype


def test_mixed_precision() -> None:
    """The first parameter decides; gradients have the types of their parameters."""
    case = CASES["chain"]
    tensors = case.tensors()
    given = {name: own.detach() for name, own in zip(case.real, tensors, strict=True)}
    given["emissions"] = given["emissions"].bfloat16().requires_grad_()
    given["transitions"] = given["transitions"].float().requires_grad_()
    value = zt.log_partition(zt.Chain(**given, **case.other))
    assert value.dtype is torch.bfloat16
    value.sum().backward()
    assert given["emissions"].grad.dtype is torch.bfloat16
    assert given["transitions"].grad.dtype is torch.float32


def test_autocast_computes_in_float32() -> None:
    layer = torch.nn.Linear(5, 2)
    words, transitions = torch.randn(2, 3, 5), torch.randn(2, 2, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        emissions = layer(words)
        assert emissions.dtype is torch.bfloat16
        value = zt.log_partition(zt.Chain(emissions, transitions))
        counts = zt.marginals(zt.Chain(emissions, transitions)).emissions
    assert value.dtype is counts.dtype is torch.float32
    want = zt.log_partition(zt.Chain(emissions.float(), transitions))
    torch.testing.assert_close(value, want, rtol=0, atol=0)
    (value.sum() + counts[0, 0, 0]).backward()
    assert layer.weight.grad.dtype is torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        double = zt.log_partition(zt.Chain(emissions.double(), transitions))
    assert double.dtype is torch.float64


def test_autocast_when_compiled() -> None:
    @torch.compile(fullgraph=True, backend="aot_eager")
    def asked(emissions: Any) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            return zt.log_partition(zt.Chain(emissions, torch.zeros(2, 2)))

    assert asked(torch.zeros(3, 2, dtype=torch.bfloat16)).dtype is torch.float32


def test_threads() -> None:
    """Workers of a data loader that use threads give the same bits as one thread."""
    case = CASES["segments"]
    want = gradients(case)
    found: list[Any] = [None] * 8

    def work(i: int) -> None:
        for _ in range(20):
            found[i] = gradients(case)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for own in found:
        assert all(torch.equal(a, b) for a, b in zip(own, want, strict=True))


def gradients(case: Any) -> list[Any]:
    tensors = case.tensors()
    (zt.log_partition(case.model(*tensors)).sum() + zt.entropy(case.model(*tensors)).sum()).backward()
    return [tensor.grad for tensor in tensors]


class Lengths(torch.utils.data.Dataset):  # type: ignore[misc]
    """Chains of zeros of different lengths and their log Z, computed in the workers."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, i: int) -> Any:
        emissions = torch.zeros(i + 1, 3)
        return i + 1, zt.log_partition(zt.Chain(emissions, torch.zeros(3, 3)))


def test_data_loader_with_processes() -> None:
    zt.log_partition(CASES["chain"].model())  # threads exist before the fork
    loader = torch.utils.data.DataLoader(Lengths(), batch_size=2, num_workers=2)
    for lengths, values in loader:
        torch.testing.assert_close(values, lengths * torch.log(torch.tensor(3.0)))


def test_the_tape_is_freed_with_the_graph() -> None:
    from zhat.torch import operators

    before = len(operators._records)
    emissions = torch.zeros(3, 2, requires_grad=True)
    value = zt.log_partition(zt.Chain(emissions, torch.zeros(2, 2)))
    assert len(operators._records) == before + 1
    value.backward()
    del value
    assert len(operators._records) == before


def test_checkpointing_runs_the_forward_pass_again() -> None:
    case = CASES["chain"]
    ours, theirs = case.tensors(), case.tensors()

    def asked(*tensors: Any) -> Any:
        return zt.log_partition(case.model(*tensors), checkpoint=True).sum()

    torch.utils.checkpoint.checkpoint(asked, *ours, use_reentrant=False).backward()
    asked(*theirs).backward()
    for own, expected in zip(ours, theirs, strict=True):
        torch.testing.assert_close(own.grad, expected.grad)


def test_a_parameter_changed_in_place_is_an_error() -> None:
    emissions = torch.zeros(3, 2, requires_grad=True)
    value = zt.log_partition(zt.Chain(emissions, torch.zeros(2, 2)))
    with torch.no_grad():
        emissions.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        value.backward()


def test_options_and_proposals() -> None:
    torch.manual_seed(1)
    emissions = torch.randn(4, 60, dtype=torch.float64, requires_grad=True)
    transitions = torch.randn(60, 60, dtype=torch.float64)
    options: dict[str, Any] = {"method": "randomized", "states": 30, "seed": 3, "proposal": "given"}
    chain = zt.Chain(emissions, transitions)
    value = zt.log_partition(chain, scores=emissions.detach(), **options)
    arrays = emissions.detach().numpy(), transitions.numpy()
    want, tape = zhat.ops.log_partition(zhat.Chain(*arrays), scores=arrays[0], **options)
    assert value.item() == want
    value.backward()
    torch.testing.assert_close(emissions.grad, torch.tensor(tape.vjp(1.0).emissions))
