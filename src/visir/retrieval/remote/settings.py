"""Settings of indexes in engines: where the engine is, and how it searches."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import urlsplit

from visir.errors import ConfigurationError
from visir.retrieval.remote.families import MILVUS, PGVECTOR, QDRANT, EngineFamily, family_of
from visir.retrieval.settings import setting

# What a collection (in PostgreSQL: a table) on a server is called, and how messages say where it is.

_LONGEST = 40
"""Letters of a name that are kept: PostgreSQL takes names of up to 63 bytes."""


def name_collection(name: str, number: str, part: str = "") -> str:
    """A name for a new collection: what it is of, and a piece of a random number, so that no two meet by chance."""
    plain = "".join(letter if letter.isalnum() and letter.isascii() else "-" for letter in name)
    stem = plain[: _LONGEST - len(part)].strip("-")
    return "-".join(filter(None, ["visir", stem, part, number[:12]]))


def place_on_server(settings: Mapping[str, Any]) -> str:
    """Where an index of these settings lies on its server, for people."""
    url, collection = settings["url"], settings["collection"]
    name = f"{settings['schema']}.{collection}" if settings.get("schema") else repr(collection)
    return f"the {family_of(url).holder} {name} at {url}"


@dataclass(frozen=True)
class Server:
    """Which server, and how patient visir is with it."""

    family: ClassVar[EngineFamily]

    url: str = setting("", "address of the server")
    collection: str = setting("", "name of the collection on the server; by default made from the folder's name")
    timeout: int = setting(60, "seconds to wait for an answer of the server", least=1)
    retries: int = setting(3, "times to ask again when the server does not answer, or is too busy to", least=0)

    def __post_init__(self) -> None:
        if self.url:
            self.family.check_address(self.url)


@dataclass(frozen=True)
class Place(Server):
    """Where Qdrant is."""

    family = QDRANT

    url: str = setting(
        "", "address of a Qdrant server or cluster (http://host:6333); without one, the engine is embedded"
    )
    shards: int = setting(0, "pieces into which a cluster splits the collection; 0: as the server thinks", least=0)
    replicas: int = setting(1, "copies of each piece in a cluster", least=1)
    grpc: int = setting(
        0,
        "gRPC port of the server (Qdrant's own: 6334), by which vectors go up in binary; 0: by HTTP",
        least=0,
        most=65_535,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.grpc and not self.url:
            raise ConfigurationError(
                f"grpc={self.grpc}: the embedded engine has no port.",
                hint="name a server too: url=http://HOST:6333",
                code="embedded-engine-no-port",
            )


def grpc_address(place: Place) -> str:
    """The address of the gRPC port of a server."""
    parts = urlsplit(place.url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{host}:{place.grpc}"


@dataclass(frozen=True)
class GraphSettings:
    """What a graph of near neighbours costs and how good it is."""

    # The defaults find 99 of 100 among 123,000 vectors of 256 dimensions at the least cost of a search
    # (docs/background/engines.md); fewer neighbours build in half the time and need twice the candidates.

    m: int = setting(
        32, "neighbours of a vector (twice as many in the lowest layer): more find better, 8 bytes each", least=2
    )
    ef_construction: int = setting(
        200, "candidates looked at when a vector is put in: more build slower and find better", least=1
    )
    ef_search: int = setting(
        48, "candidates kept while searching: more find better, time grows about in step", least=1, search=True
    )
    threads: int = setting(
        1,
        "threads that build the embedded graph, which is drawn by chance whatever their number (a server has its own "
        "setting)",
        least=1,
    )


@dataclass(frozen=True)
class Scored:
    """How dense vectors are compared."""

    similarity: str = setting("cosine", "cosine, or dot: vectors as they are", among=("cosine", "dot"))


@dataclass(frozen=True)
class DenseSettings(GraphSettings, Scored, Place):
    """An index of dense vectors in Qdrant."""


@dataclass(frozen=True)
class SeveralSettings(GraphSettings, Place):
    """An index of several vectors for each document in Qdrant."""

    # A graph is left out by default: each of its comparisons is a MaxSim, so that 2,000 documents of 32 vectors take
    # two minutes to build, and every document is compared as fast as the graph is walked.

    m: int = setting(
        0, "neighbours of a document in a graph, 16 or more; 0: no graph, every document is compared", least=0
    )


@dataclass(frozen=True)
class SparseSettings(Place):
    """An index of sparse vectors in Qdrant: its inverted lists have nothing to set."""


@dataclass(frozen=True)
class DatabasePlace(Server):
    """Where a table of PostgreSQL is. Each index has a table of its own, and touches no other."""

    family = PGVECTOR

    url: str = setting("", "address of a PostgreSQL database with pgvector (postgresql://user@host:5432/database)")
    collection: str = setting("", "name of the table; by default made from the folder's name")
    schema: str = setting("visir", "the schema in which the table is; it is made if it is not there")
    m: int = setting(
        16, "neighbours of a vector in the graph, 2 to 100; 0: no graph, every vector is compared", least=0, most=100
    )
    ef_construction: int = setting(
        200,
        "candidates looked at when a vector is put in, at least 2 m: more build slower and find better",
        least=4,
        most=1000,
    )
    ef_search: int = setting(
        48,
        "candidates kept while searching: more find better, time grows about in step",
        least=1,
        most=1000,
        search=True,
    )
    memory: int = setting(
        512, "megabytes of the server's memory for building the graph (maintenance_work_mem)", least=1
    )
    threads: int = setting(1, "processes of the server that build the graph", least=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.url:
            raise ConfigurationError(
                "url: an index in PostgreSQL needs the address of its server.", hint=f"--set url={PGVECTOR.example}"
            )
        for name in ("collection", "schema"):
            value = getattr(self, name)
            if len(value.encode()) > 63 or "\0" in value:
                raise ConfigurationError(f"{name}: PostgreSQL takes names of up to 63 bytes, not {value!r}.")
        if not self.schema:
            raise ConfigurationError("schema: a schema has a name.", hint="leave the setting out: it is visir then")
        if self.m and (self.m < 2 or self.ef_construction < 2 * self.m):
            raise ConfigurationError(
                f"m={self.m}, ef_construction={self.ef_construction}: pgvector takes m from 2, and ef_construction "
                "from 2 m."
            )


@dataclass(frozen=True)
class PgvectorSettings(DatabasePlace, Scored):
    """An index of dense vectors in PostgreSQL."""

    precision: str = setting(
        "float32",
        "float32 (type vector), or float16 (type halfvec): half the bytes, graphs of up to 4,000 values and not 2,000",
        among=("float32", "float16"),
    )


@dataclass(frozen=True)
class PgvectorSparseSettings(DatabasePlace):
    """An index of sparse vectors in PostgreSQL (type sparsevec)."""

    # A graph is left out by default: it takes vectors of up to 1,000 terms, and finds less than one of dense vectors.

    m: int = setting(
        0, "neighbours of a document in a graph, 16 or more; 0: no graph, every document is compared", least=0, most=100
    )


@dataclass(frozen=True)
class MilvusPlace(Server):
    """Where a collection of Milvus is. Names there have letters, digits and underscores: a hyphen becomes one."""

    family = MILVUS

    url: str = setting("", "address of a Milvus server or cluster (milvus://host:19530, milvus+tls://host:19530)")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.url:
            raise ConfigurationError(
                "url: an index in Milvus needs the address of its server.", hint=f"--set url={MILVUS.schemes[0]}://HOST"
            )
        object.__setattr__(self, "collection", self.collection.replace("-", "_"))
        if self.collection and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,254}", self.collection):
            raise ConfigurationError(
                f"collection: Milvus takes names of up to 255 letters, digits and underscores, the first no digit, not "
                f"{self.collection!r}."
            )


@dataclass(frozen=True)
class MilvusSettings(MilvusPlace, Scored):
    """An index of dense vectors in Milvus."""

    m: int = setting(
        32,
        "neighbours of a vector in the graph (twice as many in the lowest layer), 2 to 2,048; 0: no graph, every "
        "vector is compared",
        least=0,
        most=2048,
    )
    ef_construction: int = setting(
        200, "candidates looked at when a vector is put in: more build slower and find better", least=1
    )
    ef_search: int = setting(
        48,
        "candidates kept while searching: more find better, time grows about in step",
        least=1,
        most=32_768,
        search=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.m == 1:
            raise ConfigurationError("m=1: a graph of Milvus has 2 neighbours or more; 0 builds none.")


@dataclass(frozen=True)
class MilvusSparseSettings(MilvusPlace):
    """An index of sparse vectors in Milvus: its inverted lists have nothing to set."""
