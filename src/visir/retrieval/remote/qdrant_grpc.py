"""Vectors on their way to a Qdrant server in binary: its gRPC port, beside the one for HTTP.

Only uploads go this way, and only to a port that the user has named. Each of them can go by HTTP as well: so where the
gRPC port does not answer, or refuses, the batch is sent by HTTP, whose errors say what is wrong.
"""

from __future__ import annotations

import os
import shlex
import threading
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from visir.remote import is_loopback
from visir.retrieval.remote.addresses import is_named, key_for, trust, why_no_key
from visir.retrieval.remote.families import QDRANT
from visir.retrieval.remote.points import Vector
from visir.retrieval.remote.settings import Place, grpc_address


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
                        vectors=grpc.NamedVectors(vectors={name: _given(vector) for name, vector in vectors.items()})
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


def _given(vector: Vector) -> Any:
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
