"""One picture of a collection by its id."""

from __future__ import annotations

import pyarrow.compute as pc
from PIL import Image

from visir.collections.images import ImageReader
from visir.errors import CollectionError, nearest
from visir.records import HasImages


def picture_of(source: HasImages, id: str) -> Image.Image:
    """The picture of an id, upright RGB."""
    row = pc.index(source.images["id"], id).as_py()
    if row < 0:
        ids = source.images["id"].slice(0, 10_000).to_pylist()
        raise CollectionError(
            f"no image {id!r}.", hint=nearest(id, ids) if ids else "the collection is empty", code="no-image"
        )
    return ImageReader(source).open(row)
