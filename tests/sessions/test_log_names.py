"""Names of files that would be patterns, and folders that would be columns: a log is read by the names it has."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from refusals import refused
from visir.errors import VisirError
from visir.sessions import make
from visir.sessions.definition import LogMapping

pytest.importorskip("duckdb", reason="needs the extra 'sessions'")

STRANGE = [
    "log[1]", "log*", "log?", "log{1,2}", "log]", "log[!1]", "[1]", "it's", 'a "b"', "a\\b", "a b", "device=pc", "-log",
    "a\nb", "~", "~log", "log#1%20?x=1", "**",
]  # fmt: skip
"""Each is the name of a file and of a folder; "log1", "log2" and others stand beside it, which its pattern fits."""
BESIDE = ["log1", "log2", "logx", "log", "1", "ab", "a"]


def write_csv(path: Path, visitors: list[str]) -> None:
    with path.open("w", newline="") as stream:
        rows = csv.writer(stream)
        rows.writerow(["visitor", "time", "action", "device"])
        rows.writerows([visitor, "1740787200000000", "page", "Mobile"] for visitor in visitors)


def write_json(path: Path, visitors: list[str]) -> None:
    row = {"time": 1740787200000000, "action": "page", "device": "Mobile"}
    path.write_text("".join(json.dumps({"visitor": visitor, **row}) + "\n" for visitor in visitors))


def write_parquet(path: Path, visitors: list[str]) -> None:
    row = {"time": 1740787200000000, "action": "page", "device": "Mobile"}
    pq.write_table(pa.Table.from_pylist([{"visitor": visitor, **row} for visitor in visitors]), path)


WRITERS: dict[str, Callable[[Path, list[str]], None]] = {
    "csv": write_csv, "json": write_json, "parquet": write_parquet,
}  # fmt: skip


def mapping(form: str) -> LogMapping:
    names = {name: (name,) for name in ("visitor", "time", "action", "device")}
    return LogMapping("own", form, raw=names, events={name: name for name in names}, actions={"page": "page"})


def devices_and_visitors(made: Path) -> list[tuple[str, str]]:
    table = pa.concat_tables([pq.ParquetFile(path).read() for path in sorted((made / "sessions").iterdir())])
    return sorted(zip(table["device"].to_pylist(), table["visitor"].to_pylist(), strict=True))


@pytest.mark.parametrize("form", WRITERS)
@pytest.mark.parametrize("name", STRANGE)
def test_a_file_is_read_by_its_name(tmp_path: Path, name: str, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for beside in BESIDE:
        WRITERS[form](tmp_path / f"{beside}.{form}", ["beside"])
    file = tmp_path / f"{name}.{form}"
    WRITERS[form](file, ["ann", "bob"])
    made = make(file, tmp_path / "made", mapping=mapping(form), threads=1)
    assert devices_and_visitors(made.folder) == [("Mobile", "ann"), ("Mobile", "bob")], made.counts
    monkeypatch.chdir(tmp_path)
    again = make(file.name, "again", mapping=mapping(form), threads=1)  # relative: "~.csv", "-log.csv"
    assert devices_and_visitors(again.folder) == [("Mobile", "ann"), ("Mobile", "bob")]


@pytest.mark.parametrize("form", WRITERS)
@pytest.mark.parametrize("name", [*STRANGE, "device=Tablet"])
def test_a_folder_is_no_pattern_and_no_column(tmp_path: Path, name: str, form: str) -> None:
    """Each file of it once; what a row says counts, not what the path looks like. What is made there is read, too."""
    log = tmp_path / name / "log"
    log.mkdir(parents=True)
    (tmp_path / "log1" / "log").mkdir(parents=True)
    WRITERS[form](tmp_path / "log1" / "log" / f"a.{form}", ["beside"])
    for file, visitor in (("a 1" if "\\" in name else "a[1]", "ann"), ("a1", "bob"), ("a", "cid")):
        WRITERS[form](log / f"{file}.{form}", [visitor])
    made = make(log, tmp_path / name / "made", mapping=mapping(form), threads=1)
    assert devices_and_visitors(made.folder) == [("Mobile", "ann"), ("Mobile", "bob"), ("Mobile", "cid")]
    described = make_description(made.folder)
    assert described == {"Mobile": 3}


def make_description(folder: Path) -> dict[str, int]:
    """How many sessions each device has, as the description of the folder reads them."""
    from visir.sessions.description.session_log import open_log

    with open_log(folder, left_out=(1, 1_000_003)) as log:
        counts = dict(log.rows(f"SELECT device, count(*) FROM {log.sessions} GROUP BY 1"))
        for _ in log.buckets("visitors"):
            log.rows("SELECT * FROM bucket")
    return {str(device): int(count) for device, count in counts.items()}


def test_what_cannot_be_named_is_refused(tmp_path: Path) -> None:
    write_csv(tmp_path / "a\\[1].csv", ["ann"])
    with refused(VisirError, code="backslash-beside-name") as caught:
        make(tmp_path / "a\\[1].csv", tmp_path / "made", mapping=mapping("csv"))
    assert "without a backslash" in (caught.value.hint or "") and not (tmp_path / "made").exists()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such names")
def test_many_buckets_below_a_pattern(tmp_path: Path) -> None:
    """What is spilled beside the folder that is made lies below that name, too."""
    place = tmp_path / "it's [1] {a,b}" / "x=1"
    place.mkdir(parents=True)
    write_parquet(place / "log.parquet", [f"v{number}" for number in range(200)])
    made = make(place / "log.parquet", place / "made", mapping=mapping("parquet"), buckets=4, threads=1)
    assert len(devices_and_visitors(made.folder)) == 200
