"""`items-7.sqlite`: what a library holds of every picture, in SQLite.

    items(id, width, height, format, bytes, taken, camera, category, phash, added, thumbnail)
    files(path, item, mark, name, place, archive, category)
    captions(id, item, text)
    fields(item, name, value)          value is text, integer or real, as the source has it
    broken(path, mark, reason)         files that cannot be read; behind the mark stands what found their bytes at
                                       fault: they are tried again when either is another, and with "?" at each update
    removed(item, path, mark)          pictures that were taken out of the library, and stay out
    meta(name, value)                  schema, a fingerprint of the source's texts

A picture that lies in two folders is in both: filter by `files.category`. `items.category` is that of its first file.

An update writes a new file and leaves the old one as it is; the library's manifest says which counts. So readers open a
file that never changes, without locks and without a write-ahead log: on a read-only disk too, several at a time, and
they see one state from beginning to end.
"""

from __future__ import annotations

import contextlib
import queue
import shutil
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson

from visir.errors import raise_faults
from visir.library.database_checks import LONGEST, row_faults
from visir.library.layout import COPY_AGAIN, LibraryError

SCHEMA = 1
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
                for statement in _TABLES.split(";"):
                    connection.execute(statement)
                connection.execute("INSERT INTO meta VALUES ('schema', ?)", (SCHEMA,))
        return database

    @classmethod
    def empty(cls) -> Database:
        """One without pictures, in memory: what a library knows before its first update."""
        database = cls(Path(":memory:"), [_connected(Path(":memory:"), ":memory:")])
        with database.writing() as connection:
            for statement in _TABLES.split(";"):
                connection.execute(statement)
            connection.execute("INSERT INTO meta VALUES ('schema', ?)", (SCHEMA,))
        return database

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
        expected = Database.empty()
        try:
            faults = [] if schema == SCHEMA else [f"its schema is {schema!r}, which there is none of"]
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


def _connected(path: Path, uri: str) -> sqlite3.Connection:
    try:
        connection = sqlite3.connect(uri, uri=True, check_same_thread=False, isolation_level=None)
    except sqlite3.Error as fault:
        raise LibraryError(f"{path}: cannot be opened ({fault}).", hint=COPY_AGAIN) from fault
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_ROW)
    connection.execute("PRAGMA trusted_schema=OFF")
    return connection
