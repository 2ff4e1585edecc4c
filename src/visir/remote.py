"""Places that are not on this machine, `s3://bucket/folder` and the like, through `fsspec`.

What lies there is copied, not streamed: vectors are memory-mapped and pictures are read at offsets, which takes local
files. So a source is copied into the cache once (`local_copy`), and results are written here and then put there
(`RemoteFolder.put`). The store itself needs locks and renames that object stores do not have: it stays local.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from visir.errors import VisirError, require
from visir.fingerprint import hash_json
from visir.storage import ContentStore, FolderKind

COPIES = FolderKind("copy", "a copy of a place elsewhere", remedy="delete it: it is copied again")

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]+://")
_PACKAGES = {"s3": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "az": "adlfs", "abfs": "adlfs", "https": "aiohttp"}
_TAGS = ("ETag", "etag", "md5Hash", "mtime", "LastModified", "last_modified", "updated", "created")
"""Under these names file systems tell something that changes when a file does."""


def is_url(place: object) -> bool:
    """Whether a text names a place elsewhere: `s3://bucket/folder`. `C:\\folder` and `coco:captions.json` do not."""
    return _URL.match(str(place)) is not None


class RemoteFolder:
    """A folder of folders elsewhere. Nothing need exist there before the first `put`."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self._files, self._path = _file_system(self.url)

    def names(self) -> list[str]:
        """What lies in it, sorted; nothing when it does not exist."""
        with _reaching(self.url):
            self._files.invalidate_cache()  # other machines write here meanwhile
            try:
                paths = self._files.ls(self._path, detail=False)
            except FileNotFoundError:
                return []
        return sorted({path.rstrip("/").rpartition("/")[2] for path in paths} - {""})

    def read(self, name: str) -> bytes | None:
        """The content of one small file, None when there is none; `name` may have folders before it."""
        with _reaching(f"{self.url}/{name}"):
            try:
                data: bytes = self._files.cat_file(f"{self._path}/{name}")
            except FileNotFoundError:
                return None
        return data

    def folders_with(self, file: str) -> list[str]:
        """The names of the folders in it that hold this file, sorted; found by one listing."""
        with _reaching(self.url):
            self._files.invalidate_cache()
            parts_of_files = [file_path.rsplit("/", 2) for file_path in self._files.find(self._path, maxdepth=2)]
        return sorted(parts[-2] for parts in parts_of_files if parts[-1] == file)

    def put(self, folder: Path, name: str, files: Sequence[str]) -> None:
        """Copy these files of a local folder into `name`, in this order.

        Object stores cannot rename: the last file says that the others are there, so readers look for it first.
        """
        with _reaching(f"{self.url}/{name}"):
            self._files.makedirs(f"{self._path}/{name}", exist_ok=True)
            if self._files.exists(marker := f"{self._path}/{name}/{files[-1]}"):
                self._files.rm_file(marker)
            for name_of_file in files:
                self._files.put_file(str(folder / name_of_file), f"{self._path}/{name}/{name_of_file}")

    def get(self, name: str, files: Sequence[str], folder: Path) -> None:
        """Copy these files of `name` into a local folder."""
        with _reaching(f"{self.url}/{name}"):
            for name_of_file in files:
                self._files.get_file(f"{self._path}/{name}/{name_of_file}", str(folder / name_of_file))

    def remove(self, name: str) -> None:
        """Delete `name` and what is in it."""
        with _reaching(f"{self.url}/{name}"):
            self._files.rm(f"{self._path}/{name}", recursive=True)


def local_copy(url: str) -> Path:
    """A copy of a file or folder elsewhere, made once: it lies in the cache under what it is (size, tag or time).

    Its files carry the time of the originals where that is known, so every machine that copies them gives them the same
    marks, and finds the same vectors. What has changed there is copied anew; older copies can be deleted at any time.

    Raises `VisirError` when the place cannot be reached or there is nothing.
    """
    url = url.rstrip("/")
    files, path = _file_system(url)
    with _reaching(url):
        files.invalidate_cache()
        is_file = files.isfile(path)
        entries: dict[str, Any] = {path: files.info(path)} if is_file else files.find(path, detail=True)
    if not entries:
        raise VisirError(f"{url}: no such file, and no folder with files.", hint="check the address")
    inside = {entry: "" if is_file else entry[len(path) :].lstrip("/") for entry in entries}
    state = {inside[entry]: [info.get("size"), _tag(info)] for entry, info in entries.items()}
    name = url.rpartition("/")[2] or "source"
    store, key = ContentStore(COPIES, name="remote"), hash_json({"url": url, "state": state})
    if store.find(key, hashed=lambda name: False) is None:
        waiting = f"another process is copying {url}; waiting for it"
        with store.writing(key, waiting=waiting, resume=False) as change, _reaching(url):
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


def local_path(place: str) -> str:
    """The text itself, or the path of the local copy when it names a place elsewhere."""
    return str(local_copy(place)) if is_url(place) else place


def _file_system(url: str) -> tuple[Any, str]:
    require("fsspec", extra="remote", purpose=f"{url!r}, a place that is not on this machine,")
    import fsspec

    with _reaching(url):
        files, path = fsspec.core.url_to_fs(url)
    return files, path.rstrip("/")


@contextlib.contextmanager
def _reaching(url: str) -> Iterator[None]:
    protocol = url.partition("://")[0].lower()
    try:
        yield
    except (VisirError, MemoryError):
        raise
    except ImportError as fault:
        package = _PACKAGES.get(protocol, "the package of that file system")
        raise VisirError(f"{url}: {fault}", hint=f"pip install 'visir[remote]' {package}") from fault
    except ValueError as fault:
        raise VisirError(f"{url}: {fault}", hint="an address begins with s3://, gs://, https://, …") from fault
    except Exception as fault:  # the file systems of fsspec raise what their drivers raise: no common base
        raise VisirError(
            f"{url}: cannot be reached ({type(fault).__name__}: {fault}).",
            hint="check address, permissions and credentials (for S3: AWS_PROFILE, AWS_ENDPOINT_URL); run the same "
            "again: it goes on from what is finished",
        ) from fault


def _tag(info: Mapping[str, Any]) -> str:
    return next((str(info[name]) for name in _TAGS if info.get(name) is not None), "")


def _time(info: Mapping[str, Any]) -> int:
    """Nanoseconds since 1970 of the last change, 0 where it is not told."""
    for name in ("LastModified", "mtime", "last_modified", "updated", "created"):
        value = info.get(name)
        if isinstance(value, datetime):
            return int(value.timestamp()) * 1_000_000_000
        if isinstance(value, (int, float)):
            return int(value) * 1_000_000_000
    return 0
