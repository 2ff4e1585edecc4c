"""Every tutorial runs as it stands, in a folder with files of somebody else, which stay as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs_site.tutorials import every_tutorial, executed

pytest.importorskip("nbclient")
pytest.importorskip("jupytext")


@pytest.mark.parametrize("path", every_tutorial(), ids=lambda path: path.stem)
def test_the_tutorial_runs(path: Path) -> None:
    notebook = executed(path)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert cells, "a tutorial has code"
    assert any(cell.outputs for cell in cells), "and shows what it gives"
