"""Compares structured predictors with others on the same folds. Run by `cargo xtask bench predictors`."""

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import numpy as np
from data import RANKINGS, Rows, emotions, folder, ranking

from common import tables
from peers import label_sets, rankings

PARTS = "emotions,rankings,hierarchies"
LABELS = {
    "zhat, no pairs": "--pairs none",
    "zhat, Chow-Liu pairs": "--pairs chow-liu",
    "zhat, all pairs": "--pairs all",
    "zhat, all pairs, 500 Fourier features": "--pairs all --fourier 500 --gamma 0.002",
}
ORDERS = {
    "zhat, Plackett-Luce": "--ranking plackett-luce",
    "zhat, precedences": "--ranking precedence",
    "zhat, precedences, Fourier features": "--ranking precedence --fourier 300",
}
LAMBDAS = "--lambda 1e-2,1e-3,1e-4 --lambda-folds 3 --gap 1e-3"
SET_LAMBDAS = "--lambda 1e-1,1e-2,1e-3,1e-4 --lambda-folds 3 --gap 1e-3"
UNIT = "--scaling unit --lambda 1e-3,3e-4,1e-4,3e-5 --lambda-folds 3 --gap 1e-2"
HIERARCHIES = (
    ("Enron_corr", "trainvalid", "test", "linear", UNIT),
    ("Enron_corr", "trainvalid", "test", "linear, Chow-Liu pairs of siblings", f"{UNIT} --pairs chow-liu"),
    ("ImCLEF07D", "Train", "Test", "linear", "--lambda 1e-5 --gap 1e-2"),
    (
        "ImCLEF07D",
        "Train",
        "Test",
        "2,000 Fourier features",
        "--fourier 2000 --gamma 0.004 --lambda 3e-6 --gap 1e-2 --iterations 90",
    ),
)
PUBLISHED = {"Enron_corr": 0.756, "ImCLEF07D": 0.927}


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="cargo xtask bench predictors", description=__doc__)
    parser.add_argument("--zhat", required=True, type=Path, metavar="PROGRAM", help="the program to compare")
    parser.add_argument("--parts", default=PARTS, help=f"what to compare, separated by commas ({PARTS})")
    parser.add_argument("--folds", type=int, default=10, metavar="N", help="folds of cross-validation (10)")
    parser.add_argument("--repeats", type=int, default=5, metavar="N", help="repetitions for rankings (5)")
    parser.add_argument("--sets", default=",".join(RANKINGS), help="label-ranking sets, separated by commas")
    parser.add_argument("--threads", type=int, default=2, metavar="N", help="threads of zhat (2)")
    parser.add_argument("--note", default="", help="a sentence about the machine for the header")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="also write the results to FILE")
    return parser.parse_args()


def zhat(options: argparse.Namespace, line: str, *files: str) -> dict:
    """The JSON object of a command."""
    command = [
        str(options.zhat),
        "structured",
        *line.split(),
        *files,
        "--json",
        "--threads",
        str(options.threads),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    return json.loads(done.stdout)


def parts(path: Path, rows: Rows) -> Iterator[tuple[Rows, Rows]]:
    """The folds of a file of folds: training rows and test rows."""
    place = {line: row for row, line in enumerate(rows.lines)}
    with path.open() as file:
        table = [(int(a), place[int(b)], int(c)) for a, b, c in list(csv.reader(file))[1:]]
    for repeat, fold in sorted({(a, c) for a, _, c in table}):
        own = np.array(sorted(row for a, row, c in table if (a, c) == (repeat, fold)))
        rest = np.array(sorted(row for a, row, c in table if a == repeat and c != fold))
        yield rows.some(rest), rows.some(own)


def compare_sets(options: argparse.Namespace, scratch: Path) -> Iterator[str]:
    """Emotions: the given split, and cross-validation."""
    measures = ("log_loss", "subset_accuracy", "hamming_loss")
    names = ("log-loss of the set", "subset accuracy", "Hamming loss")
    xml = str(folder() / "multilabel/emotions/emotions.xml")
    (train, train_rows), (test, test_rows), (path, rows) = emotions("-train"), emotions("-test"), emotions()
    yield f"## Emotions, {len(train_rows.lines)} rows for training and {len(test_rows.lines)} for testing\n"
    yield from tables.header(("method", *names, "λ", "seconds"))
    for name, line in LABELS.items():
        model = str(scratch / "m.zhat")
        begun = time.perf_counter()
        made = zhat(options, f"train {line} {SET_LAMBDAS}", str(train), "--xml", xml, "-o", model)
        seconds = time.perf_counter() - begun
        found = zhat(options, "eval", str(test), "--xml", xml, "--model", model)["measures"]
        yield tables.line(
            [name, *(f"{found[m]:.4f}" for m in measures), f"{made['lambda']:g}", f"{seconds:.1f}"]
        )
    begun = time.perf_counter()
    others = label_sets(train_rows, test_rows)
    seconds = time.perf_counter() - begun
    for name, found in others.items():
        yield tables.line([name, *(f"{found[m]:.4f}" for m in measures), "", f"{seconds:.1f} (all)"])
    yield f"\n## Emotions, {options.folds} folds\n"
    yield from tables.header(("method", *names, "seconds"))
    split = scratch / "folds.csv"
    for name, line in LABELS.items():
        line = f"cv {line} {SET_LAMBDAS} --folds {options.folds}"
        found = zhat(options, line, str(path), "--xml", xml, "--write-folds", str(split))
        cells = (f"{found['measures'][m]['mean']:.4f}" for m in measures)
        yield tables.line([name, *cells, f"{found['seconds']:.1f}"])
    begun = time.perf_counter()
    each = [label_sets(*part) for part in parts(split, rows)]
    seconds = time.perf_counter() - begun
    for name in each[0]:
        cells = (f"{np.mean([found[name][m] for found in each]):.4f}" for m in measures)
        yield tables.line([name, *cells, f"{seconds:.1f} (all)"])


def compare_orders(options: argparse.Namespace, scratch: Path) -> Iterator[str]:
    """Label-ranking sets: mean of Kendall's τ."""
    yield f"\n## Rankings, {options.repeats} × {options.folds} folds: mean of Kendall's τ\n"  # noqa: RUF001
    others = ("pairwise comparison", "nearest neighbours, Borda")
    yield from tables.header(
        ("set", "rows", "items", *ORDERS, *others, "seconds of zhat", "seconds of the others")
    )
    for name in options.sets.split(","):
        path, rows = ranking(name)
        split, cells, seconds = scratch / "folds.csv", [], []
        for line in ORDERS.values():
            line = f"cv --space ranking {line} {LAMBDAS} --folds {options.folds} --repeats {options.repeats}"
            found = zhat(options, line, str(path), "--write-folds", str(split))
            cells.append(f"{found['measures']['kendall_tau']['mean']:.4f}")
            seconds.append(f"{found['seconds']:.1f}")
        begun = time.perf_counter()
        each = [rankings(*part) for part in parts(split, rows)]
        cells += [f"{np.mean([found[other] for found in each]):.4f}" for other in others]
        size = [str(len(rows.lines)), str(rows.targets.shape[1])]
        times = ["; ".join(seconds), f"{time.perf_counter() - begun:.1f}"]
        yield tables.line([name, *size, *cells, *times])


def compare_hierarchies(options: argparse.Namespace, scratch: Path) -> Iterator[str]:
    """Hierarchical sets with their given split: micro-averaged area under precision–recall."""
    yield "\n## Hierarchies, given split\n"
    names = (
        "set",
        "features",
        "area",
        "published (C-HMCNN)",
        "path accuracy",
        "λ",
        "gap",
        "steps",
        "seconds of training",
    )
    yield from tables.header(names)
    for name, first, second, features, line in HIERARCHIES:
        base, model = folder() / "hierarchical", str(scratch / "m.zhat")
        train, test = str(base / f"{name}_{first}.arff"), str(base / f"{name}_{second}.arff")
        made = zhat(options, f"train --space hierarchy {line}", train, "-o", model)
        found = zhat(options, "eval", test, "--model", model)["measures"]
        figures = [f"{found['au_prc']:.4f}", f"{PUBLISHED[name]}", f"{found['path_accuracy']:.4f}"]
        training = [f"{made['lambda']:g}", f"{made['gap']:.1e}", str(made["steps"]), f"{made['seconds']:.1f}"]
        yield tables.line([name, features, *figures, *training])


def main() -> None:
    """Runs all parts."""
    options = arguments()
    if "ZHAT_DATA" not in os.environ:
        sys.exit(
            "ZHAT_DATA is not set: the folder must contain data/multilabel, "
            "data/label-ranking and data/hierarchical"
        )
    chosen = options.parts.split(",")
    compared = {"emotions": compare_sets, "rankings": compare_orders, "hierarchies": compare_hierarchies}
    if unknown := [part for part in chosen if part not in compared]:
        sys.exit(f"no part {', '.join(unknown)}; choose from {PARTS}")
    program = subprocess.run(
        [options.zhat, "--version"], capture_output=True, text=True, check=True
    ).stdout.strip()
    text = "\n\n".join(
        [
            "# Structured predictors compared with others",
            f"`cargo xtask bench predictors --parts {options.parts} "
            f"--folds {options.folds} --repeats {options.repeats}`",
            f"{tables.processor()}; {options.threads} threads. {options.note} "
            "[README.md](README.md) explains the methods.",
            f"Versions: {program}, scikit-learn {version('scikit-learn')}, NumPy {version('numpy')}.\n\n",
        ]
    )
    print(text, flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        for part in chosen:
            for line in compared[part](options, Path(scratch)):
                print(line, flush=True)
                text += f"{line}\n"
                if options.output:
                    options.output.write_text(text)


if __name__ == "__main__":
    main()
