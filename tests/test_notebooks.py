"""A notebook with the five tasks of a newcomer runs, and shows tables and pictures."""

from __future__ import annotations

from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat", reason="pip install nbformat nbclient ipykernel")
nbclient = pytest.importorskip("nbclient", reason="pip install nbclient ipykernel")
pytest.importorskip("ipykernel", reason="pip install ipykernel")

CELLS = {
    "open": 'import visir\nscenes = visir.open("scenes:40?size=64")\nscenes',
    "measure a model of one's own": (
        "import numpy as np\n"
        "def colours(images):\n"
        "    return np.stack([np.asarray(image.convert('RGB').resize((4, 4)), float).ravel() for image in images])\n"
        "def words(texts):\n"
        "    return np.stack([np.random.default_rng(len(text)).standard_normal(48) for text in texts])\n"
        "mine = visir.Encoder.wrap('mine', image=colours, text=words)\n"
        "report = visir.evaluate(scenes, mine)\n"
        "report"
    ),
    "draw it": "report.plot()",
    "own vectors": (
        "random = np.random.default_rng(0)\n"
        "image = {name: random.standard_normal(8) for name in scenes.images['id'].to_pylist()}\n"
        "captions = scenes.captions.to_pylist()\n"
        "text = {row['id']: image[row['image_id']] + random.standard_normal(8) for row in captions}\n"
        "other = visir.evaluate(scenes, vectors={'image': image, 'text': text})\n"
        "other.to_pandas()"
    ),
    "compare": "visir.compare({'mine': report, 'vectors': other})",
    "search": "visir.search(scenes, 'bm25', 'a teapot in the desert', k=6)",
    "fine-tune": (
        "trained = visir.train('scenes-heads', data='scenes:60?size=64', out='heads', epochs=2, batch=16)\ntrained"
    ),
}


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, object]]]:
    """The outputs of each cell."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in CELLS.values()])
    folder = tmp_path_factory.mktemp("notebook")
    resources = {"metadata": {"path": str(folder)}}
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3", resources=resources).execute()
    nbformat.write(notebook, folder / "notebook.ipynb")
    assert (folder / "notebook.ipynb").stat().st_size < 1_500_000
    return {name: cell.outputs for name, cell in zip(CELLS, notebook.cells, strict=True)}


def html(outputs: list[dict[str, object]]) -> str:
    return "".join(output["data"].get("text/html", "") for output in outputs if "data" in output)  # type: ignore[attr-defined]


def test_no_cell_fails_or_writes_to_standard_error(cells: dict[str, list[dict[str, object]]]) -> None:
    bad = {name: outputs for name, outputs in cells.items() if any(o["output_type"] == "error" for o in outputs)}
    assert bad == {}
    spoken = {name: o["text"] for name, outputs in cells.items() for o in outputs if o["output_type"] == "stream"}
    assert spoken == {}


def test_collections_and_runs_show_pictures(cells: dict[str, list[dict[str, object]]]) -> None:
    assert html(cells["open"]).count("data:image/jpeg") == 12
    assert html(cells["search"]).count("data:image/jpeg") > 0
    assert "a teapot in the desert" in html(cells["search"])


def test_numbers_come_as_tables_and_plots_as_drawings(cells: dict[str, list[dict[str, object]]]) -> None:
    measured = html(cells["measure a model of one's own"])
    assert "<table>" in measured and "Protocol card" in measured
    assert "against" in html(cells["compare"]) and "significant" in html(cells["compare"])
    assert "<svg" in html(cells["draw it"]) and "<svg" in html(cells["fine-tune"])
    assert "<table" in html(cells["own vectors"])


def test_a_kernel_is_known(cells: dict[str, list[dict[str, object]]], tmp_path: Path) -> None:
    """In a kernel long work has a bar, and an error of visir's no traceback through it."""
    source = (
        "import time, visir\nfrom visir.progress import Progress\n"
        "with Progress('encoding', 8, 'images') as advance:\n"
        "    for _ in range(8):\n        time.sleep(0.15)\n        advance()\n"
        "visir.load('no such model')"
    )
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=120, allow_errors=True, resources=resources).execute()
    bar, fault = notebook.cells[0].outputs
    assert bar["data"]["text/html"] == "", "the bar has gone"
    assert fault["traceback"][0] == "line 7: visir.load('no such model')"
    assert "Traceback" not in "".join(fault["traceback"]) and "→" in fault["traceback"][1]
