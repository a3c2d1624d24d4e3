"""`zhat.torch` in other processes: forked and spawned workers, with the same bits."""

from __future__ import annotations

import multiprocessing
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed; zhat.torch is not tested")
zt: Any = pytest.importorskip("zhat.torch")


def step(seed: int) -> list[bytes]:
    """A training step: log Z and its gradients."""
    generator = torch.Generator().manual_seed(seed)
    emissions = torch.randn(8, 40, 9, generator=generator, requires_grad=True)
    transitions = torch.randn(9, 9, generator=generator, requires_grad=True)
    chain = zt.Chain(emissions, transitions, lengths=torch.arange(33, 41))
    value = zt.log_partition(chain)
    value.sum().backward()
    return [own.detach().numpy().tobytes() for own in (value, emissions.grad, transitions.grad)]


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes(method: str) -> None:
    want = [step(seed) for seed in range(4)]
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map_async(step, range(4)).get(timeout=120) == want
    assert [step(seed) for seed in range(4)] == want


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
