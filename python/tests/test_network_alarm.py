"""The alarm network of pgmpy's package through the bridges: the same marginals as in pgmpy and pyAgrum."""

from __future__ import annotations

import gzip
import warnings
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zhat

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # pgmpy imports its own deprecated modules, and pyAgrum compiled ones
    pytest.importorskip("pgmpy.models", reason="pgmpy is not installed")
    gum: Any = pytest.importorskip("pyagrum", reason="pyAgrum is not installed")
    from pgmpy.inference import VariableElimination
    from pgmpy.readwrite import BIFReader

EVIDENCE: list[dict[str, str]] = [{}, {"HRBP": "HIGH", "CVP": "LOW", "BP": "NORMAL"}]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    packed = resources.files("pgmpy") / "utils" / "example_models" / "alarm.bif.gz"
    found = tmp_path_factory.mktemp("alarm") / "alarm.bif"
    found.write_bytes(gzip.decompress(packed.read_bytes()))
    return found


def network(path: Path) -> Any:
    """The network of pgmpy. Rows of the file have few digits; here every one sums to 1."""
    found = BIFReader(str(path)).get_model()
    for cpd in found.get_cpds():
        cpd.normalize()
    return found


def assert_same(graph: zhat.FactorGraph, given: dict[str, str], wanted: dict[str, Any]) -> None:
    answer = graph.marginals(given=given)
    assert answer.guarantee.kind == "exact"
    found = answer.value.by_name()
    for name, want in wanted.items():
        np.testing.assert_allclose(found[name], want, rtol=0, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("given", EVIDENCE)
def test_beside_pgmpy(path: Path, given: dict[str, str]) -> None:
    other = network(path)
    engine = VariableElimination(other)
    names = [name for name in other.nodes() if name not in given]
    assert len(other.nodes()) == 37
    answers = (engine.query([name], evidence=given or None, show_progress=False) for name in names)
    wanted = dict(zip(names, (answer.values for answer in answers), strict=True))
    graph = zhat.from_pgmpy(other)
    assert_same(graph, given, wanted)
    assert_same(zhat.from_pgmpy(graph.to_pgmpy()), given, wanted)
    states = dict(zip(graph.names or (), graph.state_names or (), strict=True))
    assert states == {name: tuple(other.get_cpds(name).state_names[name]) for name in other.nodes()}


def posteriors(other: Any, given: dict[str, Any]) -> dict[str, Any]:
    engine = gum.LazyPropagation(other)
    engine.setEvidence(given)
    engine.makeInference()
    return {name: engine.posterior(name).toarray() for name in other.names() if name not in given}


@pytest.mark.parametrize("given", EVIDENCE)
def test_beside_pyagrum(path: Path, given: dict[str, str]) -> None:
    graph = zhat.from_pgmpy(network(path))
    assert_same(graph, given, posteriors(graph.to_pyagrum(), given))
    # pyAgrum reads files in single precision.
    other = gum.loadBN(str(path))
    again = zhat.from_pyagrum(other)
    assert_same(again, given, posteriors(other, given))
    assert_same(zhat.from_pyagrum(again.to_pyagrum()), given, posteriors(other, given))
    for (scope, found), (of_file, want) in zip(again.factors, zhat.read(path).factors, strict=True):
        assert scope == of_file
        np.testing.assert_allclose(np.exp(found), np.exp(want), rtol=0, atol=1e-7)


def test_virtual_evidence(path: Path) -> None:
    from pgmpy.factors.discrete import TabularCPD

    other, likelihoods = network(path), [0.2, 0.7, 0.4]
    states = other.get_cpds("CVP").state_names["CVP"]
    seen = TabularCPD("CVP", 3, [[own] for own in likelihoods], state_names={"CVP": states})
    graph, given = zhat.from_pgmpy(other), {"CVP": likelihoods, "HRBP": "HIGH"}
    found = graph.marginals(given=given).value.by_name()
    theirs = posteriors(graph.to_pyagrum(), given)
    for name in ("HYPOVOLEMIA", "LVFAILURE", "STROKEVOLUME"):
        want = VariableElimination(other).query(
            [name], virtual_evidence=[seen], evidence={"HRBP": "HIGH"}, show_progress=False
        )
        np.testing.assert_allclose(found[name], want.values, rtol=0, atol=1e-9)
        np.testing.assert_allclose(found[name], theirs[name], rtol=0, atol=1e-9)
