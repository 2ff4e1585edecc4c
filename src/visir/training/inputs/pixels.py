"""Pictures as a backbone wants to see them: decoded or out of the cache, changed in training, prepared and stacked."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from visir.collections.images import ImageReader
from visir.encoders.towers.base import Backbone, Inputs
from visir.errors import ConfigurationError, ImageError
from visir.records import Collection
from visir.threads import usable_cores
from visir.training.inputs.augment import change, erase
from visir.training.inputs.base import EpochRandom
from visir.training.inputs.picture_cache import PictureCache
from visir.training.inputs.positional_random import PICTURES
from visir.training.sides import Augmentation

KEPT_BYTES = 1_000_000_000
"""Prepared pictures of a split are kept in memory up to this size, where nothing random happens to them."""


class PixelSource:
    """The pictures of a collection, by row of `collection.images`, as `backbone` prepares them."""

    # Pictures to which nothing random happens are prepared once and kept in memory when all of them need no more than
    # `KEPT_BYTES`: the epochs after the first then cost next to nothing.
    # A batch is spread over a few threads, which suffice because decoding and resizing leave the interpreter's lock.
    # Raises `ImageError` that names a picture which cannot be read, and `ConfigurationError` when the cache is smaller
    # than what the backbone sees.

    is_slow = True

    def __init__(
        self, collection: Collection, backbone: Backbone, augmentation: Augmentation | None = None, cache: int = 0
    ) -> None:
        self._reader = ImageReader(collection)
        self._backbone = backbone
        self._augmentation = augmentation or Augmentation()
        example = backbone.prepare(Image.new("RGB", (64, 64)))
        self._size: tuple[int, int] = (int(example.shape[-2]), int(example.shape[-1]))
        if 0 < cache < max(self._size):
            raise ConfigurationError(
                f"image.cache={cache} keeps pictures of {cache} pixels, but the model sees {max(self._size)}.",
                hint=f"image.cache={max(self._size)} or more; 0 decodes the files every time",
                code="image-cache-keeps-pictures",
            )
        self._cache = PictureCache(collection, cache) if cache else None
        self._keep = example.nbytes * len(self._reader) <= KEPT_BYTES
        self._kept: dict[int, Any] = {}
        cores = usable_cores()
        self._parts = 2 * cores
        self._threads = ThreadPoolExecutor(cores, thread_name_prefix="pixels")

    def __len__(self) -> int:
        return len(self._reader)

    def batch(
        self, rows: NDArray[np.int64], draw: EpochRandom | None = None, keys: NDArray[np.int64] | None = None
    ) -> Inputs:
        """The pictures `rows` as `backbone.collate` lays them out."""
        if draw is None or self._augmentation == Augmentation():
            if all(row in self._kept for row in rows.tolist()):
                return self._backbone.collate([self._kept[row] for row in rows.tolist()])
            work: Callable[[int, int], Any] = self._plain
        else:
            work = partial(self._augmented, draw)
        jobs = list(zip(rows.tolist(), (rows if keys is None else keys).tolist(), strict=True))
        # In a few parts: a task for each picture costs as much as a tenth of the work on a small one.
        share = -(-len(jobs) // self._parts)
        parts = [jobs[start : start + share] for start in range(0, len(jobs), share or 1)]
        done = self._threads.map(lambda part: [work(row, key) for row, key in part], parts)
        return self._backbone.collate([prepared for part in done for prepared in part])

    def _plain(self, row: int, key: int) -> Any:
        prepared = self._kept.get(row)
        if prepared is None:
            prepared = self._prepared(row, self._open(row), self._backbone.prepare)
            if self._keep:
                self._kept[row] = prepared
        return prepared

    def _augmented(self, draw: EpochRandom, row: int, key: int) -> Any:
        numbers = draw.of_row(PICTURES, key)
        image = change(self._open(row), self._augmentation, self._size, numbers)
        cropped = self._augmentation.crop is not None
        prepared = self._prepared(row, image, self._backbone.prepare_sized if cropped else self._backbone.prepare)
        return erase(prepared, self._augmentation.erase, numbers) if self._augmentation.erase else prepared

    def _open(self, row: int) -> Image.Image:
        return self._reader.open(row) if self._cache is None else self._cache.open(row)

    def _prepared(self, row: int, image: Image.Image, prepare: Callable[[Image.Image], Any]) -> Any:
        try:
            return prepare(image)
        except ImageError as fault:  # a picture that this backbone cannot take: a sliver of 10,000 × 1 pixels
            raise ImageError(
                f"{self._reader.where(row)}: {fault.message}", hint="crop it, or drop it from the collection"
            ) from fault
