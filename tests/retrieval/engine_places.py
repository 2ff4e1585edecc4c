"""The engines of the tests, each as a `Place`: how visir gets there, and what others see and do there, past visir."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from index_data import TERMS, TRUTH, random_dense

pytest.importorskip("qdrant_client", reason="Qdrant's client (extra qdrant) is not installed")
pytest.importorskip("psycopg", reason="PostgreSQL's client (extra pgvector) is not installed")
pytest.importorskip("pymilvus", reason="Milvus's client (extra milvus) is not installed")

from milvus_server import TOKEN, MilvusServer
from postgres_server import PASSWORD, PostgresServer
from qdrant_wire import WireServer

from visir.records import Embeddings, Run
from visir.retrieval.kinds import build_index, open_index
from visir.retrieval.remote import engine as engine_module
from visir.retrieval.remote.engine import key_of
from visir.retrieval.remote.settings import MILVUS, PGVECTOR, QDRANT

__all__ = ["_quick", "at", "lite", "milvus", "mine", "pgvector", "postgres", "qdrant"]
"""The fixtures: `from engine_places import *`."""


@dataclass
class Place:
    """An engine under test: the kinds and settings by which visir gets there, and what others see and do there."""

    kinds: dict[str, str]
    settings: dict[str, Any] = field(default_factory=dict)
    names: Callable[[], list[str]] = list
    make_strange: Callable[[str], Any] = lambda name: None
    read_strange: Callable[[str], Any] = lambda name: None
    count: Callable[[str], int] = lambda name: 0
    lose: Callable[[str, str], object] = lambda name, id: None
    put_strange: Callable[..., object] = lambda name, key, vectors, payload: None
    away: Callable[[], None] = lambda: None
    back: Callable[[], None] = lambda: None
    secret: str = ""

    def build(self, documents: Any, form: str, folder: Path, **options: Any) -> Any:
        more = {"ef_search": 200} if form == "dense" else {}  # of a graph of so few documents: all of them
        return build_index(documents, self.kinds[form], folder, **self.settings, **more, **options)


QDRANT_KINDS = {"dense": "qdrant", "sparse": "qdrant-sparse"}


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture(scope="module")
def lite() -> Iterator[MilvusServer]:
    with MilvusServer() as server:
        yield server


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda _: None)
    monkeypatch.setattr(engine_module, "_PAUSE", 0.001)
    monkeypatch.delenv(QDRANT.key, raising=False)
    monkeypatch.setenv(PGVECTOR.key, PASSWORD)
    monkeypatch.setenv(MILVUS.key, TOKEN)


@pytest.fixture
def qdrant() -> Iterator[Place]:
    from qdrant_client import models

    with WireServer(key="secret") as server:

        def make(name: str) -> None:
            server.held.create_collection(name, vectors_config=models.VectorParams(size=1, distance="Dot"))
            server.held.upsert(name, [models.PointStruct(id=1, vector=[0.5], payload={"theirs": 1})])

        def put(name: str, key: str, vectors: dict[str, Any], payload: dict[str, Any]) -> None:
            given = {
                space: models.SparseVector(indices=vector[0].tolist(), values=vector[1].tolist())
                if isinstance(vector, tuple)
                else vector.tolist()
                for space, vector in vectors.items()
            }
            named = {"visir_added" if key == "added" else key: value for key, value in payload.items()}
            server.held.upsert(name, [models.PointStruct(id=ord(key), vector=given, payload=named)])

        with pytest.MonkeyPatch.context() as environment:
            environment.setenv(QDRANT.key, "secret")
            yield Place(
                QDRANT_KINDS,
                {"url": server.url, "retries": 0},
                names=lambda: sorted(entry.name for entry in server.held.get_collections().collections),
                make_strange=make,
                read_strange=lambda name: [
                    entry.model_dump() for entry in server.held.scroll(name, with_vectors=True)[0]
                ],
                count=server.count,
                lose=lambda name, id: server.held.delete(name, [str(key_of(id))]),
                put_strange=put,
                away=lambda: setattr(server, "away", True),
                back=lambda: setattr(server, "away", False),
                secret=QDRANT.key,
            )


@pytest.fixture
def pgvector(postgres: PostgresServer) -> Iterator[Place]:
    def names() -> list[str]:
        return [
            name
            for (name,) in postgres.ask(
                "SELECT relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace "
                "WHERE nspname = 'visir' AND relkind = 'r' ORDER BY 1"
            )
        ]

    def make(name: str) -> None:
        postgres.ask("CREATE SCHEMA IF NOT EXISTS visir")
        postgres.ask(f'CREATE TABLE visir."{name}" (id text, theirs int)')
        postgres.ask(f"COMMENT ON TABLE visir.\"{name}\" IS 'theirs'")
        postgres.ask(f"INSERT INTO visir.\"{name}\" VALUES ('x', 1)")

    def put(name: str, key: str, vectors: dict[str, Any], payload: dict[str, Any]) -> None:
        row = {"id": payload.get("id", key)} | ({"generation": payload["added"]} if "added" in payload else {})
        row |= {
            space: f"{dict(zip((vector[0] + 1).tolist(), vector[1].tolist(), strict=True))}/{TERMS}"
            if isinstance(vector, tuple)
            else str(vector.tolist())
            for space, vector in vectors.items()
        }
        postgres.ask(
            f'INSERT INTO visir."{name}" ({", ".join(row)}) VALUES ({", ".join(["%s"] * len(row))})', *row.values()
        )

    yield Place(
        {"dense": "pgvector", "sparse": "pgvector-sparse"},
        {"url": postgres.url, "retries": 0},
        names=names,
        make_strange=make,
        read_strange=lambda name: postgres.ask(
            f'SELECT *, (SELECT obj_description(\'visir."{name}"\'::regclass)) FROM visir."{name}"'
        ),
        count=lambda name: int(postgres.ask(f'SELECT count(*) FROM visir."{name}"')[0][0]),
        lose=lambda name, id: postgres.ask(f'DELETE FROM visir."{name}" WHERE id = %s', id),
        put_strange=put,
        away=postgres.stop,
        back=postgres.start,
        secret=PGVECTOR.key,
    )
    for name in names():
        postgres.ask(f'DROP TABLE visir."{name}"')


@pytest.fixture
def milvus(lite: MilvusServer, request: pytest.FixtureRequest) -> Iterator[Place]:
    if "sparse" in request.node.name or "both" in request.node.name:
        lite.needs_sparse()

    def put(name: str, key: str, vectors: dict[str, Any], payload: dict[str, Any]) -> None:
        given = {
            space: dict(zip(vector[0].tolist(), vector[1].tolist(), strict=True))
            if isinstance(vector, tuple)
            else vector.tolist()
            for space, vector in vectors.items()
        }
        row = {"key": key, "id": payload.get("id", ""), "added": payload.get("added", 0), "deleted": 2**62}
        lite.behind.insert(name, row | given)

    yield Place(
        {"dense": "milvus", "sparse": "milvus-sparse"},
        {"url": lite.url, "retries": 0},
        names=lite.names,
        make_strange=lite.behind.make_strange,
        read_strange=lambda name: (lite.rows(name), lite.behind.properties(name)),
        count=lambda name: len(lite.rows(name)),
        lose=lambda name, id: lite.behind.delete(name, key_of(id).hex),
        put_strange=put,
        away=lite.stop,
        back=lite.start,
        secret=MILVUS.key,
    )
    for name in lite.names():
        lite.behind.drop(name)


PLACES = ("qdrant", "pgvector", "milvus")
SERVERS = pytest.mark.parametrize("place", PLACES)


@pytest.fixture
def at(place: str, request: pytest.FixtureRequest) -> Place:
    found: Place = request.getfixturevalue(place)
    return found


@dataclass
class Mine:
    """An index of the first 30 of 40 documents in the collection "mine", and five queries."""

    at: Place
    folder: Path
    documents: Embeddings = field(default_factory=lambda: random_dense("image", 40, 1))
    queries: Embeddings = field(default_factory=lambda: random_dense("text", 5, 2))

    def __post_init__(self) -> None:
        self.ids: list[str] = self.documents.ids.to_pylist()
        self.index: Any = self.at.build(self.some(0, 30), "dense", self.folder, collection="mine")

    def some(self, start: int, stop: int = 40) -> Embeddings:
        """The documents from one place to another."""
        return self.documents.select(self.ids[start:stop])

    def open(self) -> Any:
        """The index as another process opens it."""
        return open_index(self.folder)

    def answers(self, index: Any, *, kept: Embeddings) -> bool:
        """Whether an index answers as one of these documents."""
        found, right = index.search(self.queries, 9), truth(kept, "dense", self.queries, 9)
        return all(found.answer(query) == right.answer(query) for query in self.queries.ids.to_pylist())


@pytest.fixture
def mine(at: Place, tmp_path: Path) -> Mine:
    return Mine(at, tmp_path / "index")


def truth(documents: Any, form: str, queries: Any, k: int) -> Run:
    return build_index(documents, TRUTH[form]).search(queries, k)
