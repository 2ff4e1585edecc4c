"""A study described once: its table, its charts, its notebook view, its page and its files follow."""

from __future__ import annotations

import functools
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import visir
from manifests import seal
from refusals import refused
from visir.errors import ConfigurationError, VisirError
from visir.reports import Chart, Column, Section, StudyReport, Table
from visir.reports.granularity import changes_table
from visir.reports.page import Fold, Notice, Paragraph
from visir.reports.plots import PlotMark, dots
from visir.reports.report import harmless
from visir.storage import FolderError, FolderKind, new_folder

SYSTEMS = [
    SimpleNamespace(name="mine", mean=0.4, low=0.3, high=0.5),
    SimpleNamespace(name="<b>", mean=0.2, low=0.1, high=float("nan")),
]


def report() -> StudyReport:
    columns = [Column("system", of="name"), Column("R@1", 1, "max", of="mean", scale=100, ends=("low", "high"))]
    table = Table.over(SYSTEMS, columns, caption="Systems")
    marks = [PlotMark(one.name, [100 * one.mean, 100 * one.low, 100 * one.high]) for one in SYSTEMS]
    chart = Chart("means", lambda: dots(marks, "R@1, %"), "Means")
    sections = [
        Section("numbers", "Numbers", [Notice(["Few queries."]), chart, table]),
        Section("empty", "Nothing", []),
        Section("more", "More", [Fold("Inside", [Table.pairs([("seed", 1)])])]),
    ]
    return StudyReport("note", "Two systems", sections, {"queries": 40, "split": ""})


def test_columns_say_what_they_read() -> None:
    table = report().table
    assert table.rows == (("mine", 40.0, "30.0 … 50.0"), ("<b>", 20.0, None))
    assert [column.name for column in table.columns] == ["system", "R@1", "95 % interval"]


def test_everything_follows_from_one_description(tmp_path: Path) -> None:
    made = report()
    assert repr(made).startswith("StudyReport(note: Two systems)\n  mine | 40.0 | 30.0 … 50.0")
    assert r"\textbf{40.0}" in made.to_latex() and made.to_pandas()["R@1"].tolist() == [40.0, 20.0]
    assert "R@1, %" in [axes.get_xlabel() for axes in made.plot("means").axes]  # type: ignore[attr-defined]
    with refused(VisirError, "other"):
        made.plot("other")
    shown = made.blocks()
    assert [type(block) for block in shown] == [Paragraph, Notice, Table, Paragraph, Fold]
    assert "<b>40</b>" in made._repr_html_() and "split" not in made._repr_html_()  # type: ignore[operator]
    with new_folder(tmp_path / "out", FolderKind("note", "a note")) as change:
        made.write_files(change, "note.html", {"note.csv": (made.table, "the table"), "note.json": ({"a": 1}, "all")})
    page = (tmp_path / "out" / "note.html").read_text("utf-8")
    assert page.count("<section") == 3 and "note.csv" in page and "&lt;b&gt;" in page and "Nothing" not in page
    assert (tmp_path / "out" / "note.csv").read_text("utf-8").startswith("system,R@1,R@1 low,R@1 high\nmine,40.0,30.0,")


def test_a_folder_is_opened_again_with_its_tables_charts_and_page(tmp_path: Path) -> None:
    made = replace(report(), files={"note.csv": (report().table, "the table")})
    made.save(tmp_path / "out", command="visir note")
    with refused(FolderError, "out"):
        made.save(tmp_path / "out")
    back = visir.open(tmp_path / "out")
    assert isinstance(back, StudyReport) and (back.kind, back.title) == (made.kind, made.title)
    assert back.to_latex() == made.to_latex() and back.to_pandas().equals(made.to_pandas())
    assert [type(block) for block in back.blocks()] == [type(block) for block in made.blocks()]
    page, again = (
        (tmp_path / "out" / "report.html").read_text("utf-8"),
        back.write(tmp_path / "b.html").read_text("utf-8"),
    )
    assert "<path" in page and again.count("<path") == page.count("<path") and "visir note" in again
    assert [column.digits for column in back.table.columns] == [column.digits for column in made.table.columns]
    with refused(VisirError, "Means"):
        back.plot()


def test_a_report_of_a_stranger_neither_runs_nor_fetches_anything(tmp_path: Path) -> None:
    evil = (
        '<b onclick="x()">a</b><script>x()</script><img src="http://x"><a href="javascript:x()">l</a>'
        '<svg onload="x()"><path style="fill: url(http://x)" d="M0"/><use href="http://x"/></svg>&lt;i&gt;<br>'
    )
    kept = '<b>a</b>x()<a>l</a><svg><path d="M0"></path><use></use></svg>&lt;i&gt;<br>'
    assert harmless(evil) == kept
    report().save(tmp_path / "out")
    stored = tmp_path / "out" / "report.json"
    content = json.loads(stored.read_text("utf-8"))
    for blocks in (
        [{"is": "Paragraph", "text": {"is": "html", "text": evil}}],
        [{"is": "Figure", "svg": evil, "title": "", "caption": ""}],
        [{"is": "Strip", "tiles": [{"is": "Tile", "picture": {"is": "Thumbnail", "uri": "http://x/a.png"}}]}],
        [{"is": "Cards", "cards": [], "width": "1; background: url(http://x)"}],
        [{"is": "Popen", "args": ["x"]}],
        [{"is": "Files", "entries": [["//host/x", "a link to another machine"]]}],
        [{"is": "Files", "entries": [["../x.csv", "a link out of the folder"]]}],
        [{"is": "Notice", "items": 5}],
        [{"is": "Fold", "summary": "a", "blocks": ["text"]}],
        [{"is": "Table", "columns": [{"is": "Column", "name": "a", "digits": 10**9}], "rows": [[1.0]]}],
        [{"is": "Table", "columns": [{"is": "Column", "name": "a"}], "rows": [[["x"]]]}],
        [{"is": "Strip", "tiles": [{"is": "Tile", "right": {"is": "Code", "text": "x"}}]}],
        [functools.reduce(lambda block, _: {"is": "Fold", "summary": "a", "blocks": [block]}, range(300), {})],
    ):
        content["sections"] = [{"is": "Section", "anchor": "a", "title": "A", "blocks": blocks}]
        stored.write_text(json.dumps(content))
        seal(tmp_path / "out")
        if "text" in blocks[0] or "svg" in blocks[0]:
            page = StudyReport.load(tmp_path / "out").write(tmp_path / "page.html", replace=True).read_text("utf-8")
            assert kept in page and not any(part in page for part in ("onclick", "http://x", "javascript", "onload"))
        else:
            with refused(FolderError, "report.json", code="damaged"):
                StudyReport.load(tmp_path / "out")


@pytest.mark.parametrize(
    "evil",
    [
        "<style>@import 'http://x/a.css'</style>",
        "<title>a</title>",
        """<span style="background: image-set('http://x/a.png' 1x)">a</span>""",
        '<span style="background: url (http://x)">a</span>',
    ],
)
def test_no_style_of_a_stranger_fetches_anything(evil: str) -> None:
    assert "<style" not in harmless(evil) and "<title" not in harmless(evil) and '="' not in harmless(evil)
    assert 'transform="rotate(3)"' in harmless('<g transform="rotate(3)" fill="var(--plot-1)"></g>')


@pytest.mark.parametrize(
    "changed", [{"headline": ["x"]}, {"facts": 5}, {"sections": [[1]]}, {"title": None}, {"name": "../page"}]
)
def test_a_report_with_parts_of_another_type_is_damaged(tmp_path: Path, changed: dict[str, Any]) -> None:
    report().save(tmp_path / "out")
    stored = tmp_path / "out" / "report.json"
    stored.write_text(json.dumps(json.loads(stored.read_text("utf-8")) | changed))
    seal(tmp_path / "out")
    with refused(FolderError, "report.json", code="damaged"):
        StudyReport.load(tmp_path / "out")


def test_the_headline_stands_in_the_place_of_the_first_table() -> None:
    headline = Table.pairs([("seed", 1)])
    made = report()
    shown = StudyReport("note", "Two systems", made.sections, headline=[headline]).blocks()
    assert [block for block in shown if isinstance(block, Table)] == [headline]
    assert [block.summary for block in shown if isinstance(block, Fold)] == ["Numbers", "More"]


def test_how_it_was_made_stands_once() -> None:
    made = report()
    own = Section("made", "How it was made", [Paragraph("By hand.")])
    for sections in (made.sections, [*made.sections, own]):
        page = StudyReport("note", "Two systems", sections).page("visir stress")
        assert [section.anchor for section in page.sections] == ["numbers", "more", "made"]


def test_a_change_of_granularity_in_percent_of_what_was_there() -> None:
    names = SimpleNamespace(name="one")
    changes = [
        SimpleNamespace(feature="words", original=8.0, difference=-2.0, low=-3.0, high=-1.0, p_corrected=0.01),
        SimpleNamespace(feature="words", original=0.0, difference=0.0, low=0.0, high=0.0, p_corrected=1.0),
    ]
    compared = SimpleNamespace(changes=changes, correction="holm", original=names, refined=names)
    table = changes_table(SimpleNamespace(comparisons={"strict": compared}), "strict")  # type: ignore[arg-type]
    percent = [column.name for column in table.columns].index("%")
    assert [row[percent] for row in table.rows] == [-25.0, None]


def test_what_is_no_report_is_refused_with_all_its_faults() -> None:
    with refused(ConfigurationError, "note", "there is no section with anything in it"):
        StudyReport("note", "note", [])
    with refused(ConfigurationError, "mine", "First") as caught:
        StudyReport("note", "mine", [Section("a", "First", ["a text"]), Section("b", "Second", [3])])
    assert "'First': str is no block" in str(caught.value) and "'Second': int is no block" in str(caught.value)
    with refused(VisirError, "R@1", hint="attribute"):
        Table.over([{"R@1": 3}], [Column("R@1", 1, of="recall")])
    with refused(VisirError, "no words", hint=".write(page)"):
        StudyReport("note", "no words", [Section("a", "First", [Paragraph("a text")])]).to_latex()


def test_latex_has_all_tables_that_say_most() -> None:
    first, other = (Table.of([Column("system")], [[name]]) for name in ("mine", "yours"))
    both = StudyReport("note", "Two", [Section("a", "First", [first, other])], headline=[first, other])
    assert both.to_latex().count("tabular}{l}") == 2
    assert StudyReport("note", "Two", [Section("a", "First", [first, other])]).to_latex().count("tabular}{l}") == 1
