"""Runs the notebooks of `examples/` that use PyTorch; `test_examples.py` runs the others."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_examples import NOTEBOOKS, WITHOUT_TORCH, run_as_a_script

pytest.importorskip("torch", reason="PyTorch is not installed; its notebooks are not run")
pytest.importorskip("matplotlib", reason="matplotlib is not installed")


@pytest.mark.parametrize(
    "notebook", [path for path in NOTEBOOKS if path not in WITHOUT_TORCH], ids=lambda path: path.stem
)
def test_notebook_runs_as_a_script(notebook: Path) -> None:
    run_as_a_script(notebook)
