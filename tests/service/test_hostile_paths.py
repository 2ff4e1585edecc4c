"""Names that are no names: traversal in every part of a path and in the page's files; headers; SQL; files on disk."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")

from PIL import Image
from served import AT, KINDS, Service, draw, make
from served import update as update_library

from visir.library.layout import LibraryCard

ESCAPES = [
    "../../etc/passwd",
    "..%2f..%2fetc%2fpasswd",
    "%2e%2e%2f%2e%2e%2fetc%2fpasswd",
    "%252e%252e%252fetc%252fpasswd",
    "..%5c..%5cwindows%5cwin.ini",
    "..\\..\\etc\\passwd",
    "/etc/passwd",
    "%2fetc%2fpasswd",
    "file:%2f%2f%2fetc%2fpasswd",
    "photos%00",
    "%00",
    "page.css%00.html",
    "%c0%ae%c0%ae%c0%af",  # overlong UTF-8
    "%ef%bc%8e%ef%bc%8e%ef%bc%8f",  # full-width dots and slash, which NFKC would turn into ../
    "%e2%80%a5%e2%88%95",
    "%ff%fe",
    "%f0%9f%92%a9",
    "..;%2f",
    "....%2f%2f",
    "C:%5cwindows",
    "CON",
    "%0d%0aSet-Cookie:%20a=b",
    "'%20OR%201=1--",
    "a" * 4000,
]
PLACES = [
    "/static/{}",
    "/v1/libraries/{}/items",
    "/v1/libraries/{}/categories",
    "/v1/libraries/{}/update",
    f"{AT}/items/{{}}",
    f"{AT}/items/{{}}/thumbnail",
    f"{AT}/items/{{}}/image",
    f"{AT}/items/{{}}/similar",
    "/{}",
    "/v1/{}",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("hostile"))


@pytest.fixture(scope="module")
def service(folder: Path) -> Iterator[Service]:
    made = Service(folder)
    yield made
    made.close()


def harmless(said: bytes, folder: Path) -> None:
    """Nothing of this machine is in it."""
    for secret in (b"root:", b"Traceback", b'File "', os.fsencode(folder.parent), b"site-packages", b"sqlite"):
        assert secret not in said, (secret, said[:500])


@pytest.fixture(scope="module")
def scores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    made = KINDS["sessions"].asked(KINDS["sessions"].make(tmp_path_factory.mktemp("hostile-scores")))
    yield made
    made.close()


@pytest.mark.parametrize("place", ["/{}", "/v1/{}", "/v1/events/{}", "/health/{}", "/metrics/{}"])
def test_no_path_of_the_scores_leads_out(scores: Service, folder: Path, place: str) -> None:
    test_no_path_leads_out(scores, folder, place)


@pytest.mark.parametrize("place", PLACES)
def test_no_path_leads_out(service: Service, folder: Path, place: str) -> None:
    asked = [("GET", place.format(name), {}) for name in ESCAPES]
    asked += [("POST", place.format(name), {"json": {"text": "a"}}) for name in ESCAPES]
    asked += [("DELETE", place.format(name), {}) for name in ESCAPES]
    for (method, path, _), answer in zip(asked, service.together(asked), strict=True):
        assert answer.status_code in (400, 404, 405, 422), (method, path, answer.status_code)
        assert answer.headers["content-type"] == "application/json" and set(answer.json()) == {"error"}
        harmless(answer.content, folder)
        assert "set-cookie" not in answer.headers


def test_no_header_is_injected(service: Service, scores: Service) -> None:
    """What comes back in headers is of our making: request ids are checked, names are never there."""
    for given in ("a\r\nSet-Cookie: a=b", "a b", "é", "x" * 65, "", "a\tb", "<script>"):
        for each in (service, scores):
            headers = each.ask("GET", "/v1/health", headers={"x-request-id": given.encode()}).headers
            assert re.fullmatch("[0-9a-f]{16}", headers["x-request-id"]) and "set-cookie" not in headers
    item = service.ask("GET", f"{AT}/items?k=1").json()["items"][0]["id"]
    answer = service.ask("GET", f"{AT}/items/{item}/image?download=%0d%0aSet-Cookie:%20a=b")
    assert answer.status_code == 422 and "set-cookie" not in answer.headers
    answer = service.ask("GET", f"{AT}/items/{item}/image")
    assert answer.headers["content-disposition"] == "inline" and answer.headers["content-type"] == "image/png"
    assert answer.headers["content-security-policy"] == "default-src 'none'; sandbox"
    for asked in (f"{AT}?next=//evil.example", f"{AT}/", "//evil.example/", "/static", "/v1/libraries/"):
        assert "evil" not in service.ask("GET", asked).headers.get("location", "")


SQL = [
    "' OR 1=1 --",
    "x'; DROP TABLE items; --",
    '" OR ""="',
    "1 UNION SELECT sql FROM sqlite_master",
    "%",
    "_",
    "*",
    "\\",
    "town' AND substr((SELECT id FROM items),1,1)='a",
    "a\0b",
]


def test_sql_stays_text(service: Service, folder: Path) -> None:
    """No name, value or category is ever read as SQL: nothing is found by it, and nothing changes."""
    before = database(folder)
    for text in SQL:
        shown = service.ask("GET", f"{AT}/items?category={quote(text)}")
        assert shown.status_code == 200 and shown.json()["total"] == 0
        found = service.ask("POST", f"{AT}/search", json={"text": "a dog", "category": text})
        assert found.status_code == 200 and found.json()["total"] == 0
        for op in ("=", "contains", "in"):
            where = [{"field": "name", "op": op, "value": [text] if op == "in" else text}]
            answer = service.ask("POST", f"{AT}/search", json={"text": "a dog", "where": where})
            found_any = answer.status_code == 200 and answer.json()["total"] > 0
            assert answer.status_code in (200, 422) and not (found_any and text not in "_"), (text, op)
            harmless(answer.content, folder)
        status, error = service.refused(
            "POST", f"{AT}/search", json={"text": "a", "where": [{"field": f"name {text}", "value": 1}]}
        )
        assert status == 422 and "unknown field" in error["message"]
        status, error = service.refused(
            "POST", f"{AT}/search", json={"text": "a", "where": [{"field": "name", "op": text, "value": "x"}]}
        )
        assert status == 422 and error["field"] == "where.0.op"
    assert database(folder) == before


def database(folder: Path) -> list[Any]:
    connection = sqlite3.connect(folder / LibraryCard.read(folder).database)
    try:
        return [
            connection.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall() for table in ("items", "files", "meta")
        ]
    finally:
        connection.close()


# What lies in the folder of photos, and in the library, may have been put there by somebody else.


def test_links_are_followed_to_pictures_only(tmp_path: Path, folder: Path) -> None:
    """A link inside the folder is followed (many keep their photos so), but what it leads to must be a picture."""
    source = tmp_path / "source"
    draw(source, range(2))
    elsewhere = tmp_path / "elsewhere"
    draw(elsewhere, range(5, 6))
    (source / "passwd.jpg").symlink_to("/etc/passwd")
    (source / "memory.jpg").symlink_to("/dev/zero")
    (source / "loop").symlink_to(source)
    (source / "album").symlink_to(elsewhere)
    os.mkfifo(source / "pipe.png")
    did = update_library(source, tmp_path / "photos", model=folder.parent / "models" / "dense")
    assert did.added == 3 and set(did.broken) == {"passwd.jpg"}
    service = Service(tmp_path / "photos")
    try:
        shown = service.ask("GET", f"{AT}/items").json()["items"]
        assert "passwd.jpg" not in str(shown) and len(shown) == 3
    finally:
        service.close()


@pytest.mark.parametrize("way", ["passwd", "zero", "pipe", "other"])
def test_a_file_that_was_exchanged_is_not_handed_out(tmp_path: Path, folder: Path, way: str) -> None:
    """After it was indexed a photo becomes a link out of the folder, a device without end, a pipe, another picture."""
    source = tmp_path / "source"
    draw(source, range(1))
    update_library(source, tmp_path / "photos", model=folder.parent / "models" / "dense")
    service = Service(tmp_path / "photos")
    try:
        (shown,) = service.ask("GET", f"{AT}/items").json()["items"]
        path = next(source.rglob("0.png"))
        assert service.ask("GET", f"{AT}/items/{shown['id']}/image").content == path.read_bytes()
        path.unlink()
        if way == "pipe":
            os.mkfifo(path)
        elif way == "other":
            Image.new("RGB", (64, 64), "red").save(path)
        else:
            path.symlink_to({"passwd": "/etc/passwd", "zero": "/dev/zero"}[way])
        status, error = service.refused("GET", f"{AT}/items/{shown['id']}/image")
        assert status == 404 and "bring the library up to date" in error["hint"] and str(tmp_path) not in str(error)
    finally:
        service.close()


PLACES_IN_A_DATABASE = [
    "../../../../../../etc/passwd",
    "/etc/passwd",
    "/dev/zero",
    "scene:../../etc/passwd",
    "scene:0:1:1000000",
    "\0",
    "a/" * 3000,
]


def test_a_database_that_was_tampered_with(tmp_path: Path, folder: Path) -> None:
    """Told at opening by its checksum; and exchanged while the library is served, its places lead nowhere."""
    from visir.library import LibraryError

    shutil.copytree(folder, tmp_path / "photos")
    service = Service(tmp_path / "photos")
    (item,) = (one["id"] for one in service.ask("GET", f"{AT}/items?k=1").json()["items"])
    picture = service.ask("GET", f"{AT}/items/{item}/image").content
    connection = sqlite3.connect(tmp_path / "photos" / LibraryCard.read(folder).database)
    connection.execute("PRAGMA foreign_keys=OFF")
    try:
        for place in PLACES_IN_A_DATABASE:
            for archive in (None, "/etc/passwd", "../../../etc/hosts.zip"):
                connection.execute("UPDATE files SET place = ?, archive = ?", (place, archive))
                connection.commit()
                answer = service.ask("GET", f"{AT}/items/{item}/image")
                assert answer.status_code == 404 or answer.content == picture, (place, archive, answer.text[:200])
                harmless(answer.content, tmp_path / "photos" / "x")
    finally:
        connection.close()
        service.close()
    with pytest.raises(LibraryError, match=r"items-\d+\.sqlite (is not as it was written|has \S+ bytes)"):
        Service(tmp_path / "photos")
