"""Parquet files that visir wrote: columns in the order that is asked for, and what is wrong with a file."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from refusals import refused
from visir.errors import VisirError
from visir.parquet import read_columns, read_table
from watched_streams import Watched


@pytest.fixture
def path(tmp_path: Path) -> Path:
    table = pa.table({"id": ["a", "b"], "count": [1, 2], "note": ["x", None]})
    pq.write_table(table.replace_schema_metadata({"unit": "cm"}), tmp_path / "t.parquet")
    return tmp_path / "t.parquet"


def test_columns_come_in_the_order_asked_for(path: Path) -> None:
    assert read_table(path, ["count", "id"]).column_names == ["count", "id"]
    assert read_table(path).column_names == ["id", "count", "note"]
    table = read_columns(path, {"count": pa.int64(), "id": pa.string()}, VisirError, "")
    assert table.to_pydict() == {"count": [1, 2], "id": ["a", "b"]}
    assert table.schema.metadata[b"unit"] == b"cm"


def test_what_is_wrong_is_named(path: Path) -> None:
    with refused(VisirError, "t.parquet", "size", code="damaged"):
        read_columns(path, {"id": pa.string(), "size": pa.int64()}, VisirError, "make it again")
    with refused(VisirError, "note", code="damaged-no-value", hint=False):
        read_columns(path, {"note": pa.string()}, VisirError, "")
    with refused(VisirError, code="missing", hint=False):
        read_columns(path.with_name("gone.parquet"), {"id": pa.string()}, VisirError, "")


def test_reading_does_not_import_pandas_data_sets(path: Path) -> None:
    script = (
        f"import sys; from visir.parquet import read_table; from pathlib import Path; read_table(Path({str(path)!r}))"
    )
    script += "; assert 'pyarrow.dataset' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_folder_of_files_is_one_table(path: Path) -> None:
    (path.parent / "log").mkdir()
    for number in range(2):
        (path.parent / "log" / f"part-{number}.parquet").write_bytes(path.read_bytes())
    for folder in (path.parent / "log", str(path.parent / "log")):
        assert read_table(folder, ["count"]).to_pydict() == {"count": [1, 2, 1, 2]}


def test_a_stream_is_read_in_this_thread_alone(tmp_path: Path) -> None:
    """Measured: of 1,500 processes that read a stream with Arrow's threads and ended, 30 to 40 aborted (status 134)."""
    pq.write_table(pa.table({name: range(1000) for name in "abcdefgh"}), tmp_path / "t.parquet", row_group_size=10)
    stream = Watched((tmp_path / "t.parquet").read_bytes())
    assert read_table(stream, ["b", "a"]).column_names == ["b", "a"]
    assert stream.threads == {threading.get_ident()}
