"""A real server of Milvus's protocol for tests: the gRPC server of milvus-lite, which the makers of Milvus publish.

Or a full server (`milvus_behind`). Neither has accounts or TLS here. Both are put before it, as a server that has them
answers: a request without the right token is refused (UNAUTHENTICATED), and `certificate` makes it listen with TLS.
From the n-th further change on (`fail_after`) every request is answered as by a server that is gone: as if the one who
asks had been killed there.
"""

from __future__ import annotations

import base64
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from milvus_behind import WHOLE, behind

TOKEN = "root:correct horse"
CHANGES = ("CreateCollection", "CreateIndex", "LoadCollection", "Upsert", "Delete", "Flush", "AlterCollection")


class Door(grpc.ServerInterceptor):
    """Lets requests with the right token in, writes down their names, and cuts them off where a test says so."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.requests: list[tuple[str, str]] = []  # name, token
        self.fail_after: int | None = None

    def intercept_service(self, on: Callable[[Any], Any], call: Any) -> Any:
        name = call.method.rpartition("/")[2]
        given = base64.b64decode(dict(call.invocation_metadata).get("authorization", "")).decode()
        self.requests.append((name, given))
        if given != self.token:
            return refused(grpc.StatusCode.UNAUTHENTICATED, "auth check failure, please check api key is correct")
        if self.fail_after is not None:
            self.fail_after -= name in CHANGES
            if self.fail_after < 0:
                return refused(grpc.StatusCode.UNAVAILABLE, "gone")
        return on(call)


class MilvusServer:
    """`with MilvusServer() as server:` … `server.url`; what is behind the door is `server.behind`."""

    def __init__(self, token: str = TOKEN, certificate: Path | None = None, host: str = "127.0.0.1") -> None:
        self.behind = behind()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"milvus{'+tls' if certificate else ''}://{host}:{self.port}"
        self._host = host
        self.door, self._certificate = Door(token), certificate

    def __enter__(self) -> MilvusServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self.behind.remove()

    def start(self) -> None:
        self._grpc = grpc.server(ThreadPoolExecutor(4), interceptors=[self.door], options=WHOLE)
        self.behind.answer_through(self._grpc)
        where = f"{self._host}:{self.port}"
        if self._certificate is None:
            self._grpc.add_insecure_port(where)
        else:  # a PEM file with its key
            pem = self._certificate.read_bytes()
            self._grpc.add_secure_port(where, grpc.ssl_server_credentials([(pem, pem)]))
        self._grpc.start()

    def stop(self) -> None:
        self._grpc.stop(0).wait()
        self.behind.stop()

    def needs_sparse(self) -> None:
        """Skip the test where the server is too old for it."""
        if not self.behind.has_sparse:
            pytest.skip("Milvus before 2.4 stores no sparse vectors")

    def names(self) -> list[str]:
        return self.behind.names()

    def rows(self, name: str) -> list[dict[str, Any]]:
        """What is in a collection, past visir."""
        return self.behind.rows(name)


def refused(code: grpc.StatusCode, text: str) -> Any:
    return grpc.unary_unary_rpc_method_handler(lambda _, context: context.abort(code, text))
