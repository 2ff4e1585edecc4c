"""What visir asks of an engine, and what all engines share: who is asked, who gets the key, and a change as a whole.

A folder's manifest says where its vectors lie, and whoever made the folder wrote it. So an address counts only when the
user has named it: in the environment (`VISIR_QDRANT_URL`, `VISIR_PGVECTOR_URL`, `VISIR_MILVUS_URL`), or as a setting in
this very process (`--set url=…`, `build(…, url=…)`). The key goes to the addresses that stand beside it in the
environment; where none does, to those named in this process; never in clear over a network.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import ssl
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self, TypeAlias, TypeVar
from urllib.parse import urlsplit
from uuid import NAMESPACE_URL, UUID, uuid5

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.errors import ConfigurationError, VisirError
from visir.records import VectorForm
from visir.remote import is_loopback
from visir.retrieval.remote.settings import (
    FAMILIES,
    EngineFamily,
    Place,
    Server,
    family_of,
    grpc_address,
    host_of,
    place_on_server,
)

T = TypeVar("T")
BUILD_ON_SERVER = "build the index again (visir index build), into a new folder"
"""The hint of an `EngineError` that a new build mends."""
_PAUSE = 0.5
"""Seconds before the first repetition; each further one waits twice as long."""


class EngineError(VisirError):
    """The engine cannot be reached, refuses, or holds something else than the index's folder says."""


def no_answer(place: Server, what: str, why: object, check: str) -> EngineError:
    """The error of a server that is away."""
    return EngineError(
        f"{place.url}: no answer, asked {place.retries + 1} times to {what}: {why}",
        hint=f"is the server running, and is this its address? {check}",
        code="no-answer-asked-times",
    )


def is_no_answer(fault: Exception) -> bool:
    """Whether an error is that of a server that is away."""
    return getattr(fault, "code", "") == "no-answer-asked-times"


def repeated(place: Server, request: Callable[[], T], is_away: Callable[[Exception], bool]) -> T:
    """What a request returns that can be sent twice without harm: sent again where the server was away."""
    for attempt in range(place.retries):
        try:
            return request()
        except Exception as fault:
            if not is_away(fault):
                raise
        time.sleep(_PAUSE * 2**attempt)
    return request()


# Which servers may be asked, and which of them gets the key.

_named: set[tuple[str, str, int]] = set()


def name_address(url: str, grpc: object = 0) -> None:
    """Record that the user has named this server in this process, and its gRPC port."""
    family = family_of(url)
    family.check_address(url)
    scheme, host, port = _server(url, family)
    _named.add((scheme, host, port))
    if grpc and str(grpc).isdecimal():
        _named.add((scheme, host, int(str(grpc))))


def is_named(url: str) -> bool:
    """Whether the user has named this server."""
    family = family_of(url)
    return _server(url, family) in _named | _trusted(family)


def check_named(url: str) -> None:
    """Check that the user has named this server; nothing is sent to other servers."""
    if not is_named(url):
        raise EngineError(
            f"{url}: the vectors lie on this server, which nobody has named here; nothing was sent to it.",
            hint=f"if you trust it, and whoever made the folder: {naming([url])}",
            code="vectors-lie-server-nobody",
        )


def naming(urls: Iterable[str]) -> str:
    """The command of a shell after which visir may ask these servers of one engine, and those that it may ask now."""
    added = list(urls)
    variable = family_of(added[0]).addresses
    return f"export {variable}={shlex.quote(' '.join([*os.environ.get(variable, '').split(), *added]))}"


def needed_later(indexes: Iterable[Mapping[str, Any]]) -> list[str]:
    """What other commands need before they may ask the servers of these indexes: a line for each engine."""
    # A server that this very command has named (`--set url=…`) is known to this process alone. There is no line where
    # the environment names it.
    servers: dict[tuple[str, str, int], str] = {}
    for settings in indexes:
        url, grpc = settings.get("url"), settings.get("grpc")
        # Where it is asked, and where vectors go up.
        for address in [url, *([grpc_address(Place(url=url, grpc=grpc))] if grpc else [])] if url else []:
            servers.setdefault(_server(address, family_of(address)), address)
    lines = []
    for family in map(FAMILIES.get, FAMILIES):
        urls = [url for server, url in servers.items() if family_of(url) is family and server not in _trusted(family)]
        if urls:
            key = f"{family.key} as it is now, and " if any(map(secret_for, urls)) else ""
            lines.append(f"later commands need {key}this: {naming(urls)}")
    return lines


def secret_for(url: str) -> str | None:
    """Return the secret (an API key, a password) for this server, or None."""
    family = family_of(url)
    key, trusted = os.environ.get(family.key), _trusted(family)
    return key if key and _server(url, family) in (trusted or _named) else None


def key_for(url: str) -> str | None:
    """Return the key for a server whose address says by its scheme whether it is asked with TLS, or None."""
    family, key = family_of(url), secret_for(url)
    parts = urlsplit(url)
    if key is not None and parts.scheme != family.encrypted and not is_loopback(parts.hostname or ""):
        raise EngineError(
            f"{url}: the key ({family.key}) would be sent there in clear, without TLS.",
            hint=f"name the server by {family.encrypted}:// (a certificate of its own: {family.certificate}=FILE), "
            f"reach it through a tunnel on 127.0.0.1, or unset {family.key}",
            code="key-sent-clear-without",
        )
    return key


def why_no_key(url: str) -> str:
    """Return why a server that requires a secret got none, or did not accept it."""
    family = family_of(url)
    if not os.environ.get(family.key):
        return f"the environment variable {family.key} is not set"
    if secret_for(url) is None:
        where = family.addresses
        return f"{family.key} goes to {os.environ.get(where)} alone: add this address to {where} if it is for it too"
    return f"the environment variable {family.key} is set, and is not accepted"


def trust(url: str) -> ssl.SSLContext | bool:
    """What the server's certificate is checked against; nothing without TLS (to read all of them takes 25 ms)."""
    family = family_of(url)
    file = os.environ.get(family.certificate)
    encrypted = urlsplit(url).scheme == family.encrypted
    if not encrypted or not file:
        return encrypted
    try:
        return ssl.create_default_context(cafile=file)
    except (OSError, ssl.SSLError) as fault:
        raise ConfigurationError(
            f"{family.certificate}: {file}: no certificates can be read there: {fault}",
            hint="name a PEM file",
            code="no-certificates-read",
        ) from fault


def channel_options(host: str) -> dict[str, int]:
    """Options of gRPC: a channel of its own, that waits for no other one's failures; to this machine by no proxy."""
    return {"grpc.use_local_subchannel_pool": 1} | ({"grpc.enable_http_proxy": 0} if is_loopback(host) else {})


def _trusted(family: EngineFamily) -> set[tuple[str, str, int]]:
    servers = set()
    for url in os.environ.get(family.addresses, "").split():
        try:
            family.check_address(url)
        except ConfigurationError as fault:
            raise ConfigurationError(
                f"{family.addresses}: {fault.message}", hint=fault.hint, code=fault.code
            ) from fault
        servers.add(_server(url, family))
    return servers


def _server(url: str, family: EngineFamily) -> tuple[str, str, int]:
    """Which server an address leads to: how it is asked, its host and its port."""
    parts = urlsplit(url)
    scheme = parts.scheme if family.encrypted else family.name
    return scheme, host_of(url), parts.port or family.port


# Documents in, near documents out.

SparseVector: TypeAlias = tuple[NDArray[np.int32], NDArray[np.float32]]
"""Terms, ascending, and their weights."""
Vector: TypeAlias = NDArray[np.float32] | SparseVector
"""A dense vector (d,), several of them (n, d), or a sparse one."""


@dataclass(frozen=True)
class Point:
    """One document in the engine: its id and its vectors by name."""

    id: str
    vectors: dict[str, Vector]


def key_of(id: str) -> UUID:
    """The point's id in Qdrant: the UUID (version 5, in the namespace of URLs) of "visir:" and the document's id."""
    return uuid5(NAMESPACE_URL, f"visir:{id}")


def own_id(key: str, id: object) -> str | None:
    """The id, if the engine has the document under the key that belongs to it; else None (it is another program's)."""
    return id if isinstance(id, str) and key.replace("-", "") == key_of(id).hex else None


@dataclass(frozen=True)
class Space:
    """One named vector of a collection: what it is called, of how many values (or terms of a vocabulary), and its
    form."""

    # Several vectors of a document are compared with MaxSim, all others by inner product.

    name: str
    dimension: int
    form: VectorForm = "dense"


class EngineHit(NamedTuple):
    """A document that was found, and the vector that it was found by (None where none was asked for)."""

    id: str | None  # None if another program has put it there
    score: float
    vector: Vector | None = None


@dataclass(frozen=True)
class Nearest:
    """Search by one vector: in which space, how many, and how thoroughly."""

    space: str  # the name of the space
    vector: Vector  # the vector of the query
    limit: int  # the number of documents, from 1
    ef: int | None = None  # candidates kept while a graph is searched; None where there is no graph
    exact: bool = False  # whether every document is looked at


def alike(questions: Sequence[Nearest]) -> list[tuple[Nearest, list[int]]]:
    """Searches that differ in their vectors alone, to be asked together: the first of them, and the places of all."""
    groups: dict[tuple[str, int, int | None, bool], list[int]] = {}
    for at, question in enumerate(questions):
        groups.setdefault((question.space, question.limit, question.ef, question.exact), []).append(at)
    return [(questions[places[0]], places) for places in groups.values()]


@dataclass(frozen=True)
class Mark:
    """What a collection says of itself, so that a folder never works with one that is not its own."""

    index: str = ""  # the number of the index, drawn once
    generation: int = 0  # how many changes it has seen
    complete: bool = False  # whether its build came to an end
    change: str = ""  # the number of the last change, drawn for it; "" for the build
    documents: int = 0  # how many documents there are


PAGE = 4096
"""Documents in one answer, where many are listed."""


class Engine(ABC):
    """One collection behind an address."""

    # A change of many documents is seen in one step: `begin`, then `upsert` or `delete`, then `mark`; or `undo`.
    # Documents carry the generation that added them: who searches sees those up to the generation `seen`.

    uploads = 1
    seen = 0
    index = ""
    before = 0

    def __init__(self, collection: str, place: Any) -> None:
        """Nothing is asked yet; `EngineError` for a server that nobody has named."""
        check_named(place.url)
        self.collection, self.place = collection, place

    @classmethod  # noqa: B027
    def check_vectors(cls, vectors: Any, settings: Any, *, alone: bool = True) -> None:
        """Raise `EmbeddingError` for vectors that this engine cannot hold; `alone`: in a collection of one space."""

    @classmethod
    @abstractmethod
    def create(cls, collection: str, spaces: Sequence[Space], settings: Any, index: str) -> Self:
        """A new collection, not complete until it is marked; `EngineError` when there is one of this name."""

    @abstractmethod
    def exists(self) -> bool:
        """Whether there is a collection of this name."""

    @abstractmethod
    def upsert(self, points: Sequence[Point]) -> None:
        """Put documents in, in the place of those that are there under the same id."""

    @abstractmethod
    def delete(self, ids: Sequence[str]) -> None:
        """Take documents out; those that are not there are passed over."""

    def settle(self) -> None:  # noqa: B027
        """Build what searches need, as far as this engine does so on demand, and put everything on disk."""

    @abstractmethod
    def search(
        self, questions: Sequence[Nearest], *, vectors: bool, allowed: Sequence[str] | None = None
    ) -> list[list[EngineHit]]:
        """The nearest documents by inner product for each of several searches, in one request for those that are alike;
        with their `vectors`, or without; among all documents, or among those `allowed`."""

    @abstractmethod
    def get(self, ids: Sequence[str], space: str) -> Mapping[str, Vector | None]:
        """The vectors of these documents in this space (None: it has none there); unknown ones are left out."""

    @abstractmethod
    def ids(self, generation: int, among: Sequence[str] | None = None) -> Iterable[str]:
        """The ids, in any order, of the documents that this generation has; of all, or of those `among` these."""

    @abstractmethod
    def count(self, generation: int) -> int:
        """How many documents this generation has, counted by the server."""

    @abstractmethod
    def read_mark(self) -> Mark:
        """What the collection says of itself; an empty mark for one that visir has not made."""

    @abstractmethod
    def begin(self, mark: Mark, change: str) -> None:
        """Begin a change of the collection, which has this mark; for the change this number was drawn."""
        # From here to its end, `before` is how many documents there are without it.

    @abstractmethod
    def mark(self, mark: Mark) -> None:
        """Say on the server that the collection is complete as of this change, and make the change visible."""

    @abstractmethod
    def undo(self) -> None:
        """Take back the change that is under way."""

    def about(self) -> dict[str, Any]:
        """What the engine says of the collection."""
        return {}

    def close(self) -> None:  # noqa: B027
        """Let go of it."""

    @abstractmethod
    def destroy(self) -> None:
        """Delete the collection: only one whose mark names this index is given to it."""

    @classmethod
    @abstractmethod
    def removal(cls, url: str, collection: str, settings: Mapping[str, Any]) -> str:
        """The command by which a person deletes a collection."""

    def where(self) -> str:
        """What the collection is called, and at which address, for messages."""
        return place_on_server({**vars(self.place), "collection": self.collection})

    def check(self, index: str, generation: int, change: str = "") -> Mark:
        """The mark of the collection, which must be that of this index, and know of the changes that its folder
        does."""
        mark = self.read_mark()
        if not isinstance(mark, Mark):
            raise self.wrong(f"says {mark!r} of its collection, which is no `Mark`")
        if mark.index != index or not mark.complete:
            raise self._another()
        done = bool(change) and (mark.generation, mark.change) == (generation + 1, change)
        if mark.generation > generation and not done:
            raise EngineError(
                f"{self.where()} was changed through another copy of this index's folder: it knows of "
                f"{mark.generation} changes, this folder of {generation}.",
                hint="copy that folder here; only one copy may be changed",
                code="knows-changes-folder",
            )
        if mark.generation < generation:
            raise self._older(mark, generation)
        return mark

    def check_own(self, *, any_found: bool = True) -> None:
        """Check that what was read is of the index that was opened; one small request, sent after that of the
        reading."""
        seen = self.seen  # before the mark is read: another thread may change the index meanwhile
        mark = self.read_mark()
        if mark.index != self.index:
            raise self._another()
        if mark.generation < seen:
            raise self._older(mark, seen)
        if not any_found and mark.generation > seen and self.count(seen) == 0:
            raise EngineError(
                f"{self.where()}: every document that this index had when it was opened was deleted by another "
                "process meanwhile.",
                hint="open the index again, and see what it holds now",
            )

    def listed(self) -> pa.StringArray:
        """The ids of all documents that are seen, sorted."""
        ids = self._text(self.ids(self.seen))
        ids = ids.take(pc.sort_indices(ids))
        if len(ids) and pc.any(pc.equal(ids[1:], ids[:-1])).as_py():
            raise self.wrong("lists an id twice")
        return ids

    def held(self, ids: pa.StringArray) -> pa.StringArray:
        """Those of these ids that are there as of the last change."""
        generation = self.read_mark().generation
        pages = (ids[start : start + PAGE].to_pylist() for start in range(0, len(ids), PAGE))
        there = self._text([id for page in pages for id in self.ids(generation, page)])
        return ids.filter(pc.is_in(ids, there))

    def _text(self, ids: Iterable[str]) -> pa.StringArray:
        try:
            return pa.array(list(ids), pa.string())
        except (pa.ArrowException, TypeError) as fault:
            raise self.wrong(f"lists ids that are no texts ({fault})") from fault

    def wrong(self, what: str) -> EngineError:
        """The error of an engine that answers what no engine may."""
        return EngineError(
            f"{self.where()}: the engine {what}.",
            hint=f"try again; if that does not help, tell the maker of {type(self).__module__}.{type(self).__name__}",
            code="engine-answers-wrong",
        )

    def counted(self) -> int:
        """How many documents that are seen the server holds; a warning where its mark names another number."""
        held, mark = self.count(self.seen), self.read_mark()
        if (mark.index, mark.generation) == (self.index, self.seen):  # else a later change has deleted some
            self.warn_of_difference(mark.documents, held)
        return held

    def warn_of_difference(self, documents: int, held: int) -> None:
        """Warn if the server holds another number of documents than visir has put there."""
        if held == documents:
            return
        fewer = (
            "were documents deleted there past visir? An update of a library adds them again; to a single index, add "
            "those that are missing"
        )
        more = "did another program put some there?"
        warnings.warn(
            f"{self.where()} holds {held:,} documents; by this index's own changes it should hold {documents:,}. "
            f"The number on the server counts from here on. {fewer if held < documents else more}",
            stacklevel=1,
        )

    def _older(self, mark: Mark, generation: int) -> EngineError:
        return EngineError(
            f"{self.where()} is older than this index's folder: it knows of {mark.generation} changes, the folder "
            f"of {generation}.",
            hint=f"was the server restored from a backup? restore the folder of that time too; or {BUILD_ON_SERVER}",
        )

    def _another(self) -> EngineError:
        return EngineError(
            f"{self.where()} is not the one that this index's folder was made with.",
            hint=f"was it deleted and made anew? {BUILD_ON_SERVER}",
            code="not-one-index-folder",
        )

    def gone(self) -> EngineError:
        """The error of a collection that is not there."""
        return EngineError(
            f"{self.where()} does not exist.", hint=f"was it deleted? {BUILD_ON_SERVER}", code="not-exist"
        )

    def check_no_collection(self) -> None:
        """Check that there is no collection of this name."""
        if not self.exists():
            return
        mark = self.read_mark()
        delete = f"delete it ({self.removal(self.place.url, self.collection, vars(self.place))})"
        if mark.index and not mark.complete:
            raise EngineError(
                f"{self.where()} is half-made: a build was killed, or is still running.",
                hint=f"if none is running, {delete}; or name another: collection=NAME",
                code="build-killed-still-running",
            )
        if not mark.index:
            raise EngineError(
                f"{self.where()} exists already, and visir has not made it.",
                hint="name another: collection=NAME",
                code="exists-already-visir-not",
            )
        raise EngineError(
            f"{self.where()} exists already.",
            hint=f"name another (collection=NAME), or {delete} if nobody needs it",
            code="exists-already",
        )


# Servers without transactions: documents change one request after another, and yet a change counts as a whole.

_DRAWN = 2**24
"""Numbers of one generation; 2²⁹ generations are below 2⁵³, up to which JSON and Qdrant's filters are exact."""
_LAST = 2**53


class StepwiseEngine(Engine):
    """A collection whose documents have the two numbers above. What its server has to do for a change is below."""

    # The documents of a change are counted before it is marked, and after. So a write that was lost is noticed, and one
    # of a killed change that arrives late. Two copies of the folder that are changed at the same time notice it.

    added, deleted = "added", "deleted"
    """What a document's two numbers are called there."""
    _before = Mark()
    """The mark that the change under way began with, or the last one that was written."""
    _change = ""
    _under_way = False

    @abstractmethod
    def take_back(self, first: int, last: int) -> None:
        """Remove the documents that the changes of these numbers added, and take back what they marked as deleted."""

    @abstractmethod
    def remove_deleted(self, last: int) -> None:
        """Remove the documents that were marked as deleted by changes up to this number."""

    @abstractmethod
    def count_between(self, name: str, first: int, last: int) -> int:
        """How many documents have one of these numbers under this name."""

    @abstractmethod
    def write_mark(self, mark: Mark) -> None:
        """Write the mark, in one step."""

    def count_changed(self, first: int, last: int) -> tuple[int, int]:
        """How many documents the changes of these numbers have added, and how many they have marked as deleted."""
        return self.count_between(self.added, first, last), self.count_between(self.deleted, first, last)

    @property
    def number(self) -> int:
        """The number of the change under way."""
        return first_number(self._before.generation + 1) + int(self._change[:6] or "0", 16)

    def begin(self, mark: Mark, change: str) -> None:
        """Remove what a change that was cut off has left."""
        self._before, self._change = mark, change
        self._check_unchanged()
        self.take_back(last_number(mark.generation) + 1, _LAST)
        self.remove_deleted(last_number(mark.generation))
        self.before = self.count(mark.generation)
        self._under_way = True

    def mark(self, mark: Mark) -> None:
        """Make the change visible if all of it is there; then remove what it has deleted."""
        # If another copy's change begins meanwhile, it takes these documents away; it may also have put in as many of
        # its own. So they are counted once more after the mark: those of this change, and those of its generation.
        added = mark.documents - self.before
        sent = max(added, 0), max(-added, 0)
        held = self._count_generation()
        self._check_unchanged()
        if held != sent:
            raise self._miscounted(sent, held)
        self._under_way = False  # whether a mark without an answer was written is known when it is read again
        before = self._before
        self.write_mark(mark)
        counts, now = [sent], mark
        with contextlib.suppress(EngineError):
            counts = [self.count_changed(self.number, self.number), self._count_generation()]
            now = self.read_mark()
        if now != mark:
            self._under_way = True
            raise self._changed()
        for held in counts:
            if held != sent:
                self.write_mark(before)
                self._under_way = True
                raise self._miscounted(sent, held)
        self._before, self.seen = mark, mark.generation
        if added < 0:
            with contextlib.suppress(EngineError):  # the next change removes them too
                self.remove_deleted(last_number(mark.generation))

    def _count_generation(self) -> tuple[int, int]:
        generation = self._before.generation + 1
        return self.count_changed(first_number(generation), last_number(generation))

    def _check_unchanged(self) -> None:
        if self.read_mark() != self._before:
            raise self._changed()

    def _changed(self) -> EngineError:
        return EngineError(
            f"{self.where()} was changed through another copy of this index's folder meanwhile; what was sent from "
            "here is taken back.",
            hint="only one copy may be changed: copy that folder here",
            code="changed-through-another-copy",
        )

    def _miscounted(self, sent: tuple[int, int], held: tuple[int, int]) -> EngineError:
        return EngineError(
            f"{self.where()}: this change added {sent[0]:,} documents and deleted {sent[1]:,}; the server counts "
            f"{held[0]:,} and {held[1]:,}. The change is taken back.",
            hint="try again; if that does not help, the server's own log says more",
            code="change-added-documents-deleted",
        )

    def undo(self) -> None:
        """Take back what was put in and marked as deleted, if the server still answers; else the next change does."""
        # Nothing else is touched: a change of another copy may be under way. Where one has been marked meanwhile, and
        # has added some of the same documents, all of them stay.
        if not self._under_way:
            return
        self._under_way = False
        with contextlib.suppress(EngineError):
            now = self.read_mark()
            # Of another copy's change, all that it has added is there: nothing of it was overwritten from here.
            is_apart = now.generation == self._before.generation + 1
            if is_apart:
                mine, both = self.count_changed(self.number, self.number), self._count_generation()
                is_apart = both[0] - mine[0] == max(now.documents - self.before, 0)
            if now == self._before or is_apart:
                self.take_back(self.number, self.number)


def first_number(generation: int) -> int:
    """The lowest number of a generation's changes."""
    return generation * _DRAWN


def last_number(generation: int) -> int:
    """The highest number of a generation's changes."""
    return first_number(generation + 1) - 1
