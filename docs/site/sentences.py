"""Prints sentences drawn at random from what users read, for proofreading.

The texts are the README, the pages of the documentation (which include the help of every command) and the
messages in the source code of the library, the program and the Python package.

Usage: python docs/site/sentences.py [COUNT [SEED]]   (20 sentences, seed 0)
"""

from __future__ import annotations

import random
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Formulas, code and tables are not prose.
NOT_PROSE = re.compile(r"```.*?^```|\$\$.*?\$\$|<!--.*?-->|^[|#>:].*?$", re.MULTILINE | re.DOTALL)
SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z`])")
# Text in the constructors of errors and in Python's `raise`.
RUST_MESSAGE = re.compile(r'(?:Error::\w+\(|#\[error\(|format!\(|argument\([^"]*)"((?:[^"\\]|\\.)*)"')
PYTHON_MESSAGE = re.compile(r'raise \w+\(\s*f?"((?:[^"\\]|\\.)*)"')


def prose(path: Path) -> list[str]:
    """The sentences of a page."""
    text = NOT_PROSE.sub("\n\n", path.read_text())
    paragraphs = (re.sub(r"\s+", " ", paragraph).strip() for paragraph in re.split(r"\n\s*\n|\n[-*] ", text))
    return [sentence for paragraph in paragraphs for sentence in SENTENCE.split(paragraph)]


def messages(path: Path) -> list[str]:
    """The messages of a source file."""
    return (PYTHON_MESSAGE if path.suffix == ".py" else RUST_MESSAGE).findall(path.read_text())


def main() -> None:
    """Prints the sentences with the files that they come from."""
    count, seed = [int(arg) for arg in sys.argv[1:]] + [20, 0][len(sys.argv) - 1 :]
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    sources = [
        *sorted((ROOT / "crates").rglob("src/**/*.rs")),
        *sorted((ROOT / "python" / "zhat").glob("*.py")),
    ]
    found = [(page, sentence) for page in pages for sentence in prose(page)]
    found += [(source, message) for source in sources for message in messages(source)]
    found = [(path, text) for path, text in found if len(text.split()) >= 5]
    for path, text in random.Random(seed).sample(found, count):
        print(f"{path.relative_to(ROOT)}: {text}")


if __name__ == "__main__":
    main()
