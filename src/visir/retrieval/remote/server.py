"""Qdrant behind an address: a server or cluster, asked over HTTP by its own client."""

from __future__ import annotations

import os
import shlex
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from operator import methodcaller
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit
from uuid import UUID

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from visir.errors import require
from visir.remote import is_loopback
from visir.retrieval.remote.addresses import check_named, is_named, key_for, trust, why_no_key
from visir.retrieval.remote.engine import (
    BUILD_ON_SERVER,
    ID,
    EngineError,
    EngineHit,
    Mark,
    Nearest,
    Point,
    Space,
    StepwiseEngine,
    Vector,
    hits_of,
    id_of,
    key_of,
    last_number,
    vector_of,
)
from visir.retrieval.remote.settings import QDRANT, Place, grpc_address

# Vectors on their way to a Qdrant server in binary: its gRPC port, beside the one for HTTP.


class BinaryUpload:
    """A gRPC channel to a server, made when it is first needed; several threads may use it at once."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.is_on = bool(place.grpc)
        self._channel: Any = None
        self._lock = threading.Lock()

    def put(
        self, collection: str, points: Iterable[tuple[UUID, Mapping[str, Vector], Mapping[str, str | int]]]
    ) -> bool:
        """Put points in, and wait until they are there."""
        if not self.is_on:
            return False
        address = grpc_address(self.place)
        if not is_named(address):
            both = shlex.quote(f"{self.place.url} {address}")
            self._give_up(f"nobody has named it here: export {QDRANT.addresses}={both}")
            return False
        from grpc import RpcError
        from qdrant_client import grpc

        request = grpc.UpsertPoints(
            collection_name=collection,
            wait=True,
            points=[
                grpc.PointStruct(
                    id=grpc.PointId(uuid=str(key)),
                    vectors=grpc.Vectors(
                        vectors=grpc.NamedVectors(
                            vectors={name: _vector_message(vector) for name, vector in vectors.items()}
                        )
                    ),
                    payload={name: _value(value) for name, value in payload.items()},
                )
                for key, vectors, payload in points
            ],
        )
        secret = key_for(address)
        metadata = [("api-key", secret)] if secret else []
        try:
            grpc.PointsStub(self._connected()).Upsert(request, timeout=self.place.timeout, metadata=metadata)
        except (RpcError, ValueError) as fault:  # ValueError: another thread has closed the channel
            status = getattr(fault, "code", str)()
            refused = getattr(status, "name", "") in ("UNAUTHENTICATED", "PERMISSION_DENIED")
            details = getattr(fault, "details", fault.__str__)()
            self._give_up(f"{details}; {why_no_key(address)}" if refused else details)
            return False
        return True

    def close(self) -> None:
        """Close the channel; the next batch makes another."""
        with self._lock:
            channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()

    def _connected(self) -> Any:
        import grpc

        with self._lock:
            if self._channel is None:
                parts, encrypted = urlsplit(grpc_address(self.place)), trust(self.place.url)
                options = [("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
                if is_loopback(parts.hostname or ""):
                    options.append(("grpc.enable_http_proxy", 0))  # no proxy on the way to this very machine
                if encrypted:
                    file = os.environ.get(QDRANT.certificate)
                    roots = Path(file).read_bytes() if file else None
                    trusted = grpc.ssl_channel_credentials(root_certificates=roots)
                    self._channel = grpc.secure_channel(parts.netloc, trusted, options)
                else:
                    self._channel = grpc.insecure_channel(parts.netloc, options)
            return self._channel

    def _give_up(self, why: str) -> None:
        with self._lock:
            was_on, self.is_on = self.is_on, False
        if was_on:
            warnings.warn(f"{grpc_address(self.place)}: vectors go by HTTP, not by gRPC: {why}", stacklevel=2)


def _vector_message(vector: Vector) -> Any:
    from qdrant_client import grpc

    if not isinstance(vector, np.ndarray):
        return grpc.Vector(sparse=grpc.SparseVector(indices=vector[0].tolist(), values=vector[1].tolist()))
    if vector.ndim == 2:
        return grpc.Vector(multi_dense=grpc.MultiDenseVector(vectors=[_dense(row) for row in vector]))
    return grpc.Vector(dense=_dense(vector))


def _dense(vector: NDArray[np.float32]) -> Any:
    """Field 1, packed floats: read from its bytes, four times as fast as value by value."""
    from qdrant_client import grpc

    data = np.asarray(vector, "<f4").tobytes()
    return grpc.DenseVector.FromString(b"\x0a" + _varint(len(data)) + data)


def _varint(number: int) -> bytes:
    """A number as protobuf writes it: 7 bits a byte, the lowest first."""
    return bytes([number & 127 | 128]) + _varint(number >> 7) if number > 127 else bytes([number])


def _value(value: str | int) -> Any:
    from qdrant_client import grpc

    return grpc.Value(integer_value=value) if isinstance(value, int) else grpc.Value(string_value=value)


T = TypeVar("T")
ADDED, DELETED = "visir_added", "visir_deleted"
"""Numbers in a point's payload: of the change that added it, and, until it is removed, of the one that deleted it."""
_PAGE = 4096
"""Points in one answer, where all are listed."""
_PAUSE = 0.5
"""Seconds before the first repetition; each further one waits twice as long."""
_BUSY = (408, 429, 500, 502, 503, 504)
"""Answers after which the same request may succeed. All that is sent here can be sent twice without harm."""


class ServerEngine(StepwiseEngine):
    """A collection on a server. Its mark is in the collection's own metadata."""

    uploads = 4

    def __init__(self, collection: str, place: Place) -> None:
        self.collection, self.place = collection, place
        self._client, self._binary = _client(place), BinaryUpload(place)

    @classmethod
    def create(cls, collection: str, spaces: Sequence[Space], settings: Any, index: str) -> ServerEngine:
        models = _models()
        engine = cls(collection, settings)
        engine.check_no_collection()
        dense = {
            space.name: models.VectorParams(
                size=space.dimension,
                distance=models.Distance.DOT,
                multivector_config=models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)
                if space.form == "multi-vector"
                else None,
            )
            for space in spaces
            if space.form != "sparse"
        }
        graph = models.HnswConfigDiff(m=settings.m, ef_construct=settings.ef_construction) if dense else None
        engine._sent(
            "create the collection",
            lambda client: client.create_collection(
                collection,
                vectors_config=dense,
                sparse_vectors_config={
                    space.name: models.SparseVectorParams() for space in spaces if space.form == "sparse"
                },
                hnsw_config=graph,
                shard_number=settings.shards or None,
                replication_factor=settings.replicas,
                metadata={"visir": asdict(Mark(index))},
            ),
        )
        for name in (ADDED, DELETED):
            request = methodcaller("create_payload_index", collection, name, "integer", wait=True)
            engine._sent("index the numbers of changes", request)
        engine._before = Mark(index)
        return engine

    def write_mark(self, mark: Mark) -> None:
        metadata = {"visir": asdict(mark)}
        self._sent("mark the collection", lambda client: client.update_collection(self.collection, metadata=metadata))

    def read_mark(self) -> Mark:
        info = self._sent("look at the collection", lambda client: client.get_collection(self.collection))
        try:
            return Mark(**(info.config.metadata or {})["visir"])
        except (KeyError, TypeError):  # somebody else's
            return Mark()

    def exists(self) -> bool:
        return bool(self._sent("look for the collection", lambda client: client.collection_exists(self.collection)))

    def put(self, points: Sequence[Point]) -> None:
        payloads: list[dict[str, str | int]] = [{ID: point.id, ADDED: self.number} for point in points]
        rows = [(key_of(point.id), point.vectors, payload) for point, payload in zip(points, payloads, strict=True)]
        if self._binary.put(self.collection, rows):
            return
        models = _models()
        made = [
            models.PointStruct(
                id=str(key), vector={name: _given(vector) for name, vector in vectors.items()}, payload=payload
            )
            for key, vectors, payload in rows
        ]
        self._sent("add points", lambda client: client.upsert(self.collection, made, wait=True))

    def drop(self, ids: Sequence[str]) -> None:
        gone = self._seen(self._before.generation, ids)
        payload = {DELETED: self.number}
        self._sent("delete points", lambda client: client.set_payload(self.collection, payload, gone, wait=True))

    def take_back(self, first: int, last: int) -> None:
        self._remove("remove points", _range(ADDED, gte=first, lte=last))
        deleted = _models().Filter(must=[_range(DELETED, gte=first, lte=last)])
        request = methodcaller("delete_payload", self.collection, [DELETED], deleted, wait=True)
        self._sent("take back a deletion", request)

    def remove_deleted(self, last: int) -> None:
        self._remove("delete points", _range(DELETED, lte=last))

    def count_changed(self, first: int, last: int) -> tuple[int, int]:
        among = (_models().Filter(must=[_range(name, gte=first, lte=last)]) for name in (ADDED, DELETED))
        added, deleted = map(self._count, among)
        return added, deleted

    def ids(self) -> pa.StringArray:
        records = self._records(self._seen(self.seen), with_payload=[ID])
        return pa.array(sorted((id for id in map(id_of, records) if id is not None), key=str.encode), pa.string())

    def held(self, ids: pa.StringArray) -> pa.StringArray:
        generation, there = self.read_mark().generation, set[str]()
        for start in range(0, len(ids), _PAGE):
            some = self._seen(generation, ids[start : start + _PAGE].to_pylist())
            there.update(str(record.id) for record in self._records(some, with_payload=False))
        return ids.filter(pa.array([str(key_of(id)) in there for id in ids.to_pylist()], pa.bool_()))

    def count(self, generation: int) -> int:
        return self._count(self._seen(generation))

    def is_empty(self) -> bool:
        return next(self._records(self._seen(self.seen), with_payload=False), None) is None

    def settle(self) -> None:
        """Nothing: a server builds its graphs by itself; until it has, it looks at every vector."""

    def ask(
        self, questions: Sequence[Nearest], *, vectors: bool, allowed: Sequence[str] | None = None
    ) -> list[list[EngineHit]]:
        models = _models()
        among = self._seen(self.seen, allowed)
        requests = [
            models.QueryRequest(
                query=_given(question.vector),
                using=question.space,
                limit=question.limit,
                filter=among,
                with_vector=[question.space] if vectors else None,
                with_payload=[ID],
                params=models.SearchParams(hnsw_ef=question.ef, exact=question.exact),
            )
            for question in questions
        ]
        answers = self._sent("search", lambda client: client.query_batch_points(self.collection, requests))
        spaces = [question.space if vectors else None for question in questions]
        return [hits_of(answer.points, space) for answer, space in zip(answers, spaces, strict=True)]

    def fuse(
        self, questions: Sequence[Sequence[Nearest]], weights: Sequence[Sequence[float]], limit: int, constant: int
    ) -> list[list[EngineHit]]:
        """Reciprocal rank fusion by the server (which counts ranks from 0), every list alike."""
        models = _models()
        requests = [
            models.QueryRequest(
                prefetch=[
                    models.Prefetch(
                        query=_given(question.vector),
                        using=question.space,
                        limit=question.limit,
                        filter=self._seen(self.seen),
                        params=models.SearchParams(hnsw_ef=question.ef, exact=question.exact),
                    )
                    for question in several
                ],
                query=models.RrfQuery(rrf=models.Rrf(k=constant + 1)),
                limit=limit,
                with_payload=[ID],
            )
            for several in questions
        ]
        answers = self._sent("search", lambda client: client.query_batch_points(self.collection, requests))
        return [hits_of(answer.points) for answer in answers]

    def get(self, ids: Sequence[str], space: str) -> Mapping[str, Vector | None]:
        wanted = {str(key_of(id)): id for id in ids}
        records = self._records(self._seen(self.seen, ids), with_payload=False, with_vectors=[space])
        return {
            wanted[str(record.id)]: vector_of(record.vector[space]) if space in (record.vector or {}) else None
            for record in records
        }

    def about(self) -> dict[str, Any]:
        info = self._sent("look at the collection", lambda client: client.get_collection(self.collection))
        return {
            "points": info.points_count,
            "segments": info.segments_count,
            "indexed": info.indexed_vectors_count,
            "status": str(info.status.value),
        }

    def close(self) -> None:
        self._binary.close()
        self._client.close()

    def destroy(self) -> None:
        """Delete the collection: only what a build that failed has left is."""
        self._sent("delete the collection", lambda client: client.delete_collection(self.collection))

    @classmethod
    def removal(cls, url: str, collection: str, settings: Mapping[str, Any]) -> str:
        address = f"{url.rstrip('/')}/collections/{quote(collection, safe='')}"
        return f"curl -X DELETE {shlex.quote(address)}"

    def _seen(self, generation: int, ids: Sequence[str] | None = None) -> Any:
        """The filter of the points (or these of them) that this generation has."""
        added = [_range(ADDED, lte=last_number(generation))]
        deleted = [_range(DELETED, lte=last_number(generation))]
        return _models().Filter(must=added if ids is None else [*added, _among(ids)], must_not=deleted)

    def _remove(self, what: str, condition: Any) -> None:
        among = _models().Filter(must=[condition])
        self._sent(what, lambda client: client.delete(self.collection, among, wait=True))

    def _count(self, among: Any) -> int:
        counted = self._sent("count points", lambda client: client.count(self.collection, among, exact=True))
        return int(counted.count)

    def _records(self, among: Any, **wanted: Any) -> Iterator[Any]:
        """The points that a filter lets through, page by page."""
        offset = None
        while True:
            request = methodcaller("scroll", self.collection, among, _PAGE, offset=offset, **wanted)
            records, offset = self._sent("read points", request)
            yield from records
            if offset is None:
                return

    def _sent(self, what: str, request: Callable[[Any], T]) -> T:
        """Send a request, again where that may help; `EngineError` that says what to do where it does not."""
        from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

        for attempt in range(self.place.retries + 1):
            try:
                return request(self._client)
            except UnexpectedResponse as fault:
                last: Exception = fault
                if fault.status_code not in _BUSY:
                    break
            except ResponseHandlingException as fault:
                last = fault
            if attempt < self.place.retries:
                time.sleep(_PAUSE * 2**attempt)
        raise self._explained(what, last) from last

    def _explained(self, what: str, fault: Exception) -> EngineError:
        status = getattr(fault, "status_code", None)
        if status is None:
            ready = shlex.quote(f"{self.place.url.rstrip('/')}/readyz")
            return EngineError(
                f"{self.place.url}: no answer, asked {self.place.retries + 1} times to {what}: {fault}",
                hint=f"is the server running, and is this its address? curl {ready}; for "
                f"a slow one, a longer wait: timeout={2 * self.place.timeout}",
                code="no-answer-asked-times",
            )
        if status in (401, 403):
            return EngineError(
                f"{self.place.url}: may not {what} (status {status}).",
                hint=why_no_key(self.place.url),
                code="not-status",
            )
        if status == 404:
            return EngineError(
                f"{self.where()} does not exist.", hint=f"was it deleted? {BUILD_ON_SERVER}", code="not-exist"
            )
        reply = getattr(fault, "content", b"")[:300].decode("utf-8", "replace")
        attempts = f", asked {self.place.retries + 1} times" if status in _BUSY else ""
        return EngineError(
            f"{self.place.url}: cannot {what}: status {status}{attempts}: {reply}",
            hint="the server's own log says more",
            code="cannot-status",
        )


def _client(place: Place) -> Any:
    """The client of a server that the user has named: the one way to it."""
    require("qdrant_client", extra="qdrant", purpose="an index on a Qdrant server")
    check_named(place.url)
    from qdrant_client import QdrantClient

    parts = urlsplit(place.url)
    return QdrantClient(
        url=place.url,
        port=parts.port or QDRANT.port,
        api_key=key_for(place.url),
        timeout=place.timeout,
        verify=trust(place.url),
        trust_env=not is_loopback(parts.hostname or ""),  # no proxy on the way to this very machine
        check_compatibility=False,  # what is not understood is answered with an error, which says more
    )


def _range(name: str, **limits: int) -> Any:
    models = _models()
    return models.FieldCondition(key=name, range=models.Range(**limits))


def _among(ids: Sequence[str]) -> Any:
    return _models().HasIdCondition(has_id=[str(key_of(id)) for id in ids])


def _given(vector: Vector) -> Any:
    if isinstance(vector, np.ndarray):
        return vector.tolist()
    return _models().SparseVector(indices=vector[0].tolist(), values=vector[1].tolist())


def _models() -> Any:
    from qdrant_client import models

    return models
