"""Who asks, and from where: tokens, pages of strangers, names of hosts; and what photos and captions smuggle in."""

from __future__ import annotations

import ast
import asyncio
import importlib
import inspect
import json
import pkgutil
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")

from PIL import Image
from served import AT, KINDS, Kind, Service, make
from served import update as update_library

import visir.library
import visir.library.service
import visir.serving
import visir.sessions.prediction
from visir.library import LibraryError
from visir.serving import tokens
from visir.serving.tokens import Token, add_token, hash_of, new_token, revoke_token
from visir.storage import MANIFEST

PUBLIC = {"/", "/v1/health", "/v1/ready", "/v1/openapi.json", "/docs"}
HACK = '<script>alert(1)</script>"><img src=x onerror=alert(1)>'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("guests"))


@pytest.fixture(scope="module", params=KINDS)
def every(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Kind, Path]:
    """Every service of visir, and what it serves: what guards one guards all."""
    kind = KINDS[request.param]
    return kind, kind.make(tmp_path_factory.mktemp(f"guests-{request.param}"))


@pytest.fixture
def front(every: tuple[Kind, Path]) -> Iterator[Any]:
    """Begins the service with these settings."""
    made: list[Service] = []

    def begin(**settings: Any) -> Service:
        made.append(every[0].asked(every[1], **settings))
        return made[-1]

    yield begin
    for service in made:
        service.close()


@pytest.fixture
def serve(folder: Path) -> Iterator[Any]:
    made: list[Service] = []

    def one(library: Path = folder, **settings: Any) -> Service:
        made.append(Service(library, **settings))
        return made[-1]

    yield one
    for service in made:
        service.close()


def test_every_path_but_the_open_ones_wants_a_token(front: Any, every: tuple[Kind, Path], tmp_path: Path) -> None:
    """What OpenAPI lists, what it does not, and what is nowhere; by every method; with every way of a wrong token."""
    path = tmp_path / "tokens"
    kind = every[0]
    good = new_token(path, "anna", [kind.scope], None)
    over, past = "visir_over", datetime.now(UTC) - timedelta(seconds=1)
    add_token(path, Token("old", hash_of(over), frozenset({"search", "admin", "score"}), past, past))
    service = front(tokens=path)
    listed = service.ask("GET", "/v1/openapi.json").json()["paths"]
    guarded = [one.format(library="photos", item="0" * 32) for one in listed if one not in PUBLIC]
    guarded += [
        "/metrics",
        "/nothing",
        kind.read,
        kind.write[0],
        "/v1",
        "/v1/health/",
        "/static",
        "/static/../v1/libraries",
        "/docs/x",
        "/openapi.json",
        "/redoc",
    ]
    guarded += ["/V1/libraries", "/v1/libraries?token=" + good, "/v1//libraries", "/static%2f..%2fv1/libraries"]
    wrong: list[list[tuple[bytes, bytes]]] = [
        [],
        *(
            [(b"authorization", value)]
            for value in (
                b"",
                b"Bearer",
                b"Bearer ",
                b"Bearer\t" + good.encode(),
                good.encode(),
                b"Basic " + good.encode(),
                b"Bearer " + good[:-1].encode(),
                b"Bearer " + good.swapcase().encode(),
                b"Bearer " + over.encode(),
                b"Bearer " + hash_of(good).encode(),  # who has read the file has nothing
                b"Bearer " + good.encode() + b"\0",
                b"Bearer \xff\xfe",
                b"Bearer null",
                b"Bearer " + b"a" * 60_000,
                b"Bearer a, Bearer " + good.encode(),
            )
        ),
        [(b"authorization", b"Bearer x"), (b"authorization", b"Bearer " + good.encode())],
        [(b"x-authorization", b"Bearer " + good.encode())],
        [(b"cookie", b"token=" + good.encode())],
    ]
    asked = [("GET", kind.read, {"headers": headers}) for headers in wrong]
    asked += [(method, one, {}) for one in guarded for method in ("GET", "POST", "DELETE", "PUT", "PATCH", "HEAD")]
    for (method, one, more), answer in zip(asked, service.together(asked), strict=True):
        opened = AT in kind.read and one.startswith("/static%2f")  # below the open ones, and nothing is there
        assert answer.status_code in ((404, 405) if opened else (401,)), (method, one, more, answer.status_code)
    fine = {"headers": {"authorization": f"Bearer {good}"}}
    assert service.ask("GET", kind.read, **fine).status_code == 200
    assert service.ask("POST", kind.write[0], json=kind.write[1], **fine).status_code == 200
    if kind.scope == "search":
        assert service.refused("POST", f"{AT}/update", **fine)[0] == 403
    others = new_token(path, "bert", ["search" if kind.scope == "score" else "score"], None)
    time.sleep(1.1)
    strange = {"headers": {"authorization": f"Bearer {others}"}}
    for method, where in (("GET", kind.read), ("POST", kind.write[0]), ("GET", "/metrics")):
        assert service.refused(method, where, **strange)[0] == 403, "a token of another service"
    log = service.written()
    assert good.encode() not in log.replace(b"?token=" + good.encode(), b"") and over.encode() not in log


def test_a_token_ends_while_it_is_used(front: Any, every: tuple[Kind, Path], tmp_path: Path) -> None:
    """Revoked, or the manifest taken away or spoiled: refused within a second, without a restart."""
    path, scope = tmp_path / "tokens", every[0].scope
    anna, bert = new_token(path, "anna", [scope], None), new_token(path, "bert", [scope], None)
    service = front(tokens=path)

    def status(secret: str) -> int:
        return service.ask("GET", every[0].read, headers={"authorization": f"Bearer {secret}"}).status_code

    assert status(anna) == status(bert) == 200
    revoke_token(path, "anna")
    time.sleep(1.1)
    assert (status(anna), status(bert)) == (401, 200)
    (path / MANIFEST).write_text("{")
    time.sleep(1.1)
    assert status(bert) == 401
    (path / MANIFEST).unlink()
    time.sleep(1.1)
    assert status(bert) == 401


def test_tokens_are_compared_in_constant_time() -> None:
    """Every token of the folder is compared, by `hmac.compare_digest`, and the loop is never left early."""
    (found,) = ast.parse(inspect.cleandoc("\n" + inspect.getsource(tokens.TokenFolder.holder))).body
    (loop,) = (one for one in ast.walk(found) if isinstance(one, ast.For))
    assert not any(isinstance(one, ast.Break | ast.Return) for one in ast.walk(loop))
    (test,) = (one.test for one in ast.walk(loop) if isinstance(one, ast.If))
    assert isinstance(test, ast.Call) and ast.unparse(test.func) == "hmac.compare_digest"


def test_pages_of_strangers(front: Any, every: tuple[Kind, Path]) -> None:
    """Without tokens, a page that somebody visits may have the browser ask 127.0.0.1: nothing is done on its behalf."""
    service, kind = front(), every[0]
    (path, body), photo = kind.write, {"files": {"photo": b"GIF89a"}}
    strange: list[Any] = [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://localhost.evil.example"},
        {"origin": "http://localhost:81"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site", "origin": "http://localhost"},
        {"origin": "http://evil.example", "sec-fetch-site": "cross-site"},
        [("origin", "http://localhost"), ("origin", "http://evil.example")],
        [("sec-fetch-site", "same-origin"), ("sec-fetch-site", "cross-site")],
    ]
    own = [{}, {"origin": "http://localhost"}, {"origin": "http://localhost", "sec-fetch-site": "same-origin"}]
    asked: list[tuple[str, str, Any]] = [("POST", path, {"json": body}), ("DELETE", path, {})]
    if kind.scope == "search":
        asked += [("POST", f"{AT}/update", {}), ("POST", f"{AT}/search/photo", photo), ("DELETE", f"{AT}/items/x", {})]
    for headers in strange:
        for method, where, more in asked:
            status, error = service.refused(method, where, headers=headers, **more)
            assert status == 403 and "--allow-origin" in error["hint"], headers
    text = {"content": json.dumps(body), "headers": {"content-type": "text/plain", "origin": "https://evil.example"}}
    assert service.refused("POST", path, **text)[0] == 403
    if kind.scope == "score":
        assert service.ask("GET", "/health").json()["events"] == 0, "an event of a stranger was read"
    for headers in own:
        assert service.ask("POST", path, json=body, headers=headers).status_code == 200
    for headers in strange:  # what a page may load is refused by the browser: the answer says so
        answer = service.ask("GET", kind.read, headers=headers)
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert "access-control-allow-origin" not in answer.headers


def test_origins_are_exact(front: Any, every: tuple[Kind, Path]) -> None:
    allowed, kind = "https://shop.example", every[0]
    service, (path, body) = front(origins=(allowed,)), kind.write
    ask = {"access-control-request-method": "POST", "access-control-request-headers": "authorization"}
    for origin in (
        "https://evil.example",
        "http://shop.example",
        "https://shop.example.evil.example",
        "https://evil-shop.example",
        "https://shop.example:444",
        "https://shop.example@evil.example",
        "null",
        "*",
        "HTTPS://SHOP.EXAMPLE/",
    ):
        for method, more in (("OPTIONS", ask), ("GET", {})):
            answer = service.ask(method, kind.read, headers={"origin": origin, **more})
            assert "access-control-allow-origin" not in answer.headers, origin
    answer = service.ask("OPTIONS", path, headers={"origin": allowed, **ask})
    assert answer.headers["access-control-allow-origin"] == allowed
    assert "access-control-allow-credentials" not in answer.headers
    assert service.ask("POST", path, json=body, headers={"origin": allowed}).status_code == 200
    closed = front().ask("OPTIONS", path, headers={"origin": allowed, **ask})
    assert closed.status_code == 405 and not [one for one in closed.headers if one.startswith("access-control")]


def test_hosts_of_strangers(front: Any, every: tuple[Kind, Path]) -> None:
    """DNS rebinding: a name of theirs that leads here gives itself away, on every path."""
    service, kind = front(hosts=("localhost", "127.0.0.1", "[::1]")), every[0]
    for path in ("/", kind.read, "/static/page.css", "/metrics", "/v1/health"):
        for host in ("evil.example", "localhost@evil.example", "127.0.0.1.evil.example", "localhost:80:80", "[::2]"):
            assert service.refused("GET", path, headers={"host": host})[0] == 400
    assert service.refused("POST", kind.write[0], json=kind.write[1], headers={"host": "evil.example"})[0] == 400
    for header in ("x-forwarded-host", "forwarded", "x-original-url", "x-rewrite-url"):
        answer = service.ask("GET", kind.read, headers={header: "evil.example"})
        assert answer.status_code == 200 and "evil" not in answer.text + str(answer.headers)
    assert service.ask("GET", f"{kind.read}/").status_code == 404  # no redirection to whatever Host says


@pytest.mark.parametrize("hosts", [("localhost",), ()])
def test_a_host_is_named_once(front: Any, every: tuple[Kind, Path], hosts: tuple[str, ...]) -> None:
    """Missing, or twice: of two names one is for the service, the other for whatever stands before it."""
    service, ours = front(hosts=hosts), (b"host", b"localhost")

    def status(*headers: tuple[bytes, bytes]) -> int:
        sent: list[Any] = []
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http",
            "path": every[0].read, "raw_path": every[0].read.encode(), "query_string": b"", "root_path": "",
            "headers": list(headers), "client": ("192.0.2.1", 9), "server": ("127.0.0.1", 80), "state": {},
        }  # fmt: skip

        async def receive() -> Any:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        asyncio.run(service.app(scope, receive, send))
        return int(sent[0]["status"])

    assert status(ours) == 200
    assert status(ours, ours) == status(ours, (b"host", b"evil.example")) == 400
    assert status((b"host", b"evil.example"), ours) == 400
    assert status() == (400 if hosts else 200)


def test_headers_exactly(front: Any, every: tuple[Kind, Path]) -> None:
    """Of a page, of JSON, of a refusal: the same policy, word by word."""
    service = front()
    for path in ("/", every[0].read, "/nothing", "/static/page.js"):
        headers = service.ask("GET", path).headers
        assert headers["content-security-policy"] == (
            "default-src 'self'; img-src 'self' blob: data:; object-src 'none'; base-uri 'none'; "
            "form-action 'self'; frame-ancestors 'none'"
        )
        assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "no-referrer"
        assert headers["x-frame-options"] == "DENY" and "server" not in headers and "set-cookie" not in headers
        assert headers["cross-origin-opener-policy"] == "same-origin" and headers["cache-control"]


def test_who_asks_too_often_is_refused(front: Any, every: tuple[Kind, Path], tmp_path: Path) -> None:
    """By address without tokens, by token with them; guesses of tokens count too; what is public does not."""
    kind = every[0]
    service = front(rate=0.001, burst=5)
    said = [service.ask("POST", kind.write[0], json=kind.write[1]) for _ in range(7)]
    assert [answer.status_code for answer in said] == [200] * 5 + [429] * 2
    assert int(said[-1].headers["retry-after"]) > 100 and said[-1].json()["error"]["code"] == "too_many"
    assert service.ask("GET", "/v1/health").status_code == 200
    good = new_token(tmp_path / "tokens", "anna", [kind.scope], None)
    service = front(rate=0.001, burst=5, tokens=tmp_path / "tokens")
    assert [service.ask("GET", kind.read).status_code for _ in range(7)] == [401] * 5 + [429] * 2
    assert service.ask("GET", kind.read, headers={"authorization": f"Bearer {good}"}).status_code == 200


def test_places_on_this_machine_are_told_only_where_they_may_be(serve: Any, folder: Path) -> None:
    """A picture's place, whoever asks: with `paths`, which the command line sets for this machine alone; not else."""
    for settings, shown in (({}, False), ({"paths": False}, False), ({"paths": True}, True)):
        service = serve(**settings)
        item = service.ask("GET", f"{AT}/items?k=1").json()["items"][0]["id"]
        for answer in (service.ask("GET", f"{AT}/items/{item}"), service.ask("GET", f"{AT}/items?k=100")):
            assert (str(folder.parent) in answer.text) is (shown and "place" in answer.text)
        places = [file["place"] for file in service.ask("GET", f"{AT}/items/{item}").json()["files"]]
        assert len(places) == 1 and (places[0] is not None) is shown


def test_what_photos_say_is_text(folder: Path, tmp_path: Path) -> None:
    """HTML in EXIF, in names of files and folders: JSON of the right type, which no browser takes for a page.

    What the page makes of it is tested in Chromium: `test_what_the_data_says_stays_text` in test_page.py.
    """
    source = tmp_path / "source" / "a <b>bold<i>"
    source.mkdir(parents=True)
    image = Image.new("RGB", (64, 64), "teal")
    exif = Image.Exif()
    exif[0x010F], exif[0x0110], exif[0x0132] = HACK, "\x1b[31m\x00\r\nSet-Cookie: a=b", "2024:99:99 99:99:99"
    exif[0x010E] = "' OR 1=1 --"
    image.save(source / "' onerror=alert(1) x='.jpg", exif=exif)
    Image.new("RGB", (64, 64), "navy").save(source / "é\r\nSet-Cookie: a=b.png")
    update_library(tmp_path / "source", tmp_path / "photos", model=folder.parent / "models" / "dense")
    service = Service(tmp_path / "photos")
    try:
        shown = service.ask("GET", f"{AT}/items")
        assert shown.headers["content-type"] == "application/json" and len(shown.json()["items"]) == 2
        told = [service.ask("GET", f"{AT}/items/{one['id']}") for one in shown.json()["items"]]
        for answer in told:
            assert answer.headers["content-type"] == "application/json"
            assert answer.headers["x-content-type-options"] == "nosniff" and "set-cookie" not in answer.headers
        camera = next(one.json()["camera"] for one in told if one.json()["camera"])
        assert camera.startswith("<script>") and camera.isprintable() and len(camera) <= 201
        for one in shown.json()["items"]:
            for part in ("image", "thumbnail"):
                answer = service.ask("GET", f"{AT}/items/{one['id']}/{part}")
                assert answer.status_code == 200 and answer.headers["content-type"].startswith("image/")
                assert "set-cookie" not in answer.headers and b"<script>" not in str(answer.headers).encode()
        refused = service.ask("POST", f"{AT}/search", json={"text": HACK, HACK: 1})
        assert refused.status_code == 422 and refused.headers["content-type"] == "application/json"
        assert b"Set-Cookie" not in service.ask("GET", "/metrics").content
        for line in service.written().splitlines():
            json.loads(line)
    finally:
        service.close()


def test_the_page_is_tested_with_hostile_captions() -> None:
    page = (Path(__file__).parent / "test_page.py").read_text()
    assert "def test_what_the_data_says_stays_text" in page and "window.hacked" in page


def test_damage_while_serving_tells_no_places(serve: Any, folder: Path, tmp_path: Path) -> None:
    """What visir says of itself in errors names files of this machine; it goes into the log, and 503 to the client."""
    service = serve()
    handle = service.app.state.registry.handles["photos"]
    before = handle.searcher.search_each

    def damaged(queries: Any) -> Any:
        return [LibraryError(f"{folder}/items.sqlite: damaged.", hint=f"copy {folder} again") for _ in queries]

    handle.searcher.search_each = damaged
    status, error = service.refused("POST", f"{AT}/search", json={"text": "a dog"})
    assert status == 503 and str(folder) not in str(error) and "log" in error["hint"]
    assert any(str(folder) in line.get("fault", "") for line in service.lines())
    handle.searcher.search_each = before
    assert service.search(text="a dog")["hits"]


def test_no_pattern_goes_back_and_forth() -> None:
    """Every regular expression of service and library, over texts that make bad ones backtrack (ReDoS).

    What is counted is the processor time of this thread: other threads and other processes do not matter.
    """
    found: dict[str, re.Pattern[Any]] = {}
    for package in (visir.library.service, visir.library, visir.serving, visir.sessions.prediction):
        for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            module = importlib.import_module(info.name)
            held = vars(module).items()
            found |= {f"{info.name}.{name}": one for name, one in held if isinstance(one, re.Pattern)}
    assert len(found) >= 3
    for name, pattern in found.items():
        for part in ("a", "0", " ", "-", ":", "\\", '"', "'", "0-", "a.", "+0", "0:", ", ", "'\"", "<=", "é"):
            for end in ("", "!", "\0", "\n"):
                text: Any = part * (20_000 // len(part)) + end
                text = text.encode() if isinstance(pattern.pattern, bytes) else text
                began = time.thread_time()
                pattern.fullmatch(text), pattern.match(text), pattern.search(text[:2000])
                assert time.thread_time() - began < 0.5, (name, part, end)


def test_values_that_make_patterns_slow(serve: Any) -> None:
    service = serve()
    for field in ("taken", "width", "name", "camera"):
        for part in ("0", "-", "2024-", "0" * 9 + ":", " ", "a", "T0:"):
            for op in ("=", "<", "contains"):
                where = [{"field": field, "op": op, "value": (part * 500)[:500]}]
                began = time.process_time()
                answer = service.ask("POST", f"{AT}/search", json={"text": "a", "where": where * 16})
                assert answer.status_code in (200, 422) and time.process_time() - began < 1
