"""Bayesian networks in the interchange format."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import zhat

MORNING = """// a morning
network morning { }
variable late { type discrete [ 2 ] { yes, no }; }
variable train { type discrete [ 3 ] { on-time, slow, "not at all" }; }
probability ( train ) { table 0.5, 0.25, 0.25; }
probability ( late | train ) { (slow) 0.5, 0.5; (on-time) 0.125, 0.875; default 1, 0; }
"""


def test_a_network_is_read_queried_and_saved(tmp_path: Path) -> None:
    path = tmp_path / "morning.bif"
    path.write_text(MORNING)
    model = zhat.read(path)
    assert list(model.cardinalities) == [2, 3]
    assert model.log_partition().value == pytest.approx(0.0, abs=1e-14)
    late = model.condition({"late": "yes"})
    assert late.log_partition().value == pytest.approx(math.log(0.4375), abs=1e-14)
    again = tmp_path / "again.bif"
    model.save(again)
    back = zhat.read(again).condition({"late": "yes", "train": "not at all"})
    assert back.log_partition().value == pytest.approx(math.log(0.25), abs=1e-14)


def test_only_bayesian_networks_are_saved_as_bif(tmp_path: Path) -> None:
    with pytest.raises(zhat.Error, match="only a Bayesian network"):
        zhat.generate.ising(rows=2, columns=2).save(tmp_path / "grid.bif")
    assert not (tmp_path / "grid.bif").exists()


def test_errors_name_the_line(tmp_path: Path) -> None:
    path = tmp_path / "broken.bif"
    path.write_text(MORNING.replace("(slow)", "(quick)"))
    with pytest.raises(zhat.InputError, match="line 6: variable `train` has no state `quick`"):
        zhat.read(path)
