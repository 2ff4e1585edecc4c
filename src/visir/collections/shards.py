"""Copying the pictures of a collection into zip shards, and pointing at them where they lie."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pyarrow as pa
import pyarrow.compute as pc

from visir.collections.images import SCENE, ImageReader
from visir.errors import ImageError, raise_faults
from visir.progress import Progress
from visir.records import Collection
from visir.storage import FolderChange

SHARD_BYTES = 1 << 30
"""A shard is closed when it has grown past this: small enough to move about, large enough to be few."""


def copy_images(collection: Collection, change: FolderChange, *, shard_bytes: int = SHARD_BYTES) -> Collection:
    """Copy every picture's bytes, unchanged, into images-00000.zip, …; the collection then points there."""
    # Stored, not compressed: pictures are compressed already, and a stored member is read with one seek. Generated
    # scenes are rendered to PNG. Pictures that are metadata only stay so. All that cannot be read are named in one
    # `ImageError`.
    reader = ImageReader(collection)
    names = _names(collection)
    paths: list[str | None] = []
    archives: list[str | None] = []
    faults: list[str] = []
    with _Shards(change, shard_bytes) as shards, Progress("copying", len(names), "images") as advance:
        for row, name in enumerate(names):
            advance(1)
            paths.append(name)
            archives.append(None)
            if name is None:
                continue
            try:
                data = reader.read(row)
            except ImageError as fault:
                faults.append(fault.message)
                continue
            archives[-1] = shards.add(name, data)
    raise_faults(
        ImageError,
        f"{collection.name}: images that cannot be copied",
        faults,
        hint="mend or drop them (visir data check lists them), or keep them in place: images='link'",
    )
    return _moved(collection, change, paths, archives)


def link_images(collection: Collection, change: FolderChange) -> Collection:
    """Leave the pictures where they are and point there by absolute paths."""
    root = Path(collection.root).resolve()

    def absolute(value: str | None) -> str | None:
        return None if value is None else (root / value).as_posix()

    archives = [absolute(archive) for archive in collection.images["archive"].to_pylist()]
    paths = [
        path if archive is not None or path is None or path.startswith(SCENE) else absolute(path)
        for path, archive in zip(collection.images["path"].to_pylist(), archives, strict=True)
    ]
    return _moved(collection, change, paths, archives)


def drop_images(collection: Collection, change: FolderChange) -> Collection:
    """Metadata only."""
    nothing: list[str | None] = [None] * collection.images.num_rows
    return _moved(collection, change, nothing, nothing)


def _moved(
    collection: Collection, change: FolderChange, paths: list[str | None], archives: list[str | None]
) -> Collection:
    images = collection.images.set_column(1, "path", pa.array(paths, pa.string()))
    images = images.set_column(2, "archive", pa.array(archives, pa.string()))
    return replace(collection, images=images, root=change.folder)


def _names(collection: Collection) -> list[str | None]:
    """Member names: the pictures' own file names where these are unique, numbers in row order otherwise."""
    paths = collection.images["path"].to_pylist()
    bases = [None if path is None or path.startswith(SCENE) else PurePosixPath(path).name for path in paths]
    column = pa.array([base for base in bases if base is not None], pa.string())
    if None not in bases and "" not in bases and pc.count_distinct(column).as_py() == len(column):
        return bases
    return [None if path is None else f"{row:08d}{_suffix(path)}" for row, path in enumerate(paths)]


def _suffix(path: str) -> str:
    return ".png" if path.startswith(SCENE) else PurePosixPath(path).suffix.partition("#")[0]


class _Shards:
    """Zips that follow one another."""

    def __init__(self, change: FolderChange, limit: int) -> None:
        self._change, self._limit = change, limit
        self._open: zipfile.ZipFile | None = None
        self._written = 0
        self._names = self._numbered()

    def add(self, name: str, data: bytes) -> str:
        """Store one member; returns the shard's file name."""
        if self._open is None or self._written >= self._limit:
            self.__exit__()
            self._open, self._written = zipfile.ZipFile(self._change.file(next(self._names)), "x"), 0
        # A fixed date, so that the same collection gives the same bytes.
        self._open.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data)
        self._written += len(data)
        return Path(str(self._open.filename)).name

    def __enter__(self) -> _Shards:
        return self

    def __exit__(self, *_: object) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    @staticmethod
    def _numbered() -> Iterator[str]:
        number = 0
        while True:
            yield f"images-{number:05d}.zip"
            number += 1
