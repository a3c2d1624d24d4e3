"""Divided queries on a Ray cluster of a head and two nodes, with a worker that is killed, and on Dask."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

import zhat
import zhat.cluster

ray: Any = pytest.importorskip("ray", reason="Ray is not installed; zhat.cluster is not tested on it")

OPTIONS: dict[str, Any] = {"method": "wmb-is", "i_bound": 2, "samples": 400_000, "seed": 3}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    own = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    for _ in range(2):
        own.add_node(num_cpus=1)
    yield own
    ray.shutdown()
    own.shutdown()


@pytest.fixture(scope="module")
def model() -> zhat.FactorGraph:
    return zhat.generate.ising(rows=8, columns=8, coupling=0.4, field=0.5, seed=2)


def test_the_bits_of_one_run_though_a_worker_dies(cluster: Any, model: zhat.FactorGraph) -> None:
    want = model.log_partition(memory="4GiB", **OPTIONS)
    found = zhat.cluster.run(model, on=cluster.address, task_seconds=0.05, **OPTIONS)
    assert (found.value, found.guarantee) == (want.value, want.guarantee)
    pid = ray.remote(num_cpus=1)(os.getpid)
    killed = []

    def kill(phase: str, done: int, total: int) -> None:
        if done >= 8 and not killed:
            killed.append(ray.get(pid.remote()))
            os.kill(killed[0], signal.SIGKILL)

    found = zhat.cluster.run(model, on="ray", task_seconds=0.05, progress=kill, **OPTIONS)
    assert killed
    assert (found.value, found.guarantee) == (want.value, want.guarantee)


def test_a_cluster_that_cannot_do_the_work_is_refused(cluster: Any, model: zhat.FactorGraph) -> None:
    with pytest.raises(zhat.InputError, match="threads: found 64, but no node"):
        zhat.cluster.run(model, on=cluster.address, threads=64, **OPTIONS)
    with pytest.raises(zhat.InputError, match=r"connected to .* already"):
        zhat.cluster.run(model, on="127.0.0.1:1", **OPTIONS)


def test_errors_of_workers_keep_their_type(cluster: Any, model: zhat.FactorGraph) -> None:
    with pytest.raises(zhat.OverBudgetError):
        zhat.cluster.run(model, on="ray", time=0.001, **OPTIONS)
    ray.shutdown()
    with pytest.raises(zhat.InputError, match="nobody answers"):
        zhat.cluster.run(model, on="127.0.0.1:1", **OPTIONS)


def test_the_executor_of_a_dask_client(model: zhat.FactorGraph) -> None:
    distributed: Any = pytest.importorskip("distributed", reason="Dask is not installed; Ray is")
    want = model.log_partition(memory="4GiB", **OPTIONS)
    address = "tcp://127.0.0.1:0"
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, host=address, dashboard_address=None
        ) as local,
        distributed.Client(local) as client,
    ):
        found = zhat.cluster.run(model, on=client.get_executor(), workers=2, task_seconds=0.05, **OPTIONS)
    assert (found.value, found.guarantee) == (want.value, want.guarantee)
