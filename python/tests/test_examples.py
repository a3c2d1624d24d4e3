"""Runs the notebooks of `examples/` as scripts, at the small sizes that `ZHAT_EXAMPLES=small` selects.

A notebook asserts its own facts, such as that a bound contains the true value. Here it must also end without
a warning.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.py"))
# `test_torch_examples.py` runs the others.
WITHOUT_TORCH = [path for path in NOTEBOOKS if "import torch" not in path.read_text(encoding="utf-8")]

NEEDED = ("hmmlearn", "matplotlib", "pandas", "pgmpy", "pyagrum", "sklearn")
ABSENT = [name for name in NEEDED if find_spec(name) is None]


def test_there_are_notebooks() -> None:
    assert len(WITHOUT_TORCH) >= 8
    assert len(NOTEBOOKS) > len(WITHOUT_TORCH)


@pytest.mark.skipif(bool(ABSENT), reason=f"the notebooks need {' and '.join(ABSENT)}")
@pytest.mark.parametrize("notebook", WITHOUT_TORCH, ids=lambda path: path.stem)
def test_notebook_runs_as_a_script(notebook: Path) -> None:
    run_as_a_script(notebook)


def run_as_a_script(notebook: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "error", notebook.name],
        cwd=notebook.parent,
        env={**os.environ, "ZHAT_EXAMPLES": "small", "MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, f"{notebook.name}\n{ran.stdout}\n{ran.stderr}"
    assert ran.stderr == ""


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_well_formed(notebook: Path) -> None:
    text = notebook.read_text(encoding="utf-8")
    header, first, *rest = re.split(r"^# %%", text, flags=re.MULTILINE)
    assert "format_name: percent" in header
    assert "name: python3" in header
    assert first.startswith(" [markdown]\n# # "), "the first cell is the title"
    for link in re.findall(r"\]\(([^)]+)\)", "".join(rest)):
        assert (notebook.parent / link.partition("#")[0]).exists(), f"{notebook.name}: no file {link}"
    assert "../../docs/" in rest[-1], "the last cell links to the docs"
