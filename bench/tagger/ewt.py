"""Parts of speech of English-EWT: CRFsuite and zhat's conditional tagger on the same attributes."""

import os
import sys
import tempfile
import unicodedata
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from words import COLUMNS, last_line

from common import tables

# The word before the first and after the last of a sentence.
BOUNDARY = "<S>"
# Both programs stop when the objective has fallen by less than this share over ten steps: far beyond the
# default, so that their objectives are those of the optimum.
DELTA = 1e-7


def features(word: str, offset: int) -> Iterator[str]:
    """The features of `appendix-b` of a word at an offset from the tag."""
    yield f"w[{offset}]={word}"
    if word == BOUNDARY:
        return
    for length in range(1, min(4, len(word)) + 1):
        yield f"p{length}[{offset}]={word[:length]}"
        yield f"s{length}[{offset}]={word[-length:]}"
    if offset != 0:
        return
    letters = [letter for letter in word if letter.isalpha()]
    digits = [unicodedata.category(letter).startswith("N") for letter in word]
    upper = bool(letters) and all(letter.isupper() for letter in letters)
    shape = {
        "upper": upper,
        "capital": word[:1].isupper(),
        "s": word.endswith("s"),
        "capital+s": word[:1].isupper() and word.endswith("s"),
        "upper+S": upper and word.endswith("S"),
        "digit": any(digits),
        "digits": all(digits),
        "hyphen": "-" in word,
    }
    yield from (name for name, holds in shape.items() if holds)


def sentences(path: Path, column: int) -> Iterator[list[tuple[str, str]]]:
    """The words and tags of a file in the format CoNLL-U."""
    found: list[tuple[str, str]] = []
    for line in path.read_text(encoding="utf-8").split("\n"):
        cells = line.split("\t")
        if cells[0].isdigit():
            found.append((cells[1], cells[column]))
        elif not line and found:
            yield found
            found = []
    if found:
        yield found


def convert(source: Path, target: Path, column: int, most: int) -> None:
    """Writes the first sentences of a file in CRFsuite's format with the attributes of `appendix-b:3`."""
    with target.open("w", encoding="utf-8") as out:
        for number, sentence in enumerate(sentences(source, column)):
            if number == most:
                break
            padded = [BOUNDARY, *(word for word, _ in sentence), BOUNDARY]
            for at, (_, tag) in enumerate(sentence):
                names = [name for offset in (-1, 0, 1) for name in features(padded[at + 1 + offset], offset)]
                escaped = [name.replace("\\", "\\\\").replace(":", "\\:") for name in names]
                out.write("\t".join([tag, *escaped]) + "\n")
            out.write("\n")


def cut(source: Path, target: Path, most: int) -> None:
    """Copies the first sentences of a file in the format CoNLL-U."""
    blocks = source.read_text(encoding="utf-8").strip().split("\n\n")[:most]
    target.write_text("\n\n".join(blocks) + "\n\n", encoding="utf-8")


def comparison(program: Path, data: Path, l2: float, most: int) -> str:
    """The tables of both columns of tags."""
    lines = ["## Parts of speech: CRFsuite on the same attributes", ""]
    lines += [
        f"English-EWT, test file; python-crfsuite {version('python-crfsuite')}, l2 = {l2}, no l1, no "
        f"development file; both stop when the objective has fallen by less than {DELTA} of itself over ten "
        "steps. The attributes are those of `appendix-b:3`, the default of zhat. The last row has them from "
        "zhat itself.",
        "",
    ]
    for column, number in COLUMNS.items():
        lines += tables.header([column.upper(), "steps", "objective", "relative difference", "accuracy"])
        rows = both(program, data, (column, number), l2, most)
        reference = rows["CRFsuite"]["objective"]
        for name, answer in rows.items():
            cells = [name, str(answer["steps"]), f"{answer['objective']:.4f}"]
            cells += [f"{answer['objective'] / reference - 1:.1e}", f"{100 * answer['accuracy']:.2f}"]
            lines.append(tables.line(cells))
        lines.append("")
    return "\n".join(lines)


def both(
    program: Path, data: Path, column: tuple[str, int], l2: float, most: int
) -> dict[str, dict[str, Any]]:
    """Steps, objective and accuracy of every row."""
    rows: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        model = str(folder / "model")
        for part in ("train", "test"):
            source = data / f"en_ewt-ud-{part}.conllu"
            convert(source, folder / f"{part}.crfsuite", column[1], most)
            cut(source, folder / f"{part}.conllu", most)
        files = [str(folder / f"{part}.crfsuite") for part in ("train", "test")]
        peer = [sys.executable, str(Path(__file__).parent / "peer.py"), *files, model, str(l2), str(DELTA)]
        answer = last_line(peer)
        pairs = [
            pair
            for own, true in zip(answer["predicted"], answer["observed"], strict=True)
            for pair in zip(own, true, strict=True)
        ]
        answer["accuracy"] = sum(a == b for a, b in pairs) / len(pairs)
        rows["CRFsuite"] = answer
        for name, ending, options in (
            ("zhat", "crfsuite", ["--format", "crfsuite"]),
            ("zhat, own attributes", "conllu", ["--column", column[0], "--features", "appendix-b:3"]),
        ):
            train, test = (str(folder / f"{part}.{ending}") for part in ("train", "test"))
            # Only training has features; the model keeps them.
            how = ["--l2", str(l2), "--delta", str(DELTA), "--json", "-o", model]
            trained = last_line([str(program), "tag", "train", train, *options, *how])
            evaluated = last_line([str(program), "tag", "eval", model, test, *options[:2], "--json"])
            rows[name] = {**trained, "accuracy": evaluated["accuracy"]}
    return rows


def main() -> None:
    """Arguments: the program, the number of sentences."""
    data = Path(os.environ["ZHAT_DATA"]) / "data" / "ud-ewt"
    print(comparison(Path(sys.argv[1]), data, 1.0, int(sys.argv[2])))


if __name__ == "__main__":
    main()
