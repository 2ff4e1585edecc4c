"""A Qdrant server for tests: its HTTP interface, spoken to the client's own models; points are held by qdrant-client.

Every request is kept as (method, path, body, headers), so that tests can look at what goes over the wire. `fail_after`
makes the server drop the connection from the n-th further change on, as if the one who asks had been killed there;
`away`, every connection.
"""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from qdrant_client import QdrantClient, models
from qdrant_client.http.models import QueryRequestBatch

CHANGES = (
    ("PUT", "points"),
    ("POST", "points/delete"),
    ("POST", "points/payload"),
    ("POST", "points/payload/delete"),
    ("PUT", "index"),
    ("PATCH", ""),
)


class WireServer:
    """`with WireServer() as server:` … `server.url`."""

    def __init__(self, key: str = "", certificate: Path | None = None) -> None:
        self.key = key
        self.requests: list[tuple[str, str, Any, dict[str, str]]] = []
        self.indexed: list[tuple[str, str, str]] = []  # collection, field of the payload, its type
        self.busy = 0  # the next so many requests are answered with `busy_status`
        self.busy_status = 503
        self.fail_after: int | None = None
        self.away = False  # every connection is dropped
        self.held = QdrantClient(":memory:")
        self.one_at_a_time = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                with outer.one_at_a_time:
                    said = outer.answer(self.command, self.path.split("?")[0], body, dict(self.headers))
                if said is None:
                    self.close_connection = True
                    self.connection.close()
                    return
                status, result = said
                data = json.dumps({"result": result, "status": "ok", "time": 0.0}).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_PUT = do_POST = do_DELETE = do_PATCH = answer

            def log_message(self, *_: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        if certificate is not None:  # a PEM file with its key
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._http.socket = context.wrap_socket(self._http.socket, server_side=True)
            self.url = self.url.replace("http", "https")

    def __enter__(self) -> WireServer:
        threading.Thread(target=self._http.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    def count(self, collection: str) -> int:
        return self.held.count(collection).count

    def paths(self) -> list[str]:
        return [f"{method} {path}" for method, path, _, _ in self.requests]

    def changes(self) -> list[str]:
        """The requests that have changed something."""
        made = [("DELETE", ""), ("PUT", ""), *CHANGES]
        return [f"{method} {path}" for method, path, _, _ in self.requests if (method, _what(path)) in made]

    def answer(self, method: str, path: str, body: Any, headers: dict[str, str]) -> tuple[int, Any] | None:
        self.requests.append((method, path, body, headers))
        if self.away:
            return None
        if self.key and headers.get("api-key") != self.key:
            return 401, None
        if self.busy:
            self.busy -= 1
            return self.busy_status, None
        name, what = path.strip("/").split("/")[1], _what(path)
        changes = (method, what) in CHANGES
        if self.fail_after is not None and changes:
            if self.fail_after == 0:
                return None
            self.fail_after -= 1
        if (method, what) == ("GET", "exists"):
            return 200, {"exists": self.held.collection_exists(name)}
        if (method, what) != ("PUT", "") and not self.held.collection_exists(name):
            return 404, None
        done: dict[tuple[str, str], Callable[[], Any]] = {
            ("PUT", ""): lambda: self._create(name, models.CreateCollection.model_validate(body)),
            ("GET", ""): lambda: self.held.get_collection(name),
            ("PATCH", ""): lambda: self.held.update_collection(name, metadata=body["metadata"]),
            ("DELETE", ""): lambda: self.held.delete_collection(name),
            ("PUT", "points"): lambda: self.held.upsert(name, models.PointsList.model_validate(body).points),
            ("POST", "points/delete"): lambda: self.held.delete(name, models.Filter.model_validate(body["filter"])),
            ("POST", "points/payload"): lambda: self.held.set_payload(
                name, body["payload"], models.Filter.model_validate(body["filter"])
            ),
            ("POST", "points/payload/delete"): lambda: self.held.delete_payload(
                name, body["keys"], models.Filter.model_validate(body["filter"])
            ),
            ("PUT", "index"): lambda: self._index(name, body["field_name"], body["field_schema"]),
            ("POST", "points/count"): lambda: self.held.count(
                name, models.Filter.model_validate(body["filter"]), exact=body["exact"]
            ),
            ("POST", "points/scroll"): lambda: self._scroll(name, models.ScrollRequest.model_validate(body)),
            ("POST", "points/query/batch"): lambda: self.held.query_batch_points(
                name, QueryRequestBatch.model_validate(body).searches
            ),
        }
        result = done[method, what]()
        plain = [answer.model_dump(mode="json") for answer in result] if isinstance(result, list) else result
        return 200, plain.model_dump(mode="json") if hasattr(plain, "model_dump") else plain

    def _create(self, name: str, asked: models.CreateCollection) -> bool:
        return self.held.create_collection(
            name,
            vectors_config=asked.vectors,
            sparse_vectors_config=asked.sparse_vectors,
            metadata=asked.metadata,
        )

    def _index(self, name: str, field: str, schema: str) -> models.UpdateResult:
        self.indexed.append((name, field, schema))  # qdrant-client's memory has no indexes of payloads
        return models.UpdateResult(operation_id=0, status=models.UpdateStatus.COMPLETED)

    def _scroll(self, name: str, asked: models.ScrollRequest) -> models.ScrollResult:
        points, offset = self.held.scroll(
            name,
            asked.filter,
            asked.limit,
            offset=asked.offset,
            with_payload=asked.with_payload,
            with_vectors=asked.with_vector,
        )
        return models.ScrollResult(points=points, next_page_offset=offset)


def _what(path: str) -> str:
    """What is asked of a collection."""
    return "/".join(path.strip("/").split("/")[2:])
