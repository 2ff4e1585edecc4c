"""`items-7.sqlite`: what a library holds of every picture, in SQLite.

    items(id, width, height, format, bytes, taken, camera, category, phash, added, thumbnail)
    files(path, item, mark, name, place, archive, category)
    captions(id, item, text)
    fields(item, name, value)          value is text, integer or real, as the source has it
    broken(path, mark, reason)         files that cannot be read; behind the mark stands what found their bytes at
                                       fault: they are tried again when either is another, and with "?" at each update
    removed(item, path, mark)          pictures that were taken out of the library, and stay out
    extracted(item, part, mark, fault, fields)
                                       what each extractor, or a file beside it, told of a picture (JSON), and at which
                                       version: `fields` is made of it. A library of schema 1 has none
    meta(name, value)                  schema, a fingerprint of the source's texts

A picture that lies in two folders is in both: filter by `files.category`. `items.category` is that of its first file.

An update writes a new file and leaves the old one as it is; the library's manifest says which counts. So readers open a
file that never changes, without locks and without a write-ahead log: on a read-only disk too, several at a time, and
they see one state from beginning to end.
"""

from __future__ import annotations

import bisect
import contextlib
import queue
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.errors import raise_faults
from visir.library.layout import COPY_AGAIN, LibraryError
from visir.parquet import text_array

# The fields of pictures in memory: of each field the sorted values, and the pictures that have each.

RowReader: TypeAlias = Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]
"""(SQL, values) → rows: `visir.library.database.Database.rows`."""
Mask: TypeAlias = NDArray[np.bool_]
_ID = np.dtype("S32")
"""An id: 32 hexadecimal digits, which `visir.library.database` looks at when a library is opened."""


class FieldColumn:
    """One field: its values, each once, ascending, and for each the rows of the items that have it."""

    def __init__(self, values: Sequence[Any] | pa.Array, places: NDArray[np.int64], items: int) -> None:
        if isinstance(values, pa.Array):
            coded = values.dictionary_encode()
            order = pc.sort_indices(coded.dictionary).to_numpy()
            self._values: Any = coded.dictionary.take(pa.array(order))
            ranks = np.empty(len(order), np.int64)
            ranks[order] = np.arange(len(order))
            rank = ranks[coded.indices.to_numpy()]
        else:
            self._values = sorted(set(values))
            known = {value: rank for rank, value in enumerate(self._values)}
            rank = np.array([known[value] for value in values], np.int64)
        self._places = places[np.argsort(rank, kind="stable")]
        self._starts = np.concatenate([[0], np.cumsum(np.bincount(rank, minlength=len(self._values)))])
        self._items = items

    def compared(self, op: str, values: Sequence[Any], *, prefix: bool = False) -> Mask:
        """Which items have a value that is `op` one of these ("=", "<", "<=", ">", ">=")."""
        # With `prefix` as far as the one that is compared with goes: "2024-05-31" is equal to "2024-05".
        mask = self._none()
        for value in values:
            length = len(value) if prefix else None
            low, high = (self._bisected(value, length, side) for side in (bisect.bisect_left, bisect.bisect_right))
            end = len(self._values)
            first, last = {"=": (low, high), "<": (0, low), "<=": (0, high), ">": (high, end), ">=": (low, end)}[op]
            mask[self._places[self._starts[first] : self._starts[last]]] = True
        return mask

    def counts(self, mask: Mask) -> list[tuple[Any, int]]:
        """(value, items of the mask that have it), by value."""
        if not len(self._values):
            return []
        counted = np.add.reduceat(mask[self._places].astype(np.int64), self._starts[:-1])
        values = self._values.to_pylist() if isinstance(self._values, pa.Array) else self._values
        return list(zip(values, counted.tolist(), strict=True))

    def containing(self, text: str) -> Mask:
        """(items,) whether an item has a text that contains this."""
        mask = self._none()
        for row in np.flatnonzero(pc.match_substring(self._values, text).to_numpy(zero_copy_only=False)):
            mask[self._places[self._starts[row] : self._starts[row + 1]]] = True
        return mask

    def _bisected(self, value: Any, length: int | None, side: Callable[..., int]) -> int:
        def key(row: int) -> Any:
            value_at_row = self._values[row]
            value_at_row = value_at_row.as_py() if isinstance(value_at_row, pa.Scalar) else value_at_row
            return value_at_row if length is None else value_at_row[:length]

        return side(range(len(self._values)), value, key=key)

    def _none(self) -> Mask:
        return np.zeros(self._items, np.bool_)


class FieldColumns:
    """The columns of one generation of a library, each read once; safe to use from several threads."""

    def __init__(self, rows: RowReader) -> None:
        self.rows = rows
        self._lock = threading.RLock()  # a column needs the ids
        self._columns: dict[Any, Any] = {}

    @property
    def ids(self) -> pa.Array:
        """The ids of all items, ascending: the places of every mask."""
        sql = "SELECT id FROM items ORDER BY id"
        ids: pa.Array = self.once("ids", lambda: text_array([item for (item,) in self.rows(sql, ())]))
        return ids

    def rows_of(self, ids: Sequence[str]) -> NDArray[np.int64]:
        """(n,) the row of each of these among `ids`; −1 for what is no id of the library."""
        known: NDArray[np.bytes_] = self.once("sorted ids", lambda: np.array(self.ids.to_pylist(), _ID))
        wanted = np.array([id if len(id) == _ID.itemsize and id.isascii() else "" for id in ids], _ID)
        rows = np.searchsorted(known, wanted).astype(np.int64)
        rows[rows == len(known)] = -1
        return np.where(known[rows] == wanted, rows, -1) if len(known) else rows

    def column(self, sql: str, values: Sequence[Any] = (), read: Callable[[Any], Any] | None = None) -> FieldColumn:
        """The column of a query that gives (item, value); `read` makes of a value the text that is compared."""

        def make() -> FieldColumn:
            rows = self.rows(sql, values)
            places = pc.index_in(pa.array([item for item, _ in rows], pa.string()), self.ids)
            in_library = places.is_valid().to_numpy(zero_copy_only=False)
            column_values: Any = [value if read is None else read(value) for _, value in rows]
            if not all(in_library):
                column_values = [value for value, is_known in zip(column_values, in_library, strict=True) if is_known]
            texts = all(isinstance(value, str) for value in column_values)
            return FieldColumn(
                pa.array(column_values, pa.large_string()) if texts else column_values,
                places.drop_null().to_numpy().astype(np.int64),
                len(self.ids),
            )

        column: FieldColumn = self.once((sql, *values), make)
        return column

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """The result of `make`, called once; other threads wait for it."""
        if key not in self._columns:
            with self._lock:
                if key not in self._columns:
                    self._columns[key] = make()
        return self._columns[key]


# Whether a database holds what visir writes: a library may come from anybody, and its checksums from the same hands.

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
    "extracted": _texts("item", "part", "mark", "fault", "fields"),
}
_SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name"


def row_faults(rows: RowReader, expected: RowReader) -> list[str]:
    """What in a database visir would not have written, as sentences."""
    if rows(_SCHEMA, ()) != expected(_SCHEMA, ()):
        return ["its tables are not those that visir makes"]
    faults = []
    for table, tests in _RULES.items():
        if not rows("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)):
            continue
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


SCHEMA = 2
"""Of what is written; schema 1, without the table `extracted`, is read too."""
OWN_FILES = "mark NOT LIKE 'picture:%'"
"""Of the files those that are entries of the source. The others are pictures of a product, one row each."""
CATEGORIES = """
SELECT item, category FROM files WHERE category <> ''
UNION SELECT item, value FROM fields WHERE name = 'category' AND typeof(value) = 'text'
"""
"""(item, category): the folder of each file, and all categories that the source names."""
_LONGEST_ROW = 16 * LONGEST
"""Bytes of a row, and of a list of ids in a query."""
_READERS = 4
"""Connections of one database: so many queries run at a time."""
_TABLES = """
CREATE TABLE items(
    id TEXT PRIMARY KEY, width INTEGER, height INTEGER, format TEXT, bytes INTEGER, taken TEXT, camera TEXT,
    category TEXT NOT NULL, phash TEXT, added TEXT NOT NULL, thumbnail TEXT) WITHOUT ROWID;
CREATE TABLE files(
    path TEXT PRIMARY KEY, item TEXT NOT NULL REFERENCES items(id), mark TEXT NOT NULL, name TEXT NOT NULL,
    place TEXT, archive TEXT, category TEXT NOT NULL) WITHOUT ROWID;
CREATE INDEX files_by_item ON files(item);
CREATE INDEX files_by_category ON files(category);
CREATE INDEX files_by_name ON files(name);
CREATE TABLE captions(id TEXT PRIMARY KEY, item TEXT NOT NULL REFERENCES items(id), text TEXT NOT NULL) WITHOUT ROWID;
CREATE INDEX captions_by_item ON captions(item);
CREATE TABLE fields(item TEXT NOT NULL REFERENCES items(id), name TEXT NOT NULL, value NOT NULL);
CREATE INDEX fields_by_item ON fields(item);
CREATE INDEX fields_by_name ON fields(name, value);
CREATE TABLE broken(path TEXT PRIMARY KEY, mark TEXT NOT NULL, reason TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE removed(
    item TEXT NOT NULL, path TEXT NOT NULL, mark TEXT NOT NULL, PRIMARY KEY (item, path)) WITHOUT ROWID;
CREATE TABLE meta(name TEXT PRIMARY KEY, value) WITHOUT ROWID;
"""
_EXTRACTED = """
CREATE TABLE extracted(
    item TEXT NOT NULL, part TEXT NOT NULL, mark TEXT NOT NULL, fault TEXT NOT NULL, fields TEXT NOT NULL,
    PRIMARY KEY (item, part)) WITHOUT ROWID
"""


class Database:
    """A database that is open for reading, or, by one update, for writing; safe to use from several threads."""

    def __init__(self, path: Path, connections: Sequence[sqlite3.Connection]) -> None:
        self.path = path
        self._connections = tuple(connections)
        self._free: queue.LifoQueue[sqlite3.Connection | None] = queue.LifoQueue()
        self._closed = False
        for connection in connections:
            self._free.put(connection)

    @classmethod
    def open(cls, path: Path) -> Database:
        """Open a file that never changes. Raises `LibraryError` when it is missing or no database of this visir."""
        if not path.is_file():
            raise LibraryError(f"{path}: missing.", hint=COPY_AGAIN)
        uri = f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1"
        database = cls(path, [_connected(path, uri) for _ in range(_READERS)])
        try:
            database._check(path)
        except BaseException:
            database.close()
            raise
        return database

    @classmethod
    def draft(cls, path: Path, before: Path | None) -> Database:
        """A new file to be written, with what `before` holds; nothing counts until the library's manifest names it."""
        if before is not None:
            shutil.copyfile(before, path)
        database = cls(path, [_connected(path, f"file:{quote(str(path.absolute()))}?mode=rwc")])
        if before is not None:
            try:
                database._check(before)
            except BaseException:
                database.close()
                raise
        # A draft that a kill leaves half-written is thrown away: it needs no journal of its own on disk.
        database.run("PRAGMA journal_mode=MEMORY")
        database.run("PRAGMA synchronous=OFF")
        if before is None:
            with database.writing() as connection:
                _make_tables(connection, SCHEMA)
        elif not database.has_extracted:
            with database.writing() as connection:
                connection.execute(_EXTRACTED)
                connection.execute("UPDATE meta SET value = ? WHERE name = 'schema'", (SCHEMA,))
        return database

    @classmethod
    def empty(cls, schema: int = SCHEMA) -> Database:
        """One without pictures, in memory: what a library knows before its first update."""
        database = cls(Path(":memory:"), [_connected(Path(":memory:"), ":memory:")])
        with database.writing() as connection:
            _make_tables(connection, schema)
        return database

    @property
    def has_extracted(self) -> bool:
        """Whether it has the table `extracted`."""
        return bool(self.rows("SELECT 1 FROM sqlite_master WHERE name = 'extracted'"))

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of a query. Values go where the question marks are, never into the text."""
        with self._connection() as connection:
            return connection.execute(sql, values).fetchall()

    def of(self, sql: str, ids: Iterable[str]) -> list[tuple[Any, ...]]:
        """All rows of a query that ends in "… IN", for these values: a list of any length, as one JSON text."""
        return self.rows(f"{sql} (SELECT value FROM json_each(?))", (orjson.dumps(list(ids)).decode(),))

    def value(self, sql: str, values: Sequence[Any] = ()) -> Any:
        """The first column of the first row; None when there is no row."""
        rows = self.rows(sql, values)
        return rows[0][0] if rows else None

    def run(self, sql: str, values: Sequence[Any] = ()) -> None:
        """One statement, for its effect."""
        self.rows(sql, values)

    def run_many(self, sql: str, values: Iterable[Sequence[Any]]) -> None:
        """One statement for each of these rows."""
        with self._connection() as connection:
            connection.executemany(sql, values)

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction: all of it, or nothing. For a draft, which has one connection."""
        (connection,) = self._connections
        with self._faults():
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    def faults(self) -> list[str]:
        """What SQLite itself finds wrong with its structure; reads all of it."""
        try:
            rows = [str(row[0]) for row in self.rows("PRAGMA quick_check(5)")]
        except LibraryError as fault:
            return [fault.message]
        return [] if rows == ["ok"] else rows

    def close(self) -> None:
        """Close it; queries under way come to their end."""
        self._closed = True
        with contextlib.suppress(queue.Empty):
            while (connection := self._free.get_nowait()) is not None:
                connection.close()
        self._free.put(None)  # for those who wait

    @contextlib.contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        connection = self._free.get()
        if connection is None:
            self._free.put(None)
            raise LibraryError(f"{self.path}: was closed.", hint="open the library again")
        try:
            with self._faults():
                yield connection
        finally:
            if self._closed:
                connection.close()
            else:
                self._free.put(connection)

    def _check(self, path: Path) -> None:
        """Raise `LibraryError` for a database of a newer visir, or of an unknown origin; errors name `path`."""
        schema = self.value("SELECT value FROM meta WHERE name = 'schema'")
        if isinstance(schema, int) and schema > SCHEMA:
            raise LibraryError(f"{path}: of a newer visir (schema {schema}).", hint="update visir")
        known = isinstance(schema, int) and 1 <= schema <= SCHEMA
        expected = Database.empty(schema if known else SCHEMA)
        try:
            faults = [] if known else [f"its schema is {schema!r}, which there is none of"]
            faults = faults or row_faults(self.rows, expected.rows)
        finally:
            expected.close()
        raise_faults(LibraryError, f"{path}: damaged, or not made by visir", faults, hint=COPY_AGAIN)

    @contextlib.contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as fault:
            full = "full" in str(fault) or "disk I/O" in str(fault)
            hint = "make room and run the same again: it goes on from there" if full else COPY_AGAIN
            raise LibraryError(f"{self.path}: {fault}.", hint=hint) from fault
        except sqlite3.DatabaseError as fault:
            raise LibraryError(f"{self.path}: damaged: {fault}.", hint=COPY_AGAIN) from fault


def _make_tables(connection: sqlite3.Connection, schema: int) -> None:
    for statement in [*_TABLES.split(";"), *([_EXTRACTED] if schema > 1 else [])]:
        connection.execute(statement)
    connection.execute("INSERT INTO meta VALUES ('schema', ?)", (schema,))


def _connected(path: Path, uri: str) -> sqlite3.Connection:
    try:
        connection = sqlite3.connect(uri, uri=True, check_same_thread=False, isolation_level=None)
    except sqlite3.Error as fault:
        raise LibraryError(f"{path}: cannot be opened ({fault}).", hint=COPY_AGAIN) from fault
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_ROW)
    connection.execute("PRAGMA trusted_schema=OFF")
    return connection
