"""The benchmark models of `ZHAT_DATA`, against their published results."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zhat

DATA = os.environ.get("ZHAT_DATA")


@dataclass
class Reference:
    """A model of the index and its reference results."""

    path: Path
    log10_partition: float | None

    def beside(self, ending: str) -> Path:
        return self.path.with_name(f"{self.path.name}.{ending}")

    def model(self) -> zhat.FactorGraph:
        evidence = self.beside("evid")
        return zhat.read(self.path, evidence if evidence.exists() else None)

    def marginals(self) -> list[list[float]] | None:
        if not self.beside("MAR").exists():
            return None
        numbers = iter(self.beside("MAR").read_text().split()[1:])
        return [[float(next(numbers)) for _ in range(int(next(numbers)))] for _ in range(int(next(numbers)))]


def references(limit: float) -> list[Reference]:
    """The models of the index whose largest clique has at most 2^`limit` entries."""
    if DATA is None:
        return []
    with open(Path(DATA) / "uai" / "INDEX.tsv") as index:
        rows = list(csv.DictReader(index, delimiter="\t"))
    return [
        Reference(
            Path(DATA) / "uai" / row["family"] / row["name"],
            float(row["ref_log10PR"]) if row["ref_log10PR"] else None,
        )
        for row in rows
        if row["log2_max_clique"] and float(row["log2_max_clique"]) <= limit
    ]


@pytest.mark.skipif(DATA is None, reason="the reference models need ZHAT_DATA")
def test_there_are_models() -> None:
    assert len(references(20)) > 10


@pytest.mark.parametrize("reference", references(20), ids=lambda reference: reference.path.name)
def test_answers_agree_with_the_references(reference: Reference) -> None:
    model = reference.model()
    want = reference.log10_partition
    if want is not None:
        z = model.log_partition(method="exact")
        assert abs(z.log10 - want) <= max(1e-3, 5e-6 * abs(want))
    marginals = reference.marginals()
    if marginals is not None:
        beliefs = model.marginals(method="exact").value
        for got, probabilities in zip(beliefs, marginals, strict=True):
            np.testing.assert_allclose(got, probabilities, rtol=0, atol=2e-6)


@pytest.mark.parametrize("reference", references(20), ids=lambda reference: reference.path.name)
def test_the_package_agrees_exactly_with_the_program(reference: Reference) -> None:
    model = reference.model()
    evidence = ["--evidence", str(reference.beside("evid"))] if reference.beside("evid").exists() else []

    def program(query: str) -> dict[str, Any]:
        command = [sys.executable, "-m", "zhat", query, str(reference.path), *evidence]
        command += ["--method", "elimination", "--json"]
        answer: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
        return answer

    assert model.log_partition(method="elimination").value == program("logz")["value"]
    beliefs = model.marginals(method="elimination").value
    for got, variable in zip(beliefs, program("marginals")["variables"], strict=True):
        assert got.tolist() == variable["p"]
