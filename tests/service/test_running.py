"""Real processes: shutdown, slow clients, many at once, kill -9 while serving and updating; the verbs."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")


from served import AT, Service, connect, draw, everything, make, metrics, process, until

from verbs import say
from visir.cli.classify import revoke, show
from visir.library.cli.serve import new, serve


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("running"))


@pytest.fixture(scope="module")
def running(folder: Path) -> Iterator[int]:
    """The port of a service that has little patience."""
    settings = {"rate": 0.0, "threads": 1, "header_timeout": 2.0, "body_timeout": 2.0, "connections": 80}
    with process(folder, deterministic=True, **settings) as (_, port):
        yield port


def post(body: bytes, *more: str) -> bytes:
    """A search as it goes over the wire."""
    head = ["POST /v1/libraries/photos/search HTTP/1.1", "Host: localhost", "Content-Type: application/json"]
    return "\r\n".join([*head, f"Content-Length: {len(body)}", *more, "", ""]).encode() + body


def test_an_answer_does_not_depend_on_its_neighbours(folder: Path, running: int) -> None:
    """65 requests all at once, and one after another in another process: the same bytes but for the times.

    With the setting `deterministic`; otherwise scores differ by rounding.

    Another process, because a service remembers the vectors of texts.
    """
    words = ["a", "red", "green", "blue", "small", "large", "kite", "boat", "house", "tree", "dog", "sky", "sea"]
    texts = [" ".join(words[(at * step) % len(words)] for step in range(1, 2 + at % 7)) for at in range(65)]
    systems = ("dense", "sparse", "hybrid")
    bodies: list[dict[str, Any]] = [
        {"text": text, "system": systems[at % 3], "k": 5 + at % 4} for at, text in enumerate(texts)
    ]
    bodies[7]["where"] = [{"field": "width", "op": ">", "value": 1}]
    bodies[9] = {"text": "a", "where": [{"field": "none", "op": "=", "value": 1}]}  # a fault among them

    async def all_at_once(port: int) -> list[httpx.Response]:
        limits = httpx.Limits(max_connections=65)
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", limits=limits, timeout=60) as client:
            return await asyncio.gather(*(client.post(f"{AT}/search", json=body) for body in bodies))

    together = asyncio.run(all_at_once(running))
    counted = metrics(running)
    service = Service(folder, threads=1, deterministic=True)
    alone = [service.ask("POST", f"{AT}/search", json=body) for body in bodies]
    service.close()
    for body, one, other in zip(bodies, alone, together, strict=True):
        assert untimed(one) == untimed(other), body
        assert one.status_code == (422 if body["text"] == "a" and "where" in body else 200), one.text
    batches = float(counted.split('visir_batch_size_count{library="photos"} ')[1].split("\n")[0])
    assert batches < 60, "nothing was answered together"


def untimed(answer: httpx.Response) -> bytes:
    said = answer.json()
    said.pop("seconds", None)
    return json.dumps(said).encode()


def refuses(port: int) -> bool:
    """Whether nobody listens there."""
    try:
        connect(port).close()
    except OSError:
        return True
    return False


def test_sigterm_lets_requests_finish(folder: Path) -> None:
    """Half a body is there when the signal comes; the rest follows and is answered; nobody new gets in; status 0."""
    body = b'{"text": "a dog", "k": 2}'
    with process(folder) as (running, port):
        waiting = connect(port)
        waiting.sendall(post(body)[:-10])
        metrics(port)  # a later connection is answered, so the first has been taken
        running.send_signal(signal.SIGTERM)
        until(lambda: refuses(port))
        waiting.sendall(post(body)[-10:])
        said = everything(waiting)
        assert said.startswith(b"HTTP/1.1 200") and b'"hits"' in said
        assert running.wait(20) == 0


@pytest.mark.nightly
def test_sigterm_does_not_wait_for_ever(folder: Path) -> None:
    with process(folder, grace=1.0) as (running, port):
        waiting = connect(port)
        waiting.sendall(post(b'{"text": "a"}')[:-5])
        metrics(port)
        running.send_signal(signal.SIGTERM)
        assert running.wait(15) == 0


def test_slow_clients_are_left(running: int) -> None:
    """Nothing at all, half a header, half a body, too many headers, too long ones; others are answered meanwhile."""
    silent, header, body = connect(running), connect(running), connect(running)
    header.sendall(b"GET /v1/health HTTP/1.1\r\nHost: lo")
    body.sendall(post(b'{"text": "a"}')[:-5])
    assert httpx.get(f"http://127.0.0.1:{running}/v1/health").status_code == 200
    began = time.monotonic()
    assert everything(silent).startswith(b"HTTP/1.1 408") and everything(header).startswith(b"HTTP/1.1 408")
    assert everything(body).startswith(b"HTTP/1.1 408")
    assert time.monotonic() - began < 20
    many = connect(running)
    many.sendall(b"GET / HTTP/1.1\r\n" + b"".join(b"x-%d: y\r\n" % at for at in range(200)) + b"\r\n")
    assert everything(many).startswith(b"HTTP/1.1 431")
    long = connect(running)
    long.sendall(b"GET / HTTP/1.1\r\nx: " + b"y" * 200_000)
    assert everything(long).startswith(b"HTTP/1.1 4")
    broken = connect(running)
    broken.sendall(b"\x16\x03\x01 no HTTP\r\n\r\n")
    said = everything(broken)
    assert said.startswith(b"HTTP/1.1 400") and b'"code":"bad_request"' in said


@pytest.mark.nightly
def test_there_are_only_so_many_connections(folder: Path) -> None:
    with process(folder, connections=2) as (_, port):
        held = [connect(port), connect(port)]
        one_more = connect(port)
        said = everything(one_more)
        assert said.startswith(b"HTTP/1.1 503") and b"retry-after" in said
        held.pop().close()
        until(lambda: httpx.get(f"http://127.0.0.1:{port}/v1/health").status_code == 200)


def test_who_goes_away_frees_a_place(running: int) -> None:
    """64 clients ask and hang up at once: no fault comes of it, soon nothing waits, and the next is answered."""
    for at in range(64):
        gone = connect(running)
        gone.sendall(post(json.dumps({"text": f"a dog {at}"}).encode()))
        gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        gone.close()
    answer = httpx.post(f"http://127.0.0.1:{running}{AT}/search", json={"text": "a boat"}, timeout=30)
    assert answer.status_code == 200
    until(lambda: 'visir_queue_length{library="photos"} 0.0' in metrics(running))
    assert 'status="500"' not in metrics(running)


@pytest.mark.nightly
def test_killed_while_serving_and_updating(folder: Path, tmp_path: Path) -> None:
    """Killed in the middle of an update: the library opens, nothing is lost, and the next update does the rest."""
    library, source = tmp_path / "photos", folder.parent / "source"
    shutil.copytree(folder, library)
    draw(source, range(24, 34))
    try:
        for wait in (0.0, 0.05, 0.2):
            with process(library) as (running, port):
                base = f"http://127.0.0.1:{port}"
                assert httpx.post(f"{base}{AT}/update").status_code == 202
                assert httpx.post(f"{base}{AT}/search", json={"text": "a dog"}).json()["hits"]
                time.sleep(wait)
                os.kill(running.pid, signal.SIGKILL)
                running.wait(10)
        with process(library) as (_, port):
            base = f"http://127.0.0.1:{port}"
            assert httpx.get(f"{base}/v1/libraries").json()[0]["items"] in (24, 34)
            assert httpx.post(f"{base}{AT}/update").status_code == 202
            while (said := httpx.get(f"{base}{AT}/update").json())["running"]:
                time.sleep(0.1)
            assert said["error"] is None
            found = httpx.post(f"{base}{AT}/search", json={"text": "a dog", "system": "dense", "k": 50}).json()
            assert found["total"] == len(found["hits"]) == 34
    finally:
        for number in range(24, 34):
            next(source.rglob(f"{number}.png")).unlink()


def test_the_verb_refuses_what_is_not_safe(folder: Path, tmp_path: Path) -> None:
    said = say(serve, folder, "--host", "0.0.0.0")
    assert said.status == 2 and "everybody could search and change" in said.text and "library token new" in said.text
    said = say(serve, folder, "--tokens", tmp_path / "none")
    assert said.status == 2 and "no such folder" in said.text
    said = say(serve, tmp_path / "none")
    assert said.status == 2 and "no such folder" in said.text
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = say(serve, folder, "--port", port)
        assert said.status == 2 and f"port {port} is in use by" in said.text and "--port 0" in said.text


def test_the_verbs_of_tokens(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    said = say(new, path, "--name", "anna", "--scope", "search", "--scope", "admin", "--days", "30")
    assert said.status == 0 and "visir_" in said.text
    said = say(show, path)
    assert "anna" in said.text and "search, admin" in said.text and "visir_" not in said.text
    assert say(revoke, path, "--name", "anna").status == 0 and "anna" not in say(show, path).text
    assert "unknown scope 'x'" in say(new, path, "--name", "b", "--scope", "x").text
