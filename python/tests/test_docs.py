"""Runs the code blocks of the README and the docs: shell and Python sessions, each with its printed output.

A file's blocks run in order in one folder and share their variables. In expected output `…` stands for any
text. Rust blocks are documentation tests of the library, `text` blocks are formulas and file formats,
`pycon` blocks need dynamax, which is not installed for the tests, and commands of `sh` blocks are listed here
with the test that runs them.
"""

from __future__ import annotations

import doctest
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from program import COMMAND

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)

# Commands that are run elsewhere.
BENCHMARK = "a benchmark: it installs other tools, and its results are committed"
ELSEWHERE = {
    "cargo install --path crates/zhat-cli": "builds what `cargo xtask fresh` builds",
    "pip install ./python": "the package's own build, `cargo xtask wheel`",
    "cargo xtask wheel": "`cargo xtask test --wheel`",
    "pip install target/wheels/zhat-*.whl": "`cargo xtask wheel`",
    "cargo run --release -- demo": "`cargo xtask fresh`",
    "cargo xtask test": "`cargo xtask fresh`",
    "ZHAT_DATA=FOLDER cargo xtask bench exact --limit 20": BENCHMARK,
    "ZHAT_DATA=FOLDER cargo xtask bench exact Grids_11 --query logz --tool zhat --tool pyGMs": BENCHMARK,
    "ZHAT_DATA=FOLDER cargo xtask bench bounds": BENCHMARK,
    "ZHAT_DATA=FOLDER cargo xtask bench bounds --report": BENCHMARK,
    "cargo xtask bench chain": BENCHMARK,
    "cargo xtask bench chain --cases 1000:64:8 --peers dynamax": BENCHMARK,
    "ZHAT_DATA=FOLDER cargo xtask bench predictors": BENCHMARK,
    "ZHAT_DATA=FOLDER cargo xtask bench predictors --parts rankings --sets iris --repeats 1": BENCHMARK,
    "cargo xtask bench hmm": BENCHMARK,
    "cargo xtask bench networks --threads 2": BENCHMARK,
    "cargo xtask bench python": BENCHMARK,
    "ZHAT_DATA=FOLDER cargo xtask bench tagger": BENCHMARK,
    "cargo xtask bench tree": BENCHMARK,
    "cargo xtask bench tree --cases cfg:30:60:40:8 --threads 2": BENCHMARK,
}

PAGES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))
FILES = ["README.md", *PAGES]


def blocks(name: str) -> list[tuple[str, str]]:
    return BLOCK.findall((ROOT / name).read_text())


def matches(expected: str, found: str) -> bool:
    """Whether the output is as expected, where `…` stands for any text within a line."""
    pattern = "[^\n]*".join(re.escape(part) for part in expected.rstrip("\n").split("…"))
    return re.fullmatch(pattern, found.rstrip("\n")) is not None


def run_session(session: str, folder: Path) -> int:
    """Runs the commands of a shell session, `$ zhat …`, and compares their output; returns their number."""
    commands = re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]
    for command in commands:
        line, _, expected = command.partition("\n")
        program, *arguments = shlex.split(line)
        assert program == "zhat", line
        ran = subprocess.run(
            [*COMMAND, *arguments],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        found = ran.stdout + ran.stderr
        assert matches(expected, found), f"$ {line}\n{found}\n--- expected ---\n{expected}"
    return len(commands)


# The compiled modules of pyAgrum warn about themselves, and end the process if warnings are errors.
@pytest.mark.filterwarnings("ignore:builtin type .* has no __module__ attribute")
@pytest.mark.filterwarnings("ignore:.pgmpy.* is deprecated")
@pytest.mark.parametrize("name", FILES)
def test_code_blocks_run_as_printed(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    monkeypatch.chdir(tmp_path)
    variables: dict[str, object] = {}
    parser = doctest.DocTestParser()
    counts = dict.fromkeys(["console", "pycon", "python", "rust", "sh", "text"], 0)
    for number, (language, text) in enumerate(blocks(name)):
        assert language in counts, f"{name}: block {number} is `{language}`, which nothing runs"
        assert language != "pycon" or "dynamax" in text, f"{name}: block {number} could be run"
        counts[language] += 1
        if language == "console":
            assert run_session(text, tmp_path) > 0
        elif language == "python" and not needs_torch(text):
            session = parser.get_doctest(text, variables, f"{name}[{number}]", name, 0)
            assert session.examples, f"{name}: block {number} has no `>>>`"
            runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS, verbose=False)
            runner.run(session, clear_globs=False)
            variables = session.globs
            assert runner.failures == 0
        elif language == "sh":
            for line in filter(None, text.splitlines()):
                assert line.partition("#")[0].strip() in ELSEWHERE, line
    if name == "README.md":
        assert min(counts["console"], counts["python"], counts["rust"]) > 0


def needs_torch(block: str) -> bool:
    """Whether a block needs PyTorch; such blocks run in the environment that has it."""
    return "torch" in block or "tensor(" in block


WITH_TORCH = [
    name for name in FILES if any(own == "python" and needs_torch(text) for own, text in blocks(name))
]


# PyTorch warns of how torch-struct and pytorch-crf use it.
@pytest.mark.filterwarnings("ignore:.*does not define `arg_constraints`")
@pytest.mark.filterwarnings("ignore:where received a uint8 condition tensor")
@pytest.mark.parametrize("name", WITH_TORCH)
def test_code_blocks_with_torch_run_as_printed(name: str) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed; its code blocks are not run")
    variables: dict[str, object] = {}
    for number, (language, text) in enumerate(blocks(name)):
        if language == "python" and needs_torch(text):
            session = doctest.DocTestParser().get_doctest(text, variables, f"{name}[{number}]", name, 0)
            runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS, verbose=False)
            runner.run(session, clear_globs=False)
            variables = session.globs
            assert session.examples
            assert runner.failures == 0


def test_rust_blocks_are_documentation_tests() -> None:
    library = (ROOT / "crates/zhat/src/lib.rs").read_text()
    listed = set(re.findall(r'^ +\w+ "([^"]+\.md)";', library, re.MULTILINE))
    assert listed == {name for name in FILES if any(language == "rust" for language, _ in blocks(name))}


def test_output_is_compared() -> None:
    assert matches("a … c\nd\n", "a b c\nd\n")
    assert not matches("a … c\n", "a b\nc\n")
    assert not matches("a\n", "a\nb\n")
    assert not matches("0.25", "0x25")
