"""An engine: a file of SQLite, each vector a blob, every document compared. It runs wherever Python does."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import asdict, dataclass
from typing import ClassVar
from urllib.parse import unquote, urlsplit

import numpy as np

from visir.retrieval.remote.engine import Engine, EngineError, EngineHit, Mark
from visir.retrieval.remote.index import engine_index
from visir.retrieval.remote.settings import EngineFamily, Scored, Server
from visir.retrieval.settings import Kind

FAMILY = EngineFamily(
    name="sqlite", title="SQLite", schemes=("sqlite",), port=1, example="sqlite://localhost/home/me/photos.db",
    addresses="VISIR_SQLITE_URL", key="VISIR_SQLITE_KEY", certificate="VISIR_SQLITE_CERTIFICATE", holder="table",
    engine="visir_example.sqlite:SqliteEngine", place="visir_example.sqlite:SqliteSettings",
)  # fmt: skip


@dataclass(frozen=True)
class SqliteSettings(Scored, Server):
    """What a person may set: the address and the table, and how vectors are compared."""

    family: ClassVar = FAMILY


class SqliteEngine(Engine):
    """A table of a file. A change is one transaction, of a connection beside the one that searches."""

    def __init__(self, collection, place):
        super().__init__(collection, place)
        self.table, self.path = '"' + collection.replace('"', '""') + '"', unquote(urlsplit(place.url).path)
        self.reading, self.writing = (self._asked(self._connect) for _ in range(2))

    @classmethod
    def create(cls, collection, spaces, settings, index):
        engine = cls(collection, settings)
        engine.check_no_collection()
        engine.now = Mark(index)
        engine._write("BEGIN IMMEDIATE")
        engine._write("CREATE TABLE IF NOT EXISTS visir_marks (name TEXT PRIMARY KEY, mark TEXT)")
        columns = "".join(f", {space.name} BLOB" for space in spaces)
        try:
            engine._write(f"CREATE TABLE {engine.table} (id TEXT PRIMARY KEY, generation INTEGER{columns})")
        except BaseException:
            engine.close()  # nobody else has it yet
            raise
        return engine

    def exists(self):
        return bool(self._read("SELECT 1 FROM sqlite_master WHERE name = ?", self.collection))

    def read_mark(self):
        if not self.exists():
            raise self.gone()
        if not self._read("SELECT 1 FROM sqlite_master WHERE name = 'visir_marks'"):
            return Mark()
        marks = self._read("SELECT mark FROM visir_marks WHERE name = ?", self.collection)
        return Mark(**json.loads(marks[0][0])) if marks else Mark()

    def begin(self, mark, change):
        self.now = mark
        self._write("BEGIN IMMEDIATE")
        self.check(mark.index, mark.generation)  # nobody has changed it before the transaction began
        self.before = self.count(mark.generation)

    def upsert(self, points):
        for point in points:
            row = {"id": point.id, "generation": self.now.generation + 1}
            row |= {space: vector.tobytes() for space, vector in point.vectors.items()}
            names, places = ", ".join(row), ", ".join("?" * len(row))
            self._write(f"INSERT OR REPLACE INTO {self.table} ({names}) VALUES ({places})", *row.values())

    def delete(self, ids):
        for id in ids:
            self._write(f"DELETE FROM {self.table} WHERE id = ?", id)

    def mark(self, mark):
        self._write("INSERT OR REPLACE INTO visir_marks VALUES (?, ?)", self.collection, json.dumps(asdict(mark)))
        self._write("COMMIT")
        self.seen = mark.generation

    def undo(self):
        if self.writing.in_transaction:
            self._write("ROLLBACK")

    def search(self, questions, *, vectors, allowed=None):
        answers, among = [], None if allowed is None else set(allowed)
        for asked in questions:
            every = self._read(f"SELECT id, {asked.space} FROM {self.table} WHERE generation <= ?", self.seen)
            rows = [(id, np.frombuffer(raw, np.float32)) for id, raw in every if among is None or id in among]
            scored = [EngineHit(id, float(row @ asked.vector), row if vectors else None) for id, row in rows]
            answers.append(sorted(scored, key=lambda hit: -hit.score)[: asked.limit])
        return answers

    def get(self, ids, space):
        rows = self._read(f"SELECT id, {space} FROM {self.table} WHERE generation <= ?", self.seen)
        wanted = set(ids)
        return {id: np.frombuffer(raw, np.float32) for id, raw in rows if id in wanted}

    def ids(self, generation, among=None):
        rows = self._read(f"SELECT id FROM {self.table} WHERE generation <= ?", generation)
        return [id for (id,) in rows if among is None or id in among]

    def count(self, generation):
        return self._read(f"SELECT count(*) FROM {self.table} WHERE generation <= ?", generation)[0][0]

    def close(self):
        self.undo()
        self.reading.close()
        self.writing.close()

    def destroy(self):
        if self.writing.in_transaction:  # a build that failed: nobody else has seen the table yet
            self.undo()
        else:
            self._write(f"DROP TABLE {self.table}")
            self._write("DELETE FROM visir_marks WHERE name = ?", self.collection)

    @classmethod
    def removal(cls, url, collection, settings):
        return f"drop the table {collection!r} of {url}"

    def _connect(self):
        connection = sqlite3.connect(self.path, self.place.timeout, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA journal_mode=WAL")  # who searches waits for no change
        return connection

    def _read(self, statement, *values):
        return self._asked(lambda: self.reading.execute(statement, values).fetchall())

    def _write(self, statement, *values):
        return self._asked(lambda: self.writing.execute(statement, values))

    def _asked(self, request):
        try:
            return request()
        except sqlite3.Error as fault:
            raise EngineError(f"{self.where()}: {fault}", hint="is the file there, and yours to write?") from fault


SqliteIndex = engine_index("sqlite", SqliteSettings)
SQLITE = Kind("sqlite", "every vector in a file of SQLite", exact=True, vectors="dense", module=SqliteIndex)
