"""`zhat.torch` in other processes: forked and spawned workers, with the same bits."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import zhat

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed; zhat.torch is not tested")
zt: Any = pytest.importorskip("zhat.torch")


def step(seed: int) -> list[bytes]:
    """A training step with a model of every kind: log Z, its gradients and samples."""
    return [own.detach().numpy().tobytes() for kind in KINDS for own in kind(seed)]


def chains(seed: int) -> list[Any]:
    generator = torch.Generator().manual_seed(seed)
    emissions = torch.randn(8, 40, 9, generator=generator, requires_grad=True)
    transitions = torch.randn(9, 9, generator=generator, requires_grad=True)
    chain = zt.Chain(emissions, transitions, lengths=torch.arange(33, 41))
    value = zt.log_partition(chain)
    value.sum().backward()
    return [value, emissions.grad, transitions.grad]


def graphs(seed: int) -> list[Any]:
    """A factor graph on a grid, with a cycle for each of its cells."""
    generator = torch.Generator().manual_seed(seed)
    scopes = [(v, v + 1) for v in range(24) if v % 5 < 4] + [(v, v + 5) for v in range(20)]
    tables = [torch.randn(3, 3, generator=generator, requires_grad=True) for _ in scopes]
    model = zt.Model(zhat.FactorGraph, cardinalities=[3] * 25, factors=zip(scopes, tables, strict=True))
    value = zt.log_partition(model)
    value.backward()
    return [value, *(table.grad for table in tables), zt.best(model).states, zt.sample(model, 3, seed=seed)]


def trees(seed: int) -> list[Any]:
    """Trees with symbols over the words of sentences."""
    generator = torch.Generator().manual_seed(seed)
    words = torch.randn(4, 12, 5, generator=generator, requires_grad=True)
    rules = torch.randn(3, 8, 8, generator=generator, requires_grad=True)
    model = zt.Model(zhat.Hypertree, words=words, rules=rules, heads=3, lengths=[12, 7, 1, 12])
    value = zt.log_partition(model)
    value.sum().backward()
    return [value, words.grad, rules.grad, zt.best(model).states, zt.sample(model, 2, seed=seed)]


KINDS = (chains, graphs, trees)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes(method: str) -> None:
    want = [step(seed) for seed in range(4)]
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map_async(step, range(4)).get(timeout=120) == want
    assert [step(seed) for seed in range(4)] == want


def test_threads() -> None:
    want = [step(seed) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            assert list(pool.map(step, range(4))) == want


class Steps(torch.utils.data.Dataset):  # type: ignore[misc]
    """Training steps as items."""

    def __len__(self) -> int:
        return 6

    def __getitem__(self, seed: int) -> Any:
        return seed, step(seed)


def unbatched(items: list[Any]) -> list[Any]:
    return items


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_data_loaders(method: str) -> None:
    loader = torch.utils.data.DataLoader(
        Steps(),
        batch_size=2,
        num_workers=2,
        multiprocessing_context=method,
        collate_fn=unbatched,
        timeout=120,
    )
    found = dict(item for batch in loader for item in batch)
    assert found == {seed: step(seed) for seed in range(6)}
