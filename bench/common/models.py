"""The benchmark models of ZHAT_DATA and their reference results."""

import csv
import json
import subprocess
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

DEFAULT = ("Segmentation_11", "Grids_11", "Pedigree_11", "Promedus_11", "ObjectDetection_11", "DBN_11")


@dataclass(frozen=True)
class Model:
    """A model file of the index, identified by family and name."""

    family: str
    name: str
    path: Path

    @property
    def label(self) -> str:
        """Family and name."""
        return f"{self.family}/{self.name}"

    @property
    def evidence(self) -> str:
        """The path of the evidence file, or an empty string."""
        path = self.path.with_name(self.path.name + ".evid")
        return str(path) if path.exists() else ""

    def reference(self, query: str) -> tuple[float | list[list[float]], float] | None:
        """The reference result and half a unit of its last digit."""
        path = self.path.with_name(self.path.name + {"logz": ".PR", "marginals": ".MAR"}[query])
        if not path.exists():
            return None
        tokens = path.read_text().split()
        if query == "logz":
            return float(tokens[-1]), 0.5 * 10.0 ** Decimal(tokens[-1]).as_tuple().exponent
        numbers, marginals = iter(tokens[2:]), []
        for states in numbers:
            marginals.append([float(next(numbers)) for _ in range(int(states))])
        return marginals, 5e-7


def index(data: Path) -> list[Model]:
    """All models of the index."""
    with open(data / "uai" / "INDEX.tsv", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    files = [(row["family"], row["name"]) for row in rows]
    return [Model(family, name.removesuffix(".uai"), data / "uai" / family / name) for family, name in files]


def fits(model: Model, program: str, query: str, memory: int) -> bool:
    """Whether zhat forecasts that an exact result fits the memory."""
    evidence = ["--evidence", model.evidence] if model.evidence else []
    command = [program, "info", str(model.path), *evidence, "--memory", str(memory), "--json"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    methods = json.loads(output)["methods"]
    name = {"logz": "log_partition"}.get(query, query)
    return any(m["query"] == name and m["guarantee"] == "exact" and m["fits"] for m in methods)


def select(data: Path, filters: list[str], everything: bool) -> list[Model]:
    """The models to run: those whose `family/name` contains a filter, all, or the default ones."""
    models = index(data)
    if filters:
        return [m for m in models if any(part in m.label for part in filters)]
    if everything:
        return models
    return [m for name in DEFAULT for m in models if m.name == name and not m.family.startswith("MAP-")]
