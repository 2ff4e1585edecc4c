"""Tables for people hold no formula; what visir reads back keeps every character."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pyarrow as pa
import pytest

import visir
from visir.collections import read_qrels
from visir.display import cell_for_people, csv_of
from visir.products.opening import write_new_table
from visir.records import Qrels
from visir.reports import Column, Table, to_csv

FORMULAS = ('=HYPERLINK("http://x")', "+cmd|' /C calc'!A0", "-2+3", "@SUM(1)", "\t=1", "\r=1", "\n=1", "＝1+1", "-")
PLAIN = ("", "a=b", "-0.5", "+3", "1e-5", "-1.2e+3", ".5", "-5%", "'=quoted", " =spaced", "→ new", "naïve")


@pytest.mark.parametrize("text", FORMULAS)
def test_text_that_a_spreadsheet_would_run_is_marked_as_text(text: str) -> None:
    assert cell_for_people(text) == f"'{text}"


@pytest.mark.parametrize("value", [*PLAIN, -0.5, 3, None, True])
def test_numbers_and_other_text_stay(value: object) -> None:
    assert cell_for_people(value) is value


def cells(text: str, delimiter: str = ",") -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))


def test_reports_mark_cells_and_headings() -> None:
    table = Table([Column("=system"), Column("R@1", digits=1)], [("@a", -41.26), ("=1+1", 2.0), ("-3.5", None)])
    assert cells(to_csv(table)) == [["'=system", "R@1"], ["'@a", "-41.26"], ["'=1+1", "2.0"], ["-3.5", ""]]
    assert cells(table.to_csv())[0][0] == "'=system"


@pytest.mark.parametrize(("ending", "delimiter"), [(".csv", ","), (".tsv", "\t")])
def test_a_new_table_for_people(ending: str, delimiter: str, tmp_path: Path) -> None:
    table = pa.table({"id": ["=x", None], "kind": pa.array(["@a", "b"]).dictionary_encode(), "price": [-1.5, 2.0]})
    written = write_new_table(tmp_path / f"new{ending}", table, for_people=True)
    assert cells(written.read_text(), delimiter) == [["id", "kind", "price"], ["'=x", "'@a", "-1.5"], ["", "b", "2"]]


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".jsonl", ".parquet"])
def test_judgements_are_read_back_equal(ending: str, tmp_path: Path) -> None:
    judged = Qrels.of(["=q", "-q", "@q"], ["+1", "=d", "d"], [1, 2, 1], name="clicks")
    path = write_new_table(tmp_path / f"judged{ending}", judged.to_arrow(), for_people=False)
    assert read_qrels(path).to_dict() == judged.to_dict()
    assert "'" not in judged.to_csv()


def test_nothing_else_writes_such_tables() -> None:
    """One function marks cells: another writer would be another hole."""
    source = Path(visir.__file__).parent
    writers = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        if re.search(r"csv\.writer|DictWriter|write_csv\(|FORMAT csv|\.to_csv\([^)]*path", path.read_text(), re.I)
    }
    assert writers == {"display.py", "reports/formats.py"}
    assert csv_of(pa.table({"a": ["=1"]}), for_people=False) == b'"a"\n"=1"\n'
