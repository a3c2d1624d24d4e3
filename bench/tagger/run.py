"""Compares taggers with CRFsuite and with NLTK's TnT. Run by `cargo xtask bench tagger`."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import ewt
import words

from common import tables

# CRFsuite's benchmark: words and parts of speech in a window of two.
WORDS = ((-2,), (-1,), (0,), (1,), (2,), (-1, 0), (0, 1))
SPEECH = (*WORDS[:5], (-2, -1), (-1, 0), (0, 1), (1, 2), (-2, -1, 0), (-1, 0, 1), (0, 1, 2))


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="cargo xtask bench tagger", description=__doc__)
    parser.add_argument("--zhat", required=True, type=Path, metavar="PROGRAM", help="the program to compare")
    parser.add_argument("--l2", type=float, default=1.0, help="the penalty of both (1)")
    parser.add_argument("--sentences", type=int, default=10**9, help="use only the first sentences")
    parser.add_argument(
        "--parts",
        nargs="+",
        choices=["chunking", "words", "attributes"],
        default=["chunking", "words", "attributes"],
        help="what to compare (all)",
    )
    parser.add_argument("--note", default="", help="a sentence about the machine for the header")
    parser.add_argument("-o", "--output", type=Path, help="the file of the results")
    return parser.parse_args()


def attributes(rows: list[list[str]]) -> list[str]:
    """The lines of a sentence in CRFsuite's format."""
    lines = []
    for at in range(len(rows)):
        items = []
        for name, column, windows in (("w", 0, WORDS), ("pos", 1, SPEECH)):
            for window in windows:
                places = [at + offset for offset in window]
                if min(places) >= 0 and max(places) < len(rows):
                    left = "|".join(f"{name}[{offset}]" for offset in window)
                    items.append(f"{left}={'|'.join(rows[place][column] for place in places)}")
        items += ["__BOS__"] * (at == 0) + ["__EOS__"] * (at == len(rows) - 1)
        escaped = [item.replace("\\", "\\\\").replace(":", "\\:") for item in items]
        lines.append("\t".join([rows[at][2], *escaped]))
    return lines


def convert(source: Path, target: Path, most: int) -> None:
    """Writes a file of CoNLL-2000 in CRFsuite's format."""
    blocks = source.read_text().strip().split("\n\n")[:most]
    sentences = [[line.split() for line in block.split("\n")] for block in blocks]
    target.write_text("".join("\n".join(attributes(rows)) + "\n\n" for rows in sentences))


def measured(command: list[str], environment: dict[str, str]) -> tuple[dict[str, Any], float, float]:
    """The last line of a program as JSON, its processor seconds and its peak memory in MiB."""
    child = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)
    assert child.stdout is not None
    output = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed")
    answer: dict[str, Any] = json.loads(output.decode().strip().split("\n")[-1])
    return answer, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def spans(tags: list[str]) -> set[tuple[int, int, str]]:
    """The spans of IOB tags, as CoNLL's script finds them."""
    found, start, kind, before = set(), 0, "", "O"
    for at, tag in enumerate([*tags, "O"]):
        goes_on = tag.startswith("I-") and before != "O" and tag[2:] == kind
        if before != "O" and not goes_on:
            found.add((start, at, kind))
        if tag != "O" and not goes_on:
            start, kind = at, tag[2:]
        before = tag
    return found


def f1(predicted: list[list[str]], observed: list[list[str]]) -> float:
    """F1 of whole spans, in percent."""
    pairs = [(spans(a), spans(b)) for a, b in zip(predicted, observed, strict=True)]
    hits, total = sum(len(a & b) for a, b in pairs), sum(len(a) + len(b) for a, b in pairs)
    return 200 * hits / total


def main() -> None:
    """Runs the parts and writes their tables."""
    given = arguments()
    parts = []
    if "chunking" in given.parts:
        parts.append(chunking(given))
    if "words" in given.parts:
        data = Path(os.environ["ZHAT_DATA"]) / "data" / "ud-ewt"
        parts.append(words.comparison(given.zhat, data, len(os.sched_getaffinity(0))))
    if "attributes" in given.parts:
        data = Path(os.environ["ZHAT_DATA"]) / "data" / "ud-ewt"
        parts.append(ewt.comparison(given.zhat, data, given.l2, given.sentences))
    lines = [
        "# Taggers: comparison with CRFsuite and TnT",
        "",
        f"{tables.processor()}. {given.note}".strip(),
        "",
    ]
    text = "\n".join([*lines, *parts])
    print(text)
    if given.output is not None:
        given.output.write_text(text)


def chunking(given: argparse.Namespace) -> str:
    """Trains and tags CoNLL-2000 with every program."""
    data = Path(os.environ["ZHAT_DATA"]) / "data" / "conll2000"
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for part in ("train", "test"):
            convert(data / f"{part}.txt", folder / f"{part}.crfsuite", given.sentences)
        train, test, model = folder / "train.crfsuite", folder / "test.crfsuite", folder / "model"
        peer = [
            sys.executable,
            str(Path(__file__).parent / "peer.py"),
            str(train),
            str(test),
            str(model),
            str(given.l2),
        ]
        answer, _, _ = measured(peer, dict(os.environ))
        quality = f1(answer["predicted"], answer["observed"])
        rows.append(
            (
                "CRFsuite",
                1,
                answer,
                answer["cpu_seconds"],
                answer["memory_mib"],
                quality,
                answer["tagging_seconds"],
            )
        )
        for threads in (1, 2):
            program = [str(given.zhat), "tag"]
            command = [*program, "train", str(train), "--format", "crfsuite", "--l2", str(given.l2)]
            command += ["--threads", str(threads), "--json", "-o", str(model)]
            answer, processor, memory = measured(command, dict(os.environ))
            answer["seconds"] -= answer["reading_seconds"]
            command = [
                *program,
                "eval",
                str(model),
                str(test),
                "--format",
                "crfsuite",
                "--json",
                "--threads",
                str(threads),
            ]
            result, _, _ = measured(command, dict(os.environ))
            quality = 100 * result["spans"]["f1"]
            rows.append(("zhat", threads, answer, processor, memory, quality, result["seconds"]))
    names = (
        "program",
        "threads",
        "steps",
        "training s",
        "CPU s",
        "memory MiB",
        "objective",
        "F1",
        "tagging s",
    )
    lines = [
        "## Chunking: comparison with CRFsuite",
        "",
        f"python-crfsuite {version('python-crfsuite')}.",
        "",
    ]
    lines += tables.header(names)
    for name, threads, answer, processor, memory, quality, tagging in rows:
        cells = [name, str(threads), str(answer["steps"]), f"{answer['seconds']:.1f}", f"{processor:.1f}"]
        cells += [f"{memory:.0f}", f"{answer['objective']:.4f}", f"{quality:.2f}", f"{tagging:.2f}"]
        lines.append(tables.line(cells))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
