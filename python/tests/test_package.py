"""The package as a whole: public names, docstring examples, command."""

from __future__ import annotations

import doctest
import importlib
import inspect
import json
import pkgutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

import zhat

MODULES = ["zhat", *(module.name for module in pkgutil.walk_packages(zhat.__path__, "zhat."))]


@pytest.mark.parametrize("name", [name for name in MODULES if not name.endswith("__main__")])
def test_examples_in_docstrings(name: str) -> None:
    if name.startswith("zhat.torch"):
        pytest.importorskip("torch", reason="PyTorch is not installed; zhat.torch is not tested")
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0


def test_public_names_exist_and_are_documented() -> None:
    for name in zhat.__all__:
        assert inspect.getdoc(getattr(zhat, name)), name
    for query in ("log_partition", "marginals", "factor_marginals", "entropy", "map", "sample"):
        assert getattr(zhat.FactorGraph, query) is getattr(zhat, query)
    assert (Path(zhat.__path__[0]) / "py.typed").exists()


def test_the_stubs_describe_the_native_module() -> None:
    command = [sys.executable, "-m", "mypy.stubtest", "zhat._zhat"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout


def test_the_catalogue() -> None:
    methods = {method.name: method for method in zhat.methods() if method.kind == "factor-graph"}
    assert {"elimination", "enumeration", "importance"} <= set(methods)
    importance = methods["importance"]
    assert importance.about
    assert importance.queries == (
        "log_partition",
        "marginals",
        "factor_marginals",
        "entropy",
        "map",
        "sample",
    )
    assert importance.options["proposal"] == "tree"
    assert importance.options["replicates"] == 32
    assert importance.ranges["confidence"] == "a number above 0 and below 1"
    model = zhat.generate.tree(variables=4, strength=0.01)
    models: dict[str, Any] = {
        "factor-graph": model,
        "chain": zhat.generate.chain(states=3, steps=4),
        "semi-markov": zhat.generate.semi_markov(states=3, steps=4),
        "dependency-tree": zhat.generate.dependency(words=4),
        "hypertree": zhat.generate.hypertree(words=4, heads=2, tags=3),
        "mixed-model": zhat.MixedModel.family("gamma", 2.0, 1.0),
        "sequence-mrf": zhat.generate.sequence_mrf(length=5, states=2),
        "space": zhat.SpaceModel.hypercube([0.5, -0.25, 0.125]),
        "pairwise-graph": zhat.PairwiseGraph([[0.0, 1.0], [0.5, 0.0]], [(0, 1)], [[1.0, 0.0], [0.0, 1.0]]),
    }
    for method in zhat.methods():
        if "log_partition" not in method.queries:
            continue
        answer = models[method.kind].log_partition(method=method.name, **method.options)
        assert answer.method == method.name
    for promise in ("exact", "unbiased"):
        assert model.log_partition(method=promise).guarantee.kind == "exact"
    assert model.log_partition(method="anytime-bounds").guarantee.kind == "bounds"
    assert model.log_partition(method="bounds").guarantee.kind == "exact"


def program(*arguments: str, module: bool = False) -> subprocess.CompletedProcess[str]:
    script = str(Path(sysconfig.get_path("scripts")) / "zhat")
    command = [sys.executable, "-m", "zhat"] if module else [script]
    return subprocess.run([*command, *arguments], capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("module", [False, True])
def test_the_command(module: bool) -> None:
    version = program("--version", module=module)
    assert (version.returncode, version.stdout) == (0, f"zhat {zhat.__version__}\n")


def test_the_command_returns_the_exit_status(tmp_path: Path) -> None:
    assert program("--no-such-option").returncode == 2
    path = tmp_path / "model.uai"
    model = zhat.generate.ising(rows=3, columns=3)
    model.save(path)
    answer = program("logz", str(path), "--json")
    assert answer.returncode == 0
    assert json.loads(answer.stdout)["value"] == pytest.approx(model.log_partition().value)
    path.write_text("MARKOV 1 2 1 1 0 2 0 0")
    assert program("logz", str(path)).returncode == 1
