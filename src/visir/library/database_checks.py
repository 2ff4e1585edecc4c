"""Whether a database holds what visir writes: a library may come from anybody, and its checksums from the same hands.

The schema must be ours to the letter, so that there are no views, triggers or computed columns in it. Then every value
is looked at once, by SQLite itself: under a second for 100,000
pictures with 500,000 captions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

RowReader: TypeAlias = Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]

LONGEST = 1 << 24
"""Bytes of one text."""
_LARGEST = (1 << 53) - 1
"""Of whole numbers that count something: what JSON carries exactly."""


def _text(column: str) -> str:
    return f"typeof({column}) = 'text' AND length(CAST({column} AS BLOB)) <= {LONGEST}"


def _digits(column: str, count: int) -> str:
    # GLOB ends at the first NUL: the length in bytes leaves no room for one.
    length_matches = f"length(CAST({column} AS BLOB)) = {count}"
    return f"typeof({column}) = 'text' AND {length_matches} AND {column} GLOB '{'[0-9a-f]' * count}'"


def _count(column: str) -> str:
    return f"typeof({column}) = 'integer' AND {column} BETWEEN 0 AND {_LARGEST}"


def _or_null(test: str, column: str) -> str:
    return f"({column} IS NULL OR ({test}))"


def _texts(*columns: str) -> dict[str, str]:
    return {column: _text(column) for column in columns}


def _perhaps(**tests: str) -> dict[str, str]:
    return {column: _or_null(test, column) for column, test in tests.items()}


_RULES: dict[str, dict[str, str]] = {
    "items": {
        "id": _digits("id", 32),
        **_texts("category", "added"),
        **_perhaps(**{column: _count(column) for column in ("width", "height", "bytes")}),
        **_perhaps(**_texts("format", "taken", "camera")),
        **_perhaps(phash=_digits("phash", 64), thumbnail=_digits("thumbnail", 16)),
    },
    "files": {**_texts("path", "item", "mark", "name", "category"), **_perhaps(**_texts("place", "archive"))},
    "captions": _texts("id", "item", "text"),
    "fields": {**_texts("item", "name"), "value": f"(typeof(value) IN ('integer', 'real') OR ({_text('value')}))"},
    "broken": _texts("path", "mark", "reason"),
    "removed": _texts("item", "path", "mark"),
}
_SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name"


def row_faults(rows: RowReader, expected: RowReader) -> list[str]:
    """What in a database visir would not have written, as sentences."""
    if rows(_SCHEMA, ()) != expected(_SCHEMA, ()):
        return ["its tables are not those that visir makes"]
    faults = []
    for table, tests in _RULES.items():
        sound = " AND ".join(tests.values())
        if not rows(f"SELECT 1 FROM {table} WHERE NOT coalesce({sound}, 0) LIMIT 1", ()):
            continue
        sums = ", ".join(f"sum(NOT coalesce({test}, 0))" for test in tests.values())
        (wrong,) = rows(f"SELECT {sums} FROM {table}", ())
        faults += [
            f"{table}.{column}: {count:,} values that visir would not write"
            for column, count in zip(tests, wrong, strict=True)
            if count
        ]
    ((orphans,),) = rows("SELECT count(*) FROM items WHERE id NOT IN (SELECT item FROM files)", ())
    return [*faults, f"{orphans:,} items without a file"] if orphans else faults
