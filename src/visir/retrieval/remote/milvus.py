"""A collection of Milvus: a row for each document, and the mark among the collection's properties.

A row has `key_of(id)` as its key, the id beside it, and the numbers of the changes that added and deleted it
(`StepwiseEngine`); of a row that is not deleted, the second is one that no change reaches. The collection's consistency
level is Strong: a search sees every change that was answered before it was sent.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import shlex
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Self, TypeVar
from urllib.parse import unquote, urlsplit

import numpy as np

from visir.errors import EmbeddingError, require
from visir.records import Embeddings
from visir.retrieval.remote.engine import (
    PAGE,
    EngineError,
    EngineHit,
    Mark,
    Nearest,
    Point,
    Space,
    StepwiseEngine,
    Vector,
    alike,
    channel_options,
    key_for,
    key_of,
    last_number,
    no_answer,
    own_id,
    repeated,
    trust,
    why_no_key,
)
from visir.retrieval.remote.settings import MILVUS

# The connection to a Milvus server that the user has named, and what goes wrong with it.


def mend_channels() -> None:
    """Mend the channels of pymilvus, once for the process."""
    # pymilvus takes the brackets of IPv6 addresses away, and then hands gRPC "::1:19530". And a call on a channel that
    # was closed meanwhile is to be an error, and no crash of the process.
    from pymilvus.client.grpc_handler import GrpcHandler

    make = GrpcHandler._create_grpc_channel
    if getattr(make, "mended", False):
        return

    def made(self: Any, address: str | None = None) -> Any:
        return guarded(make(self, in_brackets(address or self._address)))

    made.mended = True  # type: ignore[attr-defined]
    GrpcHandler._create_grpc_channel = made


def in_brackets(address: str) -> str:
    """The address as gRPC reads it."""
    host, _, port = address.rpartition(":")
    return f"[{host}]:{port}" if ":" in host and "[" not in host and "/" not in address else address


def guarded(channel: Any) -> Any:
    """The channel; once it is closed, it raises `ValueError` where a call begins."""
    find = getattr(channel, "_get_registered_call_handle", None)
    if find is None:  # another version of grpcio
        return channel
    lock, close, closed = threading.Lock(), channel.close, threading.Event()

    def find_in_open(method: str) -> Any:
        with lock:
            if closed.is_set():
                raise ValueError("Cannot invoke RPC on closed channel!")
            return find(method)

    def close_guarded() -> None:
        with lock:
            closed.set()
        close()

    channel._get_registered_call_handle, channel.close = find_in_open, close_guarded
    return channel


T = TypeVar("T")
_NO_CONNECTION, _NO_COLLECTION, _NOT_LOADED = 2, 100, 101
"""Codes of pymilvus ("connect failed") and of the server; it has to load a collection before that is searched."""
_RECENT = (2, 4)
"""The version of Milvus that began to store sparse vectors and to index numbers by inverted lists."""
_NO_CLIENT = "should create connection first"
_CLOSED = "Cannot invoke RPC"
"""What gRPC says where pymilvus, or another thread of ours, has closed the channel of a server that was away."""


def _close_aside(close: Callable[[], None]) -> None:
    """Close in a thread of its own: memory is collected in any thread, and closing waits for a lock of pymilvus."""
    # In a thread of gRPC it would wait for one that waits for that very thread, until the time is up.
    with contextlib.suppress(RuntimeError):  # the process is about to end, and its connections with it
        threading.Thread(target=close, daemon=True).start()


def _text(fault: Exception) -> str:
    """What an error says, without the inner workings of gRPC."""
    details = getattr(fault, "details", None)
    message = details() if callable(details) else getattr(fault, "message", "")
    return str(message or fault)


def _host(url: str) -> str:
    host = urlsplit(url).hostname or ""
    return f"[{host}]" if ":" in host else host


def package() -> Any:
    """pymilvus, silent, and without reading the file `.env` that lies above it, as it does when it is imported."""
    before = os.environ.get("PYTHON_DOTENV_DISABLED")
    os.environ["PYTHON_DOTENV_DISABLED"] = "1"
    try:
        import pymilvus
    finally:
        if before is None:
            del os.environ["PYTHON_DOTENV_DISABLED"]
        else:
            os.environ["PYTHON_DOTENV_DISABLED"] = before
    mend_channels()
    for name in ("pymilvus", "pymilvus.milvus_client"):  # what it logs is in the error
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return pymilvus


def _is_away(fault: Exception) -> bool:
    status = _status(fault)
    if status == "CANCELLED":  # as calls are that are under way when another thread closes the channel
        return "Channel closed" in _text(fault)
    if status:
        return status in ("UNAVAILABLE", "DEADLINE_EXCEEDED")
    if isinstance(fault.__cause__, ValueError) and _CLOSED in str(fault.__cause__):
        return True
    if _NO_CLIENT in _text(fault):  # another thread has closed the client between its choice and the call
        return True
    return getattr(fault, "code", None) == _NO_CONNECTION


def _status(fault: BaseException) -> str:
    """The name of gRPC's status code behind an error; "" where the server itself has answered."""
    from grpc import RpcError, StatusCode

    code: Any = getattr(fault, "code", None)
    if isinstance(fault, RpcError):
        code = code() if callable(code) else None
    elif not isinstance(code, StatusCode) and isinstance(fault.__cause__, RpcError):
        return _status(fault.__cause__)
    return code.name if isinstance(code, StatusCode) else ""


_KEY, _ID, _ADDED, _DELETED, _MARK = "key", "id", "added", "deleted", "visir"
_NEVER = 2**62
"""What stands for the change that deleted a row that is there."""
_THOROUGH = 32_768
"""Candidates of a search that is to find everything: the most that every version takes."""
_REWRITTEN = 256
"""Rows that are read with all their vectors and written again, in one request."""
_EMPTY = 2**31
"""Milvus refuses sparse vectors without a value: those get this dimension, which no query has (terms are below it)."""


class MilvusEngine(StepwiseEngine):
    """A collection on a server, by a gRPC channel that is made when it is first needed; several threads may use it."""

    # Milvus changes no part of a row: to be marked as deleted, a row is written again. pymilvus itself asks again where
    # the server says that it is too busy (rate limits), up to the setting `timeout`.

    uploads = 4

    def __init__(self, collection: str, place: Any) -> None:
        super().__init__(collection, place)
        require("pymilvus", extra="milvus", purpose="an index in Milvus")
        self._client: Any = None
        self._closing: Any = None
        self._lock = threading.Lock()
        self._is_new = False

    @classmethod
    def check_vectors(cls, vectors: Any, settings: Any, *, alone: bool = True) -> None:
        if isinstance(vectors, Embeddings) and not 2 <= vectors.dimension <= 32_768:
            raise EmbeddingError(f"Milvus stores vectors of 2 to 32,768 values; these have {vectors.dimension:,}.")

    @classmethod
    def create(cls, collection: str, spaces: Sequence[Space], settings: Any, index: str) -> Self:
        engine = cls(collection, settings)
        engine.check_no_collection()
        version = engine._version()
        numbers = re.search(r"(\d+)\.(\d+)", version)
        is_old = numbers is not None and tuple(map(int, numbers.groups())) < _RECENT
        if is_old and any(space.form == "sparse" for space in spaces):
            raise EngineError(
                f"{settings.url}: Milvus {version} stores no sparse vectors; Milvus 2.4 and later do.",
                hint="a newer server, or dense vectors alone (kind milvus)",
            )
        client, types = package().MilvusClient, package().DataType
        schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field(_KEY, types.VARCHAR, max_length=32, is_primary=True)
        schema.add_field(_ID, types.VARCHAR, max_length=65_535)
        graphs = client.prepare_index_params()
        by_number = "STL_SORT" if is_old else "INVERTED"
        for name in (_ADDED, _DELETED):
            schema.add_field(name, types.INT64)
            graphs.add_index(name, index_type=by_number)
        for space in spaces:
            if space.form == "sparse":
                schema.add_field(space.name, types.SPARSE_FLOAT_VECTOR)
                graphs.add_index(space.name, index_type="SPARSE_INVERTED_INDEX", metric_type="IP")
                continue
            schema.add_field(space.name, types.FLOAT_VECTOR, dim=space.dimension)
            graph = {"M": settings.m, "efConstruction": settings.ef_construction} if settings.m else {}
            kind = "HNSW" if settings.m else "FLAT"
            # As one value "params", which every server reads: milvus-lite passes over values beside it.
            graphs.add_index(space.name, index_type=kind, metric_type="IP", params={"params": graph})
        try:
            engine._sent(
                "create the collection",
                "create_collection",
                schema=schema,
                index_params=graphs,
                consistency_level="Strong",
                properties=_property(Mark(index)),
            )
        except EngineError:  # the client makes it, then its graphs: it may be there already
            with contextlib.suppress(EngineError):
                if engine.read_mark().index == index:
                    engine.destroy()
            raise
        engine._is_new, engine._before = True, Mark(index)
        return engine

    def write_mark(self, mark: Mark) -> None:
        self._sent("mark the collection", "alter_collection_properties", properties=_property(mark))

    def read_mark(self) -> Mark:
        described = self._sent("look at the collection", "describe_collection")
        try:
            return Mark(**json.loads(described["properties"][_MARK]))
        except (KeyError, ValueError, TypeError):  # somebody else's
            return Mark()

    def exists(self) -> bool:
        return bool(self._sent("look for the collection", "has_collection"))

    def upsert(self, points: Sequence[Point]) -> None:
        numbers = {_ADDED: self.number, _DELETED: _NEVER}
        rows = [
            {_KEY: _key(point.id), _ID: point.id, **numbers, **{name: _given(v) for name, v in point.vectors.items()}}
            for point in points
        ]
        self._sent("add documents", "upsert", rows)

    def delete(self, ids: Sequence[str]) -> None:
        seen = _seen(self._before.generation, ids)
        self._rewrite(f"{seen} and {_DELETED} == {_NEVER}", self.number)

    def take_back(self, first: int, last: int) -> None:
        self._loaded("delete", filter=_between(_ADDED, first, last))
        self._rewrite(_between(_DELETED, first, last), _NEVER)

    def remove_deleted(self, last: int) -> None:
        self._loaded("delete", filter=f"{_DELETED} <= {last}")

    def count_between(self, name: str, first: int, last: int) -> int:
        return self._count(_between(name, first, last))

    def ids(self, generation: int, among: Sequence[str] | None = None) -> Iterator[str]:
        seen = {"filter": _seen(generation, among), "output_fields": [_ID]}
        # Few pages: milvus-lite goes through all rows for each.
        pages = self._loaded("query_iterator", batch_size=MILVUS.most_answers, **seen)
        while rows := self._explain("read the ids", pages.next):
            yield from (id for row in rows if (id := own_id(row[_KEY], row[_ID])) is not None)

    def count(self, generation: int) -> int:
        return self._count(_seen(generation))

    def settle(self) -> None:
        """Close the segments of a new collection, of which the server then builds its graphs, by itself."""
        if self._is_new:
            self._sent("put the documents on disk", "flush", timeout=10 * self.place.timeout)
            self._is_new = False

    def search(
        self, questions: Sequence[Nearest], *, vectors: bool, allowed: Sequence[str] | None = None
    ) -> list[list[EngineHit]]:
        """The nearest documents, with or without their vectors; one request for all questions that are alike."""
        answers: list[list[EngineHit]] = [[] for _ in questions]
        among = _seen(self.seen, allowed)
        for first, places in alike(questions):
            hits_of_each = self._loaded(
                "search",
                [_given(questions[at].vector) for at in places],
                anns_field=first.space,
                filter=among,
                limit=min(first.limit, MILVUS.most_answers),
                output_fields=[_ID, first.space] if vectors else [_ID],
                search_params=self._thoroughness(first),
            )
            for at, hits in zip(places, hits_of_each, strict=True):
                answers[at] = [
                    EngineHit(
                        own_id(_key_in(hit), row[_ID]), hit["distance"], _taken(row[first.space]) if vectors else None
                    )
                    for hit, row in ((hit, hit["entity"]) for hit in hits)
                ]
        return answers

    def get(self, ids: Sequence[str], space: str) -> Mapping[str, Vector | None]:
        vectors: dict[str, Vector | None] = {}
        for start in range(0, len(ids), PAGE):
            some = _seen(self.seen, ids[start : start + PAGE])
            for row in self._loaded("query", some, output_fields=[_ID, space]):
                vectors[row[_ID]] = _taken(row[space])
        return vectors

    def about(self) -> dict[str, Any]:
        return {"rows": self._count(""), "server": f"Milvus {self._version()}"}

    def destroy(self) -> None:
        self._sent("drop the collection", "drop_collection")

    @classmethod
    def removal(cls, url: str, collection: str, settings: Mapping[str, Any]) -> str:
        """The command by which a person drops a collection; a token is given as `token=…` beside the address."""
        parts = urlsplit(url)
        scheme = "https" if parts.scheme == MILVUS.encrypted else "http"
        address, name = json.dumps(f"{scheme}://{parts.netloc}{parts.path}"), json.dumps(collection)
        start = "import pymilvus; pymilvus."
        if ":" in (parts.hostname or ""):  # pymilvus alone does not get to an IPv6 address
            start = "from visir.retrieval.remote.milvus import package; package()."
        return f"python -c {shlex.quote(f'{start}MilvusClient({address}).drop_collection({name})')}"

    def _thoroughness(self, question: Nearest) -> dict[str, Any]:
        """How many candidates the search of a graph keeps; it has no other way to be thorough."""
        if question.ef is None or not self.place.m or isinstance(question.vector, tuple):
            return {}
        wanted = _THOROUGH if question.exact else max(question.ef, question.limit)
        return {"params": {"ef": min(wanted, _THOROUGH)}}

    def _count(self, among: str) -> int:
        [counted] = self._loaded("query", among, output_fields=["count(*)"])
        return int(counted["count(*)"])

    def _rewrite(self, among: str, deleted: int) -> None:
        """Write the rows that an expression finds again, as deleted by this change, until it finds none."""
        while rows := self._loaded("query", among, output_fields=["*"], limit=_REWRITTEN):
            self._sent("delete documents", "upsert", [{**row, _DELETED: deleted} for row in rows])

    def _sent(self, what: str, method: str, *given: Any, timeout: int | None = None, **named: Any) -> Any:
        """What a method of pymilvus's client returns about this collection."""
        wait = timeout or self.place.timeout
        return self._asked(what, lambda to: getattr(to, method)(self.collection, *given, timeout=wait, **named))

    def _asked(self, what: str, request: Callable[[Any], T]) -> T:
        """What a request returns, asked again where the server was away."""

        def once() -> T:
            try:
                return request(self._connected())
            except Exception as fault:
                if _is_away(fault):
                    self.close()  # gRPC waits longer and longer before it connects again: begin anew
                raise

        return self._explain(what, lambda: repeated(self.place, once, _is_away))

    def _loaded(self, method: str, *given: Any, **named: Any) -> Any:
        """Send a search, for which the server has to hold the collection in its memory."""
        try:
            return self._sent("search", method, *given, **named)
        except EngineError as fault:
            if getattr(fault.__cause__, "code", None) != _NOT_LOADED:
                raise
        self._sent("load the collection", "load_collection", timeout=10 * self.place.timeout)
        return self._sent("search", method, *given, **named)

    def _version(self) -> str:
        return str(self._asked("look at the server", lambda to: to.get_server_version(timeout=self.place.timeout)))

    def _explain(self, what: str, request: Callable[[], T]) -> T:
        """What a request returns that pymilvus sends by itself, such as the next page of a list."""
        from grpc import RpcError

        try:
            return request()
        except (package().MilvusException, RpcError) as fault:
            raise self._explained(what, fault) from fault

    def close(self) -> None:
        """Close the channel; the next request makes another."""
        with self._lock:
            closing, self._closing, self._client = self._closing, None, None
        if closing is not None and (finalizer := closing.detach()):
            _, _, (close,), _ = finalizer
            close()

    def _connected(self) -> Any:
        with self._lock:
            if self._client is None:
                self._client = package().MilvusClient(**self._arguments())
                # pymilvus keeps every channel: one of an index that is let go of is closed as it goes.
                self._closing = weakref.finalize(self, _close_aside, self._client.close)
            return self._client

    def _arguments(self) -> dict[str, Any]:
        url = self.place.url
        parts, encrypted = urlsplit(url), trust(url)
        arguments = {
            "uri": f"{'https' if encrypted else 'http'}://{_host(url)}:{parts.port or MILVUS.port}",
            "db_name": unquote(parts.path.strip("/")),
            "token": key_for(url) or "",
            "timeout": self.place.timeout,
            "dedicated": True,
            "grpc_options": channel_options(parts.hostname or ""),
        }
        certificate = os.environ.get(MILVUS.certificate)
        return arguments | ({"server_pem_path": certificate} if encrypted and certificate else {})

    def _explained(self, what: str, fault: Exception) -> EngineError:
        """The error that says what was asked, and what to do next."""
        url, text, status = self.place.url, _text(fault), _status(fault)
        if getattr(fault, "code", None) == _NO_COLLECTION:
            return self.gone()
        if _is_away(fault):
            return no_answer(
                self.place,
                what,
                text,
                f"A full Milvus answers curl http://{_host(url)}:9091/healthz (milvus-lite has no such page); for a "
                f"slow one, a longer wait: timeout={2 * self.place.timeout}",
            )
        if status == "UNAUTHENTICATED":
            return EngineError(f"{url}: may not {what}: {text}", hint=why_no_key(url))
        if status == "PERMISSION_DENIED":
            return EngineError(
                f"{url}: may not {what}: {text}", hint=f"whose token is in {MILVUS.key}? grant this right to its role"
            )
        return EngineError(f"{url}: cannot {what}: {text}", hint="the server's own log says more")


def _key(id: str) -> str:
    return key_of(id).hex


def _among(ids: Sequence[str]) -> str:
    return f"{_KEY} in {json.dumps([_key(id) for id in ids])}"


def _between(name: str, first: int, last: int) -> str:
    return f"{name} >= {first} and {name} <= {last}"


def _seen(generation: int, ids: Sequence[str] | None = None) -> str:
    """The expression for the rows (or these of them) that a generation has."""
    last = last_number(generation)
    seen = f"{_ADDED} <= {last} and {_DELETED} > {last}"
    return seen if ids is None else f"{seen} and {_among(ids)}"


def _key_in(hit: Any) -> str:
    """The key of a row that was found: pymilvus calls it "id" where the server (2.3) does not say its field's name."""
    return str(hit.get(_KEY) or hit["id"])


def _property(mark: Mark) -> dict[str, str]:
    return {_MARK: json.dumps(asdict(mark))}


def _given(vector: Vector) -> Any:
    if isinstance(vector, np.ndarray):
        return vector
    return dict(zip(vector[0].tolist(), vector[1].tolist(), strict=True)) or {_EMPTY: 1.0}


def _taken(vector: Any) -> Vector:
    if not isinstance(vector, dict):
        return np.array(vector, np.float32)
    terms = sorted(term for term in vector if term != _EMPTY)
    return np.array(terms, np.int32), np.array([vector[term] for term in terms], np.float32)
