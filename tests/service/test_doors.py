"""Who gets in: tokens and scopes, hosts, origins, rates, sizes, times."""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")

from served import AT, Service, make, until

from visir.serving.tokens import Token, add_token, hash_of, new_token


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("doors"))


@pytest.fixture
def serve(folder: Path) -> Iterator[Any]:
    made: list[Service] = []

    def one(**settings: Any) -> Service:
        made.append(Service(folder, **settings))
        return made[-1]

    yield one
    for service in made:
        service.close()


def bearer(secret: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}"}


def test_tokens_and_scopes(serve: Any, tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    asks, changes = new_token(path, "anna", ["search"], None), new_token(path, "robot", ["admin"], None)
    over, past = "visir_over", datetime.now(UTC) - timedelta(seconds=1)
    add_token(path, Token("old", hash_of(over), frozenset({"search", "admin"}), past, past))
    service = serve(tokens=path)
    where = f"{AT}/items"
    status, error = service.refused("GET", where)
    assert status == 401 and error["message"] == "a token is needed." and "visir library token new" in error["hint"]
    assert service.ask("GET", where).headers["www-authenticate"] == 'Bearer realm="visir"'
    for wrong in (bearer("visir_guess"), bearer(""), bearer("é" * 10), {"authorization": f"Basic {asks}"}):
        assert service.refused("GET", where, headers={k: v.encode("latin-1") for k, v in wrong.items()})[0] == 401
    assert service.refused("GET", where, headers=bearer(over))[1]["message"] == "the token has expired."
    assert service.ask("GET", where, headers=bearer(asks)).status_code == 200
    assert service.ask("GET", where, headers={"authorization": f"bearer {asks}"}).status_code == 200
    item = service.ask("GET", where, headers=bearer(asks)).json()["items"][0]["id"]
    for method, path_ in (("POST", f"{AT}/update"), ("GET", f"{AT}/update"), ("DELETE", f"{AT}/items/{item}")):
        assert service.refused(method, path_)[0] == 401
        status, error = service.refused(method, path_, headers=bearer(asks))
        assert status == 403 and "'admin'" in error["hint"]
    assert service.ask("GET", f"{AT}/update", headers=bearer(changes)).status_code == 200
    assert service.refused("GET", where, headers=bearer(changes))[0] == 403  # admin alone does not search
    for open_path in ("/", "/v1/health", "/v1/ready", "/v1/openapi.json", "/static/page.css"):
        assert service.ask("GET", open_path).status_code == 200
    for closed in ("/metrics", "/v1/libraries", f"{AT}/search", f"{AT}/items/{item}/thumbnail", "/nothing", "/static"):
        assert service.refused("GET", closed)[0] == 401
    picture = f"{AT}/items/{item}/thumbnail"
    had = {"if-none-match": service.ask("GET", picture, headers=bearer(asks)).headers["etag"]}
    assert service.ask("GET", picture, headers=bearer(asks) | had).status_code == 304
    assert service.refused("GET", picture, headers=had)[0] == 401  # a picture that a browser kept is asked for too
    assert asks.encode() not in service.written()
    said = service.ask("GET", "/v1/openapi.json").json()
    assert said["paths"]["/v1/libraries"]["get"]["security"] == [{"token": []}]
    assert said["paths"]["/v1/health"]["get"]["security"] == []


def test_hosts(serve: Any) -> None:
    service = serve(hosts=("localhost", "127.0.0.1", "[::1]"))
    for good in ("localhost", "LOCALHOST:8765", "127.0.0.1:1", "[::1]", "[::1]:80"):
        assert service.ask("GET", "/v1/health", headers={"host": good}).status_code == 200
    for bad in ("evil.example", "localhost.evil.example", "127.0.0.1.nip.io:80", ""):
        status, error = service.refused("GET", "/v1/health", headers={"host": bad})
        assert status == 400 and "--allow-host" in error["hint"]


def test_origins(serve: Any) -> None:
    asking = {"origin": "https://other.example", "access-control-request-method": "POST"}
    assert "access-control-allow-origin" not in serve().ask("GET", "/v1/health", headers=asking).headers
    service = serve(origins=("https://shop.example",))
    assert "access-control-allow-origin" not in service.ask("GET", "/v1/health", headers=asking).headers
    welcome = service.ask("OPTIONS", f"{AT}/search", headers={**asking, "origin": "https://shop.example"})
    assert welcome.headers["access-control-allow-origin"] == "https://shop.example"


def test_rate(serve: Any, tmp_path: Path) -> None:
    """5 at once: five pass, the sixth is told when to come again; a batch counts its queries, thumbnails a tenth."""
    service = serve(rate=0.001, burst=5)
    said = [service.ask("GET", f"{AT}/categories").status_code for _ in range(6)]
    assert said == [200] * 5 + [429]
    late = service.ask("GET", f"{AT}/categories")
    assert int(late.headers["retry-after"]) > 100 and late.json()["error"]["code"] == "too_many"
    assert service.ask("GET", "/v1/health").status_code == 200
    batches = serve(rate=0.001, burst=5)
    queries = {"queries": [{"text": "a"}] * 4}
    assert [batches.ask("POST", f"{AT}/search/batch", json=queries).status_code for _ in range(2)] == [200, 429]
    guesses = serve(rate=0.001, burst=5, tokens=_tokens(tmp_path))
    assert [guesses.ask("GET", "/v1/libraries").status_code for _ in range(6)] == [401] * 5 + [429]


def _tokens(folder: Path) -> Path:
    new_token(folder / "some", "anna", ["search"], None)
    return folder / "some"


def test_sizes(serve: Any) -> None:
    service = serve(body=2000)
    status, error = service.refused("POST", f"{AT}/search", json={"text": "a" * 3000})
    assert status == 413 and "2,000 bytes" in error["message"]

    async def parts() -> Any:  # no Content-Length: counted while it comes
        for _ in range(100):
            yield b"x" * 100

    kind = {"content-type": "application/json"}
    assert service.refused("POST", f"{AT}/search", content=parts(), headers=kind)[0] == 413
    assert service.refused("POST", f"{AT}/search/photo", files={"photo": ("x", b"x" * 3000)})[0] == 413


def test_pixel_bombs(serve: Any) -> None:
    """A PNG of 50,000 × 50,000 pixels in a few kilobytes is refused before a pixel is decoded."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    size = (50_000).to_bytes(4, "big")
    bomb = io.BytesIO(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size + size + b"\x08\x02\0\0\0") + chunk(b"IEND", b""))
    status, error = serve().refused("POST", f"{AT}/search/photo", files={"photo": ("x.png", bomb)})
    assert status == 413 and "pixels" in error["message"]


def test_time(serve: Any) -> None:
    """A search that takes too long is given up, with 503; the next one is answered."""
    import time

    service = serve(timeout=0.3)
    searcher = service.app.state.registry.handles["photos"].searcher
    before = searcher.search_each
    searcher.search_each = lambda queries: time.sleep(1) or before(queries)  # slow, as a busy machine is
    status, error = service.refused("POST", f"{AT}/search", json={"text": "a dog"})
    assert status == 503 and "longer than 0.3 s" in error["message"]
    searcher.search_each = before
    until(lambda: service.ask("POST", f"{AT}/search", json={"text": "a dog", "system": "dense"}).status_code == 200)


def test_a_fault_of_its_own_tells_nothing(serve: Any) -> None:
    service = serve()
    handle = service.app.state.registry.handles["photos"]
    handle.searcher.search_each = lambda queries: 1 / 0
    status, error = service.refused("POST", f"{AT}/search", json={"text": "a dog"})
    assert status == 500 and "ZeroDivision" not in str(error)
    (fault,) = (line for line in service.lines() if line["event"] == "fault")
    assert "ZeroDivisionError" in fault["fault"] and fault["id"] in error["hint"]
