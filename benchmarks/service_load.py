"""Requests a second of `visir library serve` beside a naive handler with the same model, and whether memory stays flat.

    python benchmarks/service_load.py Photos.visir [--clients 1 8 64] [--seconds 10] [--rounds 3]
    python benchmarks/service_load.py --synthetic 123000 --model runs/towers
    python benchmarks/service_load.py Photos.visir --minutes 10

The service, the naive services, and one process that plays all clients over kept
connections (a raw socket each, which costs a twentieth of what answering costs). Servers take turns, round by round.

- "text": every query is another one, so that no cache answers. Words are drawn by a seed; 5 to 12 in a query.
- "text again": 100 queries, again and again: what a cache makes of it
- "like this": similar items of a random item: no encoder

The naive service is what one writes first: FastAPI, a plain `def` endpoint, one text through the same model, one
product with the matrix of unit vectors, the best ten of it. It answers with ids and scores alone. FastAPI calls it on
forty threads, each of which wants all cores for its products; "naive 1" is the same with one thread for each product,
which is what one does when that has been noticed. The ratios are to the better of the two.
`--synthetic N` makes a library of N random vectors: as large as wanted, with nothing to see in it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

WORDS = [
    "a", "an", "the", "two", "three", "some", "many", "small", "large", "red", "blue",
    "green", "black", "white", "brown", "old", "young", "wet", "wooden", "dog", "cat", "horse",
    "bird", "man", "woman", "child", "girl", "boy", "people", "group", "runner", "player", "rider",
    "climber", "runs", "jumps", "sits", "stands", "walks", "swims", "climbs", "plays", "throws", "catches",
    "holds", "looks", "rides", "on", "in", "under", "over", "near", "beside", "behind", "through",
    "across", "along", "water", "grass", "snow", "sand", "road", "street", "beach", "mountain", "river",
    "field", "forest", "house", "bridge", "car", "bicycle", "boat", "train", "ball", "stick", "rope",
    "hat", "shirt", "jacket", "bench", "table", "window", "door", "wall", "fence", "tree", "rock",
    "sky", "sun", "night", "rain", "crowd", "market", "park", "garden", "lake",
]  # fmt: skip

QUERIES = ("text", "text again", "like this")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", type=Path, nargs="?")
    parser.add_argument("--synthetic", type=int, metavar="N")
    parser.add_argument("--model", default="", help="for --synthetic")
    parser.add_argument("--kind", default="exact", help="of the index, for --synthetic")
    parser.add_argument("--queries", nargs="+", choices=QUERIES, default=QUERIES)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--minutes", type=float, help="instead: this long with the most clients, memory every 30 s")
    parser.add_argument("--no-naive", action="store_true")
    parser.add_argument("--threads", type=int, default=0, help="as visir library serve takes it")
    parser.add_argument("--device", help="as visir library serve takes it")
    parser.add_argument("--deterministic", action="store_true", help="as visir library serve takes it")
    parser.add_argument("--naive-server", type=int, metavar="PORT", help=argparse.SUPPRESS)
    parser.add_argument("--drive", metavar="JSON", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.drive:
        drive(**json.loads(asked.drive))
        return
    with tempfile.TemporaryDirectory() as scratch:
        library = asked.library
        if asked.synthetic:
            library = Path(scratch) / "synthetic"
            make(library, asked.synthetic, asked.model, asked.kind)
        if library is None:
            parser.error("name a library, or --synthetic N")
        if asked.naive_server:
            naive(library, asked.naive_server)
        elif asked.minutes:
            endure(library, max(asked.clients), asked.minutes, asked.threads)
        else:
            compare(library, asked)


def compare(library: Path, asked: argparse.Namespace) -> None:
    """The table: kinds of queries × clients, the service and the naive one in turns."""
    from visir.library.snapshot import LibrarySnapshot

    with LibrarySnapshot.open(library) as opened:
        items, name = len(opened), opened.name
        ids = [one for (one,) in opened.database.rows("SELECT id FROM items ORDER BY id LIMIT 1000")]
    print(f"{name}: {items:,} items; {os.cpu_count()} cores, shared with the clients; best of {asked.rounds} rounds\n")
    print(f"{'queries':12} {'clients':>7} {'server':>8} {'req/s':>8} {'p50 ms':>8} {'p95 ms':>8} {'p99 ms':>8} "
          f"{'errors':>6} {'cpu ms':>7} {'ratio':>6}")  # fmt: skip
    extra = ("--rate", "0", *(["--deterministic"] if asked.deterministic else []))
    extra += ("--device", asked.device) if asked.device else ()
    servers = {"visir": serve(library, asked.threads, extra)}
    if not asked.no_naive:
        servers |= {"naive": serve_naive(library, {}), "naive 1": serve_naive(library, {"OMP_NUM_THREADS": "1"})}
    try:
        for queries in asked.queries:
            for clients in asked.clients:
                best: dict[str, dict[str, Any]] = {}
                for turn in range(asked.rounds):
                    for who, (process, port) in servers.items():
                        before = cpu(process.pid)
                        found = driven(port, name, who, queries, clients, asked.seconds, turn, ids)
                        found["cpu"] = (cpu(process.pid) - before) / max(1, found["with warm-up"]) * 1000
                        if who not in best or found["rate"] > best[who]["rate"]:
                            best[who] = found
                for who, found in best.items():
                    rival = max((best[one]["rate"] for one in best if one != "visir"), default=0.0)
                    ratio = f"{found['rate'] / rival:.1f} ×" if rival else ""
                    print(f"{queries:12} {clients:7} {who:>8} {found['rate']:8.1f} {found['p50']:8.1f} "
                          f"{found['p95']:8.1f} {found['p99']:8.1f} {found['errors']:6} {found['cpu']:7.2f} "
                          f"{ratio if who == 'visir' else '':>6}", flush=True)  # fmt: skip
    finally:
        for process, _ in servers.values():
            process.send_signal(signal.SIGTERM)
            process.wait(30)


def endure(library: Path, clients: int, minutes: float, threads: int) -> None:
    """Memory over time, with all clients asking distinct texts."""
    from visir.library.snapshot import LibrarySnapshot

    with LibrarySnapshot.open(library) as opened:
        name = opened.name
    process, port = serve(library, threads)
    errors = requests = 0
    try:
        print(f"{'minute':>6} {'MiB':>8} {'req/s':>8} {'p99 ms':>8} {'errors':>6}")
        until, turn = time.monotonic() + minutes * 60, 0
        while time.monotonic() < until:
            found = driven(port, name, "visir", "text", clients, 30, turn, [])
            turn += 1
            errors, requests = errors + found["errors"], requests + found["requests"]
            print(f"{turn / 2:6.1f} {memory(process.pid):8.1f} {found['rate']:8.1f} {found['p99']:8.1f} "
                  f"{found['errors']:6}", flush=True)  # fmt: skip
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(60)
    print(f"{requests:,} requests, {errors} errors; exit status after SIGTERM: {code}")


def serve(library: Path, threads: int, options: Sequence[str] = ("--rate", "0")) -> tuple[subprocess.Popen[str], int]:
    """`visir library serve` in a process of its own; its port."""
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "visir",
            "library",
            "serve",
            str(library),
            "--port",
            "0",
            "--threads",
            str(threads),
            *options,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    said = process.stdout.readline()
    return process, int(said.split("http://127.0.0.1:")[1].split("/")[0])


def serve_naive(library: Path, environment: dict[str, str]) -> tuple[subprocess.Popen[str], int]:
    """The naive service in a process of its own; its port."""
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, __file__, str(library), "--naive-server", str(port)],
        text=True,
        stdout=subprocess.DEVNULL,
        env={**os.environ, **environment},
    )
    for _ in range(600):
        with socket.socket() as attempt:
            if attempt.connect_ex(("127.0.0.1", port)) == 0:
                return process, port
        time.sleep(0.2)
    raise SystemExit("the naive service did not start")


def naive(library: Path, port: int) -> None:
    """One request, one text, one product."""
    import uvicorn
    from fastapi import FastAPI
    from pydantic import BaseModel

    from visir.encoders import load
    from visir.library.snapshot import LibrarySnapshot

    opened = LibrarySnapshot.open(library)
    documents = opened.indexes["dense"].documents().normalise()
    ids, matrix = documents.ids.to_pylist(), documents.vectors
    places = {one: at for at, one in enumerate(ids)}
    encoder = load(opened.model)
    encoder.encode_texts(["a photo"])
    app = FastAPI()

    class LimitedBody(BaseModel):
        text: str
        k: int = 10

    def best(vector: np.ndarray, k: int) -> dict[str, Any]:
        scores = matrix @ (vector / np.linalg.norm(vector))
        top = np.argpartition(-scores, k)[:k]
        top = top[np.argsort(-scores[top])]
        return {"hits": [{"id": ids[at], "score": float(scores[at])} for at in top]}

    def search(body: LimitedBody) -> dict[str, Any]:
        return best(encoder.encode_texts([body.text])[0], body.k)

    @app.get("/similar/{item}")
    def similar(item: str) -> dict[str, Any]:
        return best(matrix[places[item]], 10)

    search.__annotations__["body"] = LimitedBody  # FastAPI would look for that name in the module
    app.post("/search")(search)
    uvicorn.run(app, port=port, log_level="warning", access_log=False)


def driven(
    port: int, library: str, who: str, queries: str, clients: int, seconds: float, seed: int, ids: list[str]
) -> dict[str, Any]:
    """What all clients saw, from a process of their own."""
    work = {"port": port, "library": library, "who": who, "queries": queries, "clients": clients, "seconds": seconds,
            "seed": seed, "ids": ids}  # fmt: skip
    said = subprocess.run(
        [sys.executable, __file__, "--drive", json.dumps(work)], capture_output=True, text=True, check=True
    )
    found: dict[str, Any] = json.loads(said.stdout)
    return found


def drive(
    port: int, library: str, who: str, queries: str, clients: int, seconds: float, seed: int, ids: list[str]
) -> None:
    """Play all clients; print what they saw as JSON."""
    asking = bodies(library, who, queries, seed, ids)
    took: list[float] = []
    errors: list[int] = []

    async def client(until: float) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while (began := time.perf_counter()) < until:
            writer.write(next(asking))
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
            if head[9:12] != b"200":
                errors.append(int(head[9:12]))
            took.append(time.perf_counter() - began)
        writer.close()

    async def everybody(length: float) -> None:
        until = time.perf_counter() + length
        await asyncio.gather(*(client(until) for _ in range(clients)))

    asyncio.run(everybody(min(2.0, seconds / 3)))  # warm
    warm = len(took)
    took.clear()
    errors.clear()
    began = time.perf_counter()
    asyncio.run(everybody(seconds))
    wall = time.perf_counter() - began
    p50, p95, p99 = (float(one) * 1000 for one in np.percentile(took, [50, 95, 99]))
    print(json.dumps({"rate": len(took) / wall, "p50": p50, "p95": p95, "p99": p99, "errors": len(errors),
                      "requests": len(took), "with warm-up": warm + len(took)}))  # fmt: skip


def bodies(library: str, who: str, queries: str, seed: int, ids: list[str]) -> Iterator[bytes]:
    """Requests, as they go over the wire."""
    draw = random.Random(f"{seed} {who} {queries}")
    again = [" ".join(draw.choices(WORDS, k=draw.randint(5, 12))) for _ in range(100)]
    while True:
        if queries == "like this":
            item = draw.choice(ids)
            path = f"/v1/libraries/{library}/items/{item}/similar" if who == "visir" else f"/similar/{item}"
            yield f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode()
            continue
        text = draw.choice(again) if queries == "text again" else " ".join(draw.choices(WORDS, k=draw.randint(5, 12)))
        path = f"/v1/libraries/{library}/search" if who == "visir" else "/search"
        data = json.dumps({"text": text, "k": 10}).encode()
        head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        yield f"{head}content-length: {len(data)}\r\n\r\n".encode() + data


def make(folder: Path, n: int, model: str, kind: str) -> None:
    """A library of `n` random vectors under this model: ids are hashes of numbers, each with a random perceptual hash
    and a caption; there are no pictures.
    """
    import pyarrow as pa

    from visir.encoders import load
    from visir.library.database import Database
    from visir.library.layout import LIBRARY, LibraryCard
    from visir.library.models import names_of
    from visir.library.updating import commit
    from visir.records import Embeddings
    from visir.retrieval.kinds import build_index
    from visir.storage import changing

    encoder, draw = load(model), random.Random(0)
    ids = sorted(sha256(str(at).encode()).hexdigest()[:32] for at in range(n))
    vectors = np.random.default_rng(0).standard_normal((n, encoder.dimension), np.float32)

    def write(database: Database) -> None:
        with database.writing():
            database.run_many(
                "INSERT INTO items(id, category, added, phash) VALUES (?, '', '', ?)",
                ((one, f"{draw.getrandbits(256):064x}") for one in ids),
            )
            database.run_many(
                "INSERT INTO files(path, item, mark, name, category) VALUES (?, ?, '', ?, '')",
                ((f"{at}.jpg", one, f"{at}.jpg") for at, one in enumerate(ids)),
            )
            database.run_many(
                "INSERT INTO captions VALUES (?, ?, ?)",
                ((f"{at}#0", one, " ".join(draw.choices(WORDS, k=8))) for at, one in enumerate(ids)),
            )

    card = LibraryCard(
        folder.name, "synthetic", model=names_of(model, None)[0], kinds={"dense": kind},
        cards={"dense": encoder.card.to_dict()},
    )  # fmt: skip
    with changing(folder, LIBRARY, busy="another process is making it") as change:
        build_index(Embeddings("image", pa.array(ids), vectors, encoder.card), kind, folder / "dense")
        commit(change, card, write, removed={})


def cpu(pid: int) -> float:
    """Processor seconds of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid: int) -> float:
    """MiB that a process holds."""
    said = Path(f"/proc/{pid}/status").read_text()
    return int(said.split("VmRSS:")[1].split()[0]) / 1024


if __name__ == "__main__":
    main()
