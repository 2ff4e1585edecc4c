"""Chapter 6 as studies: columns of a log's description, the feature set, the prediction study; by hand where small."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from papers_logs import FIVE, log, ran, table

from refusals import refused
from visir.errors import CollectionError, VisirError
from visir.files import data_directory
from visir.sessions.table_labels import table_label
from visir_papers.cells import run_study as run
from visir_papers.cells import saved_cells
from visir_papers.reports.pages import figures_of
from visir_papers.reports.tables import grids, values_table, words_table
from visir_papers.status import StudyStatus
from visir_papers.study import read_study
from visir_papers.verdicts import compare_cells, tree, verdicts

for package in ("duckdb", "sklearn", "numba"):
    pytest.importorskip(package, reason="needs the extra 'sessions'")


def test_columns_of_two_logs_stand_beside_the_printed_ones(tmp_path: Path) -> None:
    # Purchase sessions: A on a PC, E on a smartphone, 50 % each. Others: b on a PC, c and d on smartphones, 33.3 and
    # 66.7 %. The second log names PCs in two words, so that neither is the table's row.
    first = log(tmp_path / "first.parquet", FIVE)
    second = log(tmp_path / "second.parquet", {**FIVE, "f": "laptop"})
    columns = (("Purchase sessions (%)", "Purchase sessions"), ("Non-purchase sessions (%)", "Non-purchase sessions"))
    path = table(
        tmp_path,
        4,
        [
            f'system = "{system}", column = "{column}", collection = "{one.stem}", log = "{one}"'
            for one in (first, second)
            for system, column in columns
        ],
    )
    cells, found = ran(path, "replica", tmp_path / "out")
    assert [(one.state, one.reason) for one in cells] == [("done", "")] * 4
    assert cells[0].measured.values == {"Smartphone": 50.0, "PC": 50.0}
    assert cells[1].measured.values == pytest.approx({"Smartphone": 200 / 3, "PC": 100 / 3})
    assert cells[2].measured.values == {"Smartphone": 50.0}
    assert "PC: the log has several: Desktop, laptop" in cells[2].measured.notes
    values = {(one.system, one.collection, one.label): one for one in found.values}
    assert len(found.values) == 2 * 15, "every printed value stands beside each log"
    tv = values["Purchase sessions (%)", "first", "TV"]
    assert (tv.state, tv.published) == ("not run", 0.01)
    assert tv.reason == "TV: not in this log, which names mobile, Desktop"
    assert values["Non-purchase sessions (%)", "first", "PC"].state == "not judged"
    # Printed: more sessions on smartphones than on PCs, of both kinds. 50 and 50 is no order; five visitors tell none.
    assert [(one.collection, one.label, one.higher, one.agrees) for one in found.measured_pairs] == [
        ("first", "Purchase sessions (%)", "Smartphone", None),
        ("first", "Non-purchase sessions (%)", "Smartphone", None),
    ]
    assert found.measured_pairs[1].difference == pytest.approx(100 / 3)
    low, high = found.measured_pairs[1].interval or (0, 0)
    assert low < 0 < high
    assert tree(found) == (), "logs are neither of scenes nor of single objects"


def test_what_a_log_cannot_tell_is_not_run_and_the_reason_is_shown(tmp_path: Path) -> None:
    first = log(tmp_path / "first.parquet", FIVE)
    path = table(tmp_path, 2, [f'system = "Purchase (%)", column = "Purchase sessions", log = "{first}"'])
    cells, found = ran(path, "replica", tmp_path / "out")
    assert [(one.state, one.reason) for one in cells] == [("not run", "Cannot be computed: the log names no channel.")]
    assert {one.state for one in found.values} == {"not run"}
    assert "4 values: Cannot be computed: the log names no channel. (Purchase (%))" in values_table(found).notes
    # Without the data, the reason is still the one that was found when it was there.
    path.write_text(path.read_text().replace(f'log = "{first}"', f'log = "{first}", needs = ["shop-log"]'))
    (again,) = saved_cells(read_study(path), path.stem, "replica", tmp_path / "out")
    assert again.reason == cells[0].reason


def test_a_column_that_there_is_not_is_a_failure_with_the_nearest(tmp_path: Path) -> None:
    first = log(tmp_path / "first.parquet", FIVE)
    path = table(tmp_path, 4, [f'system = "Stand. conv. rate", column = "Standardized rate", log = "{first}"'])
    (cell,), _ = ran(path, "replica", tmp_path / "out")
    assert cell.state == "failed"
    said = "table-6-4 has no column 'Standardized rate'.\n  → did you mean 'Standardised rate'?"
    assert cell.reason.startswith(said)
    path.write_text(path.read_text().replace(str(first), "generated:many").replace('mapping = "events"\n', ""))
    (cell,), _ = ran(path, "replica", tmp_path / "out")
    assert "'many' is no number of sessions\n  → generated:40000" in cell.reason


def test_sessions_are_found_once_and_another_log_is_another_folder(tmp_path: Path) -> None:
    first, out = log(tmp_path / "first.parquet", FIVE), tmp_path / "out"
    said = f'system = "Purchase sessions (%)", column = "Purchase sessions", log = "{first}"'
    ran(table(tmp_path, 4, [said]), "replica", out)
    (folder,) = (out / "shared/sessions").iterdir()
    stamp = (folder / "log/counts.json").stat().st_mtime_ns
    ran(table(tmp_path, 5, [said.replace(" sessions (%)", ": %").replace("Purchase s", "Purchase: s")]), "replica", out)
    assert [one.name for one in (out / "shared/sessions").iterdir()] == [folder.name]
    assert (folder / "log/counts.json").stat().st_mtime_ns == stamp
    log(first, {**FIVE, "f": "tablet"})
    path = table(tmp_path, 4, [said])
    path.rename(tmp_path / "again.toml")
    ran(tmp_path / "again.toml", "replica", out)
    assert len(list((out / "shared/sessions").iterdir())) == 2


def test_the_words_of_each_log_are_shown(tmp_path: Path) -> None:
    logs = [log(tmp_path / "first.parquet", FIVE), log(tmp_path / "second.parquet", {"f": "tablet"})]
    path = table(
        tmp_path, 1, [f'system = "Total", column = "Total", collection = "{one.stem}", log = "{one}"' for one in logs]
    )
    _, found = ran(path, "replica", tmp_path / "out")
    shown = words_table(found)
    assert shown is not None
    assert [row[1:] for row in shown.rows] == [
        ("Total, first", "here", "Smartphone, PC"),
        ("Total, second", "here", "Tablet"),
        ("Total", "printed", "PC, Smartphone, Tablet, Game Console, TV"),
    ]
    said = {one.question: one.reason for one in verdicts([found])}
    assert said["the same order on other real data"] == "what was run has no order to compare"


def test_words_of_logs_are_those_of_the_tables_only_where_they_mean_them() -> None:
    assert [table_label(one) for one in ("Desktop", "mobile", "TABLET", "tv")] == ["PC", "Smartphone", "Tablet", "TV"]
    assert [table_label(one) for one in ("(none)", "cpc", "Organic Search")] == ["Direct", "Paid", "Organic"]
    assert [table_label(one) for one in ("Referral", "<Other>", "email")] == ["Referral", "<Other>", "email"]


def test_a_log_of_ones_own_takes_the_place_of_the_thesiss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from visir.sessions.simulator import generate

    monkeypatch.setenv("VISIR_DATA", str(tmp_path))
    name = "thesis-table-6-4"
    with refused(CollectionError, "sessions/shop-log"):
        run(read_study(name), name, "full", tmp_path / "out")
    (tmp_path / "sessions").mkdir()
    generate(tmp_path / "sessions/shop-log", 3_000)
    found = compare_cells(name, read_study(name), "full", run(read_study(name), name, "full", tmp_path / "out", jobs=1))
    assert found.states == {"done": 3}
    # 5 devices, 3 columns; the rates of the two rarest are hardly known and not standardised
    assert found.count("reproduced") + found.count("not reproduced") == 13
    # The share of smartphones among sessions without a purchase is planted as printed, 58.09 %.
    states = {(one.system, one.label): one.state for one in found.values}
    assert states["Non-purchase sessions (%)", "Smartphone"] == "reproduced"


def test_the_feature_set_is_the_printed_one(tmp_path: Path) -> None:
    one = read_study("thesis-table-6-7")
    found = compare_cells("t", one, "full", run(one, "t", "full", tmp_path, jobs=1))
    assert (found.count("reproduced"), len(found.values)) == (30, 30)
    assert StudyStatus("t", one, (found,), verdicts([found])).state == "run at smoke scale only", (
        "no real data was looked at"
    )
    printed = one.published_numbers()
    assert printed["Dynamic", "", "session: number of pages"] == 1
    assert printed["Dynamic", "", "history: number of orders"] == 0
    # What changes from step to step on a log is what the table calls dynamic.
    small = one.scale("smoke").model_copy(
        update={"defaults": {"experiment": "features", "log": "generated:3000", "sessions": 60}}
    )
    one = one.model_copy(update={"smoke": small})
    seen = compare_cells("t", one, "smoke", run(one, "t", "smoke", tmp_path, jobs=1))
    assert {(value.system, value.label): value.ours for value in seen.values} == {
        (system, label): value for (system, _, label), value in printed.items()
    }


FIGURE = """
title = "Toy"
paper = "Toy, Figure 1"
published = "none"
claims = "None."
pairs = "none"
trend_checks = "figure-6-{number}"
of_images = false

[text_values]
{said}

[replica]
data = "other"
description = "A few sessions."
hours = 0.01
cells = [
{cells}
]

[replica.defaults]
experiment = "describe"
mapping = "events"
"""


def figure(path: Path, number: int, cells: list[str], said: str = "") -> Path:
    path.write_text(FIGURE.format(number=number, said=said, cells="\n".join(f"    {{ {one} }}," for one in cells)))
    return path


def test_figure_6_2_has_curves_percentiles_and_a_drawing(tmp_path: Path) -> None:
    # One page each: nobody's session is longer than one action, and all are longer than none.
    first = log(tmp_path / "first.parquet", FIVE)
    cells = [
        f'system = "{device}, {outcome}", statistic = "figure-6-2", column = "{device}, {outcome}", log = "{first}"'
        for device in ("Smartphone", "TV")
        for outcome in ("purchase", "non-purchase")
    ]
    percentile = 'system = "Purchase: P50", statistic = "figure-6-2-percentiles", column = "Purchase: P50"'
    cells.append(f'{percentile}, log = "{first}"')
    done, found = ran(figure(tmp_path / "toy.toml", 2, cells), "replica", tmp_path / "out")
    assert [one.state for one in done] == ["done", "done", "not run", "not run", "done"]
    assert done[0].measured.values == {"0": 100.0, "1": 0.0}
    assert done[2].reason == "the log names no TV: mobile, Desktop"
    curves, percentiles = grids(found, ["a note"])
    assert [one.name for one in curves.columns] == ["value", "Smartphone, purchase", "Smartphone, non-purchase"]
    assert curves.rows == (("0", 100.0, 100.0), ("1", 0.0, 0.0))
    assert (curves.notes, percentiles.notes) == (("a note",), ())
    assert [row[0] for row in percentiles.rows] == ["Smartphone", "PC"]
    (drawn,) = figures_of(found)
    assert "sessions longer than x" in drawn.svg


def test_two_words_of_a_log_for_one_device_are_no_column(tmp_path: Path) -> None:
    both = log(tmp_path / "both.parquet", {**FIVE, "f": "laptop"})
    cells = [f'system = "PC", statistic = "figure-6-2", column = "PC, purchase", log = "{both}"']
    (cell,), found = ran(figure(tmp_path / "toy.toml", 2, cells), "replica", tmp_path / "out")
    assert (cell.state, cell.reason) == ("not run", "the log has several: Desktop, purchase; laptop, purchase")
    assert figures_of(found) == []


def test_what_the_text_says_of_a_figure_stands_beside_it_and_in_the_drawing(tmp_path: Path) -> None:
    # A customer on a phone, then buying on a PC; another on a phone, then buying on it: half of the steps each.
    rows: list[dict[str, Any]] = []
    for customer, devices in (("a", ("phone", "pc")), ("b", ("phone", "phone"))):
        for at, device in enumerate(devices):
            said = {"visitor": customer, "customer": customer, "device": device, "time": at * 3_600_000_000}
            rows.append({**said, "action": "page"})
            rows += [{**said, "action": "order", "time": said["time"] + 1}] if at else []
    path = tmp_path / "two.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path)
    cells = [
        f'system = "{one}", statistic = "figure-6-5", column = "{one}", log = "{path}"' for one in ("Smartphone", "PC")
    ]
    study = figure(tmp_path / "toy.toml", 5, cells, "PC = { Smartphone = 47.25, TV = 43.75 }")
    _, found = ran(study, "replica", tmp_path / "out")
    values = {(one.system, one.label): (one.ours, one.published, one.state) for one in found.values}
    assert values["PC", "Smartphone"] == (50.0, 47.25, "not judged")
    assert values["PC", "TV"] == (None, 43.75, "not run")
    assert values["Smartphone", "Smartphone"] == (50.0, None, "not judged")
    (grid,) = grids(found, [])
    assert grid.notes == ("the text prints PC, Smartphone: 47.25; PC, TV: 43.75",)
    as_matrix, as_diagram = figures_of(found)
    assert "47.25" in as_matrix.svg
    assert "47.25" not in as_diagram.svg


@pytest.mark.nightly
@pytest.mark.skipif(
    not (data_directory() / "sessions").is_dir(), reason="needs the real logs of sessions: VISIR_DATA/sessions"
)
def test_the_real_logs_tell_what_they_can(tmp_path: Path) -> None:
    done = {}
    for number in range(1, 7):
        name = f"thesis-table-6-{number}"
        found = compare_cells(name, read_study(name), "replica", run(read_study(name), name, "replica", tmp_path))
        done[number] = (found.states["done"], found.states["not run"], found.states["failed"])
        if number == 4:
            assert (found.pairs_in_order, len(found.counted_pairs), len(found.measured_pairs)) == (20, 26, 33)
    assert done == {1: (4, 0, 0), 2: (9, 3, 0), 3: (2, 6, 0), 4: (12, 0, 0), 5: (12, 4, 0), 6: (4, 12, 0)}
    with pytest.raises(VisirError, match="has no scale 'replica'"):
        read_study("thesis-table-6-7").scale("replica")
