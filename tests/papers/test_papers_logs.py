"""The scale "logs": every row of a table is a cell; what has no log, and every log that fills no value, is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from visir.files import data_directory
from visir.papers.cli import app
from visir.papers.study import read_study

TABLES = (
    *(f"brittleness-table-{number}" for number in (2, 3, 5)),
    *(f"thesis-table-5-{number}" for number in (2, 3, 4)),
)
ROWS = {
    (system, collection)
    for system in ("ALIGN", "AltCLIP", "CLIP", "GroupViT")
    for collection in ("MS-COCO", "MS-COCO-FG", "Flickr30k", "Flickr30k-FG")
}
needs_logs = pytest.mark.skipif(
    not (data_directory() / "brittleness-runs").is_dir(), reason="needs the authors' logs: VISIR_DATA/brittleness-runs"
)


@pytest.mark.parametrize("name", TABLES)
def test_every_row_of_the_four_models_is_a_cell(name: str) -> None:
    assert {(one.system, one.collection) for one in read_study(name).experiments("logs")} == ROWS


@needs_logs
def test_rows_without_logs_are_not_run_and_logs_that_fill_nothing_are_named(tmp_path: Path) -> None:
    said = CliRunner().invoke(app, ["run", "thesis-table-5-3", "brittleness-table-5", "--scale", "logs", "--jobs", "1",
                                    "--out", str(tmp_path)], catch_exceptions=False).output.splitlines()  # fmt: skip
    assert "thesis-table-5-3, logs: 4 done, 0 failed, 12 not run" in said
    assert "  19 of 144 printed values measured; without one:" in said
    assert "    108: no log of text to image is at hand" in said
    assert any(line.endswith("t2i lexical_variation: is the mean of synonym_noun, synonym_adj; "
                             "not used: the log of synonym_adj") for line in said)  # fmt: skip
    assert "brittleness-table-5, logs: 3 done, 0 failed, 13 not run" in said
    (clip,) = (line for line in said if line.endswith("synonym_adj: CLIP, Flickr30k-FG"))
    assert "the unperturbed log of text to image, which is not at hand; not used: the log of distraction_" in clip
