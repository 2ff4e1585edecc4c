"""What a library keeps of a table's columns: whatever is in them, an answer and no traceback."""

from __future__ import annotations

import sqlite3
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from refusals import refused
from visir.library import LibraryError, update
from visir.library.database import LONGEST
from visir.library.filters import parse
from visir.library.snapshot import LibrarySnapshot
from visir.library.source import plain_values

NAN, INF = float("nan"), float("inf")
NOON = datetime(2024, 5, 1, 12)


def values(column: Any, kind: pa.DataType | None = None) -> list[tuple[int, Any]]:
    return list(
        plain_values("c", pa.chunked_array([column if isinstance(column, pa.Array) else pa.array(column, kind)]))
    )


@pytest.mark.parametrize(
    ("column", "kind", "expected"),
    [
        ([1.5, NAN, None], pa.float64(), [1.5]),
        (np.array([1.5, np.nan], np.float16), pa.float16(), [1.5]),
        ([INF], pa.float64(), [INF]),
        ([None, None], pa.null(), []),
        ([True, None, False], pa.bool_(), [1, 0]),
        ([0, 2**63 - 1], pa.uint64(), [0, 2**63 - 1]),
        ([1, 2**64 - 1], pa.uint64(), ["1", "18446744073709551615"]),
        ([1, -(2**63)], pa.int64(), [1, -(2**63)]),
        ([Decimal("19.99"), None, Decimal("5.00")], None, [19.99, 5.0]),
        ([Decimal("0.1"), Decimal("12345678901234567890.123")], None, ["0.100", "12345678901234567890.123"]),
        ([date(2024, 5, 1)], None, ["2024-05-01"]),
        ([NOON, None], pa.timestamp("us"), ["2024-05-01T12:00:00"]),
        ([NOON.replace(tzinfo=UTC)], pa.timestamp("us", "Europe/Berlin"), ["2024-05-01T12:00:00Z"]),
        ([time(12, 30)], None, ["12:30:00"]),
        ([timedelta(minutes=1.5)], None, [90.0]),
        ([["a", None, "b"], None, []], None, ["a", "b"]),
        ([[1.0, NAN]], None, [1.0]),
        ([[1, 2**64 - 1]], pa.list_(pa.uint64()), ["1", "18446744073709551615"]),
        ([{"a": 1, "b": NAN}], None, ['{"a":1,"b":null}']),
        ([[("a", 1)]], pa.map_(pa.string(), pa.int64()), ['{"a":1}']),
        (["x", "x"], pa.dictionary(pa.int8(), pa.string()), ["x", "x"]),
    ],
)
def test_a_column_becomes_what_sqlite_holds(column: Any, kind: pa.DataType | None, expected: list[Any]) -> None:
    found = [value for _, value in values(column, kind)]
    assert found == expected and [type(one) for one in found if not isinstance(one, bool)] == [
        type(one) for one, was in zip(expected, found, strict=True) if not isinstance(was, bool)
    ]
    connection = sqlite3.connect(":memory:")
    for one in found:
        assert connection.execute("SELECT ?", (one,)).fetchone() == (one,)


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.list_(pa.binary()), pa.binary(2)])
def test_bytes_are_left_out_and_named(kind: pa.DataType) -> None:
    column = [[b"\xff\xd8"]] if pa.types.is_list(kind) else [b"\xff\xd8"]
    with pytest.warns(UserWarning, match="the column 'c' holds bytes, which a library does not keep"):
        assert values(column, kind) == []


def test_a_text_without_end_is_refused() -> None:
    with refused(LibraryError, "column", "c", "row 2", "16,777,217", code="text-characters"):
        values(["a", "a" * (LONGEST + 1)])


def test_a_table_with_everything_is_made_searchable_and_stays_so(tmp_path: Path) -> None:
    """As a program writes it that marks what is missing by NaN; the second update finds nothing changed."""
    photos = tmp_path / "photos"
    photos.mkdir()
    for number in range(3):
        Image.new("RGB", (16, 16), (60 * number, 9, 9)).save(photos / f"{number}.png")
    table = pa.table(
        {
            "file": [f"{number}.png" for number in range(3)],
            "caption": ["a cat", "a dog", "a bird"],
            "price": [1.5, NAN, 20.0],
            "hash": pa.array([7, 2**64 - 1, 3], pa.uint64()),
            "day": [date(2024, 5, 1), None, date(2023, 1, 1)],
            "cost": [Decimal("19.99"), Decimal("5.00"), None],
            "tags": [["red", "small"], None, ["red"]],
            "moment": pa.array([1, 1_000_000_001, None], pa.timestamp("ns")),
        }
    )
    pq.write_table(table, photos / "photos.parquet")
    library = tmp_path / "library"
    update(photos / "photos.parquet", library, model="pixels")

    def found(condition: str) -> set[str]:
        with LibrarySnapshot.open(library) as opened:
            ids = opened.where([parse(condition)])
            return {item.captions[0][1] for item in opened.items(sorted(ids))}

    assert found("price < 10") == {"a cat"} and found("price > 0") == {"a cat", "a bird"}
    assert found("hash = 18446744073709551615") == {"a dog"} and found("hash = 7") == {"a cat"}
    assert found("day = 2024-05") == {"a cat"} and found("cost < 10") == {"a dog"}
    assert found("tags = red") == {"a cat", "a bird"} and found("moment = 1970-01-01T00:00:01") == {"a dog"}
    assert update(None, library).same
    pq.write_table(table.slice(0, 1), photos / "photos.parquet")  # no hash beyond 64 bits is left: numbers again
    update(None, library)
    assert found("hash < 8") == {"a cat"}
