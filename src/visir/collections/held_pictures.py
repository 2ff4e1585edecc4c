"""Pictures that are in memory, as cells of an Arrow file in visir's cache."""

from __future__ import annotations

import hashlib
import io
import itertools
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from visir.errors import CollectionError
from visir.files import user_path
from visir.remote import local_path
from visir.storage import ContentStore, FolderKind

HELD = FolderKind("held-pictures", "pictures from memory", remedy="delete it: it is made again")
_FILE, _ROWS = "cells.arrow", 256


class HeldPictures:
    """Pictures from memory as cells of one Arrow file in the cache, under a hash of their content."""

    def __init__(self) -> None:
        self._cells: list[bytes] = []
        self._digest = hashlib.blake2b(digest_size=16)

    def __len__(self) -> int:
        return len(self._cells)

    def add(self, picture: Any, where: str) -> int:
        """Take a picture; return the number of its cell."""
        data = encoded_picture(picture, where)
        self._digest.update(len(data).to_bytes(8, "little"))
        self._digest.update(data)
        self._cells.append(data)
        return len(self._cells) - 1

    def write(self) -> Path:
        """Write the file, unless the same pictures were written before; return its path."""
        return held_under(self._digest.hexdigest(), lambda: self._cells)


def held_under(key: str, cells: Callable[[], Iterable[bytes]]) -> Path:
    """The Arrow file of pictures, written unless it was written before under the same key."""
    # cells: Makes the bytes of each picture, when they are needed.
    store = ContentStore(HELD)
    if store.find(key, hashed=lambda name: False) is None:
        with store.writing(key, waiting="another process is writing the same pictures; waiting for it") as change:
            if change.manifest.generation == 0:
                schema = pa.schema([("image", pa.large_binary())])
                with pa.ipc.new_file(str(change.file(_FILE)), schema) as writer:
                    iterator = iter(cells())
                    while batch := list(itertools.islice(iterator, _ROWS)):
                        writer.write_batch(pa.record_batch([pa.array(batch, pa.large_binary())], schema=schema))
    return (store.path(key) / _FILE).absolute()


def encoded_picture(picture: Any, where: str) -> bytes:
    """The bytes of a picture: those it came with, or a PNG."""
    # picture: A PIL picture, an array, encoded bytes, a path, or {"bytes": …, "path": …}.
    if isinstance(picture, (bytes, bytearray)):
        return bytes(picture)
    if isinstance(picture, Mapping):
        if picture.get("bytes") is not None:
            return bytes(picture["bytes"])
        path = user_path(str(picture.get("path")))
        if not path.is_file():
            raise CollectionError(f"{where}: {path}: no such file.", code="no-such-file")
        return path.read_bytes()
    from PIL import Image

    if isinstance(picture, (str, Path)):
        path = user_path(local_path(str(picture)))
        if not path.is_file():
            raise CollectionError(f"{where}: {path}: no such file.", code="no-such-file")
        return path.read_bytes()
    if not isinstance(picture, Image.Image):
        try:
            picture = Image.fromarray(picture)
        except (TypeError, ValueError, AttributeError, KeyError) as fault:
            raise CollectionError(
                f"{where}: an array of this shape or type is no picture ({fault}).",
                hint="give (height, width, 3) numbers of type uint8",
            ) from None
    from visir.collections.images import to_rgb

    stream = io.BytesIO()
    to_rgb(picture.copy()).save(stream, "PNG", compress_level=1)
    return stream.getvalue()


def is_picture(value: Any) -> bool:
    """Whether a value holds the picture itself, rather than the name of its file."""
    if isinstance(value, (bytes, bytearray)):
        return True
    if isinstance(value, Mapping):
        return "bytes" in value or "path" in value
    module = type(value).__module__.partition(".")[0]
    return module == "PIL" or (module == "numpy" and getattr(value, "ndim", 0) in (2, 3))
