"""A service that is asked while its library changes every second: what is stale, what fails, and what grows.

    python benchmarks/service_soak.py [--minutes 10] [--clients 8] [--photos 400]

One process serves the library; one updates it every second; one watches the same photos (`visir library watch`); photos
appear, vanish and move all the while, some between an update's look and its end; clients search, ask for similar
pictures, look at items, pictures and thumbnails.

- stale: an answer of a generation that had been replaced on disk for more than 2 seconds when the answer came
- errors: every status but 200, but for 404s of what is gone: items that the newest library does not have, and photos
  that were deleted, moved or written in the last 5 seconds
- memory (USS: what is the process's own) and open files of the service, in the first and in the last fifth
"""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from hashlib import sha256
from pathlib import Path

import httpx
import numpy as np

from visir.collections import open_collection
from visir.collections.images import ImageReader
from visir.errors import VisirError
from visir.library import update
from visir.library.layout import LibraryCard
from visir.library.snapshot import LibrarySnapshot

STALE_SECONDS = 2.0
RECIPE = """name = "soak"
dimension = 64
[data]
collection = "scenes:300?size=64"
[image]
tower = "frozen"
encoder = "pixels"
[text]
tower = "frozen"
encoder = "bow:512"
[optimiser]
epochs = 2
batch = 64
"""
WORDS = [
    "a",
    "red",
    "blue",
    "green",
    "cat",
    "dog",
    "bird",
    "hat",
    "tree",
    "mountain",
    "sea",
    "sits",
    "on",
    "beside",
    "under",
    "two",
    "five",
    "pink",
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--photos", type=int, default=400)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(Path(folder), arguments.photos)
        soak.run(arguments.minutes * 60, arguments.clients)
        soak.report()


class Soak:
    """The library, the processes, and what was seen."""

    def __init__(self, folder: Path, photos: int) -> None:
        self.photos, self.library = folder / "photos", folder / "library"
        self.photos.mkdir()
        (folder / "soak.toml").write_text(RECIPE)
        _visir("train", folder / "soak.toml", "--out", folder / "model")
        self.pool = folder / "pool"
        self.pool.mkdir()
        reader = ImageReader(open_collection(f"scenes:{photos * 2}?size=64"))
        for number in range(len(reader)):
            reader.open(number).save(self.pool / f"{number}.png")
        for number in range(photos):
            shutil.copy(self.pool / f"{number}.png", self.photos)
        update(self.photos, self.library, model=str(folder / "model"))
        self.first = photos
        self.end = 0.0
        self.statuses: Counter[str] = Counter()
        self.errors: list[str] = []
        self.generations = {LibraryCard.read(self.library).generation: time.monotonic()}
        """From each generation to when it was first seen on disk."""
        self.lags: list[float] = []
        self.answers = self.updates = self.busy = 0
        self.ids = {path: sha256(path.read_bytes()).hexdigest()[:32] for path in self.pool.iterdir()}
        self.touched: dict[str, float] = {}
        """From each item to when its file was last written, moved or deleted."""
        self.measured: list[tuple[float, float, int]] = []

    def run(self, seconds: float, clients: int) -> None:
        """Let everything happen at once for so many seconds."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        service = subprocess.Popen(
            [sys.executable, "-m", "visir", "library", "serve", str(self.library), "--port", str(port), "--rate", "0"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        watcher = subprocess.Popen(
            [sys.executable, "-m", "visir", "library", "watch", str(self.library)],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        address = f"http://127.0.0.1:{port}"
        try:
            _wait(f"{address}/v1/ready")
            self.start = time.monotonic()
            self.end = self.start + seconds
            workers = [
                threading.Thread(target=work)
                for work in (self._change, self._update, self._look, lambda: self._measure(service.pid))
            ]
            for worker in workers:
                worker.start()
            asyncio.run(self._clients(address, clients))
            for worker in workers:
                worker.join()
            assert service.poll() is None, "the service has ended"
            if watcher.poll() is not None:
                assert watcher.stderr is not None
                self.errors.append(f"the watcher has ended: {watcher.stderr.read()[-500:]}")
        finally:
            for process in (service, watcher):
                process.terminate()
                process.wait(30)

    def report(self) -> None:
        """Print what was seen."""
        lags = np.array(self.lags or [0.0])
        fifth = max(1, len(self.measured) // 5)
        print(f"{self.answers:,} answers in {self.end - self.start:.0f} s, {dict(self.statuses)}")
        print(f"{len(self.generations) - 1} generations; {self.updates} updates, {self.busy} found the other at work")
        print(
            f"stale beyond {STALE_SECONDS:.0f} s: {(lags > STALE_SECONDS).sum()} answers; of a replaced generation: "
            f"{(lags > 0).sum():,}, the oldest {lags.max():.2f} s after it was replaced"
        )
        print(f"errors: {len(self.errors)}", *self.errors[:10], sep="\n  ")
        for name, part in (("first", self.measured[:fifth]), ("last", self.measured[-fifth:])):
            memory, opened = np.median([row[1] for row in part]), np.median([row[2] for row in part])
            print(f"service, {name} fifth: {memory:.0f} MB of its own, {opened:.0f} open files")

    def _change(self) -> None:
        """Photos appear, vanish and move, several a second."""
        rng, number = random.Random(1), self.first
        while time.monotonic() < self.end:
            there = list(self.photos.glob("*.png"))
            for _ in range(2):
                number = (number + 1) % (2 * self.first)
                self.touched[self.ids[self.pool / f"{number}.png"]] = time.monotonic()
                shutil.copy(self.pool / f"{number}.png", self.photos / f"{number}.png")
            first, second, moved = rng.sample(there, 3)
            for path in (first, second, moved):
                self.touched[sha256(path.read_bytes()).hexdigest()[:32]] = time.monotonic()
            for path in (first, second):
                path.unlink()
            if moved.exists():
                moved.rename(moved.with_name(f"moved-{rng.random():.6f}.png"))
            time.sleep(rng.uniform(0.2, 0.8))

    def _update(self) -> None:
        while time.monotonic() < self.end:
            began = time.monotonic()
            try:
                update(None, self.library)
                self.updates += 1
            except VisirError as fault:
                if "another process" in str(fault):
                    self.busy += 1
                else:
                    self.errors.append(f"update: {fault}")
            time.sleep(max(0.0, began + 1 - time.monotonic()))

    def _look(self) -> None:
        """What is on disk, and since when."""
        while time.monotonic() < self.end:
            generation = LibraryCard.read(self.library).generation
            if generation not in self.generations:
                self.generations[generation] = time.monotonic()
            time.sleep(0.02)

    def _measure(self, pid: int) -> None:
        while time.monotonic() < self.end:
            own = 0
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith(("Private_Clean:", "Private_Dirty:")):
                    own += int(line.split()[1])
            opened = len(list(Path(f"/proc/{pid}/fd").iterdir()))
            self.measured.append((time.monotonic(), own / 1024, opened))
            time.sleep(1)

    async def _clients(self, address: str, count: int) -> None:
        async with httpx.AsyncClient(base_url=address, timeout=30) as client:
            await asyncio.gather(*(self._client(client, seed) for seed in range(count)))

    async def _client(self, client: httpx.AsyncClient, seed: int) -> None:
        rng, seen = random.Random(seed), []
        at = f"/v1/libraries/{self.library.name}"
        while time.monotonic() < self.end:
            kind = rng.choice(["search", "similar", "item", "image", "thumbnail"]) if seen else "search"
            if kind == "search":
                body = {"text": " ".join(rng.choices(WORDS, k=6)), "k": 20}
                answer = await client.post(f"{at}/search", json=body)
            else:
                item = rng.choice(seen)
                path = {"item": "", "similar": "/similar?k=10"}.get(kind, f"/{kind}")
                answer = await client.get(f"{at}/items/{item}{path}")
            now = time.monotonic()
            self.answers += 1
            self.statuses[f"{kind} {answer.status_code}"] += 1
            if answer.status_code == 200 and kind in ("search", "similar"):
                said = answer.json()
                seen = (seen + [hit["id"] for hit in said["hits"]])[-200:]
                self._check_age(said["generation"], now)
            elif answer.status_code == 404 and kind != "search":
                if now - self.touched.get(item, -1e9) > 5 and self._is_there(item):
                    age = now - self.touched.get(item, -1e9)
                    self.errors.append(
                        f"{kind} {item}: 404, it is there, and its file was last touched {age:.1f} s ago"
                    )
            elif answer.status_code != 200:
                self.errors.append(f"{kind}: {answer.status_code}: {answer.text[:200]}")
            await asyncio.sleep(rng.uniform(0, 0.02))

    def _check_age(self, generation: int, now: float) -> None:
        """How long an answer's generation had been replaced."""
        later = [seen for number, seen in list(self.generations.items()) if number > generation]
        self.lags.append(max(0.0, now - min(later)) if later else 0.0)

    def _is_there(self, item: str) -> bool:
        """Whether the newest library has it."""
        with LibrarySnapshot.open(self.library) as library:
            return bool(library.database.rows("SELECT 1 FROM items WHERE id = ?", [item]))


def _visir(*arguments: object) -> None:
    subprocess.run([sys.executable, "-m", "visir", *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)


def _wait(address: str) -> None:
    for _ in range(600):
        try:
            if httpx.get(address).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    raise SystemExit(f"{address}: not ready within a minute")


if __name__ == "__main__":
    main()
