"""Logs that cannot be read as they are: a broken line costs that line, a broken file is named."""

from __future__ import annotations

import gzip
import io
import json
import re
import tarfile
from collections.abc import Mapping as Named
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusals import refused
from visir.errors import ConfigurationError, VisirError
from visir.sessions import LogCounts, LogMapping, Sessions, make, sessionise
from visir.sessions.making import advice
from visir.sessions.reading import MAX_LINES, REJECTED_LINES, repaired_files
from visir.storage import Scratch

pytest.importorskip("duckdb", reason="needs the extra 'sessions'")

ROWS = 1000
JSON = b"".join(b'{"visitor":"v%d","time":%d,"what":"page"}\n' % (k % 50, k) for k in range(ROWS))
CSV = b"visitor,time,what\n" + b"".join(b"v%d,%d,page\n" % (k % 50, k) for k in range(ROWS))


def mapping(kind: str) -> LogMapping:
    names: dict[str, tuple[str, ...]] = {name: (name,) for name in ("visitor", "time", "what")}
    events = {"visitor": "visitor", "time": "time", "action": "what"}
    return LogMapping("toy", kind, raw=names, events=events, unit="s", actions={"page": "page"})


def read(folder: Path, kind: str, files: Named[str, bytes]) -> tuple[LogCounts, list[dict[str, Any]]]:
    """What was counted in a folder of these files, and the lines that are no rows."""
    (folder / "log").mkdir()
    for name, data in files.items():
        (folder / "log" / name).parent.mkdir(exist_ok=True)
        (folder / "log" / name).write_bytes(data)
    counts = sessionise(folder / "log", mapping(kind), folder / "out")
    where = folder / "out" / "malformed.parquet"
    lines: list[dict[str, Any]] = pq.read_table(where).to_pylist() if where.is_file() else []
    assert counts.malformed == len(lines)
    assert counts.read == counts.accepted + sum(counts.rejected.values())
    return counts, lines


def with_line(log: bytes, after: int, line: bytes) -> bytes:
    lines = log.splitlines(keepends=True)
    return b"".join([*lines[:after], line, *lines[after:]])


def parquet(**columns: list[Any]) -> bytes:
    made = io.BytesIO()
    pq.write_table(pa.table(columns), made, compression="none")
    return made.getvalue()


GOOD_PARQUET = parquet(visitor=["a"], time=[5], what=["page"])


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (b'{"visitor":"v1","time":12\n', "not JSON: Expecting ',' delimiter at 26"),
        (b'{"visitor":"v\xff","time":12}\n', "not UTF-8 (byte 0xff at 14)"),
        (b"[1, 2]\n", "JSON, but no object"),
        (b"5\n", "JSON, but no object"),
        (b'{"visitor":"a","visitor":"b","time":5}\n', "the key 'visitor' twice"),
        (b'{"visitor":"\\ud800","time":5}\n', "not JSON: half of a surrogate pair"),
        (b"[" * 5000 + b"\n", "not JSON: "),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_a_line_that_is_no_json_object_costs_that_line(tmp_path: Path, line: bytes, fault: str, packed: bool) -> None:
    log = with_line(JSON, 500, line)
    name, data = ("a.jsonl.gz", gzip.compress(log)) if packed else ("a.jsonl", log)
    counts, lines = read(tmp_path, "json", {name: data, "b.jsonl": JSON})
    assert (counts.read, counts.malformed) == (2 * ROWS, 1)
    assert (lines[0]["file"], lines[0]["line"]) == (name, 501)
    assert lines[0]["text"] == line.decode("utf-8", "backslashreplace").rstrip("\n")
    assert lines[0]["fault"].startswith(fault)


def test_what_is_no_fault_of_a_line_is_read(tmp_path: Path) -> None:
    # A byte order mark, blank lines, ends of Windows, NaN, and a file without a line; null is a row that tells nothing.
    log = b"\xef\xbb\xbf" + JSON.replace(b"\n", b"\r\n") + b'\n  \n{"visitor":"a","time":NaN}\nnull\n'
    counts, lines = read(tmp_path, "json", {"a.json": log, "b.json": b""})
    assert (counts.accepted, counts.rejected["no_time"], counts.rejected["no_visitor"], lines) == (ROWS, 1, 1, [])


@pytest.mark.parametrize("after", [1, 3, 900, 1001])
@pytest.mark.parametrize("end", [b"", b'"v1",5,page\n"v,2",6,page\n'])
def test_an_open_quote_costs_one_line_wherever_it_is(tmp_path: Path, after: int, end: bytes) -> None:
    counts, lines = read(tmp_path, "csv", {"a.csv": with_line(CSV, after, b'"v1,5,page\n') + end, "b.csv": CSV})
    assert counts.read == 2 * ROWS + end.count(b"\n")
    assert lines == [{"file": "a.csv", "line": after + 1, "text": '"v1,5,page', "fault": lines[0]["fault"]}]
    assert lines[0]["fault"] == "a quoted field that does not end"


def test_an_open_quote_deep_in_a_large_file_does_not_swallow_what_follows(tmp_path: Path) -> None:
    """The engine alone reads on to the end of the file, and calls 300,000 rows one line that is none."""
    log = b"visitor,time,what\n" + b"".join(b"v%d,%d,page\n" % (k % 50, k) for k in range(500_000))
    cut = log.index(b"\n", 3_000_000) + 1
    counts, lines = read(tmp_path, "csv", {"a.csv": log[:cut] + b'"v1,5,page\n' + log[cut:]})
    assert (counts.accepted, counts.malformed) == (500_000, 1)
    assert (lines[0]["line"], lines[0]["text"]) == (log[:cut].count(b"\n") + 1, '"v1,5,page')


def test_faults_of_csv_are_told_by_line(tmp_path: Path) -> None:
    bad = [
        (b'v2,5,"pa"ge\n', "text after a closing quote"),
        (b"v1,5\n", "Expected Number of Columns: 3 Found: 2"),
        (b"v\xff,5,page\n", "not utf-8"),
        (b"z" * 2_000_001 + b",5,page\n", "longer than 2,000,000 bytes"),
        (b'v"3,5,page\n', None),  # a quote within a field is no fault
        (b'"v\n7",6,page\n', None),  # nor is a field of two lines
        (b'"v"  ,5,page\n', None),
    ]
    counts, lines = read(tmp_path, "csv", {"a.csv": CSV + b"".join(line for line, _ in bad) + b"v1,7,page\n"})
    assert [line["line"] for line in lines] == [1002, 1003, 1004, 1005]  # lines 1 to 1001 are the log's
    assert counts.accepted == ROWS + 4
    for one, (_, fault) in zip(lines, [one for one in bad if one[1]], strict=True):
        assert fault in one["fault"]
    assert len(lines[-1]["text"]) == 2_000_008  # whole


@pytest.mark.parametrize(
    ("kind", "files", "says"),
    [
        ("json", {"a.json": b"[" + JSON.replace(b"\n", b",") + b"{}]"}, r"1 is JSON, but no object\n.*jq -c '\.\[\]'"),
        ("json", {"a.json": b'{\n "visitor": "a"\n}\n'}, r"no line is a JSON object; line 1 .*\n.*jq -c \. FILE"),
        ("json", {"a.json": JSON, "b.json": b"hello\n"}, r"b\.json: no line is a JSON object; line 1 is not JSON"),
        ("json", {"a.json": b""}, r"a\.json: no row in it"),
        ("json", {"a.json.gz": gzip.compress(JSON)[:-200]}, r"a\.json\.gz: cannot be decompressed.*\n.*gzip -dc FILE"),
        ("csv", {"a.csv.gz": gzip.compress(CSV)[:-200]}, r"a\.csv\.gz: cannot be decompressed.*\n.*gzip -dc FILE"),
        ("csv", {"a.csv.gz": b"none", "b.csv.gz": b"none"}, r"\(2 faults\):\n.*a\.csv\.gz: .*\n.*b\.csv\.gz: "),
        ("csv", {"a.csv": b"", "b.csv": b""}, "no row in any file"),
        ("csv", {"a.csv": CSV, "b.csv": CSV.replace(b",", b";")}, r"b\.csv, line 1: none .*'visitor;time;what'"),
        ("csv", {"a.csv": CSV.replace(b"what", b"wh\xe9t")}, r"a\.csv, line 1: not UTF-8 \(byte 0xe9\)\n.*iconv"),
        ("csv", {"a.csv": b'"visitor,time\n' + CSV}, r"a\.csv, line 1: a quoted field that does not end"),
        ("parquet", {"a.parquet": GOOD_PARQUET, "b.parquet": GOOD_PARQUET[:-9]}, r"\(1 fault\):\n.*b\.parquet'\n"),
        ("parquet", {"a.parquet": b"", "b.parquet": b"no"}, r"\(2 faults\):\n.*a\.parquet.*\n.*b\.parquet.*\n.*again"),
        ("parquet", {"a.parquet": GOOD_PARQUET[:8] + b"\xff" * 40 + GOOD_PARQUET[48:]}, r"a\.parquet: "),
    ],
)  # fmt: skip
def test_a_file_that_is_damaged_as_a_whole_is_named(
    tmp_path: Path, kind: str, files: dict[str, bytes], says: str
) -> None:
    with pytest.raises(VisirError, match=says) as fault:
        read(tmp_path, kind, files)
    assert "LINE 1:" not in str(fault.value)  # the engine's own query helps nobody
    assert not (tmp_path / "out").exists()


def archive(**members: bytes) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as target:
        for name, data in members.items():
            told = tarfile.TarInfo(name.replace("_up_", "../"))
            told.size = len(data)
            target.addfile(told, io.BytesIO(data))
    return made.getvalue()


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"nothing", r"log\.tar\.gz: no archive that can be unpacked: .*\n.*tar -tf log\.tar\.gz"),
        (b"", r"no archive that can be unpacked"),
        (archive(**{"a.csv": CSV})[:-400], r"no archive that can be unpacked: .*\n.*compare its size"),
        (archive(**{"_up_a.csv": CSV}), r"reaches out of its folder"),
    ],
)
def test_an_archive_that_cannot_be_unpacked_is_named(tmp_path: Path, data: bytes, says: str) -> None:
    (tmp_path / "log.tar.gz").write_bytes(data)
    with pytest.raises(VisirError, match=says):
        sessionise(tmp_path / "log.tar.gz", mapping("csv"), tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.tar.gz"]


def test_an_archive_that_unpacks_to_far_more_than_its_size_is_refused_before_it_fills_the_disk(tmp_path: Path) -> None:
    head = b"visitor,time,what\n"
    (tmp_path / "large.tar.gz").write_bytes(archive(**{"a.csv": CSV, "b.csv": head + b"v1,5,page\n" * 2_000_000}))
    with refused(VisirError, "large.tar.gz", "20", "200", code="unpacks-bytes-more-more"):
        sessionise(tmp_path / "large.tar.gz", mapping("csv"), tmp_path / "out")
    small = archive(**{"a.csv": head + b"v1,5,page\n" * 100_000})  # a megabyte is no danger, however well it packs
    assert 200 * len(small) < 1_000_000
    (tmp_path / "small.tar.gz").write_bytes(small)
    assert sessionise(tmp_path / "small.tar.gz", mapping("csv"), tmp_path / "out").read == 100_000
    assert sorted(path.name for path in tmp_path.iterdir()) == ["large.tar.gz", "out", "small.tar.gz"]


def test_files_of_other_formats_are_passed_over_and_named(tmp_path: Path) -> None:
    files = {"a.csv": CSV, "b.parquet": GOOD_PARQUET, "notes/read me.txt": b"", "_SUCCESS": b"", ".hidden": b""}
    counts, _ = read(tmp_path, "csv", files)
    assert counts.passed_over == ("b.parquet", "notes/read me.txt")
    assert json.loads((tmp_path / "out" / "counts.json").read_text())["counts"]["passed_over"] == list(
        counts.passed_over
    )
    packed = archive(**{"a.csv": CSV, "x.txt": b""})
    (tmp_path / "log.tgz").write_bytes(packed)
    assert sessionise(tmp_path / "log.tgz", mapping("csv"), tmp_path / "again").passed_over == ("x.txt",)


def test_a_column_that_one_file_lacks_is_empty_there(tmp_path: Path) -> None:
    for kind, files in (
        ("csv", {"a.csv": CSV, "b.csv": b"time,what\n5,page\n", "c.csv": b"visitor,time\nz,5\n"}),
        ("json", {"a.json": JSON, "b.json": b'{"time":5,"what":"page"}\n', "c.json": b'{"visitor":"z","time":5}\n'}),
        (
            "parquet",
            {"a.parquet": GOOD_PARQUET, "b.parquet": parquet(time=[5]), "c.parquet": parquet(visitor=["z"], time=[5])},
        ),
    ):
        (tmp_path / kind).mkdir()
        counts, _ = read(tmp_path / kind, kind, files)
        assert (counts.rejected["no_visitor"], counts.flags["unknown_action"]) == (1, 1)


def test_ends_of_lines_of_an_old_mac_are_read(tmp_path: Path) -> None:
    counts, lines = read(tmp_path, "csv", {"a.csv": CSV.replace(b"\n", b"\r"), "b.csv": b"\xef\xbb\xbf" + CSV})
    assert (counts.read, lines) == (2 * ROWS, [])


def test_an_expression_that_does_not_fit_is_no_fault_of_the_files(tmp_path: Path) -> None:
    own = mapping("csv")
    (tmp_path / "a.csv").write_bytes(with_line(CSV, 5, b'"v1,5,page\n'))
    wrong = LogMapping("own", "csv", raw=own.raw, events={**own.events, "device": "agent.kind"}, unit="s")
    with refused(VisirError, "own", "agent", code="mapping-cannot-applied-log"):
        sessionise(tmp_path / "a.csv", wrong, tmp_path / "out")


CELL = st.text(alphabet='ab ,"\n', max_size=6)


@given(st.lists(st.tuples(CELL, CELL, CELL), min_size=1, max_size=8))
def test_rows_that_are_written_by_the_rules_are_never_refused(
    tmp_path_factory: Any, rows: list[tuple[str, ...]]
) -> None:
    import csv

    folder = tmp_path_factory.mktemp("csv")
    with (folder / "a.csv").open("w", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows([("x", "y", "z"), *rows])
    with Scratch.beside(folder / "out") as scratch:
        assert repaired_files([folder / "a.csv"], "csv", scratch) == [folder / "a.csv"]
        assert (scratch.path / REJECTED_LINES).read_bytes() == b""


def test_a_field_of_too_many_lines_is_an_open_quote(tmp_path: Path) -> None:
    within = b'a,b\n"' + b"x\n" * (MAX_LINES - 1) + b'",2\n'
    (tmp_path / "in.csv").write_bytes(within)
    (tmp_path / "over.csv").write_bytes(within.replace(b"x\n", b"x\nx\n", 1))
    with Scratch.beside(tmp_path / "1") as scratch:
        assert repaired_files([tmp_path / "in.csv"], "csv", scratch) == [tmp_path / "in.csv"]
    with Scratch.beside(tmp_path / "2") as scratch:
        (copy,) = repaired_files([tmp_path / "over.csv"], "csv", scratch)
        assert copy.name == "over.csv" and scratch.path in copy.parents


HEAD = b"visitor,time,what\n"


def advised(folder: Path, log: bytes, **changes: Any) -> str:
    """What is said of a log of one CSV file."""
    (folder / "log.csv").write_bytes(log)
    declared = replace(mapping("csv"), **changes)
    return " ".join(advice(folder / "out", declared, sessionise(folder / "log.csv", declared, folder / "out")))


def test_another_delimiter_is_named_and_read(tmp_path: Path) -> None:
    rows = CSV.replace(b",", b";") + b'v1;5;"a; quoted ""one"""\nv1;6;"open\n'
    (tmp_path / "log.csv").write_bytes(rows)
    with refused(VisirError, hint=("separated", ";", "write delimiter =", ";", "into the mapping")):
        sessionise(tmp_path / "log.csv", mapping("csv"), tmp_path / "out")
    counts = sessionise(tmp_path / "log.csv", replace(mapping("csv"), delimiter=";"), tmp_path / "out")
    assert (counts.read, counts.malformed) == (ROWS + 1, 1)
    with refused(ConfigurationError, "unknown delimiter"):
        replace(mapping("csv"), delimiter="::")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (gzip.compress(CSV), "compressed with gzip.*csv.gz"),
        (CSV.decode().encode("utf-16"), "UTF-16.*iconv"),
        (GOOD_PARQUET, "a Parquet file.*format = "),
        (b"PK\x03\x04....", "zip archive.*unzip"),
    ],
)
def test_a_file_that_is_no_csv_is_named_for_what_it_is(tmp_path: Path, data: bytes, says: str) -> None:
    (tmp_path / "log.csv").write_bytes(data)
    with pytest.raises(VisirError) as caught:
        sessionise(tmp_path / "log.csv", mapping("csv"), tmp_path / "out")
    assert re.search(says, f"{caught.value} {caught.value.hint}", re.DOTALL)


def test_a_missing_column_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_bytes(b"visitr,time,what\n")
    with refused(ConfigurationError, "log.csv", "toy", code="mapping-not-fit-log", meant="visitr"):
        sessionise(tmp_path / "log.csv", mapping("csv"), tmp_path / "out")


def test_a_log_that_reads_but_means_something_else_is_remarked_on(tmp_path: Path) -> None:
    seconds, both = b"a,1740268800,page\n", b"a,1740268800,page\nb,1740268800000,page\n"
    iso = {"unit": "iso", "actions": {"page": "page", "sale": "order"}}
    for number, (rows, changes, says) in enumerate(
        [
            (b"", {}, "has no row"),
            (both, {}, "unit = 's': row 2: '1740268800000'. They look like unit = 'ms'. One log has one unit"),
            (b"a,2025-02-23T00:00:00Z,page\n", {}, "They look like unit = 'iso'"),
            (seconds, {"unit": "ms"}, "the log begins on 1970-01-21: is it right?"),
            (both, {"unit": "ms"}, "begins on 1970-01-21, and until 2025-02-23: are two units mixed?"),
            (b"a,2025-02-23 00:00:00,page\nb,2025-02-23T00:00:00+01,page\n", iso, "1 times have no offset"),
            (b"a,2025-02-23,page\nb,2025-02-23T00:00:00Z,page\n", iso, "1 times have no offset"),
            (b"a,2025-02-23T00:00:00Z,pages\n", iso, "'pages' (1). For the first: did you mean 'page'"),
            (b"a,2025-02-23T00:00:00Z,page\n", iso, "'sale' never occurs"),
        ]
    ):
        place = tmp_path / str(number)
        place.mkdir()
        assert says in advised(place, HEAD + rows, **changes)
    fine = b"a,2025-02-23T00:00:00Z,page\na,2025-02-23T00:00:05.5+0100,sale\n"
    (tmp_path / "fine").mkdir()
    assert not advised(tmp_path / "fine", HEAD + fine, **iso)


@pytest.mark.parametrize("unit", ["iso", "s", "us"])
def test_days_as_excel_counts_them(tmp_path: Path, unit: str) -> None:
    log = HEAD + b"a,45362.4629629630,page\na,45363,page\n"
    (tmp_path / "given").mkdir()
    said = advised(tmp_path / "given", log, unit=unit)
    way = re.search(r'look like days as Excel counts them: unit = "s" with time = "(.*?)" in', said)
    assert way, said
    (tmp_path / "log.csv").write_bytes(log)
    asked = mapping("csv")
    asked = replace(asked, unit="s", events={**asked.events, "time": way[1]})
    make(tmp_path / "log.csv", tmp_path / "out", mapping=asked)
    times = sorted(pq.read_table(tmp_path / "out" / "events")["time"].to_pylist())
    assert [datetime.fromtimestamp(round(time / 1e6), UTC).isoformat() for time in times] == [
        "2024-03-11T11:06:40+00:00", "2024-03-12T00:00:00+00:00"
    ]  # fmt: skip


def test_python_has_what_the_verb_says(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    folder.mkdir()
    lines = [
        "visitor,time,what,number",
        "a,0,page,",
        "a,0,page,",
        "b,1,order,7",
        "b,2,order,7",
        ",3,page,",
        "b,4,look,",
    ]
    (folder / "a.csv").write_text("\n".join([*lines, "a,1", "a,5,page,"]) + "\n")
    (folder / "b.parquet").write_bytes(GOOD_PARQUET)
    names = {name: (name,) for name in ("visitor", "time", "what", "number")}
    events = {"visitor": "visitor", "time": "time", "action": "what", "order_id": "number"}
    declared = replace(mapping("csv"), raw=names, events=events, actions={"page": "page", "order": "order"})
    made = make(folder, tmp_path / "out", mapping=declared)
    beginnings = [
        "1 row rejected (no_visitor): no visitor id",
        "1 row rejected (duplicate): equal in every column",
        "1 row accepted (repeated_order): names an order",
        "1 row accepted (unknown_action): an action that",
        "1 line rejected (malformed): no row",
        "1 file of another format passed over: b.parquet",
        "With unit = 's' the log begins on 1970-01-01",
        "Words that [actions] does not name count as \"other\": 'look' (1)",
    ]
    assert len(made.remarks) == len(beginnings)
    assert all(remark.startswith(begin) for remark, begin in zip(made.remarks, beginnings, strict=True))
    assert Sessions.open(made.folder) == made and all(remark in repr(made) for remark in made.remarks)
    page = made._repr_html_() or ""
    assert "Look at this" in page and "b.parquet" in page


def test_examples_are_the_first_rows_of_the_log_whichever_visitor_they_are_of(tmp_path: Path) -> None:
    lines = [f"{visitor},{row},order,price {row}" for row, visitor in enumerate("dcba", 1)]
    (tmp_path / "log.csv").write_text("visitor,time,action,price\n" + "\n".join(lines) + "\n")
    names = ("visitor", "time", "action", "price")
    raw, events = {name: (name,) for name in names}, {name: name for name in names}
    log = LogMapping("toy", "csv", raw=raw, events=events, unit="s", actions={"order": "order"})
    sessionise(tmp_path / "log.csv", log, tmp_path / "out", buckets=1)
    told = json.loads((tmp_path / "out" / "counts.json").read_text())["advice"]
    shown = "row 1: 'price 1', row 2: 'price 2', row 3: 'price 3'."
    assert any(f"Prices that cannot be read: {shown}" in sentence for sentence in told)


def test_amounts_and_times_as_people_write_them(tmp_path: Path) -> None:
    written = {
        "1,50": 1.5, "1.234,56": 1234.56, "€ 10": 10.0, "49.90": 49.9, "1,234.56": 1234.56, "12.00 USD": 12.0,
        "-3,5": -3.5, "1,234": 1234.0, "on request": None, "": None, "N/A": None,
    }  # fmt: skip
    lines = [f"v{row};2024-03-11 11:06:40 {'-0400' if row % 2 else '+01:00'};buy;{text}"
             for row, text in enumerate(written)]  # fmt: skip
    (tmp_path / "log.csv").write_text("visitor;time;what;amount\n" + "\n".join(lines) + "\n")
    names: dict[str, tuple[str, ...]] = {name: (name,) for name in ("visitor", "time", "what", "amount")}
    events = {"visitor": "visitor", "time": "time", "action": "what", "price": "amount"}
    log = LogMapping("toy", "csv", raw=names, events=events, unit="iso", actions={"buy": "order"}, delimiter=";")
    counts = sessionise(tmp_path / "log.csv", log, tmp_path / "out")
    assert counts.accepted == len(written)
    rows = [row for file in sorted((tmp_path / "out" / "events").glob("*.parquet"))
            for row in pq.read_table(file).to_pylist()]  # fmt: skip
    rows.sort(key=lambda row: row["arrival"])
    assert [row["price"] for row in rows] == list(written.values())
    assert [row["written_price"] for row in rows if row["written_price"]] == ["1,234", "on request"]
    assert counts.flags["no_price"] == counts.flags["open_price"] == 1
    told = json.loads((tmp_path / "out" / "counts.json").read_text())["advice"]
    assert any("Prices that cannot be read: row 9: 'on request'." in sentence for sentence in told)
    assert any("1 prices have two readings, and were read as programs write them: row 8: '1,234'." in sentence
               for sentence in told)  # fmt: skip
    assert rows[1]["time"] - rows[0]["time"] == 5 * 3_600_000_000
