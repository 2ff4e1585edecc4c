"""A hub on this machine: what the client of the Hugging Face hub asks for, answered from folders, and written down.

What is uploaded to it becomes a repository that it answers from.
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from urllib.parse import unquote, urlsplit

import pytest

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub:
    """Repositories by name, their commits, and the files that were downloaded."""

    def __init__(self, uploads: Path) -> None:
        self.uploads = uploads
        self.made: dict[str, str] = {}
        """Repositories that were made: their visibility."""
        self.pull_requests: list[str] = []
        self.repositories: dict[str, Path] = {}
        self.newest: dict[str, str] = {}
        self.older: dict[tuple[str, str], Path] = {}
        self.downloads: list[str] = []

    def commit(self, name: str, folder: Path, commit: str) -> None:
        """Make `folder` the newest commit of a repository."""
        if name in self.repositories:
            self.older[name, self.newest.get(name, COMMIT)] = self.repositories[name]
        self.repositories[name], self.newest[name] = folder, commit

    def files(self, name: str, folder: Path | None = None) -> list[str]:
        """The files of a repository."""
        folder = folder or self.repositories[name]
        return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())

    def answer(self, method: str, path: str) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and content of one request."""
        parts = unquote(urlsplit(path).path).strip("/").split("/")
        api = parts[:2] == ["api", "models"]
        name = "/".join(parts[2:4] if api else parts[:2])
        if parts[4:5] == ["discussions"]:
            about = {
                "title": "",
                "num": 1,
                "author": {"name": "me"},
                "createdAt": "2026-01-01T00:00:00.000Z",
                "events": [],
            }
            about |= {"status": "draft", "repo": {"name": name, "type": "model"}, "isPullRequest": True}
            return _answer(about | {"changes": {"base": "main"}, "filesWithConflicts": [], "diff": "", "author": {}})
        if name not in self.repositories:
            return 404, {"X-Error-Code": "RepoNotFound"}, b""
        commit = self.newest.get(name, COMMIT)
        named = (parts[5:6] if api else parts[3:4]) or ["main"]  # …/revision/COMMIT, …/tree/COMMIT, …/resolve/COMMIT
        if named[0] not in ("main", "HEAD", commit) and (name, named[0]) not in self.older:
            return 404, {"X-Error-Code": "RevisionNotFound"}, b""
        folder = self.older.get((name, named[0]), self.repositories[name])
        commit = named[0] if (name, named[0]) in self.older else commit
        if api and parts[4:5] == ["tree"]:
            entries = [{"type": "file", "path": file, **_size(folder / file)} for file in self.files(name, folder)]
            return 200, {"Content-Type": "application/json"}, json.dumps(entries).encode()
        if api:
            siblings = [{"rfilename": file} for file in self.files(name, folder)]
            answer = {"id": name, "modelId": name, "sha": commit, "siblings": siblings, "tags": [], "private": False}
            return 200, {"Content-Type": "application/json"}, json.dumps(answer).encode()
        file = "/".join(parts[4:])  # ORGANISATION/NAME/resolve/COMMIT/FILE
        if file not in self.files(name, folder):
            return 404, {"X-Error-Code": "EntryNotFound"}, b""
        content = (folder / file).read_bytes()
        if method == "GET":
            self.downloads.append(file)
        etag = hashlib.sha256(content).hexdigest()
        return 200, {"ETag": f'"{etag}"', "X-Repo-Commit": commit, "Accept-Ranges": "none"}, content

    def take(self, path: str, content: bytes) -> tuple[int, dict[str, str], bytes]:
        """Answer to what is sent: a repository that is made, a card to be judged, a commit of files."""
        parts = unquote(urlsplit(path).path).strip("/").split("/")
        if parts == ["api", "repos", "create"]:
            asked = json.loads(content)
            name = f"{asked['organization']}/{asked['name']}"
            self.made[name] = asked.get("visibility", "public")
            return _answer({"url": f"https://huggingface.co/{name}", "name": name})
        if parts == ["api", "validate-yaml"]:
            return _answer({"errors": [], "warnings": []})
        name, what = "/".join(parts[2:4]), parts[4]
        if what == "preupload":
            files = json.loads(content)["files"]
            return _answer({"files": [{**file, "uploadMode": "regular", "shouldIgnore": False} for file in files]})
        if what == "discussions":
            self.pull_requests.append(f"https://huggingface.co/{name}/discussions/1")
            return _answer({"num": 1})
        assert what == "commit", path
        folder = self.uploads / name
        for line in map(json.loads, content.splitlines()):
            if line["key"] == "file":
                target = folder / line["value"]["path"]
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(base64.b64decode(line["value"]["content"]))
        if parts[5] == "main":
            self.repositories[name] = folder
        return _answer({"commitOid": COMMIT, "commitUrl": f"https://huggingface.co/{name}/commit/{COMMIT}"})


def _answer(content: dict[str, object]) -> tuple[int, dict[str, str], bytes]:
    return 200, {"Content-Type": "application/json"}, json.dumps(content).encode()


def _size(path: Path) -> dict[str, object]:
    content = path.read_bytes()
    return {"size": len(content), "oid": hashlib.sha1(content).hexdigest()}


@contextmanager
def running_hub(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub that runs, and that the client asks; what it downloads goes into `cache`."""
    from huggingface_hub import constants

    hub = Hub(cache / "uploads")

    class Handler(BaseHTTPRequestHandler):
        served: ClassVar[Hub] = hub
        protocol_version = "HTTP/1.1"

        def _send(self, method: str) -> None:
            if method == "POST":
                status, headers, content = self.served.take(self.path, self._sent())
            else:
                status, headers, content = self.served.answer(method, self.path)
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            if method != "HEAD":
                self.wfile.write(content)

        def _sent(self) -> bytes:
            if self.headers.get("Transfer-Encoding") != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length") or 0))
            content = b""
            while length := int(self.rfile.readline().strip() or b"0", 16):
                content += self.rfile.read(length)
                self.rfile.readline()
            self.rfile.readline()
            return content

        def do_POST(self) -> None:
            self._send("POST")

        def do_GET(self) -> None:
            self._send("GET")

        def do_HEAD(self) -> None:
            self._send("HEAD")

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    place = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr(constants, "ENDPOINT", place)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", place + "/{repo_id}/resolve/{revision}/{filename}")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
