"""Connections to a PostgreSQL server that the user has named, and what goes wrong with them."""

from __future__ import annotations

import os
import re
import shlex
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from visir.errors import require
from visir.remote import is_loopback
from visir.retrieval.remote.addresses import check_named, secret_for, why_no_key
from visir.retrieval.remote.engine import BUILD_ON_SERVER, EngineError
from visir.retrieval.remote.families import PGVECTOR, host_of
from visir.retrieval.remote.settings import DatabasePlace

T = TypeVar("T")
_PAUSE = 0.5
"""Seconds before the first repetition; each further one waits twice as long."""
_NO_DATABASE = re.compile(r'database ".*" does not exist')
LEAST = (0, 8)
"""The least version of pgvector: graphs are searched on until enough is found (`hnsw.iterative_scan`)."""


class Binary(bytes):
    """A parameter that is sent as it is; the statement says of what type it is."""


class PostgresClient:
    """A few connections to one database, each used by one thread at a time."""

    # A password is never sent in clear over a network: without a verified certificate the server has to prove that it
    # knows the password too (SCRAM), or to ask for none.

    def __init__(self, place: DatabasePlace) -> None:
        require("psycopg", extra="pgvector", purpose="an index in PostgreSQL")
        check_named(place.url)
        self.place = place
        self._idle: list[Any] = []
        self._process = os.getpid()
        self._lock = threading.Lock()

    @contextmanager
    def connection(self, what: str) -> Iterator[Any]:
        """A connection for as long as the block lasts."""
        import psycopg

        connection = self.take(what)
        try:
            yield connection
        except psycopg.Error as fault:
            connection.close()
            raise self.explained(what, fault) from fault
        except BaseException:
            connection.close()
            raise
        self.give(connection)

    def read(self, what: str, request: Callable[[Any], T]) -> T:
        """Send a request that changes nothing, again where the server was away."""
        for attempt in range(self.place.retries + 1):
            try:
                with self.connection(what) as connection:
                    return request(connection)
            except _Away as fault:
                last = fault
                self.close()  # connections of before are broken too
            if attempt < self.place.retries:
                time.sleep(_PAUSE * 2**attempt)
        raise EngineError(last.message, hint=last.hint) from last.__cause__

    def close(self) -> None:
        """Close the connections that nobody uses."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            if self._process == os.getpid():
                connection.close()

    def take(self, what: str) -> Any:
        """A connection that nobody uses, or a new one; `EngineError` when the server cannot be reached, or refuses."""
        with self._lock:
            if self._process != os.getpid():  # connections are not shared with a process that forked off
                self._idle, self._process = [], os.getpid()
            while self._idle:
                connection = self._idle.pop()
                if not connection.closed:
                    return connection
        return self._connect(what)

    def give(self, connection: Any) -> None:
        """Hand a connection back for others."""
        with self._lock:
            self._idle.append(connection)

    def tune(self, connection: Any, *settings: tuple[str, str]) -> None:
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

        class BinaryDumper(Dumper):
            format = Format.BINARY
            oid = 0

            def dump(self, obj: Any) -> bytes:
                return bytes(obj)

        try:
            connection = psycopg.connect(autocommit=True, **self._arguments())
        except psycopg.Error as fault:
            raise self.explained(what, fault) from fault
        connection.adapters.register_dumper(Binary, BinaryDumper)
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

    def explained(self, what: str, fault: Exception) -> EngineError:
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
            return _Away(
                f"{url}: no answer, asked {self.place.retries + 1} times to {what}: {text}",
                hint=f"is the server running, and is this its address? {check}",
                code="no-answer-asked-times",
            )
        return EngineError(f"{url}: cannot {what}: {text}", hint="the server's own log says more")


def _createdb(url: str) -> str:
    """The command that makes the database of an address."""
    parts = urlsplit(url)
    user = f" -U {shlex.quote(unquote(parts.username))}" if parts.username else ""
    where = f"-h {shlex.quote(host_of(url))} -p {parts.port or PGVECTOR.port}{user}"
    return f"createdb {where} {shlex.quote(unquote(parts.path.strip('/')) or 'postgres')}"


class _Away(EngineError):
    """The server does not answer: asking again may help."""
