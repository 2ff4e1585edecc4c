"""Settings of indexes in engines: which engines there are, where one is, and how it searches."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import unquote, urlsplit

from visir.display import counted
from visir.errors import ConfigurationError, EmbeddingError
from visir.plugins import ENGINES as GROUP
from visir.registry import Registry
from visir.retrieval.settings import setting

if TYPE_CHECKING:
    import pyarrow as pa

# How a message shows the address of a server: without what may be a secret, though the address be wrong.

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_MARK = re.compile("[?#;]")


def without_secret(url: str) -> str:
    """An address, right or wrong, as a message may show it: without what may be a secret."""
    # That is what stands before "@" and behind "?", "#" or ";". Of an address that cannot be told apart from its secret
    # (the port is no number, a space, "@" or "=" stands where no address has one), no more than the scheme is shown.
    start = _SCHEME.match(url)
    scheme = start[0] if start else ""
    address, mark, rest = _cut(url.removeprefix(scheme))
    _, at, shown = address.rpartition("@")
    no_port = any(_is_no_port(part) for part in shown.split("/"))
    broken = not scheme and ("//" in shown or ":/" in shown)
    spaced = any(letter.isspace() for letter in url)
    if "=" in address or "@" in rest or (at and not scheme) or no_port or broken or spaced:
        return f"{scheme}…"
    return f"{scheme}{at and '…@'}{shown}{mark and f'{mark}…'}"


def _is_no_port(part: str) -> bool:
    """Whether something else than a number follows a ":" here, in whatever part of an address."""
    port = part.rpartition("]")[2].partition(":")[2]
    return bool(port) and not (port.isascii() and port.isdecimal())


def _cut(address: str) -> tuple[str, str, str]:
    """What is before the first "?", "#" or ";" of an address, which of them it is, and what follows."""
    mark = _MARK.search(address)
    return (address[: mark.start()], mark[0], address[mark.end() :]) if mark else (address, "", "")


@dataclass(frozen=True)
class EngineFamily:
    """One engine."""

    name: str  # the name of the family, which its kinds begin with
    title: str  # what people call it
    schemes: tuple[str, ...]  # with what its addresses begin
    port: int  # of a server whose address names none
    example: str  # an address
    addresses: str  # the environment variable with the servers that the user trusts, and that the secret is for
    key: str  # the environment variable with the secret. It is read when connecting and never written anywhere.
    certificate: str  # the environment variable with a PEM file of certificates to trust
    takes_user: bool = False  # whether an address may name a user
    # Whether an address may name the folder of a Unix socket in the place of a host (`host_of`).
    takes_socket: bool = False
    holder: str = "collection"  # what holds the vectors of one index there
    encrypted: str = ""  # the scheme of addresses that are asked with TLS, where the scheme says so
    most_answers: int = 0  # how many answers it gives to one search at most; 0: as many as asked for
    longest_id: int = 0  # how many bytes of UTF-8 an id may have; 0: as many as it likes
    takes_nul: bool = True  # whether an id may hold the character NUL
    # Whether the path of an address may hold any character, as the name of a database may; else it is the beginning of
    # paths on the server (https://host/qdrant).
    takes_any_path: bool = True
    # "package.module:Class", imported when a server is asked: the `Engine`, and the settings that say where one is.
    engine: str = ""
    place: str = ""

    def check_address(self, url: str) -> None:
        """Check the address of a server. The manifest stores it, so it must not contain a secret."""
        try:
            parts = urlsplit(url)
            port_is_fine = parts.port is None or parts.port > 0
        except ValueError:
            port_is_fine, parts = False, urlsplit("")
        socket = socket_of(url) if port_is_fine and self.takes_socket else ""
        query = "" if socket else parts.query
        hidden = parts.password or query or parts.fragment  # not to be shown
        named = parts.hostname and not parts.hostname.startswith("%")
        wrong = ""
        if parts.scheme not in self.schemes or not port_is_fine or not (named or socket or hidden):
            wrong = f"like {self._examples()}"
        elif not url.isprintable() or any(letter.isspace() for letter in url):
            wrong = "without spaces, on one line"
        elif not self.takes_any_path and not _PLAIN_PATH.fullmatch(parts.path) and not hidden:
            wrong = "its path takes letters, digits and any of / . _ ~ % : @ + , = -, as in https://host/qdrant"
        if wrong:
            raise ConfigurationError(
                f"url: {without_secret(url)!r} is no address of a server of {self.title}.",
                hint=wrong,
                code="no-address-server",
            )
        if (parts.username and not self.takes_user) or hidden:
            secrets = "a password, a query or a fragment"
            secrets = secrets if self.takes_user else f"a user, {secrets}"
            raise ConfigurationError(
                f"url: the address of {parts.hostname or 'the server'} holds {secrets}, which would be written into "
                "the index's folder.",
                hint=f"leave it out of the address and set the environment variable {self.key}: {self._examples()}",
            )

    def _examples(self) -> str:
        return self.example + (f"; over a Unix socket: {SOCKET_EXAMPLE}" if self.takes_socket else "")

    def check_ids(self, ids: pa.StringArray) -> None:
        """Check, before anything is sent, that the server can hold these ids."""
        import pyarrow.compute as pc

        if self.longest_id:
            long = ids.filter(pc.greater(pc.binary_length(ids), self.longest_id))
            if len(long):
                first = long[0].as_py()
                raise EmbeddingError(
                    f"{counted(len(long), 'ids', 'are')} too long for {self.title}, which takes "
                    f"{self.longest_id:,} bytes: {first[:50]!r}… has {len(first.encode()):,}.",
                    hint="give these documents shorter ids",
                )
        if not self.takes_nul:
            wrong = ids.filter(pc.match_substring(ids, "\0"))
            if len(wrong):
                raise EmbeddingError(
                    f"{self.title} holds no text with the character NUL, which {counted(len(wrong), 'ids', 'have')}: "
                    f"{wrong[0].as_py()[:50]!r}.",
                    hint="give these documents other ids",
                )


_PLAIN_PATH = re.compile(r"[A-Za-z0-9/._~%:@+,=-]*")
SOCKET_EXAMPLE = "postgresql:///database?host=/var/run/postgresql"
QDRANT = EngineFamily(
    name="qdrant",
    title="Qdrant",
    schemes=("http", "https"),
    port=6333,
    example="http://localhost:6333 or https://host:6333",
    addresses="VISIR_QDRANT_URL",
    key="VISIR_QDRANT_API_KEY",
    certificate="VISIR_QDRANT_CERTIFICATE",
    encrypted="https",
    takes_any_path=False,
    place="visir.retrieval.remote.settings:Place",
)
PGVECTOR = EngineFamily(
    name="pgvector",
    title="PostgreSQL",
    schemes=("postgresql", "postgres"),
    port=5432,
    example="postgresql://user@localhost:5432/database",
    addresses="VISIR_PGVECTOR_URL",
    key="VISIR_PGVECTOR_PASSWORD",
    certificate="VISIR_PGVECTOR_CERTIFICATE",
    takes_user=True,
    takes_socket=True,
    holder="table",
    longest_id=2_690,  # a key of a B-tree has up to 2,704 bytes, its header among them
    takes_nul=False,
    place="visir.retrieval.remote.settings:DatabasePlace",
)
MILVUS = EngineFamily(
    name="milvus",
    title="Milvus",
    schemes=("milvus", "milvus+tls"),
    port=19530,
    example="milvus://localhost:19530 or milvus+tls://host:19530/database",
    addresses="VISIR_MILVUS_URL",
    key="VISIR_MILVUS_TOKEN",
    certificate="VISIR_MILVUS_CERTIFICATE",
    encrypted="milvus+tls",
    most_answers=16_384,  # its quota topKLimit
    longest_id=65_535,  # of a field of type VARCHAR
    place="visir.retrieval.remote.settings:MilvusPlace",
)
FAMILIES: Registry[EngineFamily] = Registry("engine", group=GROUP, of=EngineFamily)
for _family in (QDRANT, PGVECTOR, MILVUS):
    FAMILIES.add(_family.name, _family)


def family_of(url: str) -> EngineFamily:
    """The family of the server at this address, by its scheme."""
    scheme = url.partition(":")[0]
    for family in map(FAMILIES.get, FAMILIES):
        if scheme in family.schemes:
            return family
    raise ConfigurationError(
        f"url: {without_secret(url)!r} is no address of a server.",
        hint=" or ".join(f"like {family.example}" for family in map(FAMILIES.get, FAMILIES)),
    )


def host_of(url: str) -> str:
    """The host of an address, or the folder of its Unix socket; "" where there is neither."""
    return urlsplit(url).hostname or socket_of(url)


def socket_of(url: str) -> str:
    """The folder of the Unix socket that an address of PostgreSQL names instead of a host; "" where it names none."""
    # One folder alone: PostgreSQL's client takes a list too (host=/tmp,other.example), which would lead elsewhere.
    parts = urlsplit(url)
    name, _, value = parts.query.partition("=")
    folder = unquote(value)
    is_folder = folder.startswith("/") and folder.isprintable() and not set(folder) & set(",&=")
    return folder if name == "host" and is_folder and not parts.hostname else ""


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
        if not self.url:
            raise ConfigurationError(
                f"url: an index in {self.family.title} needs the address of its server.",
                hint=f"--set url={self.family.example}; kinds exact, inverted and maxsim need no server",
                code="index-needs-address-server",
            )
        self.family.check_address(self.url)


@dataclass(frozen=True)
class Place(Server):
    """Where Qdrant is."""

    family = QDRANT

    url: str = setting("", "address of a Qdrant server or cluster (http://host:6333)")
    shards: int = setting(0, "pieces into which a cluster splits the collection; 0: as the server thinks", least=0)
    replicas: int = setting(1, "copies of each piece in a cluster", least=1)
    grpc: int = setting(
        0,
        "gRPC port of the server (Qdrant's own: 6334), by which vectors go up in binary; 0: by HTTP",
        least=0,
        most=65_535,
    )


def grpc_address(place: Place) -> str:
    """The address of the gRPC port of a server."""
    parts = urlsplit(place.url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{host}:{place.grpc}"


def _candidates(most: int | None = None) -> Any:
    about = "candidates kept while searching: more find better, time grows about in step"
    return setting(48, about, least=1, most=most, search=True)


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
    ef_search: int = _candidates()


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
    ef_search: int = _candidates(1000)
    memory: int = setting(
        512, "megabytes of the server's memory for building the graph (maintenance_work_mem)", least=1
    )
    threads: int = setting(1, "processes of the server that build the graph", least=1)

    def __post_init__(self) -> None:
        super().__post_init__()
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
        object.__setattr__(self, "collection", self.collection.replace("-", "_"))
        if self.collection and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,254}", self.collection):
            raise ConfigurationError(
                f"collection: Milvus takes names of up to 255 letters, digits and underscores, the first no digit, not "
                f"{self.collection!r}."
            )


@dataclass(frozen=True)
class MilvusSettings(GraphSettings, MilvusPlace, Scored):
    """An index of dense vectors in Milvus."""

    m: int = setting(
        32,
        "neighbours of a vector in the graph (twice as many in the lowest layer), 2 to 2,048; 0: no graph, every "
        "vector is compared",
        least=0,
        most=2048,
    )
    ef_search: int = _candidates(32_768)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.m == 1:
            raise ConfigurationError("m=1: a graph of Milvus has 2 neighbours or more; 0 builds none.")


@dataclass(frozen=True)
class MilvusSparseSettings(MilvusPlace):
    """An index of sparse vectors in Milvus: its inverted lists have nothing to set."""
