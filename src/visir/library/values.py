"""A column of the source as a library keeps it: text, whole numbers and numbers, in what SQLite can hold.

| in the source | in the library |
|---|---|
| null, NaN, NaT | no value |
| text, numbers, true and false | the same (1 and 0) |
| whole numbers beyond 64 bits with sign (hashes as uint64) | the whole column as text, digit for digit |
| decimals | numbers, where each of them is one exactly as written; else the whole column as text |
| dates, moments, times of day | ISO 8601, moments with a zone in UTC ("2024-05-01T16:00:00Z") |
| durations | seconds |
| lists | several values |
| records and maps | JSON |
| bytes | left out, with a warning |
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, TypeAlias

import orjson
import pyarrow as pa

from visir.library.database_checks import LONGEST
from visir.library.layout import LibraryError

Plain: TypeAlias = "str | int | float"


def plain_values(name: str, column: pa.ChunkedArray) -> Iterator[tuple[int, Plain]]:
    """(row, value) of a column, every value of a row; rows without one do not occur."""
    if _holds_bytes(column.type):
        warnings.warn(f"the column {name!r} holds bytes, which a library does not keep: it is left out", stacklevel=2)
        return
    values = [
        (row, element)
        for row, value in enumerate(_records(column))
        for element in (value if isinstance(value, list) else [value])
        if not _is_missing(element)
    ]
    as_text = not all(_fits(element) for _, element in values)
    for row, element in values:
        plain = _as_text(element) if as_text and isinstance(element, int | Decimal) else _plain(element)
        if isinstance(plain, str):
            check_length(plain, f"the column {name!r}, row {row + 1}")
        yield row, plain


def check_length(text: str, where: str) -> None:
    """Raise `LibraryError` for a text that is longer than a library keeps."""
    if 4 * len(text) > LONGEST and len(text.encode()) > LONGEST:
        raise LibraryError(
            f"{where}: a text of {len(text):,} characters.",
            hint=f"a library keeps texts of at most {LONGEST:,} bytes: leave it out of the source",
            code="text-characters",
        )


def _records(column: pa.ChunkedArray) -> list[Any]:
    """Python's values; a map as a record."""
    values = column.to_pylist()
    return [value and dict(value) for value in values] if pa.types.is_map(column.type) else values


def _holds_bytes(kind: pa.DataType) -> bool:
    while pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        kind = kind.value_type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return any(
        test(kind)
        for test in (
            pa.types.is_binary,
            pa.types.is_large_binary,
            pa.types.is_fixed_size_binary,
            pa.types.is_binary_view,
        )
    )


def _is_missing(value: Any) -> bool:
    return value is None or (not isinstance(value, list | dict) and bool(value != value))  # NaN, of any kind of number


def _fits(value: Any) -> bool:
    """Whether SQLite can hold a number as it is."""
    if isinstance(value, Decimal):
        return Decimal(repr(float(value))) == value
    return not isinstance(value, int) or -(2**63) <= value < 2**63


def _as_text(value: int | Decimal) -> str:
    return str(int(value)) if isinstance(value, bool) else f"{value:f}" if isinstance(value, Decimal) else str(value)


def _plain(value: Any) -> Plain:
    if isinstance(value, str | int | float):
        return value
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, datetime):
        return (
            value.isoformat() if value.tzinfo is None else f"{value.astimezone(UTC).replace(tzinfo=None).isoformat()}Z"
        )
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if hasattr(value, "item"):  # a NumPy number
        return value.item()  # type: ignore[no-any-return]
    return orjson.dumps(value, default=str, option=orjson.OPT_SERIALIZE_NUMPY).decode()
