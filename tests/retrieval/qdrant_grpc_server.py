"""The gRPC port of a Qdrant server for tests: uploads, into the points that the HTTP port beside it holds."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
from qdrant_client import grpc as messages
from qdrant_client.conversions.conversion import GrpcToRest
from qdrant_client.grpc.points_service_pb2_grpc import PointsServicer, add_PointsServicer_to_server
from qdrant_wire import WireServer


class GrpcPort(PointsServicer):
    """`with GrpcPort(server) as port:` … `port.number`; `uploads` has the points and bytes of each request."""

    def __init__(self, server: WireServer, certificate: Path | None = None) -> None:
        self._server = server
        self.uploads: list[tuple[int, int]] = []
        self.keys: list[str] = []
        self.fail_after: int | None = None  # uploads
        self._grpc = grpc.server(ThreadPoolExecutor(8), options=[("grpc.max_receive_message_length", -1)])
        add_PointsServicer_to_server(self, self._grpc)
        where = "127.0.0.1:0"
        if certificate is None:
            self.number = self._grpc.add_insecure_port(where)
        else:  # a PEM file with its key
            pem = certificate.read_bytes()
            self.number = self._grpc.add_secure_port(where, grpc.ssl_server_credentials([(pem, pem)]))

    def __enter__(self) -> GrpcPort:
        self._grpc.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._grpc.stop(0).wait()

    def Upsert(self, request: Any, context: grpc.ServicerContext) -> Any:
        self.keys.append(dict(context.invocation_metadata()).get("api-key", ""))
        if self._server.key and self.keys[-1] != self._server.key:
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "Must provide an API key")
        if self.fail_after is not None:
            self.fail_after -= 1
            if self.fail_after < 0:
                context.abort(grpc.StatusCode.UNAVAILABLE, "gone")
        assert request.wait
        if not self._server.held.collection_exists(request.collection_name):
            context.abort(grpc.StatusCode.NOT_FOUND, f"no collection {request.collection_name}")
        self.uploads.append((len(request.points), request.ByteSize()))
        points = [GrpcToRest.convert_point_struct(point) for point in request.points]
        with self._server.one_at_a_time:
            self._server.held.upsert(request.collection_name, points)
        done = messages.UpdateResult(operation_id=0, status=messages.UpdateStatus.Completed)
        return messages.PointsOperationResponse(result=done, time=0.0)
