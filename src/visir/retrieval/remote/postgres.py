"""A table of PostgreSQL with pgvector: one for each index, with its mark in the table's comment.

A change is one transaction together with its mark. Vectors go up by COPY in binary; the graphs of a new table are built
when all rows are there. Nothing but the index's own table is written: a table without the mark is refused, and only the
table that the mark names is dropped. The schema and the extension are made when they are not there, and stay.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import struct
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, Self, TypeVar
from urllib.parse import unquote, urlsplit

import numpy as np

from visir.errors import EmbeddingError, require
from visir.records import Embeddings
from visir.remote import is_loopback
from visir.retrieval.remote.engine import (
    BUILD_ON_SERVER,
    Engine,
    EngineError,
    EngineHit,
    Mark,
    Nearest,
    Point,
    Space,
    Vector,
    alike,
    is_no_answer,
    no_answer,
    repeated,
    secret_for,
    why_no_key,
)
from visir.retrieval.remote.settings import PGVECTOR, DatabasePlace, host_of

# Vectors as pgvector's types vector, halfvec and sparsevec are in binary; psycopg does the rest: rows of a COPY,
# parameters, results. The package pgvector converts by types of its own: sparse vectors of 120 terms go up at fifteen
# times the processor time and come back at four times, dense ones of 256 values come back at 1.7 times (0.5.1).
# The pool of psycopg keeps why a server refuses a connection to itself: who asks learns that time is up.

_FLOATS = {"vector": ">f4", "halfvec": ">f2"}
_HALF = 65_504
"""The largest number of half precision."""


class Packed(bytes):
    """A vector in the binary form of its type, which the statement names."""


def packed(vector: Vector, type_: str, dimension: int) -> Packed:
    """A vector as the server takes it."""
    # vector: (d,) values, or terms and weights.
    if isinstance(vector, tuple):
        terms, weights = vector
        head = struct.pack(">iii", dimension, len(terms), 0)
        return Packed(head + np.asarray(terms, ">i4").tobytes() + np.asarray(weights, ">f4").tobytes())
    return Packed(struct.pack(">hh", dimension, 0) + np.asarray(vector, _FLOATS[type_]).tobytes())


def unpacked(data: bytes, type_: str) -> Vector:
    """What `packed` made, as the server sends it."""
    if type_ != "sparsevec":
        return np.frombuffer(data, _FLOATS[type_], offset=4).astype(np.float32)
    count = int.from_bytes(data[4:8], "big")
    terms = np.frombuffer(data, ">i4", count, 12).astype(np.int32)
    return terms, np.frombuffer(data, ">f4", count, 12 + 4 * count).astype(np.float32)


def possible(ids: Iterable[str]) -> list[str]:
    """Those of these ids that a row can have: PostgreSQL refuses a request with a NUL in a text."""
    return [id for id in ids if "\0" not in id]


_OPERATORS = {"vector": "vector_ip_ops", "halfvec": "halfvec_ip_ops", "sparsevec": "sparsevec_ip_ops"}
_DEEPEST = 1_000
"""The most candidates that pgvector keeps in a search; beyond, it searches on (`hnsw.iterative_scan`)."""
Columns = dict[str, tuple[str, int]]
"""By the name of a space: its type and its dimension."""
T = TypeVar("T")
_NO_DATABASE = re.compile(r'database ".*" does not exist')
LEAST = (0, 8)
"""The least version of pgvector: graphs are searched on until enough is found (`hnsw.iterative_scan`)."""


class PostgresEngine(Engine):
    """A table in a database. A search sees the rows up to the generation `seen`."""

    def __init__(self, collection: str, place: DatabasePlace) -> None:
        super().__init__(collection, place)
        require("psycopg", extra="pgvector", purpose="an index in PostgreSQL")
        self._idle: list[Any] = []  # connections, each used by one thread at a time
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._mark = Mark()
        self._columns: Columns = {}
        self._change: Any = None  # the connection of a change that is under way
        self._graphs: dict[str, int] = {}  # to be built when all rows of a new table are there

    @classmethod
    def check_vectors(cls, vectors: Any, settings: Any, *, alone: bool = True) -> None:
        if not isinstance(vectors, Embeddings):
            has_graph = settings.m and alone
            most, counts = 1_000 if has_graph else 16_000, np.diff(vectors.offsets)
            if len(counts) and counts.max() > most:
                name = vectors.ids[int(counts.argmax())].as_py()
                raise EmbeddingError(
                    f"pgvector {'builds graphs over' if has_graph else 'stores'} sparse vectors of up to {most:,} "
                    f"terms; that of {name!r} has {counts.max():,}, and {int((counts > most).sum()):,} have more than "
                    f"{most:,}.",
                    hint="m=0 (no graph, every document is compared) takes up to 16,000; or prune the vectors",
                    code="pgvector-sparse-vectors-up",
                )
            return
        most = {"float32": 2_000, "float16": 4_000}[settings.precision]
        if settings.m and vectors.dimension > most:
            raise EmbeddingError(
                f"pgvector builds graphs over vectors of up to {most:,} values ({settings.precision}); these have "
                f"{vectors.dimension:,}.",
                hint="precision=float16 takes up to 4,000, m=0 (no graph, every vector is compared) up to 16,000",
                code="pgvector-builds-graphs-over",
            )
        if vectors.dimension > 16_000:
            raise EmbeddingError(
                f"pgvector stores vectors of up to 16,000 values; these have {vectors.dimension:,}.",
                code="pgvector-stores-vectors-up",
            )
        if settings.precision == "float16" and settings.similarity == "dot":
            largest = np.maximum(vectors.vectors.max(axis=1), -vectors.vectors.min(axis=1))
            if (largest > _HALF).any():
                at = int(np.argmax(largest))
                raise EmbeddingError(
                    f"precision=float16 holds values of up to {_HALF:,}; the vector of {vectors.ids[at].as_py()!r} "
                    f"has one of {largest[at]:,.0f}.",
                    hint="precision=float32, or scale the vectors down",
                    code="precision-float16-holds-values",
                )

    @classmethod
    def create(cls, collection: str, spaces: Sequence[Space], settings: Any, index: str) -> Self:
        """A new table, which others see when it is marked."""
        engine = cls(collection, settings)
        engine.check_no_collection()
        engine._mark = Mark(index)
        dense = "halfvec" if getattr(settings, "precision", "") == "float16" else "vector"
        engine._columns = {
            space.name: ("sparsevec" if space.form == "sparse" else dense, space.dimension) for space in spaces
        }
        engine._graphs = {
            space.name: settings.m for space in spaces if settings.m and (space.form != "sparse" or len(spaces) == 1)
        }
        with engine._writing("create the table") as connection:
            engine._prepare(connection)
            engine._execute(
                connection,
                'CREATE TABLE {table} (id text COLLATE "C" NOT NULL, generation integer NOT NULL, '
                + ", ".join(f"{name} {type_}({size}) NOT NULL" for name, (type_, size) in engine._columns.items())
                + ")",
            )
        return engine

    def exists(self) -> bool:
        """Whether there is a table, view or index of this name in the schema."""
        return self._read("look for the table", self._described) is not None

    def read_mark(self) -> Mark:
        if self._change is not None:
            return self._mark
        described = self._read("look at the table", self._described)
        if described is None:
            raise self.gone()
        mark, columns = _read_comment(described)
        self._columns = self._columns or columns
        return mark

    def upsert(self, points: Sequence[Point]) -> None:
        """Put documents in, in the place of those that are there under the same id, by one COPY."""
        from psycopg.types.numeric import Int4

        generation = Int4(self._mark.generation + 1)
        with self._writing("add documents") as connection:
            if self._mark.complete:
                self._delete(connection, [point.id for point in points])
            names = ", ".join(["id", "generation", *self._columns])
            copy = self._statement(f"COPY {{table}} ({names}) FROM STDIN (FORMAT BINARY)")
            with connection.cursor() as cursor, cursor.copy(copy) as stream:
                for point in points:
                    vectors = (packed(point.vectors[name], *column) for name, column in self._columns.items())
                    stream.write_row((point.id, generation, *vectors))

    def delete(self, ids: Sequence[str]) -> None:
        with self._writing("delete documents") as connection:
            self._delete(connection, ids)

    def settle(self) -> None:
        """Build the graphs of a new table."""
        if self._change is None or self._mark.complete:
            return
        with self._writing("build the graph") as connection:
            self._execute(connection, "ALTER TABLE {table} ADD PRIMARY KEY (id)")
            self._execute(connection, f"SET LOCAL maintenance_work_mem = '{self.place.memory}MB'")
            self._execute(connection, f"SET LOCAL max_parallel_maintenance_workers = {self.place.threads - 1}")
            for name, m in self._graphs.items():
                self._execute(
                    connection,
                    f"CREATE INDEX ON {{table}} USING hnsw ({name} {_OPERATORS[self._columns[name][0]]}) "
                    f"WITH (m = {m}, ef_construction = {self.place.ef_construction})",
                )
            self._execute(connection, "ANALYZE {table}")

    def begin(self, mark: Mark, change: str) -> None:
        self._mark = mark
        with self._writing("begin a change") as connection:
            [self.before] = connection.execute(self._statement("SELECT count(*) FROM {table}")).fetchone()

    def mark(self, mark: Mark) -> None:
        comment = json.dumps({"visir": {**asdict(mark), "columns": self._columns}})
        with self._writing("mark the table") as connection:
            self._execute(connection, "COMMENT ON TABLE {table} IS {comment}", comment=comment)
            self._execute(connection, "COMMIT")
        self._mark, self.seen = mark, mark.generation
        self._end(broken=False)

    def undo(self) -> None:
        self._end(broken=True)

    def destroy(self) -> None:
        if self._change is not None:  # nobody else has seen it yet
            self._end(broken=True)
            return
        with self._connection("drop the table") as connection:
            self._execute(connection, "DROP TABLE {table}")

    def search(
        self, questions: Sequence[Nearest], *, vectors: bool, allowed: Sequence[str] | None = None
    ) -> list[list[EngineHit]]:
        """The nearest documents, with or without their vectors; one statement for all questions that are alike."""
        answers: list[list[EngineHit]] = [[] for _ in questions]
        for first, places in alike(questions):
            space = first.space
            type_ = self._columns[space][0]
            queries = {f"q{n}": self._query(questions[at]) for n, at in enumerate(places)}
            among = "" if allowed is None else "AND id = ANY(%(allowed)b::text[])"
            statement = f"""
                SELECT q.n, h.* FROM unnest({_array(queries, type_)}) WITH ORDINALITY AS q(v, n) CROSS JOIN LATERAL (
                    SELECT id, {space} <#> q.v AS s {f", {space}" if vectors else ""} FROM {{table}}
                    WHERE generation <= {self.seen} {among} ORDER BY {space} <#> q.v LIMIT {first.limit}
                ) h ORDER BY q.n, h.s
            """
            given = {**queries, "allowed": None if allowed is None else possible(allowed)}
            for n, id, distance, *rest in self._found(statement, given, first.ef, first.exact):
                if type_ != "sparsevec" or distance < 0:  # what shares no term is no answer
                    vector = unpacked(rest[0], type_) if rest else None
                    answers[places[n - 1]].append(EngineHit(id, -distance, vector))
        return answers

    def get(self, ids: Sequence[str], space: str) -> Mapping[str, Vector | None]:
        type_ = self._columns[space][0]
        statement = f"SELECT id, {space} FROM {{table}} WHERE id = ANY(%(ids)b::text[]) AND generation <= {self.seen}"
        return {id: unpacked(data, type_) for id, data in self._found(statement, {"ids": possible(ids)})}

    def ids(self, generation: int, among: Sequence[str] | None = None) -> list[str]:
        these, given = ("", {}) if among is None else ("AND id = ANY(%(ids)b::text[])", {"ids": possible(among)})
        rows = self._found(f"SELECT id FROM {{table}} WHERE generation <= {generation} {these}", given)
        return [id for (id,) in rows]

    def count(self, generation: int) -> int:
        [(count,)] = self._found(f"SELECT count(*) FROM {{table}} WHERE generation <= {generation}")
        return int(count)

    def about(self) -> dict[str, Any]:
        statement = "SELECT pg_total_relation_size(oid), version() FROM pg_class WHERE oid = {name}"
        [(size, version)] = self._found(statement)
        return {"table": f"{self.place.schema}.{self.collection}", "bytes on the server": size, "server": version[:40]}

    def close(self) -> None:
        """Close the connections; a change that is under way is taken back."""
        self._end(broken=True)
        self._close_idle()

    @classmethod
    def removal(cls, url: str, collection: str, settings: Mapping[str, Any]) -> str:
        table = ".".join('"' + name.replace('"', '""') + '"' for name in (settings["schema"], collection))
        return f"psql {shlex.quote(url)} -c {shlex.quote(f'DROP TABLE {table}')}"

    @contextmanager
    def _writing(self, what: str) -> Iterator[Any]:
        """The connection of the change that is under way, or of one that begins. A fault takes the change back."""
        if self._change is None:
            self._change = self._take(what)
            self._begin(what)
        with self._explaining(what, lambda: self._end(broken=True)):
            yield self._change

    def _begin(self, what: str) -> None:
        """Begin a transaction; no other changes the table before it has ended, and none has since it was checked."""
        with self._writing(what) as connection:
            connection.execute("BEGIN")
            connection.execute(f"SET LOCAL lock_timeout = '{self.place.timeout}s'")
            if self._mark.complete:
                self._execute(connection, "LOCK TABLE {table} IN SHARE UPDATE EXCLUSIVE MODE")
                described = self._described(connection)
                if described is None or _read_comment(described)[0] != self._mark:
                    raise EngineError(
                        f"{self.where()} was changed by another process meanwhile; nothing was done here.",
                        hint="try again",
                        code="changed-another-process-meanwhile",
                    )
            connection.execute("SET LOCAL statement_timeout = 0")

    def _end(self, *, broken: bool) -> None:
        """End the change: its connection is used again, or closed, which takes back what was not committed."""
        connection, self._change = self._change, None
        if connection is not None and broken:
            connection.close()
        elif connection is not None:
            self._give(connection)

    def _prepare(self, connection: Any) -> None:
        """The extension and the schema, made where they are not there."""
        encoding, version, schema = connection.execute(
            "SELECT current_setting('server_encoding'), "
            "(SELECT extversion FROM pg_extension WHERE extname = 'vector'), to_regnamespace(quote_ident(%s))",
            (self.place.schema,),
        ).fetchone()
        if encoding != "UTF8":
            raise EngineError(
                f"{self.place.url}: the database stores texts as {encoding}, which lacks letters that ids may have.",
                hint="createdb --encoding=UTF8 --template=template0 NAME",
            )
        if version is None:
            available = connection.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'").fetchone()
            if available is None:
                raise EngineError(
                    f"{self.place.url}: this server does not have the extension pgvector.",
                    hint="install it there (https://github.com/pgvector/pgvector), or use the image pgvector/pgvector",
                )
            connection.execute("CREATE EXTENSION vector")
            version = connection.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'").fetchone()[0]
        if tuple(int(part) for part in version.split(".")[:2]) < LEAST:
            raise EngineError(
                f"{self.place.url}: pgvector {version} is too old; {'.'.join(map(str, LEAST))} is the least.",
                hint="update it on the server, then: ALTER EXTENSION vector UPDATE",
            )
        if schema is None:
            self._execute(connection, "CREATE SCHEMA {schema}")

    def _delete(self, connection: Any, ids: Sequence[str]) -> None:
        statement = self._statement("DELETE FROM {table} WHERE id = ANY(%(ids)b::text[])")
        connection.execute(statement, {"ids": list(ids)})

    def _described(self, connection: Any) -> tuple[str | None] | None:
        """The comment of the table; None where there is none."""
        described: tuple[str | None] | None = connection.execute(
            "SELECT obj_description(c.oid, 'pg_class') FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = %s AND c.relname = %s",
            (self.place.schema, self.collection),
        ).fetchone()
        return described

    def _found(self, statement: str, given: Any = None, ef: int | None = None, exact: bool = False) -> list[Any]:
        """The rows that a statement finds, given what stands in it as `%(name)b`."""
        named = self._statement(statement)

        def ask(connection: Any) -> list[Any]:
            self._tune(
                connection,
                ("hnsw.iterative_scan", "strict_order"),
                ("hnsw.ef_search", str(min(ef or 40, _DEEPEST))),
                ("enable_indexscan", "off" if exact else "on"),
            )
            with connection.cursor(binary=True) as cursor:
                rows: list[Any] = cursor.execute(named, given or {}).fetchall()
            return rows

        return self._read("search", ask)

    def _query(self, question: Nearest) -> Packed:
        """A query as the server takes it: of half precision no value above its largest; the order of answers stays."""
        vector, (type_, size) = question.vector, self._columns[question.space]
        if type_ == "halfvec" and isinstance(vector, np.ndarray):
            largest = float(np.abs(vector).max())
            vector = vector * np.float32(_HALF / largest) if largest > _HALF else vector
        return packed(vector, type_, size)

    def _execute(self, connection: Any, statement: str, **values: Any) -> None:
        connection.execute(self._statement(statement, **values))

    def _statement(self, statement: str, **values: Any) -> Any:
        """A statement with the names of schema and table put in, and values as literals."""
        from psycopg import sql

        table, schema = sql.Identifier(self.place.schema, self.collection), sql.Identifier(self.place.schema)
        literals = {name: sql.Literal(value) for name, value in values.items()}
        name = sql.SQL("{}::regclass").format(sql.Literal(table.as_string()))
        return sql.SQL(statement).format(table=table, schema=schema, name=name, **literals)

    # A password is never sent in clear over a network: without a verified certificate the server has to prove that it
    # knows the password too (SCRAM), or to ask for none.

    @contextmanager
    def _connection(self, what: str) -> Iterator[Any]:
        """A connection for as long as the block lasts."""
        connection = self._take(what)
        with self._explaining(what, connection.close):
            yield connection
        self._give(connection)

    @contextmanager
    def _explaining(self, what: str, close: Callable[[], object]) -> Iterator[None]:
        """After a fault: close the connection, and say what was asked."""
        import psycopg

        try:
            yield
        except psycopg.Error as fault:
            close()
            raise self._explained(what, fault) from fault
        except BaseException:
            close()
            raise

    def _read(self, what: str, request: Callable[[Any], T]) -> T:
        """Send a request that changes nothing, again where the server was away."""

        def once() -> T:
            try:
                with self._connection(what) as connection:
                    return request(connection)
            except EngineError as fault:
                if is_no_answer(fault):
                    self._close_idle()  # connections of before are broken too
                raise

        return repeated(self.place, once, is_no_answer)

    def _close_idle(self) -> None:
        """Close the connections that nobody uses."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            if self._process == os.getpid():
                connection.close()

    def _take(self, what: str) -> Any:
        """A connection that nobody uses, or a new one; `EngineError` when the server cannot be reached, or refuses."""
        with self._lock:
            if self._process != os.getpid():  # connections are not shared with a process that forked off
                self._idle, self._process = [], os.getpid()
            while self._idle:
                connection = self._idle.pop()
                if not connection.closed:
                    return connection
        return self._connect(what)

    def _give(self, connection: Any) -> None:
        """Hand a connection back for others."""
        with self._lock:
            self._idle.append(connection)

    def _tune(self, connection: Any, *settings: tuple[str, str]) -> None:
        """Make settings of the server hold for this connection; those that hold already are not sent."""
        now: dict[str, str] = getattr(connection, "tuned", {})
        other = [(name, value) for name, value in settings if now.get(name) != value]
        if other:
            calls = ", ".join("set_config(%s, %s, false)" for _ in other)
            connection.execute(f"SELECT {calls}", [part for pair in other for part in pair])
            connection.tuned = {**now, **dict(other)}

    def _connect(self, what: str) -> Any:
        import psycopg
        from psycopg.adapt import Dumper
        from psycopg.pq import Format

        class PackedDumper(Dumper):
            format = Format.BINARY
            oid = 0

            def dump(self, obj: Any) -> bytes:
                return bytes(obj)

        with self._explaining(what, lambda: None):
            connection = psycopg.connect(autocommit=True, **self._arguments())
        connection.adapters.register_dumper(Packed, PackedDumper)
        return connection

    def _arguments(self) -> dict[str, Any]:
        parts, host, secret = urlsplit(self.place.url), host_of(self.place.url), secret_for(self.place.url)
        certificate = os.environ.get(PGVECTOR.certificate)
        arguments: dict[str, Any] = {
            "host": host,
            "port": parts.port or PGVECTOR.port,
            "dbname": unquote(parts.path.strip("/")) or "postgres",
            "user": unquote(parts.username or "") or None,
            "password": secret,
            "connect_timeout": max(2, self.place.timeout),  # less than 2 is not taken
            "application_name": "visir",
            "client_encoding": "utf8",
            "gssencmode": "disable",
            "options": f"-c statement_timeout={self.place.timeout}s -c plan_cache_mode=force_custom_plan",
        }
        if certificate and not host.startswith("/"):  # there is no TLS on a Unix socket
            arguments |= {"sslmode": "verify-full", "sslrootcert": certificate}
        elif not is_loopback(host):
            arguments["require_auth"] = "scram-sha-256,none"
        return {name: value for name, value in arguments.items() if value is not None}

    def _explained(self, what: str, fault: Exception) -> EngineError:
        """The error that says what was asked, and what to do next."""
        import psycopg

        url, text = self.place.url, str(fault).strip()
        parts = urlsplit(url)
        state = getattr(fault, "sqlstate", None)
        if state in ("28P01", "28000") or any(
            words in text for words in ("password authentication failed", "no password supplied", "requirement failed")
        ):
            hint = why_no_key(url)
            if "requirement failed" in text:
                hint = f"the server asks for the password in another way than SCRAM: {PGVECTOR.certificate}=FILE (TLS)"
            return EngineError(f"{url}: may not {what}: {text}", hint=hint)
        if state == "57014":
            return EngineError(
                f"{url}: no answer after {self.place.timeout} s, asked to {what}.",
                hint=f"a longer wait: timeout={2 * self.place.timeout}",
            )
        if state == "42501":
            hint = "the user needs the right to make a schema in this database: GRANT CREATE ON DATABASE … TO …"
            if "create extension" in text:
                hint = "a superuser makes it once in this database, as in psql: CREATE EXTENSION vector"
            return EngineError(f"{url}: may not {what}: {text}", hint=hint)
        if state == "42P01":
            return EngineError(
                f"{url}: cannot {what}: the table does not exist: {text}",
                hint=f"was it deleted? {BUILD_ON_SERVER}",
            )
        if state == "3D000" or _NO_DATABASE.search(text):  # while connecting, errors have no state
            return EngineError(
                f"{url}: there is no such database: {text}",
                hint=f"is the name in the address right? this makes it: {_createdb(url)}",
            )
        if "server does not support SSL" in text:
            return EngineError(
                f"{url}: cannot {what}: {text}",
                hint=f"turn TLS on there, or unset what asks for it here: PGSSLMODE, {PGVECTOR.certificate}",
            )
        if isinstance(fault, psycopg.OperationalError | psycopg.InterfaceError):
            check = f"pg_isready -h {shlex.quote(host_of(url))} -p {parts.port or PGVECTOR.port}"
            return no_answer(self.place, what, text, check)
        return EngineError(f"{url}: cannot {what}: {text}", hint="the server's own log says more")


def _array(names: Iterable[str], type_: str) -> str:
    """An array of vectors, as a statement takes it from the parameters of these names."""
    return f"ARRAY[{', '.join(f'%({name})b::{type_}' for name in names)}]"


def _read_comment(described: tuple[str | None]) -> tuple[Mark, Columns]:
    """The mark and the columns; an empty mark for a table of somebody else."""
    try:
        comment = dict(json.loads(described[0] or "")["visir"])
        columns = {name: (str(type_), int(size)) for name, (type_, size) in comment.pop("columns").items()}
        return Mark(**comment), columns
    except (ValueError, TypeError, KeyError, AttributeError):
        return Mark(), {}


def _createdb(url: str) -> str:
    """The command that makes the database of an address."""
    parts = urlsplit(url)
    user = f" -U {shlex.quote(unquote(parts.username))}" if parts.username else ""
    where = f"-h {shlex.quote(host_of(url))} -p {parts.port or PGVECTOR.port}{user}"
    return f"createdb {where} {shlex.quote(unquote(parts.path.strip('/')) or 'postgres')}"
