"""Which servers are asked, and which of them gets the key. The servers here are real and write down what they get."""

from __future__ import annotations

import ast
import os
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote, unquote

import pytest

pytest.importorskip("qdrant_client", reason="the extra qdrant is not installed")

from index_data import random_dense
from qdrant_wire import WireServer

from refusals import refused
from visir.errors import ConfigurationError
from visir.retrieval.kinds import build_index, open_index
from visir.retrieval.remote import engine as addresses
from visir.retrieval.remote import engine as engine_module
from visir.retrieval.remote.engine import EngineError, is_loopback, needed_later
from visir.retrieval.remote.index import COLLECTION, engine_of
from visir.retrieval.remote.settings import MILVUS, PGVECTOR, QDRANT
from visir.storage import Scratch, sweep
from visir.storage.claims import release

KEY, ADDRESSES, CERTIFICATE = QDRANT.key, QDRANT.addresses, QDRANT.certificate
pytestmark = pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection")


@pytest.fixture(autouse=True)
def _another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """In which nobody has named a server yet."""
    monkeypatch.setattr(addresses, "_named", set())
    monkeypatch.setattr(engine_module, "_PAUSE", 0.001)
    for name in (KEY, ADDRESSES, CERTIFICATE, "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture
def server() -> Iterator[WireServer]:
    with WireServer() as running:
        yield running


class Recorder:
    """A server of a stranger: it writes down what it gets, and answers with a redirection or a fault."""

    def __init__(self, redirect: str = "") -> None:
        self.requests: list[tuple[str, dict[str, str]]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                outer.requests.append((self.path, dict(self.headers)))
                self.send_response(307 if redirect else 500)
                if redirect:
                    self.send_header("Location", redirect + self.path)
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_GET = do_PUT = do_POST = do_DELETE = do_PATCH = do_CONNECT = answer

            def log_message(self, *_: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}"

    def __enter__(self) -> Recorder:
        threading.Thread(target=self._http.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()


def keys(server: WireServer) -> set[str | None]:
    """What was sent as a key."""
    return {headers.get("api-key") for *_, headers in server.requests}


def made_elsewhere(server: WireServer, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An index by somebody else, whose manifest names the server."""
    build_index(random_dense("image", 20, 1), "qdrant", folder, url=server.url)
    monkeypatch.setattr(addresses, "_named", set())
    server.requests.clear()
    return folder


def test_an_index_from_elsewhere_is_opened_without_a_word_to_its_server(
    server: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = made_elsewhere(server, tmp_path / "index", monkeypatch)
    monkeypatch.setenv(KEY, "s3cret")
    with refused(EngineError, code="vectors-lie-server-nobody") as fault:
        open_index(folder)
    assert f"export {ADDRESSES}={server.url}" in str(fault.value)
    environment = {**os.environ, KEY: "s3cret"}
    done = subprocess.run(
        [sys.executable, "-m", "visir", "index", "info", str(folder)], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 2 and "nobody has named here" in done.stderr, done.stderr
    assert server.requests == []
    monkeypatch.setenv(ADDRESSES, f"https://other.example  {server.url}/")
    assert len(open_index(folder).ids) == 20
    assert keys(server) == {"s3cret"}


def test_a_library_from_elsewhere_is_opened_without_a_word_to_its_server(
    server: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By any verb: searched, checked, brought up to date, moved."""
    from PIL import Image

    photos, library = tmp_path / "photos", tmp_path / "library"
    photos.mkdir()
    for number in range(3):
        Image.new("RGB", (16, 16), (number * 60, 9, 9)).save(photos / f"{number}.png")
    visir = [sys.executable, "-m", "visir"]
    where = ["--kind", "qdrant", "--set", f"url={server.url}"]
    subprocess.run([*visir, "library", "make", str(photos), "-m", "pixels", "--out", str(library), *where], check=True)
    assert server.requests
    server.requests.clear()
    Image.new("RGB", (16, 16), (1, 200, 9)).save(photos / "new.png")
    environment = {**os.environ, KEY: "s3cret"}
    for arguments in (
        ["search", str(library), "--image", str(photos / "0.png")],
        ["library", "update", str(library)],
        ["library", "update", str(library), "--kind", "exact"],
        ["index", "info", str(library / "dense")],
    ):
        done = subprocess.run([*visir, *arguments], env=environment, capture_output=True, text=True)
        assert done.returncode == 2 and "nobody has named here" in done.stderr, (arguments, done.stderr)
    assert server.requests == []
    done = subprocess.run([*visir, "library", "update", str(library)], env={**environment, ADDRESSES: server.url})
    assert done.returncode == 0 and keys(server) == {"s3cret"}


def test_a_key_goes_to_the_servers_that_stand_beside_it_alone(
    server: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY, "s3cret")
    monkeypatch.setenv(ADDRESSES, "https://mine.example:6333")
    build_index(
        random_dense("image", 20, 1), "qdrant", tmp_path / "asked", url=server.url
    )  # named now, for this process
    assert server.requests and keys(server) == {None}
    monkeypatch.delenv(ADDRESSES)
    build_index(random_dense("image", 20, 1), "qdrant", tmp_path / "given", url=server.url)
    assert keys(server) == {None, "s3cret"}


def test_a_server_that_wants_a_key_is_told_where_ours_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, "s3cret")
    monkeypatch.setenv(ADDRESSES, "https://mine.example")
    with WireServer(key="s3cret") as server, refused(EngineError, "401", code="not-status") as fault:
        build_index(random_dense("image", 20, 1), "qdrant", tmp_path / "index", url=server.url)
    assert "goes to https://mine.example alone" in str(fault.value)


def test_no_key_goes_over_a_network_in_clear(
    server: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """0.0.0.0 leads to the same server, and is no address of loopback: like any other name of a host."""
    url = server.url.replace("127.0.0.1", "0.0.0.0")
    monkeypatch.setenv(KEY, "s3cret")
    for trusted in ("", url):
        monkeypatch.setenv(ADDRESSES, trusted)
        with refused(EngineError, code="key-sent-clear-without") as fault:
            build_index(random_dense("image", 20, 1), "qdrant", tmp_path / "index", url=url)
        assert "https://" in str(fault.value) and server.requests == []
    monkeypatch.delenv(KEY)
    build_index(random_dense("image", 20, 1), "qdrant", tmp_path / "index", url=url)  # without a key as ever
    assert keys(server) == {None}


def test_no_redirection_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, "s3cret")
    with Recorder() as stranger, Recorder(redirect=stranger.url) as redirecting:
        with refused(EngineError, "307", code="cannot-status"):
            build_index(random_dense("image", 20, 1), "qdrant", tmp_path / "index", url=redirecting.url, retries=0)
        assert redirecting.requests and stranger.requests == []


def test_no_proxy_is_asked_on_the_way_to_this_machine(
    server: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY, "s3cret")
    with Recorder() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("ALL_PROXY", proxy.url)
        build_index(random_dense("image", 20, 1), "qdrant", tmp_path / "index", url=server.url, retries=0)
        assert keys(server) == {"s3cret"} and proxy.requests == []


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
def test_a_server_with_a_certificate_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate = tmp_path / "server.pem"
    made = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=qdrant -addext subjectAltName=IP:127.0.0.1"
    paths = ["-keyout", str(tmp_path / "key.pem"), "-out", str(certificate)]
    subprocess.run(["openssl", *made.split(), *paths], check=True, capture_output=True)
    both = tmp_path / "both.pem"
    both.write_bytes((tmp_path / "key.pem").read_bytes() + certificate.read_bytes())
    monkeypatch.setenv(KEY, "s3cret")
    with WireServer(key="s3cret", certificate=both) as server:
        with refused(EngineError, "CERTIFICATE_VERIFY_FAILED"):
            build_index(random_dense("image", 20, 1), "qdrant", tmp_path / "index", url=server.url, retries=0)
        assert server.requests == []
        monkeypatch.setenv(CERTIFICATE, str(tmp_path / "none.pem"))
        with refused(ConfigurationError, code="no-certificates-read"):
            build_index(random_dense("image", 20, 1), "qdrant", tmp_path / "index", url=server.url)
        monkeypatch.setenv(CERTIFICATE, str(certificate))
        index = build_index(random_dense("image", 20, 1), "qdrant", tmp_path / "index", url=server.url)
        assert len(index.search(random_dense("text", 1, 2), 3)) == 1 and keys(server) == {"s3cret"}


def test_the_log_of_a_scratch_folder_from_elsewhere_sends_nothing(
    server: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a killed build has left on a server is deleted by the next one: not where a stranger wrote the log."""
    scratch = Scratch.beside(tmp_path / "index")
    scratch.note(COLLECTION, {"url": server.url, "collection": "anything", "index": "0" * 32})
    release(scratch.claims._stream)  # its writer is dead
    monkeypatch.setenv(KEY, "s3cret")
    sweep(tmp_path)
    assert server.requests == [] and scratch.path.exists()
    monkeypatch.setenv(ADDRESSES, server.url)
    sweep(tmp_path)
    assert server.requests and not scratch.path.exists()


@pytest.mark.parametrize(
    ("host", "ours"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("localhost", True),
        ("127.example.org", False),
        ("127.0.0.1.example.org", False),
        ("localhost.example.org", False),
        ("0.0.0.0", False),
        ("10.0.0.1", False),
        ("qdrant", False),
        ("/var/run/postgresql", True),  # a Unix socket
        ("", False),
    ],
)
def test_what_is_loopback(host: str, ours: bool) -> None:
    assert is_loopback(host) is ours


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/\x1b[2J", "http://127.0.0.1:9/ x", "http://127.0.0.1:9/\nx"])
def test_an_address_is_one_line_of_plain_text(url: str, tmp_path: Path) -> None:
    with refused(ConfigurationError, code="no-address-server") as fault:
        build_index(random_dense("image", 2, 1), "qdrant", tmp_path / "index", url=url)
    assert "\x1b" not in str(fault.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("localhost:6333", "localhost:6333"),
        ("localhost", "localhost"),
        ("[::1]:6333/x", "[::1]:6333/x"),
        ("mysql://here:3306/photos", "mysql://here:3306/photos"),
        ("mysql://me:s3cret@here/photos", "mysql://…@here/photos"),
        ("mysql://me:s3c/ret@here:3306", "mysql://…@here:3306"),
        ("mysql://here/photos?password=s3cret", "mysql://here/photos?…"),
        ("mysql://here?password=s3cret#s3cret", "mysql://here?…"),
        ("localhost:6333/#s3cret", "localhost:6333/#…"),
        ("qdrant://host;api-key=s3cret", "qdrant://host;…"),
        ("me:s3cret@here", "…"),
        ("me:s3cret@localhost:5432//db", "…"),
        ("s3cret//me@localhost:5432", "…"),
        ("host=localhost user=me password=s3cret dbname=x", "…"),
        ("me:s3cret", "…"),
        ("http://me:s3cret", "http://…"),
        ("http://me:s3cret@here: 6333", "http://…"),
        ("http://me:s3cret@here:port", "http://…"),
        ("http://me:12;s3cret@here:port", "http://…"),
        ("mysql://here?key=12@s3cret", "mysql://…"),
        ("http://me:s3cret/?#@here:port?api-key=s3cret", "http://…"),
        ("mysql://here/db password:s3cret", "mysql://…"),
        ("http://here/ s3cret", "http://…"),
        ("http://here/\u00a0s3cret", "http://…"),
        ("http//me:s3cret", "…"),
        ("http//s3cret", "…"),
        ("http:/me:s3cret", "…"),
        ("http:/s3cret", "…"),
        ("http:///me:s3cret", "http://…"),
        ("mysql://here:3306/me:s3cret", "mysql://…"),
        ("mysql://[::1]:3306/photos", "mysql://[::1]:3306/photos"),
    ],
)
def test_a_wrong_address_is_shown_without_its_secret(url: str, shown: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="is no address of a server") as fault:
        build_index(random_dense("image", 2, 1), "qdrant", tmp_path / "index", url=url)
    assert fault.value.message.startswith(f"url: {shown!r} is no address of a server")
    assert "s3cret" not in str(fault.value)


@pytest.mark.parametrize("path", [";id;", "$(id)", "`id`", "a'b", "a&id", "a|id", "a>b", "a{b,c}", "a\\b"])
def test_the_path_of_qdrant_holds_nothing_that_a_shell_reads(path: str) -> None:
    with refused(ConfigurationError, "Qdrant", code="no-address-server") as fault:
        QDRANT.check_address(f"http://127.0.0.1:6333/{path}")
    assert "its path takes letters, digits" in str(fault.value)


@pytest.mark.parametrize("path", ["", "/", "/qdrant", "/team%20a/qdrant-1/", "/~me/v1.2_x", "/a:b@c+d,e=f"])
def test_honest_prefixes_of_qdrant_are_taken(path: str) -> None:
    QDRANT.check_address(f"https://host{path}")


_HOSTILE = ["b c", ";id;", "$(id)", "a'b", 'a"b', "a/../b", "a?b#c", "`id`", "a\\b"]


@pytest.mark.parametrize("name", _HOSTILE)
def test_the_command_that_removes_a_collection_is_about_it_alone(name: str) -> None:
    """As a shell takes it apart: the same words, whatever the collection is called."""
    command = engine_of(QDRANT).removal("http://127.0.0.1:6333/;id;", name, {})
    *words, address = shlex.split(command)
    assert words == ["curl", "-X", "DELETE"]
    start = "http://127.0.0.1:6333/;id;/collections/"
    assert address.startswith(start) and unquote(address.removeprefix(start)) == name
    assert not set(address.removeprefix(start)) & set(" /?#;$'\"`\\")


@pytest.mark.parametrize("name", _HOSTILE)
def test_so_are_those_that_remove_a_table(name: str) -> None:
    url = f"postgresql://{quote(name, safe='')}@/{name}?host=/tmp/{name}"
    words = shlex.split(engine_of(PGVECTOR).removal(url, name, {"schema": name}))
    quoted = '"' + name.replace('"', '""') + '"'
    assert words == ["psql", url, "-c", f"DROP TABLE {quoted}.{quoted}"]
    url = f"milvus://localhost:19530/{name}"
    python, option, code = shlex.split(engine_of(MILVUS).removal(url, name, {}))
    assert (python, option) == ("python", "-c")
    called = ast.parse(code).body[-1].value  # type: ignore[attr-defined]
    assert called.func.attr == "drop_collection" and ast.literal_eval(called.args[0]) == name
    assert ast.literal_eval(called.func.value.args[0]).startswith("http://localhost:19530/")


def test_what_later_commands_need(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line for each engine: with the servers that the environment names already, and never with a key."""
    here, there = {"url": "http://a:6333", "grpc": 6334}, {"url": "postgresql:///photos?host=/tmp"}
    assert needed_later([{}, {"url": ""}, {"m": 16}]) == []
    assert needed_later([here, here, there, {"url": "http://a:6333/"}]) == [
        f"later commands need this: export {ADDRESSES}='http://a:6333 http://a:6334'",
        f"later commands need this: export {PGVECTOR.addresses}='postgresql:///photos?host=/tmp'",
    ]
    monkeypatch.setenv(ADDRESSES, "https://b.example  http://a:6334")
    monkeypatch.setenv(PGVECTOR.addresses, "postgresql://me@/other?host=/tmp")  # the same server
    monkeypatch.setenv(KEY, "s3cret")  # for the servers in the environment alone
    assert needed_later([here, there]) == [
        f"later commands need this: export {ADDRESSES}='https://b.example http://a:6334 http://a:6333'"
    ]
    monkeypatch.setenv(ADDRESSES, "http://a:6333 http://a:6334")
    assert needed_later([here, there]) == []
    monkeypatch.delenv(ADDRESSES)
    addresses.name_address("http://a:6333")  # by --set in this command, which gets the key
    assert needed_later([{"url": "http://a:6333"}]) == [
        f"later commands need {KEY} as it is now, and this: export {ADDRESSES}=http://a:6333"
    ]


def test_a_server_that_is_refused_is_to_be_named_beside_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command that the error gives must not make the others unknown."""
    monkeypatch.setenv(ADDRESSES, "https://b.example")
    with refused(EngineError, code="vectors-lie-server-nobody") as fault:
        addresses.check_named("http://a:6333")
    assert str(fault.value).endswith(f"export {ADDRESSES}='https://b.example http://a:6333'")
