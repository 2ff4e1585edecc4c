"""The engines behind addresses, as data: how an address of each looks, where its secret is, and the class that asks it.

A new engine is one entry here, one file with a `RemoteEngine`, its settings, and its kinds in `visir.retrieval.kinds`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from visir.display import counted
from visir.errors import ConfigurationError, EmbeddingError

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
    engine_class: str  # "package.module:Class" of its `RemoteEngine`
    place_class: str  # "package.module:Class" of the settings that say where a server is
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

    def engine(self) -> type[Any]:
        """The `RemoteEngine` that asks a server of this family."""
        engine: type[Any] = _named(self.engine_class)
        return engine

    def place(self) -> type[Any]:
        """The settings that say where a server of this family is."""
        place: type[Any] = _named(self.place_class)
        return place

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
        if parts.scheme not in self.schemes or not port_is_fine or not (named or socket or hidden):
            raise ConfigurationError(
                f"url: {without_secret(url)!r} is no address of a server of {self.title}.",
                hint=f"like {self._examples()}",
                code="no-address-server",
            )
        if not url.isprintable() or any(letter.isspace() for letter in url):
            raise ConfigurationError(
                f"url: {without_secret(url)!r} is no address of a server of {self.title}.",
                hint="without spaces, on one line",
                code="no-address-server",
            )
        if not self.takes_any_path and not _PLAIN_PATH.fullmatch(parts.path) and not hidden:
            raise ConfigurationError(
                f"url: {without_secret(url)!r} is no address of a server of {self.title}.",
                hint="its path takes letters, digits and any of / . _ ~ % : @ + , = -, as in https://host/qdrant",
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
    engine_class="visir.retrieval.remote.server:ServerEngine",
    place_class="visir.retrieval.remote.settings:Place",
    encrypted="https",
    takes_any_path=False,
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
    engine_class="visir.retrieval.remote.postgres:PostgresEngine",
    place_class="visir.retrieval.remote.settings:DatabasePlace",
    takes_user=True,
    takes_socket=True,
    holder="table",
    longest_id=2_690,  # a key of a B-tree has up to 2,704 bytes, its header among them
    takes_nul=False,
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
    engine_class="visir.retrieval.remote.milvus:MilvusEngine",
    place_class="visir.retrieval.remote.settings:MilvusPlace",
    encrypted="milvus+tls",
    most_answers=16_384,  # its quota topKLimit
    longest_id=65_535,  # of a field of type VARCHAR
)
FAMILIES = (QDRANT, PGVECTOR, MILVUS)


def family_of(url: str) -> EngineFamily:
    """The family of the server at this address, by its scheme."""
    scheme = url.partition(":")[0]
    for family in FAMILIES:
        if scheme in family.schemes:
            return family
    raise ConfigurationError(
        f"url: {without_secret(url)!r} is no address of a server.",
        hint=" or ".join(f"like {family.example}" for family in FAMILIES),
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


def _named(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)
