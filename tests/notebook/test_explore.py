"""reports/explore.ipynb: the same as its source, without outputs, and it runs from its first cell to its last."""

from __future__ import annotations

from pathlib import Path

import jupytext
import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[2]
SOURCE, NOTEBOOK = ROOT / "reports" / "explore.py", ROOT / "reports" / "explore.ipynb"


def cells(notebook: nbformat.NotebookNode) -> list[tuple[str, str, list[str]]]:
    return [(cell.cell_type, cell.source, cell.metadata.get("tags", [])) for cell in notebook.cells]


def test_source_and_notebook_are_in_step() -> None:
    assert cells(jupytext.read(SOURCE)) == cells(nbformat.read(NOTEBOOK, as_version=4)), (
        "run jupytext --sync reports/explore.ipynb after a change of either"
    )


def test_no_output_is_committed() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    assert [cell.source for cell in notebook.cells if cell.get("outputs") or cell.get("execution_count")] == []


@pytest.fixture(scope="module")
def executed(folders: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> nbformat.NotebookNode:
    """The notebook after a run on two small runs; the cell tagged ``parameters`` is replaced."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    parameters = next(cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", []))
    good, bad = folders
    parameters.source = f"RUN, OTHER, GATES = {str(bad)!r}, {str(good)!r}, 'exact'"
    paths = f"import sys; sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / 'kernels')!r}]\n"
    parameters.source = paths + parameters.source
    NotebookClient(
        notebook,
        timeout=300,
        kernel_name="python3",
        resources={"metadata": {"path": str(tmp_path_factory.mktemp("notebook"))}},
    ).execute()
    return notebook


def html_of(notebook: nbformat.NotebookNode, source: str) -> str:
    """The HTML that the cell with this source showed."""
    cell = next(cell for cell in notebook.cells if source in cell.source and cell.cell_type == "code")
    return "".join(output.data.get("text/html", "") for output in cell.outputs if "data" in output)


def test_the_verdict_the_cells_and_the_gates_are_shown(executed: nbformat.NotebookNode) -> None:
    assert "FAIL" in html_of(executed, "run.verdict")
    assert "exact/" in html_of(executed, 'where(effect="exact")')
    assert "logits-bits" in html_of(executed, "verdict != 'pass'")
    assert "Environment" in html_of(executed, "run.compare(OTHER)")


def test_one_trace_is_drawn(executed: nbformat.NotebookNode) -> None:
    drawn = next(cell for cell in executed.cells if "axvline" in cell.source)
    assert any("image/png" in output.get("data", {}) for output in drawn.outputs)
