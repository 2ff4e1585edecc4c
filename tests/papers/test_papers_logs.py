"""The scale "logs": every row of a table is a cell; what has no log, and every log that fills no value, is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from visir.files import data_directory
from visir_papers.cli import app
from visir_papers.reports.tables import notes_of, orders_table
from visir_papers.status import show
from visir_papers.study import read_study

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
def test_rows_with_and_without_logs_are_named(tmp_path: Path) -> None:
    run = ["run", "thesis-table-5-3", "brittleness-table-5", "--scale", "logs", "--jobs", "1", "--out", str(tmp_path)]
    lines = CliRunner().invoke(app, run, catch_exceptions=False).output.splitlines()
    assert "thesis-table-5-3, logs: 4 done, 0 failed, 12 not run" in lines
    missing = [
        "19 of 144 printed values were measured (Flickr30k: ALIGN, AltCLIP, CLIP; Flickr30k-FG: CLIP). The others:",
        "108 values: there is no log of text to image (MS-COCO, MS-COCO-FG: ALIGN, AltCLIP, CLIP, GroupViT; "
        "Flickr30k: GroupViT; Flickr30k-FG: ALIGN, AltCLIP, GroupViT)",
        "3 values: t2i lexical_variation: the mean of synonym_noun, synonym_adj; there is only a log of synonym_adj "
        "(Flickr30k: AltCLIP, CLIP; Flickr30k-FG: CLIP)",
    ]
    assert {f"  {line}" for line in missing} < set(lines)
    assert "brittleness-table-5, logs: 3 done, 0 failed, 13 not run" in lines
    (clip,) = (line for line in lines if line.endswith("synonym_adj (Flickr30k-FG: CLIP)"))
    assert "the unperturbed log of text to image; there are only logs of distraction_false, missing_char" in clip

    table_5_3, table_5 = (show(name, out=tmp_path) for name in ("thesis-table-5-3", "brittleness-table-5"))
    assert set(missing) < set(notes_of(table_5_3.comparisons[0]))
    assert table_5_3.verdicts[0].reason == (
        "19 of 19 within 5 % (95 % interval of the share: 83 to 100 %); 19 of 144 printed values could be compared"
    )
    reason = "none of the 9 measured values can be compared with a printed one"
    assert (table_5.verdicts[0].answer, table_5.verdicts[0].reason) == ("not looked at", reason)
    assert (
        "Not judged: the mean over pairs of 8 perturbations; the paper's is over pairs of 13, and there are no logs of "
        "the others (Flickr30k: CLIP)" in notes_of(table_5.comparisons[0])
    )
    orders = orders_table(table_5.comparisons[0])
    assert orders is not None and orders.rows == ()
    assert orders.notes == (
        "All pairs that count (9) stand in the printed order, so no pair is listed",
        "A pair counts when the 95 % interval of its difference excludes 0; all 9 that were measured do",
    )
