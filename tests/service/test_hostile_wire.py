"""A real process and raw bytes: requests that no client sends, lengths that lie, clients that send or take slowly."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import select
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image

pytest.importorskip("fastapi", reason="the extra serve is not installed")

from served import AT, KINDS, Kind, connect, everything, process, until


@dataclass
class Running:
    """A service of little patience, in a process of its own."""

    name: str
    folder: Path
    process: Any
    port: int
    large: str
    """The path of a photo of 4 MB, more than the system takes from the service on behalf of a client."""

    def said_to(self, data: bytes) -> bytes:
        """What it answers to these bytes, until it closes."""
        with contextlib.closing(connect(self.port)) as asked:
            with contextlib.suppress(ConnectionError):  # it has answered and closed already
                asked.sendall(data)
            return everything(asked)

    @property
    def kind(self) -> Kind:
        """The service."""
        return KINDS[self.name]

    @property
    def head(self) -> str:
        """The first lines of a request that posts."""
        return f"POST {self.kind.write[0]} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"

    @property
    def body(self) -> bytes:
        """What may be posted."""
        return json.dumps(self.kind.write[1]).encode()

    def fine(self) -> bool:
        """Whether it still answers others."""
        path, body = self.kind.write
        answer = httpx.post(f"http://127.0.0.1:{self.port}{path}", json=body, timeout=20)
        return answer.status_code == 200 and self.process.poll() is None

    def stubborn(self) -> socket.socket:
        """A client that has hardly room for an answer."""
        made = socket.socket()
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        made.settimeout(30)
        made.connect(("127.0.0.1", self.port))
        return made

    def memory(self) -> int:
        """MiB that the process holds; 0 where the system does not tell."""
        about = Path(f"/proc/{self.process.pid}/statm")
        return int(about.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20 if about.is_file() else 0


def reset(client: socket.socket) -> bool:
    """Whether the other side has dropped this connection; nothing is read."""
    waiting = select.poll()
    waiting.register(client, 0)  # faults are told always
    return bool(waiting.poll(0))


@pytest.fixture(scope="module", params=KINDS)
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    kind, place = KINDS[request.param], tmp_path_factory.mktemp("wire")
    photo = place / "source" / "noise.png"
    photo.parent.mkdir()
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (1200, 1200, 3), np.uint8)).save(photo)
    large = f"{AT}/items/{hashlib.sha256(photo.read_bytes()).hexdigest()[:32]}/image"
    folder = kind.make(place)
    more = {"threads": 1} if kind.scope == "search" else {}
    patience = {"header_timeout": 1.0, "body_timeout": 1.0, "stall": 1.0, "connections": 60}
    limits = {"rate": 0.0, "body": 100_000, "bodies": 300_000}
    with process(folder, kind=request.param, **limits, **patience, **more) as (found, port):
        yield Running(request.param, folder, found, port, large)
        assert found.poll() is None


of_pictures = pytest.mark.parametrize("running", ["library"], indirect=True)  # what only the library's service has


NO_REQUESTS = [
    "GET /static/../../../../etc/passwd HTTP/1.1",
    "GET /static/..%2f..%2fetc%2fpasswd HTTP/1.1",
    "GET /static/%00 HTTP/1.1",
    "GET /static/%ff%fe HTTP/1.1",
    "GET //etc/passwd HTTP/1.1",
    "GET http://evil.example/static/../../etc/passwd HTTP/1.1",
    f"GET {AT}/items/../../../../etc/passwd HTTP/1.1",
    "GET \\..\\etc\\passwd HTTP/1.1",
    "GET /static/\0 HTTP/1.1",
    "GET * HTTP/1.1",
    "CONNECT evil.example:80 HTTP/1.1",
    "TRACE / HTTP/1.1",
    "PRI * HTTP/2.0",
    "BREW /v1/health HTTP/1.1",
    "GET /v1/health HTTP/9.9",
    "GET /v1/health HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked",
    "GET /v1/health HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2",
    "GET /v1/health HTTP/1.1\r\nContent-Length: -1",
    "POST /v1/health HTTP/1.1\r\nContent-Length: " + "9" * 5000,
    "POST /v1/health HTTP/1.1\r\nTransfer-Encoding: gzip",
    "GET /v1/health HTTP/1.1\r\n folded: x",
    "GET /v1/health HTTP/1.1\r\nX Y: 1",
    "GET /v1/health HTTP/1.1\r\nX: a\0b",
]


@pytest.mark.parametrize("line", NO_REQUESTS, ids=[str(at) for at in range(len(NO_REQUESTS))])
def test_what_no_client_sends(running: Running, line: str) -> None:
    """Traversal in bytes that nobody tidied, two lengths (request smuggling), methods and versions that are none."""
    said = running.said_to(f"{line}\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    assert re.match(rb"HTTP/1\.1 4\d\d ", said), (line, said[:300])
    for secret in (b"root:", b"Traceback", b'File "', os.fsencode(running.folder.parent), b"site-packages"):
        assert secret not in said


def test_lengths_that_lie(running: Running) -> None:
    """More than was told, less than was told, chunks without end: the service counts what comes, and goes on."""
    head, body = running.head, running.body
    short = running.said_to(f"{head}Content-Length: 5\r\nConnection: close\r\n\r\n".encode() + body)
    assert short.startswith(b"HTTP/1.1 400") and short.count(b"HTTP/1.1") <= 2
    assert running.said_to(f"{head}Content-Length: 99\r\n\r\n".encode() + body).startswith(b"HTTP/1.1 408")
    assert running.said_to(f"{head}Content-Length: 999999999999\r\n\r\n".encode()).startswith(b"HTTP/1.1 413")
    chunked = f"{head}Transfer-Encoding: chunked\r\n\r\n".encode()
    assert b" 413 " in running.said_to(chunked + (b"10000\r\n" + b" " * 0x10000 + b"\r\n") * 4)[:20]
    assert running.said_to(chunked + b"FFFFFFFFFFFFFFFFFF\r\n").startswith(b"HTTP/1.1 400")
    assert running.said_to(chunked + b"0" * 70_000).startswith(b"HTTP/1.1 4")
    assert running.said_to(chunked + b"1;" + b"x=y;" * 50_000 + b"\r\n").startswith(b"HTTP/1.1 4")
    tiny = running.said_to(chunked + b"1\r\n \r\n" * 120_000)
    assert tiny == b"" or b" 413 " in tiny[:20], tiny[:99]  # "" when the rest of what was sent met a closed door
    trailers = running.said_to(
        chunked + f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\n" + b"X: y\r\n" * 20_000 + b"\r\n"
    )
    assert trailers.startswith((b"HTTP/1.1 2", b"HTTP/1.1 4")) or trailers == b""
    fine = running.said_to(f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
    assert fine.startswith(b"HTTP/1.1 200") and running.fine()


def test_headers_that_go_too_far(running: Running) -> None:
    start = "GET /v1/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    for more in (
        "X: " + "y" * 200_000,
        "X" * 200_000 + ": y",
        "\r\n".join(["X: y"] * 150),
        "Cookie: " + "a=b;" * 50_000,
    ):
        said = running.said_to(f"{start}{more}\r\n\r\n".encode())
        assert re.match(rb"HTTP/1\.1 4(31|00) ", said), said[:99]
    assert running.said_to(b"GET /" + b"a" * 200_000).startswith(b"HTTP/1.1 4")
    assert running.said_to(f"{start}X-Request-Id: {'a' * 60_000}\r\n\r\n".encode()).startswith(b"HTTP/1.1 200")
    assert running.fine()


@pytest.mark.parametrize("ending", ["0\r\nx: ", "1;x="], ids=["trailer", "extension"])
def test_what_comes_between_the_pieces_of_a_body_and_after_it(running: Running, ending: str) -> None:
    """Trailers and extensions of chunks are no body that is counted: they are held to the bytes of headers."""
    begun = f"{running.head}Transfer-Encoding: chunked\r\n\r\n1\r\n[\r\n{ending}".encode()
    with contextlib.closing(connect(running.port)) as client:
        sent = client.send(begun)
        with contextlib.suppress(ConnectionError):
            for _ in range(400):
                sent += client.send(b"y" * 10_000)
                time.sleep(0.001)  # an answer, and the end of the connection, have time to come
        answer = everything(client)
    assert sent < 3_000_000
    assert answer == b"" or answer.startswith(b"HTTP/1.1 431")  # a reset may take the answer with it
    pieces = "".join(f"1\r\n{letter}\r\n" for letter in running.body.decode()) + "0\r\nx: y\r\n\r\n"
    short = f"{running.head}Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n{pieces}"
    assert running.said_to(short.encode()).startswith(b"HTTP/1.1 200")


def test_slow_headers_and_slow_bodies(running: Running) -> None:
    """40 clients that send a byte now and then are left after a second or so; others are answered meanwhile."""
    held = [connect(running.port) for _ in range(40)]
    for at, one in enumerate(held):
        one.sendall(running.head[:30].encode() if at % 2 else f"{running.head}Content-Length: 9999\r\n\r\n".encode())
    assert running.fine()
    began, left = time.monotonic(), set[int]()
    while len(left) < 40 and time.monotonic() - began < 30:
        time.sleep(0.2)
        for at, one in enumerate(held):
            if at in left:
                continue
            try:
                one.sendall(b"a")  # a byte at a time does not keep a place: the whole must come in time
                one.setblocking(False)
                if one.recv(9, socket.MSG_PEEK):
                    left.add(at)
            except BlockingIOError:
                pass
            except ConnectionError:
                left.add(at)
            finally:
                one.settimeout(30)
    assert len(left) == 40
    for one in held:
        one.close()
    assert running.fine()


def test_bodies_that_are_sent_half(running: Running) -> None:
    """More than there are places for, each half sent: places are few, and free again when the time for a body ends."""
    half = f"{running.head}Content-Length: 9999\r\n\r\n".encode() + b'{"text": "'
    held = [connect(running.port) for _ in range(100)]  # there are 60 places
    for one in held:
        with contextlib.suppress(ConnectionError):
            one.sendall(half)
    said = [everything(one) for one in held]
    assert sum(b" 408 " in answer[:20] for answer in said) >= 50
    assert sum(b" 503 " in answer[:20] or answer == b"" for answer in said) >= 30
    for one in held:
        one.close()
    assert running.fine()


@of_pictures
@pytest.mark.skipif(not hasattr(select, "poll"), reason="this system has no poll")
def test_answers_that_nobody_takes(running: Running) -> None:
    """20 clients ask for a photo of 4 MB three times and read nothing: they are dropped after a second or so."""
    asked = f"GET {running.large} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() * 3
    held = [running.stubborn() for _ in range(20)]
    for one in held:
        one.sendall(asked)
    assert not all(reset(one) for one in held) and running.fine()
    began = time.monotonic()
    while not all(reset(one) for one in held):
        assert time.monotonic() - began < 30, f"{sum(map(reset, held))} of 20 are dropped"
        time.sleep(0.1)
    for one in held:
        one.close()
    assert running.fine()


@of_pictures
def test_who_reads_slowly_gets_everything(running: Running) -> None:
    """A small answer, then 4 MB over five times the patience with one that takes nothing: all of it comes."""
    with contextlib.closing(running.stubborn()) as asked:
        for path in ("/v1/health", running.large):
            close = "Connection: close\r\n" if path == running.large else ""
            asked.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{close}\r\n".encode())
        said, began = bytearray(), time.monotonic()
        while part := asked.recv(100_000):
            said += part
            time.sleep(max(0.0, len(said) / 850_000 - (time.monotonic() - began)))
    health, _, photo = said.partition(b"HTTP/1.1 200 OK\r\n")[2].partition(b"HTTP/1.1 200 OK\r\n")
    assert b'"ok"' in health
    digest = hashlib.sha256(photo.partition(b"\r\n\r\n")[2]).hexdigest()
    assert digest.startswith(running.large.split("/")[-2])


def test_requests_without_end(running: Running) -> None:
    """Requests one behind another, and no answer is ever read: left at once, before they take memory."""
    before = running.memory()
    with contextlib.closing(running.stubborn()) as asked:
        began = time.monotonic()
        with pytest.raises(ConnectionError):
            while time.monotonic() - began < 20:
                asked.sendall(b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1000)
    assert running.fine() and running.memory() - before < 50
    few = b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20
    said = running.said_to(few + b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert said.count(b"HTTP/1.1 200 OK") == 21  # that much is nobody's harm, and in order


@pytest.mark.nightly
def test_one_address_does_not_hold_all(running: Running) -> None:
    with process(running.folder, kind=running.name, connections_per_address=2) as (_, port):
        held = [connect(port), connect(port)]  # taken in this order, before any other
        said = everything(connect(port))
        assert said.startswith(b"HTTP/1.1 503") and b"from this address" in said and b"retry-after" in said
        held.pop().close()
        until(lambda: httpx.get(f"http://127.0.0.1:{port}/v1/health").status_code == 200)


@of_pictures
def test_nobody_is_called(running: Running) -> None:
    """URLs in every field, in names and in headers (SSRF): a listener waits for a visit that never comes."""
    visits: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0.2)
        over = threading.Event()

        def listen() -> None:
            while not over.is_set():
                with contextlib.suppress(OSError):
                    one, _ = listening.accept()
                    visits.append(one.recv(999))
                    one.close()

        waiting = threading.Thread(target=listen)
        waiting.start()
        address = listening.getsockname()[1]
        url = f"http://127.0.0.1:{address}/secret.png"
        base = f"http://127.0.0.1:{running.port}"
        svg = f'<svg xmlns="http://www.w3.org/2000/svg"><image href="{url}"/></svg>'
        xml = f'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b SYSTEM "{url}">]><svg>&b;</svg>'
        bodies: list[dict[str, Any]] = [
            {"text": url},
            {"text": "a", "category": url},
            {"text": "a", "where": [{"field": "name", "value": url}]},
            {"text": "a", "where": [{"field": url, "value": 1}]},
            *({"image": {"data": data}} for data in (url, f"data:image/png;base64,{url}", "file:///etc/passwd")),
            {"image": {"url": url}},
            {"image": url},
            {"like": url},
        ]
        headers = {"Referer": url, "Origin": base, "X-Forwarded-Host": url, "X-Forwarded-For": url, "Forwarded": url}
        with httpx.Client(base_url=base, timeout=20, headers=headers) as client:
            for body in bodies:
                said = client.post(f"{AT}/search", json=body)
                assert said.status_code in (200, 404, 422), said.text
                assert client.post(f"{AT}/search/batch", json={"queries": [body]}).status_code in (200, 404, 422)
            for photo in (url, svg, xml, f"<html><img src={url}>", f"#EXTM3U\n{url}", json.dumps({"url": url})):
                said = client.post(f"{AT}/search/photo", files={"photo": (url, photo.encode())}, data={"text": url})
                assert said.status_code == 422
            for path in (f"{AT}/items/{url}", f"/v1/libraries/{url}/items", f"/static/{url}", f"/{url}"):
                assert client.get(path).status_code in (404, 422)
        time.sleep(0.5)
        over.set()
        waiting.join()
    assert visits == []
    assert running.fine()
