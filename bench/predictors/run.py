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
from itertools import chain, combinations
from pathlib import Path

import numpy as np
from data import (
    RANKINGS,
    SIZE,
    Rows,
    emotions,
    folder,
    hierarchy,
    label_names,
    order_names,
    ranking,
    write_large,
    write_rows,
    write_table,
)

from common import tables
from peers import label_sets, rankings

PARTS = "emotions,rankings,hierarchies,size"
LABELS = {
    "zhat, no pairs": "--pairs none",
    "zhat, Chow-Liu pairs": "--pairs chow-liu",
    "zhat, all pairs": "--pairs all",
    "zhat, all pairs, 500 Fourier features": "--pairs all --fourier 500",
}
# The values of γ of Fourier features, of which inner folds of the training rows choose one.
GAMMAS = (0.0005, 0.001, 0.002, 0.004, 0.008)
ORDERS = {
    "zhat, Plackett-Luce": "--ranking plackett-luce",
    "zhat, precedences": "--ranking precedence",
    "zhat, precedences, Fourier features": "--ranking precedence --fourier 300",
}
# What reliability is shown of, and the number of bins per event.
RELIABLE = "zhat, all pairs"
WIDE = 5
RELIABLE_ORDERS = "vehicle"
RELIABLE_NODES = ("Enron_corr", "linear, Chow-Liu pairs of siblings")
MOST_NODES = 12
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
    parser.add_argument(
        "--rows", type=int, default=SIZE.rows, metavar="N", help=f"rows of the part size ({SIZE.rows:,})"
    )
    parser.add_argument("--threads", type=int, default=2, metavar="N", help="threads of zhat (2)")
    parser.add_argument("--note", default="", help="a sentence about the machine for the header")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="also write the results to FILE")
    parser.add_argument(
        "--resume",
        type=Path,
        metavar="FILE",
        help="keep the rows of rankings in FILE, a run with the same folds, repeats and threads",
    )
    parser.add_argument("--append", action="store_true", help="add to the results that FILE already has")
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
    gammas: list[float] = []
    for name, line in LABELS.items():
        model = str(scratch / "m.zhat")
        begun = time.perf_counter()
        if "--fourier" in line:
            gammas.append(best_gamma(options, line, train, xml))
            line = f"{line} --gamma {gammas[-1]}"
        made = zhat(options, f"train {line} {SET_LAMBDAS}", str(train), "--xml", xml, "-o", model)
        seconds = time.perf_counter() - begun
        found = zhat(options, "eval", str(test), "--xml", xml, "--model", model)["measures"]
        yield tables.line(
            [name, *(f"{found[m]:.4f}" for m in measures), f"{made['lambda']:g}", f"{seconds:.1f}"]
        )
        if name == RELIABLE:
            happened = {label: test_rows.targets[:, at] for at, label in enumerate(label_names(test))}
            reliable = list(reliability(options, RELIABLE, model, (str(test), "--xml", xml), happened))
    begun = time.perf_counter()
    others = label_sets(train_rows, test_rows)
    seconds = time.perf_counter() - begun
    for name, found in others.items():
        yield tables.line([name, *(f"{found[m]:.4f}" for m in measures), "", f"{seconds:.1f} (all)"])
    yield f"\ngamma of the Fourier features: {gammas[-1]}."
    yield from reliable
    yield f"## Emotions, {options.folds} folds\n"
    yield from tables.header(("method", *names, "seconds"))
    split, gammas = scratch / "folds.csv", []
    for name, line in LABELS.items():
        if "--fourier" in line:
            begun = time.perf_counter()
            figures = []
            for part in parts(split, rows):
                train, test = (
                    write_rows(path, scratch / f"{file}.arff", own)
                    for file, own in zip(("train", "test"), part, strict=True)
                )
                gammas.append(best_gamma(options, line, train, xml))
                line_of_fold = f"train {line} --gamma {gammas[-1]} {SET_LAMBDAS}"
                zhat(options, line_of_fold, str(train), "--xml", xml, "-o", model)
                figures.append(zhat(options, "eval", str(test), "--xml", xml, "--model", model)["measures"])
            cells = (f"{np.mean([found[m] for found in figures]):.4f}" for m in measures)
            yield tables.line([name, *cells, f"{time.perf_counter() - begun:.1f}"])
            continue
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
    yield f"\ngamma of the Fourier features, by fold: {', '.join(map(str, gammas))}."


def best_gamma(options: argparse.Namespace, line: str, train: Path, xml: str) -> float:
    """The γ of smallest mean log-loss on inner folds of the training rows."""

    def loss(gamma: float) -> float:
        line_of_gamma = f"cv {line} --gamma {gamma} {SET_LAMBDAS} --folds 3"
        return zhat(options, line_of_gamma, str(train), "--xml", xml)["measures"]["log_loss"]["mean"]

    return min(GAMMAS, key=loss)


def reliability(
    options: argparse.Namespace, what: str, model: str, test: tuple[str, ...], happened: dict[str, np.ndarray]
) -> Iterator[str]:
    """The reliability of the probabilities of some events in the test rows, by bins of equal width.

    The events of a cell are in different rows, so that their number has the exact limits of a sum of
    independent events with the predicted probabilities.
    """
    found = zhat(options, "predict --marginals", *test, "--model", model)["rows"]
    cells, outside, filled = [], 0, 0
    for name, own_happened in happened.items():
        own = np.array([row["marginals"][name] for row in found])
        bins = np.minimum((WIDE * own).astype(int), WIDE - 1)
        line = [name]
        for k in range(WIDE):
            some = bins == k
            if not some.any():
                line.append("")
                continue
            low, high = limits(own[some])
            count = int(own_happened[some].sum())
            wrong = not low <= count <= high
            filled, outside = filled + 1, outside + wrong
            mark = " (outside)" if wrong else ""
            line.append(f"{count} of {some.sum()}; {own[some].sum():.1f}, {low}–{high}{mark}")  # noqa: RUF001
        cells.append(line)
    yield f"\n### Reliability of {what}\n"
    yield (
        "Each cell is about the test rows in which the predicted probability of an event is in an interval: "
        "how many of them have the event, of how many rows; the expected number, and its exact limits at 95% "
        f"if the probabilities are right. {outside} of {filled} cells are outside their limits; about "
        f"{0.05 * filled:.0f} or fewer are expected.\n"
    )
    yield from tables.header(("event", *(f"{k / WIDE:.1f}–{(k + 1) / WIDE:.1f}" for k in range(WIDE))))  # noqa: RUF001
    for line in cells:
        yield tables.line(line)
    yield ""


def limits(probabilities: np.ndarray) -> tuple[int, int]:
    """The central counts of independent events: each side beyond them has a probability of at most 2.5%."""
    law = np.ones(1)
    for p in probabilities:
        law = np.convolve(law, (1 - p, p))
    below, above = np.cumsum(law), np.cumsum(law[::-1])[::-1]
    likely = np.flatnonzero((below > 0.025) & (above > 0.025))
    return int(likely[0]), int(likely[-1])


def kept_rows(options: argparse.Namespace) -> dict[str, list[str]]:
    """The cells of the rows of rankings that an earlier run with the same folds wrote, by set."""
    text = options.resume.read_text() if options.resume else ""
    if f"--repeats {options.repeats} --folds {options.folds} --threads {options.threads}`" not in text:
        return {}
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    width = 5 + len(ORDERS) + 2
    return {cells[0]: cells for cells in rows if cells[0] in RANKINGS and len(cells) == width}


def compare_orders(options: argparse.Namespace, scratch: Path) -> Iterator[str]:
    """Label-ranking sets: mean of Kendall's τ."""
    yield f"## Rankings, {options.repeats} × {options.folds} folds: mean of Kendall's τ\n"  # noqa: RUF001
    others = ("pairwise comparison", "nearest neighbours, Borda")
    yield from tables.header(
        ("set", "rows", "items", *ORDERS, *others, "seconds of zhat", "seconds of the others")
    )
    names = options.sets.split(",")
    kept, table = kept_rows(options), []
    for name in names:
        if name in kept:
            table.append([float(cell) for cell in kept[name][3 : 3 + len(ORDERS) + len(others)]])
            yield tables.line(kept[name])
            continue
        path, rows = ranking(name)
        split, cells, seconds = scratch / "folds.csv", [], []
        for line in ORDERS.values():
            line = f"cv --space ranking {line} {LAMBDAS} --folds {options.folds} --repeats {options.repeats}"
            found = zhat(options, line, str(path), "--write-folds", str(split))
            cells.append(found["measures"]["kendall_tau"]["mean"])
            seconds.append(f"{found['seconds']:.1f}")
        begun = time.perf_counter()
        each = [rankings(*part) for part in parts(split, rows)]
        cells += [float(np.mean([found[other] for found in each])) for other in others]
        table.append(cells)
        size = [str(len(rows.lines)), str(rows.targets.shape[1])]
        times = ["; ".join(seconds), f"{time.perf_counter() - begun:.1f}"]
        yield tables.line([name, *size, *(f"{tau:.4f}" for tau in cells), *times])
    yield from order_reliability(options, scratch)
    yield ""
    for i, method in enumerate(ORDERS):
        for j, other in enumerate(others, len(ORDERS)):
            won = [name for name, cells in zip(names, table, strict=True) if cells[i] > cells[j]]
            yield f"- {method}, above {other} on {len(won)} of {len(names)}: {', '.join(won) or 'none'}."


def order_reliability(options: argparse.Namespace, scratch: Path) -> Iterator[str]:
    """The reliability of the order of every pair of items, with half of the rows for training."""
    path, rows = ranking(RELIABLE_ORDERS)
    shuffled = np.random.default_rng(0).permutation(len(rows.lines))
    halves = (np.sort(half) for half in np.array_split(shuffled, 2))
    train, test = (rows.some(half) for half in halves)
    files = [write_table(path, scratch / f"{n}.csv", part) for n, part in (("train", train), ("test", test))]
    model, names = str(scratch / "m.zhat"), order_names(path)
    zhat(options, f"train --space ranking --ranking precedence {LAMBDAS}", str(files[0]), "-o", model)
    pairs = combinations(range(len(names)), 2)
    first = {f"{names[i]}>{names[j]}": test.targets[:, i] < test.targets[:, j] for i, j in pairs}
    what = f"zhat, precedences, {RELIABLE_ORDERS}"
    yield from reliability(options, what, model, (str(files[1]),), first)


def compare_hierarchies(options: argparse.Namespace, scratch: Path) -> Iterator[str]:
    """Hierarchical sets with their given split: micro-averaged area under precision–recall."""
    yield "## Hierarchies, given split\n"
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
    reliable: list[str] = []
    for name, first, second, features, line in HIERARCHIES:
        base, model = folder() / "hierarchical", str(scratch / "m.zhat")
        train, test = str(base / f"{name}_{first}.arff"), str(base / f"{name}_{second}.arff")
        made = zhat(options, f"train --space hierarchy {line}", train, "-o", model)
        found = zhat(options, "eval", test, "--model", model)["measures"]
        figures = [f"{found['au_prc']:.4f}", f"{PUBLISHED[name]}", f"{found['path_accuracy']:.4f}"]
        training = [f"{made['lambda']:g}", f"{made['gap']:.1e}", str(made["steps"]), f"{made['seconds']:.1f}"]
        yield tables.line([name, features, *figures, *training])
        if (name, features) == RELIABLE_NODES:
            nodes = hierarchy(Path(test))
            often = sorted(nodes, key=lambda node: -nodes[node].sum())[:MOST_NODES]
            what = f"{name}, {features}: the {MOST_NODES} most frequent nodes"
            reliable = list(reliability(options, what, model, (test,), {node: nodes[node] for node in often}))
    yield from reliable


def compare_size(options: argparse.Namespace, scratch: Path) -> Iterator[str]:
    """A large sparse set: time of a step of training and peak memory."""
    size = SIZE._replace(rows=options.rows)
    yield f"## Size: {size.rows:,} rows, {size.columns:,} inputs, {size.each} of them not zero, 1,000 nodes\n"
    path = write_large(scratch / "large.arff", size)
    data = 12 * size.rows * size.each / 2**20
    runs = {}
    for steps in (1, 5):
        line = "structured train --space hierarchy --lambda 1e-4 --gap 0 --json"
        files = [str(path), "--iterations", str(steps), "-o", str(scratch / "m.zhat")]
        command = [str(options.zhat), *line.split(), *files, "--threads", str(options.threads)]
        begun = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        if status:
            sys.exit(f"{' '.join(command)}: ended with status {status}")
        runs[steps] = (time.perf_counter() - begun, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
    wall, cpu = ((runs[5][i] - runs[1][i]) / 4 for i in range(2))
    yield from tables.header(("what", "found"))
    yield tables.line(["seconds per step of L-BFGS, at least one objective and gradient", f"{wall:.2f}"])
    yield tables.line(["the same, CPU seconds", f"{cpu:.2f}"])
    yield tables.line(["seconds until the first step is done, with reading", f"{runs[1][0]:.1f}"])
    yield tables.line(["size of the file", f"{path.stat().st_size / 2**20:.0f} MiB"])
    yield tables.line(["size of the data: the numbers and their columns, 12 bytes each", f"{data:.0f} MiB"])
    for steps, name in ((1, "one step"), (5, "five steps")):
        used = runs[steps][2]
        ratio = f"{used:.0f} MiB, {used / data:.2f} times the data"
        yield tables.line([f"peak memory of a run of {name}", ratio])


def main() -> None:
    """Runs all parts."""
    options = arguments()
    chosen = options.parts.split(",")
    if "ZHAT_DATA" not in os.environ and chosen != ["size"]:
        sys.exit(
            "ZHAT_DATA is not set: the folder must contain data/multilabel, "
            "data/label-ranking and data/hierarchical"
        )
    compared = {
        "emotions": compare_sets,
        "rankings": compare_orders,
        "hierarchies": compare_hierarchies,
        "size": compare_size,
    }
    if unknown := [part for part in chosen if part not in compared]:
        sys.exit(f"no part {', '.join(unknown)}; choose from {PARTS}")
    program = subprocess.run(
        [options.zhat, "--version"], capture_output=True, text=True, check=True
    ).stdout.strip()
    versions = f"{program}, scikit-learn {version('scikit-learn')}, NumPy {version('numpy')}"
    text = "# Structured predictors compared with others\n\n[README.md](README.md) explains the methods.\n"
    if options.append and options.output and options.output.exists():
        text = options.output.read_text()
    with tempfile.TemporaryDirectory() as scratch:
        for part in chosen:
            lines = compared[part](options, Path(scratch))
            for line in chain([next(lines), f"{made_by(options, part)} {versions}.\n"], lines):
                print(line, flush=True)
                text += f"\n{line}\n" if line.startswith("## ") else f"{line}\n"
                if options.output:
                    options.output.write_text(text)


def command(options: argparse.Namespace, part: str) -> str:
    """The command of a part."""
    sets = f" --sets {options.sets} --repeats {options.repeats}" if part == "rankings" else ""
    folds = f" --folds {options.folds}" if part in ("emotions", "rankings") else ""
    rows = f" --rows {options.rows}" if part == "size" else ""
    return f"`cargo xtask bench predictors --parts {part}{sets}{folds}{rows} --threads {options.threads}`"


def made_by(options: argparse.Namespace, part: str) -> str:
    """The command and the machine of a part."""
    return " ".join(f"{command(options, part)}. {tables.processor()}. {options.note}".split())


if __name__ == "__main__":
    main()
