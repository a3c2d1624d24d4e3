"""Bayesian networks in the formats XMLBIF and NET, and the same network in all formats."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import zhat

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"

MORNING_XML = """<?xml version="1.0"?>
<BIF VERSION="0.3"><NETWORK><NAME>morning</NAME>
<VARIABLE TYPE="nature"><NAME>late</NAME><OUTCOME>yes</OUTCOME><OUTCOME>no</OUTCOME></VARIABLE>
<VARIABLE TYPE="nature"><NAME>train</NAME>
  <OUTCOME>on-time</OUTCOME><OUTCOME>slow</OUTCOME><OUTCOME>not at all</OUTCOME></VARIABLE>
<DEFINITION><FOR>train</FOR><TABLE>0.5 0.25 0.25</TABLE></DEFINITION>
<DEFINITION><FOR>late</FOR><GIVEN>train</GIVEN><TABLE>0.125 0.875 0.5 0.5 1 0</TABLE></DEFINITION>
</NETWORK></BIF>
"""

MORNING_NET = """net { node_size = (80 40); }
node late { states = ("yes" "no"); }
node train { states = ("on-time" "slow" "not at all"); }
potential (train) { data = (0.5 0.25 0.25); }
potential (late | train) { data = ((0.125 0.875) (0.5 0.5) (1 0)); }
"""

TEXTS = {"xmlbif": MORNING_XML, "xml": MORNING_XML, "net": MORNING_NET}


@pytest.mark.parametrize("ending", TEXTS)
def test_a_network_is_read_and_queried(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"morning.{ending}"
    path.write_text(TEXTS[ending])
    model = zhat.read(path)
    assert model.names == ("late", "train")
    assert model.state_names == (("yes", "no"), ("on-time", "slow", "not at all"))
    assert model.log_partition().value == pytest.approx(0.0, abs=1e-14)
    # 0.5 · 0.125 + 0.25 · 0.5 + 0.25 · 1
    assert model.log_partition(given={"late": "yes"}).value == pytest.approx(math.log(0.4375), abs=1e-14)
    found = model.marginals(given={"late": "yes"}).value.by_name()["train"]
    np.testing.assert_allclose(found, np.array([0.0625, 0.125, 0.25]) / 0.4375, atol=1e-14)


@pytest.mark.parametrize("ending", ["xmlbif", "bifxml", "xml", "net", "bif"])
def test_a_network_is_saved_and_read_again(ending: str, tmp_path: Path) -> None:
    model, path = zhat.read(EXAMPLES / "clinic.bif"), tmp_path / f"clinic.{ending}"
    model.save(path)
    again = zhat.read(path)
    assert (again.names, again.state_names) == (model.names, model.state_names)
    assert [scope for scope, _ in again.factors] == [scope for scope, _ in model.factors]
    for (_, found), (_, table) in zip(again.factors, model.factors, strict=True):
        np.testing.assert_allclose(np.exp(found), np.exp(table), rtol=0, atol=1e-15)
    given = {"cough": "yes", "xray": "shadow"}
    found, want = (own.marginals(given=given).value.by_name() for own in (again, model))
    for name, belief in want.items():
        np.testing.assert_allclose(found[name], belief, rtol=0, atol=1e-14)


@pytest.mark.parametrize("ending", ["xmlbif", "net"])
def test_only_bayesian_networks_are_saved(ending: str, tmp_path: Path) -> None:
    with pytest.raises(zhat.Error, match="only a Bayesian network"):
        zhat.generate.ising(rows=2, columns=2).save(tmp_path / f"grid.{ending}")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("ending", "before", "after", "message"),
    [
        ("xmlbif", "1 0</TABLE>", "1</TABLE>", "late"),
        ("xmlbif", "<GIVEN>train", "<GIVEN>tram", "tram"),
        ("net", "(1 0)", "(1)", "a list has 1 entries"),
        ("net", "late | train", "late | tram", "tram"),
    ],
)
def test_errors_name_the_line(ending: str, before: str, after: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / f"broken.{ending}"
    path.write_text(TEXTS[ending].replace(before, after))
    with pytest.raises(zhat.InputError, match=rf"line \d.*{message}"):
        zhat.read(path)


def test_gibbs_sampling() -> None:
    """Marginals within six standard errors of 1000 draws; false alarms have probability below 1e-6."""
    model = zhat.read(EXAMPLES / "clinic.bif")
    given = {"cough": "yes"}
    found = model.marginals(method="gibbs", given=given, samples=20_000, seed=1)
    exact = model.marginals(given=given).value.by_name()
    assert found.guarantee.kind == "heuristic"
    assert "R-hat" in str(found.guarantee)
    size = 1000.0  # the effective sample size is far larger
    for name, own in found.value.by_name().items():
        error = 6 * np.sqrt(np.clip(exact[name] * (1 - exact[name]), 1e-4, None) / size)
        assert (np.abs(own - exact[name]) <= error).all(), name
    again = model.marginals(method="gibbs", given=given, samples=20_000, seed=1)
    for name, own in again.value.by_name().items():
        np.testing.assert_array_equal(own, found.value.by_name()[name])
