"""Parquet files that visir wrote: columns in the order that is asked for, and what is wrong with a file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from visir.errors import VisirError
from visir.parquet import read_columns, read_table


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
    with pytest.raises(VisirError, match=r"t\.parquet: damaged \(.*size"):
        read_columns(path, {"id": pa.string(), "size": pa.int64()}, VisirError, "make it again")
    with pytest.raises(VisirError, match=r"damaged \(no value in note\)"):
        read_columns(path, {"note": pa.string()}, VisirError, "")
    with pytest.raises(VisirError, match="missing"):
        read_columns(path.with_name("gone.parquet"), {"id": pa.string()}, VisirError, "")


def test_reading_does_not_import_pandas_data_sets(path: Path) -> None:
    script = (
        f"import sys; from visir.parquet import read_table; from pathlib import Path; read_table(Path({str(path)!r}))"
    )
    script += "; assert 'pyarrow.dataset' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)
