"""Addresses are asked whether they are parts: once, a little, and what hides the answer is said."""

from __future__ import annotations

import tarfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from PIL import Image

import visir
from refusals import refused
from verbs import Said, say_in
from visir.cli.index import app
from visir.collections.own_folders import LARGEST_MANIFEST, asked_once, kind_elsewhere, manifest_elsewhere
from visir.encoders import Parts, encode_parts
from visir.encoders.parts_folder import check_parts_can_be_told
from visir.errors import EmbeddingError
from visir.remote import RemoteFolder
from visir.storage import Manifest

Answer = Callable[[str], tuple[int, bytes]]


class Web:
    """A server on this machine; `answer` says for each path the status and the content."""

    def __init__(self) -> None:
        web = self
        self.answer: Answer = lambda path: (404, b"")
        self.requests, self.sent = Counter[str](), 0

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                web.requests[self.path] += 1
                status, content = web.answer(self.path)
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                try:
                    for start in range(0, len(content), 100_000):
                        web.sent += self.wfile.write(content[start : start + 100_000])
                except OSError:
                    return  # the client has read enough

            def log_message(self, *_: object) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def web() -> Iterator[Web]:
    pytest.importorskip("aiohttp", reason="fsspec reads http:// by it")
    web = Web()
    thread = threading.Thread(target=web.server.serve_forever)
    thread.start()
    yield web
    web.server.shutdown()
    thread.join()
    web.server.server_close()


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    Image.new("RGB", (8, 8), "red").save(tmp_path / "red.png")
    (tmp_path / "shards").mkdir()
    with tarfile.open(tmp_path / "shards" / "0.tar", "w") as tar:
        tar.add(tmp_path / "red.png", "red.png")
    encode_parts("colours", tmp_path / "shards", tmp_path / "parts")
    return tmp_path / "parts"


def run(*arguments: object) -> Said:
    return say_in(app, *arguments)


def test_of_a_large_answer_a_few_bytes_are_read(web: Web) -> None:
    web.answer = lambda path: (200, b"image,caption\n" * 5_000_000)  # the file, whatever is asked for
    assert manifest_elsewhere(f"{web.url}/data.csv") is None
    assert LARGEST_MANIFEST < web.sent < 70_000_000
    assert RemoteFolder(web.url).read_at_most("data.csv", 100) is None


def test_a_manifest_of_the_largest_size_is_read(web: Web, tmp_path: Path) -> None:
    web.answer = lambda path: (200, b"x" * 3_000_000)
    assert RemoteFolder(web.url).read_at_most("a", 3_000_000) == b"x" * 3_000_000
    assert RemoteFolder(web.url).read_at_most("a", 2_999_999) is None
    (tmp_path / "a").write_bytes(b"12345")
    assert RemoteFolder(tmp_path.as_uri()).read_at_most("a", 5) == b"12345"
    assert RemoteFolder(tmp_path.as_uri()).read_at_most("a", 4) is None
    assert RemoteFolder(tmp_path.as_uri()).read_at_most("b", 4) is None


@pytest.mark.parametrize("page", [b"", b"<html>", b'{"images": []}', b"a,b\n1,2\n"])
def test_a_page_that_is_not_of_visir_is_no_folder(web: Web, page: bytes) -> None:
    web.answer = lambda path: (200, page)
    assert kind_elsewhere(f"{web.url}/photos") is None


def test_an_address_on_any_file_system_is_asked_once(parts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    requests, read = Counter[str](), RemoteFolder.read_at_most

    def counted(self: RemoteFolder, name: str, most: int) -> bytes | None:
        requests[f"{self.url}/{name}"] += 1
        return read(self, name, most)

    monkeypatch.setattr(RemoteFolder, "read_at_most", counted)
    said = run("build", parts.parent.as_uri() + "/none.csv", "-m", "colours", "--out", parts.parent / "none.index")
    assert said.status == 2 and requests == {f"{parts.parent.as_uri()}/none.csv/visir.json": 1}
    assert [kind_elsewhere(parts.as_uri()) for _ in range(2)] == ["parts"] * 2
    assert requests[f"{parts.as_uri()}/visir.json"] == 2  # outside of a command nothing is remembered


def test_an_address_is_asked_once(web: Web) -> None:
    web.answer = lambda path: (200, Manifest("parts").to_bytes())
    for address in (f"{web.url}/parts", f"{web.url}/parts?split=x"):
        with asked_once():
            assert [kind_elsewhere(address) for _ in range(3)] == ["parts"] * 3
    assert web.requests == {"/parts/visir.json": 2}  # once in each block
    web.answer = lambda path: (500, b"")
    with asked_once():
        assert [kind_elsewhere(f"{web.url}/other") for _ in range(3)] == [None] * 3
    assert web.requests["/other/visir.json"] == 1  # faults are remembered too
    web.answer = lambda path: (404, b"")
    said = run("build", f"{web.url}/none.csv", "-m", "colours", "--out", "none.index")
    assert said.status == 2 and web.requests["/none.csv/visir.json"] == 1


def test_a_store_that_refuses_the_question_is_asked_for_the_model(web: Web, tmp_path: Path) -> None:
    web.answer = lambda path: (403, b"")
    said = run("build", f"{web.url}/data.csv", "--out", tmp_path / "index")
    assert said.status == 2 and f"--model is missing: {web.url}/data.csv is no folder of parts" in said.text
    web.answer = lambda path: (500, b"")
    said = run("build", f"{web.url}/data.csv", "--out", tmp_path / "index")
    assert said.status == 2 and f"{web.url}/data.csv/visir.json: cannot be reached" in said.text


def test_a_damaged_folder_of_parts_is_not_copied(parts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("build", parts, "--out", tmp_path / "x.index").status == 0
    monkeypatch.delattr("visir.collections.sources.local_copy")
    manifest = parts / "visir.json"
    whole = manifest.read_bytes()
    for damaged in (whole[:100], whole.replace(b"colours", b"colouts")):
        manifest.write_bytes(damaged)
        for place in (parts, parts.as_uri()):
            added = run("add", tmp_path / "x.index", place)
            built = run("build", place, "--model", "colours", "--out", tmp_path / "y.index")
            for said in (added, built):
                assert said.status == 2 and f"{place}/visir.json: damaged: " in said.text, said.text


def test_a_collection_that_visir_made_passes(web: Web, tmp_path: Path) -> None:
    (tmp_path / "visir.json").write_bytes(Manifest("collection").to_bytes())
    check_parts_can_be_told(tmp_path, with_model=True)
    web.answer = lambda path: (200, Manifest("collection").to_bytes())
    check_parts_can_be_told(f"{web.url}/c", with_model=True)
    for place in (tmp_path, f"{web.url}/c"):
        with pytest.raises(EmbeddingError, match="of a folder of kind 'collection', not a folder of parts"):
            check_parts_can_be_told(place)


def test_parts_take_no_options(parts: Path, tmp_path: Path) -> None:
    assert run("build", parts, "--out", tmp_path / "x.index").status == 0
    place = f"{parts.as_uri()}?split=x"
    for said in (run("add", tmp_path / "x.index", place), run("build", place, "--out", tmp_path / "y.index")):
        assert said.status == 2, said.text
        assert f"{parts.as_uri()}: a folder of parts takes no options (split=x)." in said.text
        assert f"name it without them: {parts.as_uri()}" in said.text
    with refused(EmbeddingError, code="folder-parts-takes-no"):
        visir.open(place)
    assert Parts(parts.as_uri()).status().is_complete
