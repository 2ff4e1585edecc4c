"""The page of what distinguishes sessions that buy: complete, escaped, the same twice; its tables."""

from __future__ import annotations

import csv
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import pytest
from described import folder, visit

from visir.reports.plots import to_svg
from visir.sessions.description import Characterisation, StatisticCell, describe
from visir.sessions.reports.made_sessions import rejected_table
from visir.sessions.reports.sessions import card_rows, findings, sessions_report, table_files
from visir.sessions.reports.statistic import outcome_bars, statistic_table, survival, transition_diagram, transition_map

pytest.importorskip("duckdb", reason="needs the extra 'sessions'")

EVIL = '<script>alert("1")</script> & co'


@pytest.fixture(scope="module")
def characterisation(tmp_path_factory: pytest.TempPathFactory) -> Characterisation:
    """30 customers, each first on a pc, then on an evil device, where every second one buys; 20 anonymous visitors."""
    rows = [visit(f"v{n}", customer=f"k{n}", day=n % 5, asked=("hat", f"shoe {n}"), length=4) for n in range(30)]
    rows += [
        visit(f"w{n}", 2, customer=f"k{n}", day=6, device=EVIL, channel="paid", purchase=n % 2 == 0, length=20 + n)
        for n in range(30)
    ]
    seen = ({"action": "page", "page": EVIL, "price": 5.0}, {"action": "order", "page": None, "price": 6.0})
    rows[-2]["events"] = seen
    rows += [visit(f"x{n}", device=None, channel=None) for n in range(20)]
    return describe(folder(tmp_path_factory.mktemp("sessions") / "a log", rows))


def test_the_page(characterisation: Characterisation, tmp_path: Path) -> None:
    options = {"command": "visir sessions describe x", "beside": {"describe.json": "everything"}}
    page = sessions_report(characterisation).write(tmp_path / "a.html", **options).read_text()  # type: ignore[arg-type]
    assert page == sessions_report(characterisation).write(tmp_path / "b.html", **options).read_text()  # type: ignore[arg-type]
    assert "<script" not in page
    assert "made &lt;b&gt;by hand&lt;/b&gt;" in page  # what the mapping says of the log
    for name in [statistic.name for statistic in characterisation.statistics if not statistic.unavailable]:
        assert f'id="{name}"' in page
    assert page.count("<svg") == 10
    assert "20 sessions without a known device are left out." in page
    assert "meets the declared condition for bots" in page
    assert "What this log cannot tell" not in page
    assert "visir sessions describe x" in page
    assert page.count("<h2") == page.count("</h2>") == 12


def test_what_cannot_be_computed_is_on_the_page(tmp_path: Path) -> None:
    rows = [visit(f"v{n}", channel=None, purchase=n > 2) for n in range(5)]
    characterisation = describe(folder(tmp_path / "log", rows))
    page = sessions_report(characterisation).write(tmp_path / "a.html").read_text()
    assert page.count("Cannot be computed: the log names no channel.") == 4  # in two places, and in the list
    assert "What this log cannot tell" in page
    assert "figure-6-3" in page
    assert "a single day of the week" in page


def test_plots_are_svg_and_the_same_twice(characterisation: Characterisation) -> None:
    curve, matrix, hours = (characterisation.statistic(name) for name in ("figure-6-2", "figure-6-5", "figure-6-4"))
    pair = ("Purchase sessions", "Non-purchase sessions")
    for draw in (
        lambda: survival(curve),
        lambda: transition_map(matrix),
        lambda: transition_diagram(matrix),
        lambda: outcome_bars(hours, pair, labels=("a", "b"), axis="hour"),
    ):
        svg = to_svg(draw())
        assert svg == to_svg(draw())
        assert ElementTree.fromstring(svg).tag.endswith("svg")


def test_plots_survive_what_is_hidden_or_missing(characterisation: Characterisation) -> None:
    gone = tuple(
        tuple(StatisticCell(None, hidden=True) for _ in row) for row in characterisation.statistic("figure-6-5").cells
    )
    assert "hidden" in to_svg(transition_map(replace(characterisation.statistic("figure-6-5"), cells=gone)))
    transition_diagram(replace(characterisation.statistic("figure-6-5"), cells=gone))
    curve = characterisation.statistic("figure-6-2")
    survival(replace(curve, cells=tuple(tuple(StatisticCell(None) for _ in row) for row in curve.cells)))


def test_findings(characterisation: Characterisation) -> None:
    sentences_by_section = {
        section: " ".join(parts).replace("\N{NO-BREAK SPACE}", " ")
        for section, parts in findings(characterisation).items()
    }
    # 15 of 30 on the evil device, none of 30 on the pc: of few sessions counts are given, of 30 percentages
    assert sentences_by_section["devices"].startswith(
        "Real difference, share of sessions that end with a purchase: "
        f"{EVIL} 50.0 % (15 of 30); pc 0.00 % (0 of 30). The difference is +50.0 points (95 % interval +"
    )
    assert "customers who bought (15 of 15), customers who did not (15 of 15)" in sentences_by_section["devices"]
    # all 15 steps into a purchase go to another device, and so do all others: nothing to compare
    assert sentences_by_section["switches"].startswith(
        "Too few to compare: before a session with a purchase (15 of 15)"
    )
    assert sentences_by_section["length"].startswith("Real difference, share of sessions longer than 4 actions")


def test_a_table_is_printed_with_its_intervals(characterisation: Characterisation) -> None:
    table = statistic_table(characterisation.statistic("table-6-4"))
    assert [column.name for column in table.columns][:3] == ["device", "Purchase sessions (%)", "95 %"]
    texts = {row[0]: row for row in table.texts()}
    assert texts["pc"][1] == "0.00"
    assert texts[EVIL][1] == "100.00"
    with pytest.raises(ValueError, match="Cannot be computed"):
        statistic_table(replace(characterisation.statistic("table-6-4"), unavailable="Cannot be computed: x."))
    hidden = replace(characterisation.statistic("table-6-4"), cells=((StatisticCell(None, hidden=True),) * 4,) * 2)
    assert statistic_table(hidden).texts()[0][1] == "hidden"


def test_files_of_tables(characterisation: Characterisation, tmp_path: Path) -> None:
    files = table_files(characterisation)
    sessions_report(characterisation).save(tmp_path / "out")
    tables = tmp_path / "out" / "tables"
    assert "tables/table-6-4.csv" in files
    rows = list(csv.DictReader((tables / "table-6-4.csv").read_text().splitlines()))
    one = next(row for row in rows if row["device"] == EVIL and row["column"] == "Conversion rate")
    assert (float(one["value"]), one["unit"], one["hidden"]) == (50.0, "%", "False")
    assert float(one["low"]) < 50 < float(one["high"])
    assert "booktabs" not in (tables / "table-6-4.tex").read_text()
    assert "\\toprule" in (tables / "table-6-4.tex").read_text()
    assert "| pc" in (tables / "table-6-4.md").read_text()


def test_card_and_what_was_set_aside(characterisation: Characterisation) -> None:
    assert dict(card_rows(characterisation))["a session ends after"] == "30 minutes without a request"
    assert dict(card_rows(replace(characterisation, suppress=5)))["hidden"] == "cells of fewer than 5 sessions"
    # 81 rows read, 80 kept, one bot; reasons that did not occur are left out
    assert rejected_table(characterisation.counts).texts() == [
        ["rows read", "81", "100.00", ""],
        ["accepted", "80", "98.77", ""],
        ["rejected: bot", "1", "1.23", "meets the declared condition for bots"],
    ]
