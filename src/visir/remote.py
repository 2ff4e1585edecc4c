"""Places that are not on this machine, `s3://bucket/folder` and the like, through `fsspec`.

Vectors are memory-mapped and pictures are read at offsets, which takes local files. So a source is copied into the
cache once (`local_copy`), and results are written here and then put there (`RemoteFolder.put`). The store itself needs
locks and renames that object stores do not have: it stays local. What is read once, from its beginning to its end, is
streamed (`remote_files`, `open_remote`).
"""

from __future__ import annotations

import contextlib
import inspect
import ipaddress
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from visir.errors import VisirError, require
from visir.fingerprint import hash_json
from visir.storage import ContentStore, FolderKind

COPIES = FolderKind("copy", "a copy of a place elsewhere", remedy="delete it: it is copied again")

_PATTERN = re.compile(r"[*?\[]")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]+://")
_PACKAGES = dict.fromkeys(("gs", "gcs"), "gcsfs") | dict.fromkeys(("az", "abfs"), "adlfs") | {"s3": "s3fs"}
_PACKAGES |= dict.fromkeys(("http", "https"), "aiohttp")
_TAGS = ("ETag", "etag", "md5Hash", "mtime", "LastModified", "last_modified", "updated", "created")
"""Under these names file systems tell something that changes when a file does."""


def is_url(place: object) -> bool:
    """Whether a text names a place elsewhere: `s3://bucket/folder`. `C:\\folder` and `coco:captions.json` do not."""
    return _URL.match(str(place)) is not None


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a host of this name, or the folder of a Unix socket."""
    if host.startswith("/"):
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


class UnreachableError(VisirError):
    """A place elsewhere does not answer, or not as it should: a later try may succeed."""


class RemoteFolder:
    """A folder elsewhere. Nothing need exist there before the first `put`."""

    # What `visir.storage.SharedFolder` offers on a disk it offers too: files that many machines make without locks. An
    # object appears whole.

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self.place = self.url
        self._files, self._path = _file_system(self.url)

    def names(self) -> list[str]:
        """What lies in it, sorted; nothing when it does not exist."""
        with reaching(self.url):
            self._files.invalidate_cache()  # other machines write here meanwhile
            try:
                paths = self._files.ls(self._path, detail=False)
            except FileNotFoundError:
                return []
        return sorted({path.rstrip("/").rpartition("/")[2] for path in paths} - {""})

    def read(self, name: str) -> bytes | None:
        """The content of one small file, None when there is none; `name` may have folders before it."""
        with reaching(f"{self.url}/{name}"):
            try:
                data: bytes = self._files.cat_file(f"{self._path}/{name}")
            except FileNotFoundError:
                return None
        return data

    def read_at_most(self, name: str, most: int) -> bytes | None:
        """The content of one small file; None when there is none, or when it has more than so many bytes."""
        # No more than these are held in memory, whatever a server answers.
        path = f"{self._path}/{name}"
        with reaching(f"{self.url}/{name}"):
            try:
                if not self.url.lower().startswith(("http://", "https://")):
                    data: bytes = self._files.cat_file(path, start=0, end=most + 1)
                    return data if len(data) <= most else None
                # Many servers ignore a range. With these options fsspec asks once, and reads what is asked for.
                with self._files.open(path, "rb", block_size=0, size=1) as stream:
                    read = bytearray()
                    while len(read) <= most and (block := stream.read(most + 1 - len(read))):
                        read += block
            except FileNotFoundError:
                return None
        return bytes(read) if len(read) <= most else None

    def listing(self, folder: str = "") -> dict[str, float]:
        """The names of the files in a folder below it, with the time of their last change in seconds since 1970."""
        with reaching(self.url):
            self._files.invalidate_cache()
            try:
                entries = self._files.ls(f"{self._path}/{folder}".rstrip("/"), detail=True)
            except FileNotFoundError:
                return {}
        now = time.time()  # of a store that tells no times, nothing is old
        return {
            entry["name"].rpartition("/")[2]: _time(entry) / 1e9 or now
            for entry in entries
            if entry.get("type") != "directory" and not entry["name"].endswith("/")
        }

    def exists(self, name: str) -> bool:
        """Whether there is a file of this name."""
        with reaching(f"{self.url}/{name}"):
            self._files.invalidate_cache()
            return bool(self._files.exists(f"{self._path}/{name}"))

    def open(self, name: str) -> IO[bytes]:
        """A file, to be read at any place in it."""
        with reaching(f"{self.url}/{name}"):
            stream: IO[bytes] = self._files.open(f"{self._path}/{name}", "rb")
        return stream

    def create(self, name: str, data: bytes, writer: str = "") -> bool:
        """Write a new small file; False where there is one of this name already."""
        # Of several processes only one succeeds, where the store has conditional writes and fsspec knows them (S3,
        # Google Cloud Storage); elsewhere it is looked whether there is a file, and two at the same moment may both
        # succeed.
        path = f"{self._path}/{name}"
        with reaching(f"{self.url}/{name}"):
            self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
            try:
                if self._creates_alone:
                    self._files.pipe_file(path, data, mode="create")
                elif self.exists(name):
                    return False
                else:
                    self._files.pipe_file(path, data)
            except FileExistsError:
                return False
            except OSError as fault:
                if not _is_taken(fault):
                    raise
                return False
        return True

    def touch(self, name: str) -> None:
        """Give a file the time of this moment, by writing it anew."""
        data = self.read(name)
        if data is not None:
            with reaching(f"{self.url}/{name}"):
                self._files.pipe_file(f"{self._path}/{name}", data)

    def publish(self, file: Path, name: str, writer: str) -> bool:
        """Copy a local file here, in one step; False where there is a file of this name already."""
        if self.exists(name):
            return False
        with reaching(f"{self.url}/{name}"):
            self._files.makedirs(f"{self._path}/{name}".rpartition("/")[0], exist_ok=True)
            self._files.put_file(str(file), f"{self._path}/{name}")
        return True

    def clear(self, folder: str, writer: str) -> None:
        """Nothing: what was not copied whole is not there."""

    @property
    def _creates_alone(self) -> bool:
        call = getattr(self._files, "_pipe_file", self._files.pipe_file)
        return "mode" in inspect.signature(call).parameters

    def put(self, folder: Path, name: str, files: Sequence[str]) -> None:
        """Copy these files of a local folder into `name`, in this order."""
        # Object stores cannot rename: the last file says that the others are there, so readers look for it first.
        with reaching(f"{self.url}/{name}"):
            self._files.makedirs(f"{self._path}/{name}", exist_ok=True)
            if self._files.exists(marker := f"{self._path}/{name}/{files[-1]}"):
                self._files.rm_file(marker)
            for name_of_file in files:
                self._files.put_file(str(folder / name_of_file), f"{self._path}/{name}/{name_of_file}")

    def remove(self, name: str) -> None:
        """Delete `name` and what is in it."""
        with reaching(f"{self.url}/{name}"):
            self._files.rm(f"{self._path}/{name}", recursive=True)


def local_copy(url: str) -> Path:
    """A copy of a file or folder elsewhere, made once: it lies in the cache under what it is (size, tag or time)."""
    # Its files carry the time of the originals where that is known, so every machine that copies them gives them the
    # same marks, and finds the same vectors. What has changed there is copied anew; older copies can be deleted at any
    # time.
    # Raises `VisirError` when the place cannot be reached or there is nothing.
    url = url.rstrip("/")
    files, path = _file_system(url)
    with reaching(url):
        files.invalidate_cache()
        is_file = files.isfile(path)
        entries: dict[str, Any] = {path: files.info(path)} if is_file else files.find(path, detail=True)
    if not entries:
        raise VisirError(
            f"{url}: no such file, and no folder with files.", hint="check the address", code="no-such-file-no-folder"
        )
    inside = {entry: "" if is_file else entry[len(path) :].lstrip("/") for entry in entries}
    state = {inside[entry]: [info.get("size"), _tag(info)] for entry, info in entries.items()}
    name = url.rpartition("/")[2] or "source"
    store, key = ContentStore(COPIES, name="remote"), hash_json({"url": url, "state": state})
    if store.find(key, hashed=lambda name: False) is None:
        waiting = f"another process is copying {url}; waiting for it"
        with store.writing(key, waiting=waiting, resume=False) as change, reaching(url):
            for entry, info in entries.items() if change.manifest.generation == 0 else ():
                try:
                    target = change.file(f"{name}/{inside[entry]}" if inside[entry] else name)
                except ValueError as fault:
                    raise VisirError(
                        f"{url}: it holds a file named {inside[entry]!r}, which leaves the folder."
                    ) from fault
                files.get_file(entry, str(target))
                os.utime(target, ns=(_time(info), _time(info)))
    return store.path(key) / name


def remote_files(url: str) -> tuple[str, dict[str, tuple[int, str]]]:
    """The files of a folder elsewhere, of a pattern (`s3://bucket/laion/*.tar`), or a single one. Nothing is opened."""
    with reaching(url):
        files, path = _file_system(url)
        files.invalidate_cache()
        root, _, name = path.rpartition("/")
        if files.isfile(path):
            entries = {path: files.info(path)}
        elif not _PATTERN.search(path) or files.isdir(path):
            root, entries = path, files.find(path, detail=True)
        elif _PATTERN.search(root) and files.isdir(root):  # a folder of this very name
            entries = files.glob(_PATTERN.sub(r"[\g<0>]", root) + f"/{name}", detail=True)
        else:
            root = path[: _PATTERN.search(path).start()].rpartition("/")[0]  # type: ignore[union-attr]
            entries = files.glob(path, detail=True)
        place = files.unstrip_protocol(root)
    about = {
        entry[len(root) :].lstrip("/"): _state(info)
        for entry, info in entries.items()
        if info.get("type") != "directory"
    }
    return place, about


def remote_state(url: str) -> tuple[int, str] | None:
    """The size of a file elsewhere, and what changes when it does; None where there is none."""
    with reaching(url):
        files, path = _file_system(url)
        files.invalidate_cache()
        try:
            info = files.info(path)
        except FileNotFoundError:
            return None
    return _state(info)


@contextlib.contextmanager
def open_remote(url: str) -> Iterator[IO[bytes]]:
    """A file elsewhere, to be read in blocks from its beginning on; faults on the way are `UnreachableError`."""
    with reaching(url):
        files, path = _file_system(url)
        with files.open(path, "rb") as stream:
            yield stream


def local_path(place: str) -> str:
    """The text itself, or the path of the local copy when it names a place elsewhere."""
    return str(local_copy(place)) if is_url(place) else place


def _file_system(url: str) -> tuple[Any, str]:
    require("fsspec", extra="remote", purpose=f"{url!r}, a place that is not on this machine,")
    import fsspec

    with reaching(url):
        files, path = fsspec.core.url_to_fs(url)
    return files, path.rstrip("/")


@contextlib.contextmanager
def reaching(url: str) -> Iterator[None]:
    """Around what asks a place elsewhere, or reads from it: its faults become `UnreachableError`, or `VisirError`."""
    protocol = url.partition("://")[0].lower()
    try:
        yield
    except (VisirError, MemoryError):
        raise
    except ImportError as fault:
        package = _PACKAGES.get(protocol)
        more = f" {package}" if package else ", and the package of that file system"
        raise VisirError(f"{url}: {fault}", hint=f"pip install 'visir[remote]'{more}") from fault
    except ValueError as fault:
        raise VisirError(f"{url}: {fault}", hint="an address begins with s3://, gs://, https://, …") from fault
    except Exception as fault:  # the file systems of fsspec raise what their drivers raise: no common base
        raise UnreachableError(
            f"{url}: cannot be reached ({type(fault).__name__}: {fault}).",
            hint="check address, permissions and credentials (for S3: AWS_PROFILE, AWS_ENDPOINT_URL); run the same "
            "again: it goes on from what is finished",
            code="cannot-reached",
        ) from fault


def _is_taken(fault: OSError) -> bool:
    """Whether a store refused a conditional write because somebody else's file is there, or was written meanwhile."""
    cause = getattr(fault.__cause__, "response", None) or {}
    code = str(cause.get("Error", {}).get("Code", ""))
    return code in ("PreconditionFailed", "ConditionalRequestConflict", "412", "409")


def _tag(info: Mapping[str, Any]) -> str:
    return next((str(info[name]) for name in _TAGS if info.get(name) is not None), "")


def _state(info: Mapping[str, Any]) -> tuple[int, str]:
    """The size of a file and what changes when it does: some listings have times as numbers where files have dates."""
    written = {name: value.timestamp() if isinstance(value, datetime) else value for name, value in info.items()}
    return int(info.get("size") or 0), _tag(written)


def _time(info: Mapping[str, Any]) -> int:
    """Nanoseconds since 1970 of the last change, 0 where it is not told."""
    for name in ("LastModified", "mtime", "last_modified", "updated", "created"):
        value = info.get(name)
        if isinstance(value, datetime):
            return int(value.timestamp()) * 1_000_000_000
        if isinstance(value, (int, float)):
            return int(value) * 1_000_000_000
    return 0
