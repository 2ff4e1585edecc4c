"""Decoded pictures kept on disk, so that an epoch decodes no JPEG."""

from __future__ import annotations

import shutil
from collections import deque
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from visir.arrays import load_array
from visir.collections.images import ImageReader
from visir.encoders.store import image_contents
from visir.errors import VisirError
from visir.fingerprint import hash_columns, hash_json
from visir.progress import Progress
from visir.records import Collection
from visir.storage import ContentStore, FolderChange, FolderKind
from visir.threads import usable_cores

PICTURES = FolderKind("pictures", "a folder of decoded pictures", remedy="delete it: it is made again")

_PIXELS, _SHAPES = "pixels.u8", "shapes.npy"
_LOOK_AFTER = 64
"""After so many pictures the room that all will need is known well enough to refuse a disk that has less."""
_AHEAD = 64


class PictureCache:
    """The pictures of a collection as bytes in one memory-mapped file, their shorter side scaled to `shorter`
    pixels."""

    # Aspect ratios stay. A picture that is smaller is kept as it is: scaling it up would cost room and add nothing.
    # Scaling is Pillow's bicubic, which smooths. What a backbone then sees has been scaled twice and differs a little
    # from what it sees in use; with `shorter` at the backbone's size or a little above, by less than JPEG's own error.
    # It is made on first use in `VISIR_CACHE`/pictures, in a folder named by the ids and contents of the pictures,
    # their order and `shorter`. A second process that wants the same waits for the first. One that is killed leaves an
    # unfinished folder, which the next begins anew; a finished one appears in one rename. All can be deleted at any
    # time.
    # Room: about 4·`shorter`² bytes a picture (COCO's 113,000 training photos at 256 pixels: 30 GB).
    # Raises `ImageError` that names a picture which cannot be read, and `VisirError` with the bytes that are needed
    # when the disk has too little room.

    def __init__(self, collection: Collection, shorter: int) -> None:
        key = hash_json(
            {
                "pictures": hash_columns([collection.images["id"], image_contents(collection)], sort=False),
                "shorter": shorter,
                "scaling": "bicubic",
            }
        )
        store = ContentStore(PICTURES)
        self.folder = store.path(key)
        if store.find(key, hashed=lambda name: False) is None:
            waiting = "another process is decoding the same pictures; waiting"
            with store.writing(key, waiting=waiting, resume=False) as change:
                if change.manifest.generation == 0:
                    _write(collection, shorter, change)
        self._shapes = shapes = load_array(self.folder / _SHAPES)
        self._offsets = _offsets(shapes)
        pixels = self.folder / _PIXELS
        # An empty file cannot be mapped; and a plain view of the map is sliced faster than the map's own class.
        self._pixels = np.asarray(np.memmap(pixels, np.uint8, mode="r")) if len(shapes) else np.zeros(0, np.uint8)

    def __len__(self) -> int:
        return len(self._shapes)

    def open(self, row: int) -> Image.Image:
        """The picture in row `row` of `collection.images`."""
        height, width = self._shapes[row].tolist()
        data = self._pixels[self._offsets[row] : self._offsets[row + 1]]
        return Image.frombuffer("RGB", (width, height), data, "raw", "RGB", 0, 1)


def scaled(image: Image.Image, shorter: int) -> Image.Image:
    """`image` with its shorter side at `shorter` pixels, the longer one rounded; a smaller one as it is."""
    factor = shorter / min(image.size)
    if factor >= 1:
        return image
    width, height = (max(1, round(side * factor)) for side in image.size)
    return image.resize((width, height), Image.Resampling.BICUBIC)


def _write(collection: Collection, shorter: int, change: FolderChange) -> None:
    """Write the files of a cache that is being made."""
    count = collection.images.num_rows
    shapes = np.zeros((count, 2), np.int32)
    written = needed = 0
    try:
        with (
            closing(_decoded(collection, shorter)) as pictures,
            Progress("decoding", count, "images") as advance,
            change.file(_PIXELS).open("wb") as stream,
        ):
            for row, pixels in enumerate(pictures):
                shapes[row] = pixels.shape[:2]
                written += pixels.nbytes
                needed = written * count // (row + 1)
                stream.write(pixels.data)
                if row + 1 == _LOOK_AFTER and shutil.disk_usage(change.folder).free < needed - written:
                    raise _no_room(change.folder, count, needed, "too little room")
                advance(1)
        np.save(change.file(_SHAPES), shapes, allow_pickle=False)
    except OSError as fault:
        raise _no_room(change.folder, count, needed, fault.strerror or str(fault)) from fault


def _no_room(folder: Path, count: int, needed: int, reason: str) -> VisirError:
    room = f"about {needed:,} bytes" if needed else "room"
    return VisirError(
        f"{folder}: cannot be written ({reason}); {count:,} decoded pictures need {room}.",
        hint="make room, name another place in VISIR_CACHE, keep smaller pictures (image.cache=128), "
        "or none and decode every time: image.cache=0",
        code="cannot-written-decoded-pictures",
    )


def _decoded(collection: Collection, shorter: int) -> Generator[NDArray[np.uint8], None, None]:
    """Every picture as (height, width, 3) bytes, in order, decoded by all cores a little ahead."""
    reader = ImageReader(collection)
    executor = ThreadPoolExecutor(usable_cores(), thread_name_prefix="decode")
    waiting: deque[Future[NDArray[np.uint8]]] = deque()
    coming = iter(range(len(reader)))
    try:
        while True:
            for row in islice(coming, _AHEAD - len(waiting)):
                waiting.append(executor.submit(lambda row: np.asarray(scaled(reader.open(row), shorter)), row))
            if not waiting:
                return
            yield np.ascontiguousarray(waiting.popleft().result())
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def _offsets(shapes: NDArray[np.int32]) -> NDArray[np.int64]:
    sizes = shapes.astype(np.int64).prod(axis=1) * 3
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
