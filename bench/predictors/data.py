"""The data sets, read independently of zhat."""

import csv
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np

RANKINGS = ("authorship", "bodyfat", "glass", "housing", "iris", "stock", "vehicle")


class Rows(NamedTuple):
    """Inputs, targets, and the line of each row in its file."""

    inputs: np.ndarray
    targets: np.ndarray
    lines: list[int]

    def some(self, rows: np.ndarray) -> "Rows":
        """Some of the rows."""
        return Rows(self.inputs[rows], self.targets[rows], [self.lines[row] for row in rows])


def folder() -> Path:
    """The folder of all data sets."""
    return Path(os.environ["ZHAT_DATA"]) / "data"


def emotions(part: str = "") -> tuple[Path, Rows]:
    """The file and the rows of emotions: all, or the part `-train` or `-test`; six labels come last."""
    path = folder() / "multilabel/emotions" / f"emotions{part}.arff"
    lines, rows = [], []
    inside = False
    for number, text in enumerate(path.read_text().splitlines(), 1):
        if inside and text.strip() and not text.startswith("%"):
            rows.append([float(cell) for cell in text.split(",")])
            lines.append(number)
        inside = inside or text.strip().lower() == "@data"
    table = np.array(rows)
    return path, Rows(table[:, :-6], table[:, -6:].astype(int), lines)


def label_names(path: Path) -> list[str]:
    """The names of the six labels of emotions."""
    lines = path.read_text().splitlines()
    return [line.split()[1] for line in lines if line.lower().startswith("@attribute")][-6:]


def write_rows(path: Path, copy: Path, rows: Rows) -> Path:
    """Writes an ARFF file with some of the rows of another."""
    lines = path.read_text().splitlines()
    head = 1 + next(i for i, line in enumerate(lines) if line.strip().lower() == "@data")
    copy.write_text("\n".join([*lines[:head], *(lines[line - 1] for line in rows.lines), ""]))
    return copy


def write_table(path: Path, copy: Path, rows: Rows) -> Path:
    """Writes a CSV file with some of the rows of another."""
    lines = path.read_text().splitlines()
    copy.write_text("\n".join([lines[0], *(lines[line - 1] for line in rows.lines), ""]))
    return copy


def hierarchy(path: Path) -> dict[str, np.ndarray]:
    """For every node, whether the rows of a Clus file have it; ancestors of a node are had with it."""
    rows: list[set[str]] = []
    inside = False
    for text in path.read_text().splitlines():
        if inside and text.strip() and not text.startswith("%"):
            own = set()
            for leaf in text.split(",")[-1].strip().split("@"):
                parts = leaf.split("/")
                own |= {"/".join(parts[: i + 1]) for i in range(len(parts))}
            rows.append(own)
        inside = inside or text.strip().lower() == "@data"
    return {node: np.array([node in row for row in rows]) for node in set().union(*rows)}


def order_names(path: Path) -> list[str]:
    """The items of a label-ranking set."""
    return [column for column in path.read_text().splitlines()[0].split(",") if column.startswith("L")]


def ranking(name: str) -> tuple[Path, Rows]:
    """The file and the rows of a label-ranking set; the targets are ranks from 1."""
    path = folder() / "label-ranking" / f"{name}.csv"
    with path.open() as file:
        header, *rows = csv.reader(file)
    table = np.array([[float(cell) for cell in row] for row in rows if row])
    inputs = [i for i, column in enumerate(header) if column.startswith("A")]
    ranks = [i for i, column in enumerate(header) if column.startswith("L")]
    return path, Rows(table[:, inputs], table[:, ranks].astype(int), list(range(2, len(table) + 2)))


class Size(NamedTuple):
    """The size of an artificial sparse set."""

    rows: int
    columns: int
    each: int


SIZE = Size(100_000, 1_000, 100)


def write_large(path: Path, size: Size) -> Path:
    """Writes random sparse rows, each with a path in a hierarchy of 1,000 nodes, in the format of Clus."""
    random = np.random.default_rng(0)
    inner = [f"{a}/{b}" for a in range(10) for b in range(9)]
    leaves = [f"{node}/{c}" for node in inner for c in range(10)]
    with path.open("w") as file:
        file.write("@relation large\n")
        file.writelines(f"@attribute x{i} numeric\n" for i in range(size.columns))
        nodes = [*(str(a) for a in range(10)), *inner, *leaves]
        file.write(f"@attribute class hierarchical {','.join(nodes)}\n@data\n")
        for _ in range(size.rows):
            columns = np.sort(random.choice(size.columns, size.each, replace=False))
            values = random.random(size.each)
            leaf = leaves[(7 * columns[0] + columns[size.each // 2]) % len(leaves)]
            cells = ",".join(f"{i} {x:.3f}" for i, x in zip(columns, values, strict=True))
            file.write(f"{{{cells},{size.columns} {leaf}}}\n")
    return path
