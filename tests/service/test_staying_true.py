"""A service shows what lies on disk, and says when it does not: libraries swapped and remade while served, folders
that go away, tasks that fail, logs that cannot be written. Real processes.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image

from refusals import refused

pytest.importorskip("fastapi", reason="the extra serve is not installed")

from served import AT, draw, make, process, until

from visir.errors import ConfigurationError
from visir.library.service.registry import Lease, PeriodicTask
from visir.library.service.running import listening
from visir.library.updating import update
from visir.serving.logs import ServiceLog

TRUE_WITHIN = 2.0
"""Seconds after which no deleted photo may be shown: a look every fifth of a second, and time to open the library."""


class Asked:
    """A running service, asked over HTTP."""

    def __init__(self, port: int) -> None:
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30)

    def items(self, **body: Any) -> set[str]:
        answer = self.client.post(f"{AT}/search", json={"text": "a dog", "k": 50, "system": "dense", **body})
        assert answer.status_code == 200, answer.text
        return {hit["id"] for hit in answer.json()["hits"]}

    def ready(self) -> tuple[int, dict[str, Any]]:
        answer = self.client.get("/v1/ready")
        (held,) = answer.json()["libraries"]
        return answer.status_code, held


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("true"))


@pytest.fixture
def place(made: Path, tmp_path: Path) -> Path:
    """A library "photos" and its source beside it, to be changed."""
    models = made.parent / "models"
    shutil.copytree(made.parent / "source", tmp_path / "source")
    update(tmp_path / "source", tmp_path / "photos", model=models / "dense", head=models / "sparse")
    return tmp_path


@pytest.mark.parametrize("way", ["mv", "anew"])
def test_another_library_in_its_place_is_served(place: Path, way: str) -> None:
    """Both are of generation 1 and of the same name; the new one has another model and lacks some photos."""
    library, other = place / "photos", place / "other"
    draw(place / "fewer", range(0, 24, 2))
    if way == "mv":
        update(place / "fewer", other / "photos", model="pixels")
    with process(library, reload=0.2) as (_, port):
        service = Asked(port)
        every = service.items()
        assert len(every) == 24 and service.ready()[1]["generation"] == 1
        if way == "mv":
            library.rename(place / "before")
            (other / "photos").rename(library)
        else:
            shutil.rmtree(library)
            update(place / "fewer", library, model="pixels")
        like: dict[str, Any] = {}

        def is_new() -> bool:
            listed = service.client.get(f"{AT}/items", params={"k": 50}).json()["items"]
            like["id"] = listed[0]["id"]
            return len(listed) == 12

        assert until(is_new) < TRUE_WITHIN
        found = service.items(text=None, like=like["id"])
        assert len(found) == 11 and found < every
        assert service.client.post(f"{AT}/search", json={"text": "a dog"}).status_code == 422  # pixels know no words
        status, held = service.ready()
        assert (status, held["status"], held["generation"], held["on_disk"]) == (200, "current", 1, 1)


def test_a_deleted_photo_is_not_shown_longer_than_promised(place: Path) -> None:
    with process(place / "photos", reload=0.2) as (_, port):
        service = Asked(port)
        for _ in range(3):
            before = service.items()
            next((place / "source").rglob("*.png")).unlink()
            update(None, place / "photos")
            assert until(lambda before=before: len(service.items()) == len(before) - 1) < TRUE_WITHIN  # type: ignore[misc]
            assert service.ready()[1]["generation"] == service.ready()[1]["on_disk"]


def test_what_cannot_be_compared_with_the_disk_is_not_served_for_long(place: Path) -> None:
    """The folder is away, comes back; what lies there is damaged, and mended."""
    library, away = place / "photos", place / "away"
    with process(library, reload=0.1, stale=0.6) as (_, port):
        service = Asked(port)
        until(lambda: service.ready()[1]["status"] == "current")
        picture = f"{AT}/items/{next(iter(service.items()))}/thumbnail"
        had = {"If-None-Match": service.client.get(picture).headers["etag"]}
        assert service.client.get(picture, headers=had).status_code == 304
        for spoil, mend, fault in (
            (lambda: library.rename(away), lambda: away.rename(library), "its folder is not there"),
            (lambda: _damage(library), lambda: _mend(library), "LibraryError"),
        ):
            spoil()
            assert until(lambda: service.ready()[0] == 503) < 3
            held = service.ready()[1]
            assert held["status"] == "stale" and fault in held["fault"] and str(place) not in str(held)
            for method, path, body in (("POST", "search", {"text": "a dog"}), ("GET", "categories", None)):
                answer = service.client.request(method, f"{AT}/{path}", json=body)
                assert answer.status_code == 503 and "retry-after" in answer.headers
            assert service.client.get(picture, headers=had).status_code == 503  # nor what a browser has kept
            mend()
            until(lambda: service.ready()[0] == 200)
            assert len(service.items()) == 24 and service.ready()[1]["fault"] is None


def _damage(library: Path) -> None:
    shutil.copy(library / "visir.json", library.parent / "kept.json")
    (library / "visir.json").write_text("{}")


def _mend(library: Path) -> None:
    shutil.copy(library.parent / "kept.json", library / "visir.json")


FAULTY = """
import itertools, time
from visir.library.searcher import Searcher
real, count = Searcher.reload, itertools.count()
def reload(self):
    number = next(count)
    if number < 3:
        raise ({kind})("nobody expected this")
    return real(self)
Searcher.reload = reload
"""

HANGING = """
import time
from visir.library.searcher import Searcher
Searcher.reload = lambda self: time.sleep(1000)
"""


@pytest.mark.parametrize("kind", ["MemoryError", "SystemExit", "OSError"])
def test_a_look_that_fails_unexpectedly_is_repeated(place: Path, kind: str) -> None:
    with process(place / "photos", first=FAULTY.format(kind=kind), reload=0.1) as (_, port):
        service = Asked(port)
        next((place / "source").rglob("*.png")).unlink()
        update(None, place / "photos")
        until(lambda: len(service.items()) == 23)
        assert service.ready()[0] == 200


def test_a_look_that_hangs_is_told(place: Path) -> None:
    hanging = (
        "import time\nfrom visir.library.searcher import Searcher\nSearcher.reload = lambda self: time.sleep(1000)"
    )
    with process(place / "photos", first=hanging, reload=0.1, stale=0.5) as (running, port):
        service = Asked(port)
        until(lambda: service.ready()[0] == 503)
        assert "nobody has looked" in service.ready()[1]["fault"]
        running.send_signal(signal.SIGTERM)
        assert running.wait(15) == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_log_disk_stops_nothing(place: Path) -> None:
    with Path("/dev/full").open("wb") as full, process(place / "photos", log=full, reload=0.1) as (running, port):
        service = Asked(port)
        for left in (23, 22):  # the first one that the log could not be told of was the last that was looked for
            next((place / "source").rglob("*.png")).unlink()
            update(None, place / "photos")
            until(lambda left=left: len(service.items()) == left)  # type: ignore[misc]
        assert service.ready()[0] == 200

        def lost() -> float:  # lines are written, and lost, on a thread of the log
            return float(service.client.get("/metrics").text.split("visir_log_lines_lost ")[-1].split("\n")[0])

        until(lambda: lost() >= 2)
        running.send_signal(signal.SIGTERM)
        assert running.wait(15) == 0


def test_a_log_reader_that_hangs_stops_nothing(place: Path) -> None:
    """A pipe that nobody reads holds some 300 lines; 1,500 requests are answered, and the service ends when told."""
    with process(place / "photos", log=subprocess.PIPE, rate=0.0, reload=0.1) as (running, port):
        service = Asked(port)
        for _ in range(1500):
            assert service.client.get("/v1/health", timeout=5).status_code == 200
        next((place / "source").rglob("*.png")).unlink()
        update(None, place / "photos")
        until(lambda: len(service.items()) == 23)
        running.send_signal(signal.SIGTERM)
        assert running.wait(15) == 0


def test_the_log_says_how_many_lines_it_lost() -> None:
    class Torn(BytesIO):
        full = True

        def write(self, data: Any) -> int:
            if self.full:
                raise OSError(28, "No space left on device")
            return super().write(data)

    stream = Torn()
    log = ServiceLog(stream)
    for number in range(5):
        log.write("info", "lost", number=number)
    assert log.flush() and log.dropped == 5 and log.fault == "No space left on device"
    stream.full = False
    log.write("info", "kept", name="caf\udce9.jpg")
    assert log.flush() and log.fault == ""
    first, second = stream.getvalue().splitlines()
    assert b'"lost":5' in first and b"caf" in second
    log.close()


def test_a_task_goes_on_whatever_it_raises() -> None:
    stream, calls = BytesIO(), []
    log = ServiceLog(stream)

    def work() -> None:
        calls.append(time.monotonic())
        if len(calls) <= 3:
            raise ZeroDivisionError("the same each time")

    task = PeriodicTask(work, interval=0.01, name="count", log=log)
    until(lambda: len(calls) > 6)
    task.stop()
    assert log.flush() and stream.getvalue().count(b"the same each time") >= 1
    assert len(stream.getvalue().splitlines()) == 1  # said once, with where it was
    assert b"Traceback" in stream.getvalue()


def test_a_lease() -> None:
    """By hand: renewed from when a look began, out when nobody renews it, endless where nobody looks."""
    lease, endless = Lease(1.0, 3), Lease(None, 3)
    assert (lease.status, lease.refusal()) == ("current", None)
    lease.failed("away", None)
    assert (
        lease.status == "behind"
        and lease.status_record()["generation"] == 3
        and lease.status_record()["on_disk"] is None
    )
    until(lambda: lease.status == "stale")
    refusal = lease.refusal()
    assert refusal is not None and refusal.status == 503 and endless.refusal() is None
    lease.renew(time.monotonic() - 2, 4)  # a look that began long ago proves nothing about now
    assert lease.status == "stale"
    lease.renew(time.monotonic(), 4)
    assert lease.status_record()["status"] == "current" and lease.status_record()["on_disk"] == 4


def test_of_two_services_on_one_port_one_serves(made: Path) -> None:
    """Both are started at once, and load their models at the same time."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "visir", "library", "serve", str(made), "--port", str(port)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    pipe = subprocess.PIPE
    both = [subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment) for _ in range(2)]
    try:
        until(lambda: any(one.poll() is not None for one in both), 120)
        (loser,) = [one for one in both if one.poll() is not None]
        (winner,) = [one for one in both if one is not loser]
        said, fault = loser.communicate()
        assert loser.returncode == 2 and f"port {port} is in use by" in fault and "serves" not in said
        assert winner.stdout is not None and "serves" in winner.stdout.readline()
        assert httpx.get(f"http://127.0.0.1:{port}/v1/ready").status_code == 200
    finally:
        for one in both:
            one.kill()
            one.communicate()


def test_a_port_is_taken_before_models_are_loaded() -> None:
    with listening("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with refused(ConfigurationError, port, code="port-in-use"):
            listening("127.0.0.1", port)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root, to mount a folder read-only")
def test_a_service_that_may_only_read_the_library_follows_it(tmp_path: Path) -> None:
    """The library is mounted read-only where the service sees it; updates are made where it can be written."""
    photos, library, seen = tmp_path / "photos", tmp_path / "library", tmp_path / "seen"
    photos.mkdir()
    seen.mkdir()
    for number in range(4):
        Image.new("RGB", (40, 30), (60 * number, 90, 9)).save(photos / f"{number}.png")
    update(photos, library, model="pixels")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mounted = f"mount --bind {library} {seen} && mount -o remount,bind,ro {seen} && ! touch {seen}/x 2>/dev/null"
    if subprocess.run(["unshare", "-m", "sh", "-c", mounted], capture_output=True).returncode:
        pytest.skip("nothing can be mounted here")
    command = f"{mounted} && exec {sys.executable} -m visir library serve {seen} --port {port} --reload 0.2"
    running = subprocess.Popen(
        ["unshare", "-m", "sh", "-c", command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    at = f"http://127.0.0.1:{port}/v1/libraries/library/items?k=10"

    def items() -> int:
        with contextlib.suppress(httpx.TransportError):
            answer = httpx.get(at)
            return len(answer.json()["items"]) if answer.status_code == 200 else -answer.status_code
        return 0

    try:
        for expected in (4, 3):
            deadline = time.monotonic() + 60
            while items() != expected:
                assert time.monotonic() < deadline and running.poll() is None, items()
                time.sleep(0.1)
            (photos / "0.png").unlink(missing_ok=True)
            update(None, library)
    finally:
        running.terminate()
        running.wait(30)
