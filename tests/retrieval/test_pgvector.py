"""What only PostgreSQL has: one transaction for a change, limits of its types, and no list of ids in the folder."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from index_data import dense, random_dense, random_sparse, same_run

pytest.importorskip("psycopg", reason="PostgreSQL's client (extra pgvector) is not installed")

from postgres_server import PASSWORD, PostgresServer, programs

from refusals import refused
from visir.errors import ConfigurationError, EmbeddingError
from visir.retrieval.index import read_index
from visir.retrieval.kinds import build_index, open_index
from visir.retrieval.remote import engine as addresses_module
from visir.retrieval.remote.engine import EngineError
from visir.retrieval.remote.index import HybridCollection
from visir.retrieval.remote.postgres import PostgresEngine
from visir.retrieval.remote.settings import PGVECTOR


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as running:
        yield running


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda _: None)
    monkeypatch.setattr(addresses_module, "_PAUSE", 0.001)
    monkeypatch.setenv(PGVECTOR.key, PASSWORD)


def rows(server: PostgresServer, table: str) -> int:
    return int(server.ask(f'SELECT count(*) FROM visir."{table}"')[0][0])


def test_the_folder_holds_no_ids_and_the_table_holds_all_of_them(server: PostgresServer, tmp_path: Path) -> None:
    documents = random_dense("image", 30, 1)
    index = build_index(documents, "pgvector", tmp_path / "index", url=server.url)
    files = {name.split("/")[0] for name in read_index(tmp_path / "index").files}
    assert files == {"space-1"}  # what a vector is like, and none of them
    table = index.settings.collection
    assert table.startswith("visir-index-") and rows(server, table) == 30
    [(id, generation, vector)] = server.ask(f'SELECT id, generation, dense::text FROM visir."{table}" LIMIT 1')
    sent = documents.select([id]).vectors[0]
    assert generation == 1
    assert np.allclose(np.fromstring(vector.strip("[]"), sep=","), sent / np.linalg.norm(sent), atol=1e-6)


@pytest.mark.parametrize("change", ["add", "delete"])
@pytest.mark.parametrize("broken", ["upsert or delete", "mark"])
def test_a_connection_that_breaks_during_a_change_takes_it_back(
    change: str, broken: str, server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("visir.retrieval.remote.index.VALUES", 60)  # a few documents in each COPY
    monkeypatch.setattr("visir.retrieval.remote.index._AT_ONCE", 4)
    documents, queries = random_dense("image", 40, 1), random_dense("text", 3, 2)
    first, last = documents.select(documents.ids[:25]), documents.select(documents.ids[25:])
    index = build_index(first, "pgvector", tmp_path / "index", url=server.url, retries=0, ef_search=100)
    wanted = index.search(queries, 9)
    name = "mark" if broken == "mark" else {"add": "upsert", "delete": "delete"}[change]
    plain, calls = getattr(PostgresEngine, name), []

    def cut(self: PostgresEngine, *arguments: object) -> None:
        calls.append(1)
        if len(calls) == (1 if broken == "mark" else 3):
            server.ask("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'visir'")
        plain(self, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(PostgresEngine, name, cut)
        with refused(EngineError, "1", code="no-answer-asked-times"):
            index.add(last) if change == "add" else index.delete(first.ids[:12])
    for opened in (index, open_index(tmp_path / "index")):
        assert same_run(opened.search(queries, 9), wanted) and len(opened.ids) == 25
    index.add(last) if change == "add" else index.delete(first.ids[:12])
    assert rows(server, index.settings.collection) == (40 if change == "add" else 13)


KILLED = """
import os, sys
from index_data import random_dense
from visir.retrieval.kinds import open_index
from visir.retrieval.remote.postgres import PostgresEngine
from visir.retrieval.remote.index import RemoteStorage

when, folder = sys.argv[1:]
if when == "before":
    PostgresEngine.mark = lambda *_: os._exit(9)
else:
    plain = RemoteStorage._publish
    def publish(self, change, size, content):
        if "pending" not in content:
            os._exit(9)
        plain(self, change, size, content)
    RemoteStorage._publish = publish
documents = random_dense("image", 40, 1)
open_index(folder).add(documents.select(documents.ids[25:]))
"""


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_process_that_is_killed_around_the_commit(when: str, server: PostgresServer, tmp_path: Path) -> None:
    """Before it the index is as it was; after it, as it is to be, although the folder does not say so yet."""
    documents, queries = random_dense("image", 40, 1), random_dense("text", 3, 2)
    folder = tmp_path / "index"
    build_index(documents.select(documents.ids[:25]), "pgvector", folder, url=server.url, ef_search=100)
    environment = {**os.environ, PGVECTOR.addresses: server.url, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", KILLED, when, str(folder)], env=environment)
    assert done.returncode == 9 and "pending" in read_index(folder).content
    there = documents.select(documents.ids[:25]) if when == "before" else documents
    index = open_index(folder)
    assert index.ids.equals(there.ids)
    assert same_run(index.search(queries, 9), build_index(there, "exact").search(queries, 9))
    index.delete(documents.ids[:5])
    left = there.select(there.ids[5:])
    assert "pending" not in read_index(folder).content and rows(server, index.settings.collection) == len(left)
    assert same_run(open_index(folder).search(queries, 9), build_index(left, "exact").search(queries, 9))


def test_a_change_that_another_copy_makes_just_before_is_noticed_though_a_search_saw_it(
    server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search in another thread reads the mark too: that is no reason to take it for the one that was checked."""
    documents = random_dense("image", 40, 1)
    index = build_index(documents.select(documents.ids[:30]), "pgvector", tmp_path / "index", url=server.url)
    shutil.copytree(tmp_path / "index", tmp_path / "copy")
    copy, plain = open_index(tmp_path / "copy"), PostgresEngine.begin

    def begin(self: PostgresEngine, *given: Any) -> None:
        monkeypatch.setattr(PostgresEngine, "begin", plain)
        copy.add(documents.select(documents.ids[30:35]))
        index.search(random_dense("text", 2, 2), 3)
        plain(self, *given)

    monkeypatch.setattr(PostgresEngine, "begin", begin)
    with refused(EngineError, code="changed-another-process-meanwhile"):
        index.add(documents.select(documents.ids[35:]))
    assert len(open_index(tmp_path / "copy").ids) == 35


def test_a_build_that_fails_leaves_no_table(
    server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = server.ask("SELECT relname FROM pg_class ORDER BY 1")
    for name in ("upsert", "settle", "mark"):
        with monkeypatch.context() as patched:
            patched.setattr(PostgresEngine, name, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                build_index(random_dense("image", 20, 1), "pgvector", tmp_path / "index", url=server.url)
        assert not (tmp_path / "index").exists()
        assert server.ask("SELECT relname FROM pg_class ORDER BY 1") == before or name == "upsert"
        before = server.ask("SELECT relname FROM pg_class ORDER BY 1")
    assert not server.ask("SELECT 1 FROM pg_stat_activity WHERE application_name = 'visir' AND state LIKE 'idle in%'")


def test_limits_of_the_types_are_said_before_anything_is_sent(server: PostgresServer, tmp_path: Path) -> None:
    wide = dense("image", np.ones((2, 2001)))
    with refused(EmbeddingError, "2,000", "float32", "2,001", code="pgvector-builds-graphs-over") as caught:
        build_index(wide, "pgvector", tmp_path / "a", url=server.url)
    assert "precision=float16 takes up to 4,000, m=0" in str(caught.value)
    assert len(build_index(wide, "pgvector", tmp_path / "b", url=server.url, precision="float16").ids) == 2
    assert len(build_index(wide, "pgvector", tmp_path / "c", url=server.url, m=0).ids) == 2
    with refused(EmbeddingError, "4,000", code="pgvector-builds-graphs-over"):
        build_index(dense("image", np.ones((2, 4001))), "pgvector", tmp_path / "d", url=server.url, precision="float16")
    with refused(EmbeddingError, code="pgvector-stores-vectors-up", hint=False):
        build_index(dense("image", np.ones((2, 16001))), "pgvector", tmp_path / "e", url=server.url, m=0)
    small = random_sparse("image", 5, 1)
    assert len(build_index(small, "pgvector-sparse", tmp_path / "f", url=server.url, m=16).ids) == 5


def test_sparse_vectors_of_more_than_a_thousand_terms() -> None:
    from visir.retrieval.remote.settings import PgvectorSparseSettings

    class Long:
        offsets = np.array([0, 1000, 2001])
        ids = random_sparse("image", 2, 1).ids

    settings = PgvectorSparseSettings(url="postgresql://me@here/db", m=16)
    with refused(EmbeddingError, "1,000", "i0001", "1,001", "1", code="pgvector-sparse-vectors-up") as caught:
        PostgresEngine.check_vectors(Long, settings)  # type: ignore[arg-type]
    assert "m=0" in str(caught.value)
    PostgresEngine.check_vectors(Long, PgvectorSparseSettings(url="postgresql://me@here/db"))  # type: ignore[arg-type]


def test_half_precision_comes_back_in_half_precision(server: PostgresServer, tmp_path: Path) -> None:
    documents, queries = random_dense("image", 30, 1), random_dense("text", 4, 2)
    index = build_index(documents, "pgvector", tmp_path / "index", url=server.url, precision="float16", ef_search=100)
    unit = documents.vectors / np.linalg.norm(documents.vectors, axis=1, keepdims=True)
    assert np.array_equal(index.documents().vectors, unit.astype(np.float16).astype(np.float32))
    wanted = build_index(documents, "exact").search(queries, 30)
    run = index.search(queries, 30)
    for query in queries.ids.to_pylist():
        exact = dict(wanted.answer(query))
        assert all(abs(score - exact[document]) < 2e-3 for document, score in run.answer(query))


def test_what_half_precision_does_not_hold_is_named(server: PostgresServer, tmp_path: Path) -> None:
    settings = {"url": server.url, "precision": "float16", "similarity": "dot"}
    documents, queries = random_dense("image", 5, 1), random_dense("text", 3, 2)
    large = dense("image", np.where(np.arange(5)[:, None] == 3, 1e5, 1) * np.ones(12))
    with refused(EmbeddingError, "65,504", "i0003", "100,000", code="precision-float16-holds-values"):
        build_index(large, "pgvector", tmp_path / "large", **settings)
    index = build_index(documents, "pgvector", tmp_path / "index", **settings)
    huge = dense("text", queries.vectors * 1e6)
    for query in queries.ids.to_pylist():
        assert [id for id, _ in index.search(huge, 5).answer(query)] == [
            id for id, _ in index.search(queries, 5).answer(query)
        ]


def test_queries_beyond_half_precision_in_a_search_of_both_forms(server: PostgresServer, tmp_path: Path) -> None:
    settings = {"url": server.url, "precision": "float16", "similarity": "dot"}
    documents = dense("image", np.arange(1.0, 31)[:, None] * np.ones(12))  # no two scores are nearly equal
    words = random_sparse("image", 30, 1)
    both = HybridCollection.build(documents, words, tmp_path / "both", engine="pgvector", **settings)
    queries, terms = dense("text", np.ones((3, 12))), random_sparse("text", 3, 2)
    huge = dense("text", queries.vectors * 1e6)
    found, wanted = both.search(huge, terms, 10, depth=30), both.search(queries, terms, 10, depth=30)
    assert all(found.answer(query) == wanted.answer(query) for query in queries.ids.to_pylist())


def test_a_database_that_is_not_there_is_named_with_the_command_that_makes_it(
    server: PostgresServer, tmp_path: Path
) -> None:
    url = server.url.replace("/postgres", "/my%20photos")
    with pytest.raises(EngineError, match=r'there is no such database: .*"my photos" does not exist') as caught:
        build_index(random_dense("image", 5, 1), "pgvector", tmp_path / "index", url=url, retries=0)
    assert "no answer" not in str(caught.value)
    command = f"createdb -h 127.0.0.1 -p {server.port} -U me 'my photos'"
    assert command in str(caught.value)
    made = subprocess.run(
        [programs() / "createdb", *shlex.split(command)[1:]],
        env={**os.environ, "PGPASSWORD": PASSWORD},
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stderr
    assert len(build_index(random_dense("image", 5, 1), "pgvector", tmp_path / "index", url=url).ids) == 5


def test_a_user_with_few_rights_learns_who_must_do_what(server: PostgresServer, tmp_path: Path) -> None:
    """First the extension, by a superuser; then the schema, by the right to make one. Both hints are followed here."""
    server.ask("CREATE DATABASE few")
    server.ask(f"CREATE ROLE plain LOGIN PASSWORD '{PASSWORD}'")  # the password that the environment holds here
    few = server.url.replace("/postgres", "/few")
    url, out = few.replace("//me@", "//plain@"), tmp_path / "index"
    with pytest.raises(EngineError, match="permission denied to create extension") as caught:
        build_index(random_dense("image", 5, 1), "pgvector", out, url=url)
    assert "a superuser makes it once in this database, as in psql: CREATE EXTENSION vector" in str(caught.value)
    import psycopg

    with psycopg.connect(few, password=PASSWORD, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION vector")
    with pytest.raises(EngineError, match="permission denied for database few") as caught:
        build_index(random_dense("image", 5, 1), "pgvector", out, url=url)
    assert "GRANT CREATE ON DATABASE" in str(caught.value)
    server.ask("GRANT CREATE ON DATABASE few TO plain")
    assert len(build_index(random_dense("image", 5, 1), "pgvector", out, url=url).ids) == 5


def test_tls_that_the_server_does_not_have(
    server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGSSLMODE", "require")
    with pytest.raises(EngineError, match="server does not support SSL") as caught:
        build_index(random_dense("image", 5, 1), "pgvector", tmp_path / "index", url=server.url)
    assert "PGSSLMODE" in str(caught.value) and "is the server running" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        ("", "needs the address of its server"),
        ("http://here:5432/db", "is no address of a server"),
        ("postgresql:///db", "is no address of a server of PostgreSQL"),
        ("postgresql://%2Ftmp/db", "is no address of a server of PostgreSQL"),
        ("postgresql://me:pass@here/db", "holds a password, a query or a fragment"),
        ("postgresql://me@here/db#password=pass", "holds a password, a query or a fragment"),
        ("postgresql://me@here/db?sslmode=disable", "holds a password, a query or a fragment"),
        ("postgresql://me@here/db?host=/tmp", "holds a password, a query or a fragment"),
        ("postgresql:///db?host=other.example", "holds a password, a query or a fragment"),
        ("postgresql:///db?host=/tmp,other.example", "holds a password, a query or a fragment"),
        ("postgresql:///db?host=/tmp%2Cother.example", "holds a password, a query or a fragment"),
        ("postgresql:///db?host=/tmp&password=pass@", "holds a password, a query or a fragment"),
        ("postgresql://me:pass@/db?host=/tmp", "holds a password, a query or a fragment"),
        ("postgresql:///db?host=/tmp%0Ax", "holds a password, a query or a fragment"),
    ],
)
def test_addresses_that_are_none_or_hold_a_secret(url: str, fault: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=fault) as caught:
        build_index(random_dense("image", 5, 1), "pgvector", tmp_path / "index", url=url)
    assert "pass@" not in str(caught.value)
    if url.startswith("postgresql"):
        assert "over a Unix socket: postgresql:///database?host=/var/run/postgresql" in str(caught.value)


def test_a_server_is_asked_over_its_unix_socket(
    server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents, queries = random_dense("image", 20, 1), random_dense("text", 3, 2)
    index = build_index(documents, "pgvector", tmp_path / "index", url=server.socket, ef_search=100)
    wanted = build_index(documents, "exact").search(queries, 5)
    assert all(index.search(queries, 5).answer(query) == wanted.answer(query) for query in queries.ids.to_pylist())
    addresses = server.ask("SELECT DISTINCT client_addr FROM pg_stat_activity WHERE application_name = 'visir'")
    assert (None,) in addresses  # PostgreSQL's word for a Unix socket
    monkeypatch.setattr(addresses_module, "_named", set())
    with refused(EngineError, code="vectors-lie-server-nobody") as caught:
        open_index(tmp_path / "index")
    assert f"export {PGVECTOR.addresses}='{server.socket}'" in str(caught.value)
    monkeypatch.setenv(PGVECTOR.addresses, f"postgresql://:{server.port}/?host=/elsewhere")
    with refused(EngineError, code="vectors-lie-server-nobody"):
        open_index(tmp_path / "index")
    monkeypatch.setenv(PGVECTOR.addresses, server.socket)
    monkeypatch.setenv(PGVECTOR.certificate, str(tmp_path / "none.pem"))  # for servers that are asked with TLS
    assert len(open_index(tmp_path / "index").ids) == 20
    away = f"postgresql:///postgres?host={tmp_path}"
    with refused(EngineError, "no answer") as caught:
        build_index(documents, "pgvector", tmp_path / "away", url=away, retries=0)
    assert f"pg_isready -h {tmp_path} -p 5432" in str(caught.value)


def test_nothing_is_sent_to_a_server_that_nobody_has_named(
    server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_index(random_dense("image", 5, 1), "pgvector", tmp_path / "index", url=server.url)
    monkeypatch.setattr(addresses_module, "_named", set())
    with refused(EngineError, code="vectors-lie-server-nobody") as caught:
        open_index(tmp_path / "index")
    assert f"export {PGVECTOR.addresses}={server.url}" in str(caught.value)
    monkeypatch.setenv(PGVECTOR.addresses, f"postgresql://127.0.0.1:{server.port}")  # a server, whatever is in it
    assert len(open_index(tmp_path / "index").ids) == 5


def test_settings_that_the_server_would_refuse(tmp_path: Path) -> None:
    documents, url = random_dense("image", 5, 1), "postgresql://me@here/db"
    for options, fault in (
        ({"m": 1}, "m=1"),
        ({"m": 64, "ef_construction": 100}, "ef_construction from 2 m"),
        ({"collection": "é" * 32}, "names of up to 63 bytes"),
        ({"schema": ""}, "schema: a schema has a name"),
        ({"precision": "float8"}, "float32 or float16"),
    ):
        with pytest.raises(ConfigurationError, match=fault):
            build_index(documents, "pgvector", tmp_path / "index", url=url, **options)
