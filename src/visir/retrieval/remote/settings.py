"""Settings of indexes in Qdrant: where the engine is, and how it searches."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from visir.errors import ConfigurationError
from visir.retrieval.settings import setting

KEY = "VISIR_QDRANT_API_KEY"
"""The environment variable that holds the server's API key. It is read when connecting and never written anywhere."""


@dataclass(frozen=True)
class Place:
    """Where the engine is."""

    url: str = setting(
        "", "address of a Qdrant server or cluster (http://host:6333); without one, the engine is embedded"
    )
    collection: str = setting("", "name of the collection on the server; by default made from the folder's name")
    shards: int = setting(0, "pieces into which a cluster splits the collection; 0: as the server thinks", least=0)
    replicas: int = setting(1, "copies of each piece in a cluster", least=1)
    timeout: int = setting(60, "seconds to wait for an answer of the server", least=1)
    retries: int = setting(3, "times to ask again when the server does not answer, or is too busy to", least=0)

    def __post_init__(self) -> None:
        if self.url:
            check_address(self.url)


@dataclass(frozen=True)
class GraphSettings:
    """What a graph of near neighbours costs and how good it is.

    The defaults find 99 of 100 among 123,000 vectors of 256 dimensions at the least cost of a search
    (docs/background/engines.md); fewer neighbours build in half the time and need twice the candidates.
    """

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
    """An index of several vectors for each document in Qdrant.

    A graph is left out by default: each of its comparisons is a MaxSim, so that 2,000 documents of 32 vectors take two
    minutes to build, and every document is compared as fast as the graph is walked.
    """

    m: int = setting(
        0, "neighbours of a document in a graph, 16 or more; 0: no graph, every document is compared", least=0
    )


@dataclass(frozen=True)
class SparseSettings(Place):
    """An index of sparse vectors in Qdrant: its inverted lists have nothing to set."""


def check_address(url: str) -> None:
    """Check the address of a server. The manifest stores it, so it must not contain a secret.

    Raises:
        ConfigurationError: It is not an address, or it contains a user, a password or a query.
    """
    try:
        parts = urlsplit(url)
        port_is_fine = parts.port is None or parts.port > 0
    except ValueError:
        port_is_fine, parts = False, urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_is_fine:
        raise ConfigurationError(
            f"url: {url!r} is no address of a server.", hint="like http://localhost:6333 or https://host:6333"
        )
    if not url.isprintable() or any(letter.isspace() for letter in url):
        raise ConfigurationError(f"url: {url!r} is no address of a server.", hint="without spaces, on one line")
    if parts.username or parts.password or parts.query:
        raise ConfigurationError(
            f"url: the address of {parts.hostname} holds a user, a password or a query, which would be written into "
            "the index's folder.",
            hint=f"leave it out of the address and set the environment variable {KEY}",
        )
