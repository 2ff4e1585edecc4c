"""Photos, a library of them, a model of purchases, applications over each, and real processes that serve them."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import orjson

sys.path.insert(0, str(Path(__file__).parents[1] / "library"))
sys.path.insert(0, str(Path(__file__).parents[1] / "sessions"))

from asked_toys import write_models
from visir.collections import open_collection
from visir.collections.images import ImageReader
from visir.library.service.app import create_app
from visir.library.service.settings import ServiceSettings
from visir.library.updating import update
from visir.serving.logs import ServiceLog

AT = "/v1/libraries/photos"
PATIENCE = 20.0
"""Seconds after which what a service must come to is missed, however busy the machine is."""


def draw(folder: Path, numbers: range) -> None:
    """Photos 0.png, 1.png, … in "town", "farm/spring" and "farm/autumn"."""
    reader = ImageReader(open_collection("scenes:40?size=64"))
    for number in numbers:
        place = folder / ("town", "farm/spring", "farm/autumn")[number % 3]
        place.mkdir(parents=True, exist_ok=True)
        reader.open(number).save(place / f"{number}.png")


def make(folder: Path) -> Path:
    """A library "photos" of 24 photos, dense and sparse."""
    dense, sparse = write_models(folder / "models")
    draw(folder / "source", range(24))
    update(folder / "source", folder / "photos", model=dense, head=sparse)
    return folder / "photos"


class Service:
    """An application that is asked without a server; its log is kept."""

    more: tuple[str, ...] = ()
    """What an error has besides."""

    def __init__(self, library: Path, **settings: Any) -> None:
        self.log = io.BytesIO()
        settings = {"rate": 0.0, **settings}
        self.app = self.made(library, settings, ServiceLog(self.log, queries=settings.get("log_queries", False)))

    def made(self, library: Path, settings: dict[str, Any], log: ServiceLog) -> Any:
        """The application."""
        return create_app(ServiceSettings((library,), **{"reload": 0.0, **settings}), log=log)

    def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        """One request, in an event loop of its own."""
        return self.together([(method, path, more)])[0]

    def together(self, requests: list[tuple[str, str, dict[str, Any]]]) -> list[httpx.Response]:
        """Several at the same time."""

        async def all_of_them() -> list[httpx.Response]:
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=False, client=("192.0.2.1", 1234))
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
                return await asyncio.gather(*(client.request(one, path, **more) for one, path, more in requests))

        return asyncio.run(all_of_them())

    def search(self, **body: Any) -> Any:
        """The JSON of a search that succeeds."""
        answer = self.ask("POST", f"{AT}/search", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def refused(self, method: str, path: str, **more: Any) -> tuple[int, dict[str, str]]:
        """Status and error of a request that does not."""
        answer = self.ask(method, path, **more)
        assert answer.headers["content-type"] == "application/json"
        error = answer.json()["error"]
        assert {"code", "message", "hint"} <= set(error) <= {"code", "message", "hint", "field", *self.more}
        return answer.status_code, error

    def written(self) -> bytes:
        """The log, as its bytes."""
        assert self.app.state.log.flush(30)
        return self.log.getvalue()

    def lines(self) -> list[dict[str, Any]]:
        """The log."""
        return [orjson.loads(line) for line in self.written().splitlines()]

    def close(self) -> None:
        """End its threads."""
        self.app.state.registry.close()


class Scores(Service):
    """The same of a model of purchases: `sessions serve`."""

    more = ("faults",)

    def made(self, library: Path, settings: dict[str, Any], log: ServiceLog) -> Any:
        """The application."""
        from visir.sessions.prediction.live import LiveScorer
        from visir.sessions.prediction.purchase_model import load_model
        from visir.sessions.prediction.service import ScoreService, ScoreSettings
        from visir.sessions.prediction.service import create_app as create_scores

        self.scores = ScoreService(LiveScorer(load_model(library)))
        return create_scores(self.scores, ScoreSettings(**settings), log=log)

    def close(self) -> None:
        """End its threads."""
        self.scores.close()


def make_model(folder: Path) -> Path:
    """A model of purchases, "buyers"."""
    from intent_log import folder_of, random_log

    from visir.sessions.prediction.training import train

    return train(folder_of(random_log(40), folder / "log"), "lr").save(folder / "buyers", even_if_worse=True)


EVENT = {"visitor": "v7", "time": 1_740_787_801_564_468, "action": "page"}


@dataclass(frozen=True)
class Kind:
    """A service of visir, as one who attacks every one of them sees it.

    Attributes:
        make: Makes what it serves.
        asked: Serves it without a server.
        read: A path that tells of what is served.
        write: A path that is posted to, and a body that it takes.
        scope: What a token needs.
        running: Code that serves FOLDER with SETTINGS in a process, and calls READY.
    """

    make: Callable[[Path], Path]
    asked: type[Service]
    read: str
    write: tuple[str, Any]
    scope: str
    running: str


KINDS = {
    "library": Kind(
        make,
        Service,
        f"{AT}/items",
        (f"{AT}/search", {"text": "a dog", "k": 1}),
        "search",
        "from visir.library.service.running import serve\n"
        "from visir.library.service.settings import ServiceSettings\n"
        "serve(ServiceSettings((Path(FOLDER),), **SETTINGS), '127.0.0.1', 0, READY)\n",
    ),
    "sessions": Kind(
        make_model,
        Scores,
        "/health",
        ("/v1/events", {"events": [EVENT]}),
        "score",
        "from visir.serving.logs import ServiceLog\nfrom visir.serving.server import listening, serve_app\n"
        "from visir.sessions.prediction.live import LiveScorer\n"
        "from visir.sessions.prediction.purchase_model import load_model\n"
        "from visir.sessions.prediction.service import ScoreService, ScoreSettings, create_app\n"
        "settings, service = ScoreSettings(**SETTINGS), ScoreService(LiveScorer(load_model(FOLDER)))\n"
        "waiting = listening('127.0.0.1', 0)\n"
        "serve_app(lambda log: create_app(service, settings, log=log), settings, waiting, READY, ServiceLog())\n",
    ),
}


@contextlib.contextmanager
def process(
    library: Path, *, kind: str = "library", log: Any = None, first: str = "", **settings: Any
) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A real service in a process of its own, and its port. `log`: its standard error; `first`: code that it begins
    with.
    """
    program = (
        f"import sys; from pathlib import Path\n{first}\nFOLDER, SETTINGS = {str(library)!r}, {settings!r}\n"
        f"READY = lambda at: print(at, flush=True)\n{KINDS[kind].running}"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    # The log goes into a file: a pipe that nobody reads is full after 300 lines, and the service would stand still.
    written = tempfile.TemporaryFile("w+")  # noqa: SIM115
    running = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=log or written, text=True, env=environment
    )
    try:
        assert running.stdout is not None
        said = running.stdout.readline()
        if not said:
            written.seek(0)
            raise AssertionError(written.read())
        yield running, int(said.rsplit(":", 1)[1].strip("/\n"))
    finally:
        running.kill()
        running.communicate()
        written.close()


def until(true: Callable[[], bool], seconds: float = PATIENCE) -> float:
    """Wait for it; how long it took."""
    began = time.monotonic()
    while not true():
        assert time.monotonic() - began < seconds, "it did not come true"
        time.sleep(0.02)
    return time.monotonic() - began


def metrics(port: int) -> str:
    """What a running service counts."""
    return httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=30).text


def connect(port: int) -> socket.socket:
    """A plain connection."""
    found = socket.create_connection(("127.0.0.1", port), timeout=30)
    found.settimeout(30)
    return found


def everything(connection: socket.socket) -> bytes:
    """What comes until the other side closes."""
    said = b""
    with contextlib.suppress(ConnectionError):
        while part := connection.recv(65536):
            said += part
    return said
