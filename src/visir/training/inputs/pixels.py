"""Pictures as a body wants to see them: decoded, changed in training, prepared and stacked."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from visir.collections.images import ImageReader
from visir.encoders.devices import usable_cores
from visir.encoders.towers.base import Body, Inputs
from visir.records import Collection
from visir.training.inputs.base import Draw
from visir.training.sides import Augmentation


class PixelSource:
    """The pictures of a collection, by row of `collection.images`, prepared by `body`."""

    def __init__(
        self, collection: Collection, body: Body, augmentation: Augmentation | None = None, cache: int = 0
    ) -> None:
        self._reader = ImageReader(collection)
        self._body = body
        self._threads = ThreadPoolExecutor(usable_cores(), thread_name_prefix="pixels")

    def __len__(self) -> int:
        return len(self._reader)

    def batch(self, rows: NDArray[np.int64], draw: Draw | None = None, keys: NDArray[np.int64] | None = None) -> Inputs:
        """The pictures `rows` as `body.collate` lays them out. Raises `ImageError` that names the image."""
        return self._body.collate(list(self._threads.map(self._prepared, rows.tolist())))

    def _prepared(self, row: int) -> Any:
        image: Image.Image = self._reader.open(row)
        return self._body.prepare(image)
