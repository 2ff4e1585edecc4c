"""What vectors cost on their way to a Qdrant server by HTTP (JSON) and by gRPC: bytes, and the client's processor time.

    python benchmarks/qdrant_upload.py

The server is another process that takes every request and keeps nothing, so that the client alone is measured. Both
ways take turns.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

from visir.retrieval.remote.engine import Point, name_address
from visir.retrieval.remote.index import VALUES, upload
from visir.retrieval.remote.qdrant import QdrantEngine
from visir.retrieval.remote.settings import Place


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--vectors", type=int, default=20_000)
    parser.add_argument("--dimension", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    ports: Any = multiprocessing.Queue()
    bytes_taken = multiprocessing.Value("q", 0)
    taking = multiprocessing.Process(target=take, args=(ports, bytes_taken), daemon=True)
    taking.start()
    http, binary = ports.get(timeout=60)
    url = f"http://127.0.0.1:{http}"
    name_address(url, binary)
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((options.vectors, options.dimension), np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    engines = {
        "HTTP": QdrantEngine("photos", Place(url=url)),
        "gRPC": QdrantEngine("photos", Place(url=url, grpc=binary)),
    }
    spent: dict[str, list[tuple[float, float]]] = {name: [] for name in engines}
    taken: dict[str, int] = {}
    for _ in range(options.rounds):
        for name, engine in engines.items():
            before, clock, processor = bytes_taken.value, time.perf_counter(), time.process_time()
            upload(engine, batches(vectors), len(vectors))
            spent[name].append((time.process_time() - processor, time.perf_counter() - clock))
            taken[name] = bytes_taken.value - before
    taking.terminate()
    thousands = options.vectors / 1000
    for name, times in spent.items():
        processor, clock = (statistics.median(seconds) for seconds in zip(*times, strict=True))
        print(
            f"{name}: {taken[name] / thousands / 1e6:.2f} MB and {processor / thousands:.3f} s of processor time for "
            f"1,000 vectors of {options.dimension}; {options.vectors / clock:,.0f} vectors a second of the clock"
        )


def batches(vectors: Any) -> Iterator[list[Point]]:
    """As an index sends them: so many that a request has a quarter of a million values."""
    step = max(1, min(4096, VALUES // vectors.shape[1]))
    for start in range(0, len(vectors), step):
        yield [
            Point(f"photo-{start + at:07d}.jpg", {"dense": row}) for at, row in enumerate(vectors[start : start + step])
        ]


def take(ports: Any, taken: Any) -> None:
    """A server with both ports that counts what comes."""
    from concurrent.futures import ThreadPoolExecutor

    import grpc
    from qdrant_client import grpc as messages

    def count(more: int) -> None:
        with taken.get_lock():
            taken.value += more

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_PUT(self) -> None:
            count(len(self.rfile.read(int(self.headers["Content-Length"]))))
            said = json.dumps(
                {"result": {"operation_id": 0, "status": "completed"}, "status": "ok", "time": 0}
            ).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *_: Any) -> None:
            pass

    class Anything(grpc.GenericRpcHandler):  # type: ignore[misc]
        def service(self, _: Any) -> Any:
            return grpc.unary_unary_rpc_method_handler(self.answer)

        def answer(self, request: bytes, _: Any) -> bytes:
            count(len(request))
            done = messages.UpdateResult(operation_id=0, status=messages.UpdateStatus.Completed)
            said: bytes = messages.PointsOperationResponse(result=done).SerializeToString()
            return said

    server = grpc.server(ThreadPoolExecutor(8), (Anything(),), options=[("grpc.max_receive_message_length", -1)])
    binary = server.add_insecure_port("127.0.0.1:0")
    server.start()
    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    ports.put((http.server_port, binary))
    http.serve_forever()


if __name__ == "__main__":
    main()
