"""Parts of speech of English-EWT: zhat's taggers and NLTK's TnT."""

import json
import os
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from common import tables

# The name of a column, its number from 0 in CoNLL-U.
COLUMNS = {"upos": 3, "xpos": 4}
# The rows of zhat: name and options of training.
ROWS = {
    "zhat, joint, K = 1, L = 1": ["--objective", "joint", "--words", "1"],
    "zhat, joint, K = 1, L = 3": ["--objective", "joint", "--words", "3"],
    "zhat, conditional, same features": ["--objective", "conditional", "--words", "3"],
}


def last_line(command: list[str]) -> dict[str, Any]:
    """The last line that a program prints, as JSON."""
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    answer: dict[str, Any] = json.loads(done.stdout.decode().strip().split("\n")[-1])
    return answer


def comparison(program: Path, data: Path, threads: int) -> str:
    """The tables of both columns of tags."""
    lines = ["## Parts of speech: comparison with NLTK's TnT", ""]
    lines += [
        f"English-EWT, test file; accuracy in percent. NLTK {version('nltk')}: `TnT()` with its own suffix "
        "model for unseen words, and `TnT(C=True)`, in which capitals divide tags. Training of zhat stops "
        f"early on the development file and uses {threads} threads; seconds of zhat are wall time, of TnT "
        "processor time.",
        "",
    ]
    parts = [str(data / f"en_ewt-ud-{part}.conllu") for part in ("train", "dev", "test")]
    for column, number in COLUMNS.items():
        lines += tables.header([column.upper(), "total", "unseen", "training s", "tagging s"])
        answers: dict[str, dict[str, Any]] = {}
        peer = [sys.executable, str(Path(__file__).parent / "tnt.py"), parts[0], parts[2], str(number)]
        for capitals, name in ((0, "TnT"), (1, "TnT, capitals")):
            answers[name] = last_line([*peer, str(capitals)])
        with tempfile.TemporaryDirectory() as folder:
            for name, options in ROWS.items():
                model = str(Path(folder) / "model.zhat")
                common = ["--column", column, "--threads", str(threads), "--json"]
                train = [str(program), "tag", "train", parts[0], "--valid", parts[1], *options, *common]
                trained = last_line([*train, "-o", model])
                answers[name] = last_line([str(program), "tag", "eval", model, parts[2], *common])
                answers[name]["tagging_seconds"] = answers[name]["seconds"]
                answers[name]["seconds"] = trained["seconds"] - trained["reading_seconds"]
        for name, answer in answers.items():
            cells = [name, f"{100 * answer['accuracy']:.2f}", f"{100 * answer['unseen_accuracy']:.2f}"]
            cells += [f"{answer['seconds']:.1f}", f"{answer['tagging_seconds']:.2f}"]
            lines.append(tables.line(cells))
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    """Argument: the program."""
    data = Path(os.environ["ZHAT_DATA"]) / "data" / "ud-ewt"
    print(comparison(Path(sys.argv[1]), data, len(os.sched_getaffinity(0))))


if __name__ == "__main__":
    main()
