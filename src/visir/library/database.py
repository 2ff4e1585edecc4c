"""`items.sqlite`: what a library knows of every picture, in SQLite.

    items(id, width, height, format, bytes, taken, camera, category, phash, added, thumbnail)
    files(path, item, mark, name, place, archive, category)
    captions(id, item, text)
    fields(item, name, value)          value is text, integer or real, as the source has it
    broken(path, mark, reason)         files that cannot be read, and are tried again only when they change
    removed(item, path, mark)          pictures that somebody took out of the library, and that stay out
    meta(name, value)                  schema, generation, a fingerprint of the source's texts

A picture that lies in two folders is in both: filter by `files.category`. `items.category` is that of its first file.
Readers see what was committed last while an update is under way (write-ahead log).
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson

from visir.library.filters import prepare
from visir.library.layout import COPY_AGAIN, LibraryError

SCHEMA = 1
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
_BUSY_SECONDS = 30


class Database:
    """One connection, safe to use from several threads (one after another)."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection
        self._lock = threading.RLock()

    @classmethod
    def create(cls, path: Path, generation: int = 0) -> Database:
        """Make an empty one, of this generation, or open the one that is there, for writing."""
        database = cls._connected(path, f"file:{quote(str(path.absolute()))}?mode=rwc")
        if not database.value("SELECT count(*) FROM sqlite_master"):
            with database._faults():
                database._connection.execute("PRAGMA journal_mode=WAL")
                with database.writing():
                    for statement in _TABLES.split(";"):
                        database._connection.execute(statement)
                    database.run("INSERT INTO meta VALUES ('schema', ?), ('generation', ?)", (SCHEMA, generation))
        database._refuse_newer()
        return database

    @classmethod
    def open(cls, path: Path) -> Database:
        """Open it for reading only. Raises `LibraryError` when it is missing or no database."""
        if not path.is_file():
            raise LibraryError(f"{path}: missing.", hint=COPY_AGAIN)
        # Opened for writing where that is possible: SQLite tidies up after a killed writer. Nothing is written here.
        name = quote(str(path.absolute()))
        try:
            database = cls._connected(path, f"file:{name}?mode=rw")
            database.rows("SELECT count(*) FROM meta")
        except LibraryError:
            database = cls._connected(path, f"file:{name}?mode=ro&immutable=1")
        database.run("PRAGMA query_only=ON")
        database._refuse_newer()
        return database

    @classmethod
    def _connected(cls, path: Path, uri: str) -> Database:
        try:
            connection = sqlite3.connect(
                uri, uri=True, check_same_thread=False, isolation_level=None, timeout=_BUSY_SECONDS
            )
        except sqlite3.Error as fault:
            raise LibraryError(f"{path}: cannot be opened ({fault}).", hint=COPY_AGAIN) from fault
        prepare(connection)
        return cls(path, connection)

    @property
    def connection(self) -> sqlite3.Connection:
        """For functions that SQL is to know; queries go through `rows`."""
        return self._connection

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of a query. Values go where the question marks are, never into the text."""
        with self._lock, self._faults():
            return self._connection.execute(sql, values).fetchall()

    def of(self, sql: str, ids: Iterable[str]) -> list[tuple[Any, ...]]:
        """All rows of a query that ends in "… IN", for these values: a list of any length, as one JSON text."""
        return self.rows(f"{sql} (SELECT value FROM json_each(?))", (orjson.dumps(list(ids)).decode(),))

    def value(self, sql: str, values: Sequence[Any] = ()) -> Any:
        """The first column of the first row; None when there is no row."""
        found = self.rows(sql, values)
        return found[0][0] if found else None

    def run(self, sql: str, values: Sequence[Any] = ()) -> None:
        """One statement, for its effect."""
        self.rows(sql, values)

    def run_many(self, sql: str, values: Iterable[Sequence[Any]]) -> None:
        """One statement for each of these rows."""
        with self._lock, self._faults():
            self._connection.executemany(sql, values)

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """One transaction: all of it, or nothing."""
        with self._lock, self._faults():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    @property
    def generation(self) -> int:
        """The number of the last update that was committed."""
        return int(self.value("SELECT value FROM meta WHERE name = 'generation'"))

    def settle(self) -> bool:
        """Bring everything from the write-ahead log into the file; False when a reader is in the way."""
        return bool(self.rows("PRAGMA wal_checkpoint(TRUNCATE)")[0][0] == 0)

    def faults(self) -> list[str]:
        """What SQLite itself finds wrong with its structure; reads all of it."""
        try:
            found = [str(row[0]) for row in self.rows("PRAGMA quick_check(5)")]
        except LibraryError as fault:
            return [fault.message]
        return [] if found == ["ok"] else found

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._connection.close()

    def _refuse_newer(self) -> None:
        schema = self.value("SELECT value FROM meta WHERE name = 'schema'")
        if schema is None or int(schema) > SCHEMA:
            raise LibraryError(f"{self.path}: of a newer visir (schema {schema}).", hint="update visir")

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
