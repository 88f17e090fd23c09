"""The tutorial notebooks run from top to bottom, and lie in the repository without outputs."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

DOCS = Path(__file__).parents[1] / "docs"
NOTEBOOKS = sorted(DOCS.glob("*.ipynb"))


@pytest.mark.parametrize(
    "name", ["tutorial-data", pytest.param("tutorial-policies", marks=pytest.mark.slow)]
)
def test_a_notebook_runs(name, tmp_path):
    notebook = nbformat.read(DOCS / f"{name}.ipynb", as_version=4)
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": tmp_path}}).execute()
    shown = [
        kind
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        for kind in output.get("data", ())
    ]
    assert shown.count("text/html") >= 4
    assert ("image/png" in shown) == (name == "tutorial-policies")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert all(not cell.get("outputs") for cell in notebook.cells)
    assert path.stat().st_size < 100_000


def test_there_are_two_tutorials():
    assert [path.stem for path in NOTEBOOKS] == ["tutorial-data", "tutorial-policies"]
