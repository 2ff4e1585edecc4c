"""Qdrant behind an address: a server or cluster, asked over HTTP by its own client; vectors may go up by gRPC."""

from __future__ import annotations

import os
import shlex
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from operator import methodcaller
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

import numpy as np

from visir.errors import require
from visir.remote import is_loopback
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
    channel_options,
    is_named,
    key_for,
    key_of,
    last_number,
    no_answer,
    own_id,
    repeated,
    trust,
    why_no_key,
)
from visir.retrieval.remote.settings import QDRANT, Place, grpc_address

T = TypeVar("T")
ID, ADDED, DELETED = "id", "visir_added", "visir_deleted"
"""A point's payload: the document's id, and the numbers of the change that added it, and, until it is removed, of the
one that deleted it."""
_BUSY = (408, 429, 500, 502, 503, 504)
"""Answers after which the same request may succeed. All that is sent here can be sent twice without harm."""


class QdrantEngine(StepwiseEngine):
    """A collection on a server. Its mark is in the collection's own metadata."""

    uploads = 4
    added, deleted = ADDED, DELETED

    def __init__(self, collection: str, place: Place) -> None:
        super().__init__(collection, place)
        require("qdrant_client", extra="qdrant", purpose="an index on a Qdrant server")
        self._client = _client(place, place.url, QDRANT.port)
        self._binary: Any = None  # the client of the gRPC port, made when it is first needed
        self._takes_binary = bool(place.grpc)
        self._lock = threading.Lock()

    @classmethod
    def check_vectors(cls, vectors: Any, settings: Any, *, alone: bool = True) -> None:
        """Nothing: all vectors are held."""

    @classmethod
    def create(cls, collection: str, spaces: Sequence[Space], settings: Any, index: str) -> QdrantEngine:
        models = _models()
        engine = cls(collection, settings)
        engine.check_no_collection()
        maxsim = models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)
        dense = {
            space.name: models.VectorParams(
                size=space.dimension,
                distance=models.Distance.DOT,
                multivector_config=maxsim if space.form == "multi-vector" else None,
            )
            for space in spaces
            if space.form != "sparse"
        }
        request = methodcaller(
            "create_collection",
            collection,
            vectors_config=dense,
            sparse_vectors_config={
                space.name: models.SparseVectorParams() for space in spaces if space.form == "sparse"
            },
            hnsw_config=models.HnswConfigDiff(m=settings.m, ef_construct=settings.ef_construction) if dense else None,
            shard_number=settings.shards or None,
            replication_factor=settings.replicas,
            metadata={"visir": asdict(Mark(index))},
        )
        engine._sent("create the collection", request)
        for name in (ADDED, DELETED):
            request = methodcaller("create_payload_index", collection, name, "integer", wait=True)
            engine._sent("index the numbers of changes", request)
        engine._before = Mark(index)
        return engine

    def write_mark(self, mark: Mark) -> None:
        request = methodcaller("update_collection", self.collection, metadata={"visir": asdict(mark)})
        self._sent("mark the collection", request)

    def read_mark(self) -> Mark:
        try:
            return Mark(**(self._described().config.metadata or {})["visir"])
        except (KeyError, TypeError):  # somebody else's
            return Mark()

    def exists(self) -> bool:
        return bool(self._sent("look for the collection", methodcaller("collection_exists", self.collection)))

    def upsert(self, points: Sequence[Point]) -> None:
        if self._takes_binary and self._put_in_binary(points):
            return
        made = [
            _models().PointStruct(
                id=str(key_of(point.id)),
                vector={name: _given(vector) for name, vector in point.vectors.items()},
                payload={ID: point.id, ADDED: self.number},
            )
            for point in points
        ]
        self._sent("add points", methodcaller("upsert", self.collection, made, wait=True))

    def _put_in_binary(self, points: Sequence[Point]) -> bool:
        """Put points in by the gRPC port; False, with one warning, where they have to go by HTTP."""
        address = grpc_address(self.place)
        if not is_named(address):
            both = shlex.quote(f"{self.place.url} {address}")
            return self._give_up(f"nobody has named it here: export {QDRANT.addresses}={both}")
        from grpc import RpcError
        from qdrant_client import grpc
        from qdrant_client.common.client_exceptions import ResourceExhaustedResponse

        made = [
            grpc.PointStruct(
                id=grpc.PointId(uuid=str(key_of(point.id))),
                vectors=grpc.Vectors(
                    vectors=grpc.NamedVectors(
                        vectors={name: _message(grpc, vector) for name, vector in point.vectors.items()}
                    )
                ),
                payload={ID: grpc.Value(string_value=point.id), ADDED: grpc.Value(integer_value=self.number)},
            )
            for point in points
        ]
        try:
            self._by_grpc(address).upsert(self.collection, made, wait=True)
        except (RpcError, ResourceExhaustedResponse, RuntimeError, ValueError) as fault:  # these two: it was closed
            refused = getattr(getattr(fault, "code", str)(), "name", "") in ("UNAUTHENTICATED", "PERMISSION_DENIED")
            details = getattr(fault, "details", fault.__str__)()
            return self._give_up(f"{details}; {why_no_key(address)}" if refused else details)
        return True

    def _by_grpc(self, address: str) -> Any:
        with self._lock:
            if self._binary is None:
                file = os.environ.get(QDRANT.certificate)
                options = {
                    "grpc.max_send_message_length": -1,
                    "root_certificates": Path(file).read_bytes() if file else None,
                    **channel_options(urlsplit(address).hostname or ""),
                }
                more = {"grpc_port": self.place.grpc, "prefer_grpc": True, "grpc_options": options, "pool_size": 1}
                self._binary = _client(self.place, address, self.place.grpc, **more)
                self._binary.grpc_points  # noqa: B018 - the channel, made by one thread
            return self._binary

    def _give_up(self, why: str) -> bool:
        with self._lock:
            took, self._takes_binary = self._takes_binary, False
        if took:
            warnings.warn(f"{grpc_address(self.place)}: vectors go by HTTP, not by gRPC: {why}", stacklevel=2)
        return False

    def delete(self, ids: Sequence[str]) -> None:
        gone = self._seen(self._before.generation, ids)
        request = methodcaller("set_payload", self.collection, {DELETED: self.number}, gone, wait=True)
        self._sent("delete points", request)

    def take_back(self, first: int, last: int) -> None:
        self._remove("remove points", _range(ADDED, gte=first, lte=last))
        deleted = _models().Filter(must=[_range(DELETED, gte=first, lte=last)])
        request = methodcaller("delete_payload", self.collection, [DELETED], deleted, wait=True)
        self._sent("take back a deletion", request)

    def remove_deleted(self, last: int) -> None:
        self._remove("delete points", _range(DELETED, lte=last))

    def count_between(self, name: str, first: int, last: int) -> int:
        return self._count(_models().Filter(must=[_range(name, gte=first, lte=last)]))

    def ids(self, generation: int, among: Sequence[str] | None = None) -> Iterator[str]:
        records = self._records(self._seen(generation, among), with_payload=[ID])
        return (id for record in records if (id := _id_of(record)) is not None)

    def count(self, generation: int) -> int:
        return self._count(self._seen(generation))

    def settle(self) -> None:
        """Nothing: a server builds its graphs by itself; until it has, it looks at every vector."""

    def search(
        self, questions: Sequence[Nearest], *, vectors: bool, allowed: Sequence[str] | None = None
    ) -> list[list[EngineHit]]:
        among = self._seen(self.seen, allowed)
        requests = [
            _models().QueryRequest(
                **_asked(question, among), with_vector=[question.space] if vectors else None, with_payload=[ID]
            )
            for question in questions
        ]
        return self._answers(requests, [question.space if vectors else None for question in questions])

    def get(self, ids: Sequence[str], space: str) -> Mapping[str, Vector | None]:
        wanted = {str(key_of(id)): id for id in ids}
        records = self._records(self._seen(self.seen, ids), with_payload=False, with_vectors=[space])
        return {
            wanted[str(record.id)]: _taken(record.vector[space]) if space in (record.vector or {}) else None
            for record in records
        }

    def about(self) -> dict[str, Any]:
        info = self._described()
        return {
            "points": info.points_count,
            "segments": info.segments_count,
            "indexed": info.indexed_vectors_count,
            "status": str(info.status.value),
        }

    def close(self) -> None:
        with self._lock:
            binary, self._binary = self._binary, None
        for client in filter(None, (binary, self._client)):
            client.close()

    def destroy(self) -> None:
        self._sent("delete the collection", methodcaller("delete_collection", self.collection))

    @classmethod
    def removal(cls, url: str, collection: str, settings: Mapping[str, Any]) -> str:
        address = f"{url.rstrip('/')}/collections/{quote(collection, safe='')}"
        return f"curl -X DELETE {shlex.quote(address)}"

    def _described(self) -> Any:
        return self._sent("look at the collection", methodcaller("get_collection", self.collection))

    def _seen(self, generation: int, ids: Sequence[str] | None = None) -> Any:
        """The filter of the points (or these of them) that this generation has."""
        models, last = _models(), last_number(generation)
        among = [] if ids is None else [models.HasIdCondition(has_id=[str(key_of(id)) for id in ids])]
        return models.Filter(must=[_range(ADDED, lte=last), *among], must_not=[_range(DELETED, lte=last)])

    def _remove(self, what: str, condition: Any) -> None:
        among = _models().Filter(must=[condition])
        self._sent(what, methodcaller("delete", self.collection, among, wait=True))

    def _count(self, among: Any) -> int:
        return int(self._sent("count points", methodcaller("count", self.collection, among, exact=True)).count)

    def _answers(self, requests: list[Any], spaces: Sequence[str | None]) -> list[list[EngineHit]]:
        """The hits of each request, with their vectors of a space."""
        answers = self._sent("search", methodcaller("query_batch_points", self.collection, requests))
        return [
            [
                EngineHit(_id_of(hit), hit.score, None if space is None else _taken(hit.vector[space]))
                for hit in answer.points
            ]
            for answer, space in zip(answers, spaces, strict=True)
        ]

    def _records(self, among: Any, **wanted: Any) -> Iterator[Any]:
        """The points that a filter lets through, page by page."""
        offset = None
        while True:
            request = methodcaller("scroll", self.collection, among, PAGE, offset=offset, **wanted)
            records, offset = self._sent("read points", request)
            yield from records
            if offset is None:
                return

    def _sent(self, what: str, request: Callable[[Any], T]) -> T:
        """Send a request, again where that may help; `EngineError` that says what to do where it does not."""
        from qdrant_client.common.client_exceptions import ResourceExhaustedResponse  # 429 with Retry-After
        from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

        def is_away(fault: Exception) -> bool:
            away = isinstance(fault, ResponseHandlingException | ResourceExhaustedResponse)
            return away or getattr(fault, "status_code", None) in _BUSY

        try:
            return repeated(self.place, lambda: request(self._client), is_away)
        except (UnexpectedResponse, ResponseHandlingException, ResourceExhaustedResponse) as fault:
            raise self._explained(what, fault) from fault

    def _explained(self, what: str, fault: Exception) -> EngineError:
        url, status = self.place.url, getattr(fault, "status_code", None)
        if status is None:
            ready = shlex.quote(f"{url.rstrip('/')}/readyz")
            longer = f"for a slow one, a longer wait: timeout={2 * self.place.timeout}"
            return no_answer(self.place, what, fault, f"curl {ready}; {longer}")
        if status in (401, 403):
            return EngineError(f"{url}: may not {what} (status {status}).", hint=why_no_key(url), code="not-status")
        if status == 404:
            return self.gone()
        reply = getattr(fault, "content", b"")[:300].decode("utf-8", "replace")
        attempts = f", asked {self.place.retries + 1} times" if status in _BUSY else ""
        return EngineError(
            f"{url}: cannot {what}: status {status}{attempts}: {reply}",
            hint="the server's own log says more",
            code="cannot-status",
        )


def _client(place: Place, address: str, port: int, **more: Any) -> Any:
    from qdrant_client import QdrantClient

    parts = urlsplit(address)
    return QdrantClient(
        url=address,
        port=parts.port or port,
        api_key=key_for(address),
        timeout=place.timeout,
        verify=trust(address),
        trust_env=not is_loopback(parts.hostname or ""),  # no proxy on the way to this very machine
        check_compatibility=False,  # what is not understood is answered with an error, which says more
        **more,
    )


def _models() -> Any:
    from qdrant_client import models

    return models


def _id_of(hit: Any) -> str | None:
    """The document's id, from the payload of a point; None for a point that visir did not put there."""
    return own_id(str(hit.id), (hit.payload or {}).get(ID))


def _range(name: str, **limits: int) -> Any:
    models = _models()
    return models.FieldCondition(key=name, range=models.Range(**limits))


def _asked(question: Nearest, among: Any) -> dict[str, Any]:
    """What a search by one vector says."""
    return {
        "query": _given(question.vector),
        "using": question.space,
        "limit": question.limit,
        "filter": among,
        "params": _models().SearchParams(hnsw_ef=question.ef, exact=question.exact),
    }


def _given(vector: Vector) -> Any:
    if isinstance(vector, np.ndarray):
        return vector.tolist()
    return _models().SparseVector(indices=vector[0].tolist(), values=vector[1].tolist())


def _taken(vector: Any) -> Vector:
    if isinstance(vector, list):
        return np.array(vector, np.float32)
    return np.array(vector.indices, np.int32), np.array(vector.values, np.float32)


def _message(grpc: Any, vector: Vector) -> Any:
    """A vector of whatever form as a message of Qdrant's protocol."""
    if not isinstance(vector, np.ndarray):
        return grpc.Vector(sparse=grpc.SparseVector(indices=vector[0].tolist(), values=vector[1].tolist()))
    if vector.ndim == 2:
        return grpc.Vector(multi_dense=grpc.MultiDenseVector(vectors=[_dense(grpc, row) for row in vector]))
    return grpc.Vector(dense=_dense(grpc, vector))


def _dense(grpc: Any, vector: Any) -> Any:
    """Packed floats in field 1 are written as bytes in field 1 are; value by value, an upload takes half as long again
    of the processor."""
    from google.protobuf.wrappers_pb2 import BytesValue  # type: ignore[import-untyped]

    return grpc.DenseVector.FromString(BytesValue(value=np.asarray(vector, "<f4").tobytes()).SerializeToString())
