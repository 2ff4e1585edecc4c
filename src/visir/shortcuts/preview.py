"""A few pictures and captions with their shortcuts, to look at before anything is trained on them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from visir.collections.images import ImageReader
from visir.errors import CollectionError
from visir.records import Collection
from visir.shortcuts.numbers import numbers
from visir.shortcuts.pictures import stamped
from visir.shortcuts.view import caption_places, ending, plain


@dataclass(frozen=True, eq=False)
class PreviewPair:
    """One picture and its first caption.

    Args:
        image_id: The id of the image, and `caption_id` that of the caption.
        place: Their tuple, from 0.
        number: What the tuple carries.
        picture: RGB as a model of that input size sees it, with its digits where pictures carry them.
        text: The caption without its shortcut.
        ending: The digits behind it, "" where captions carry none.
    """

    image_id: str
    caption_id: str
    place: int
    number: int
    picture: Image.Image
    text: str
    ending: str


def preview(collection: Collection, count: int = 12, size: int = 224) -> list[PreviewPair]:
    """Some captioned pictures of a view with shortcuts, evenly spread over its order, as at evaluation.

    Args:
        collection: A view with shortcuts.
        count: How many.
        size: The model's input: pictures are scaled and cut to a square of so many pixels, then stamped in the same way
            as when they are encoded.

    Raises:
        CollectionError: Where no captioned picture is at hand.
        ImageError: For a picture that cannot be read.
    """
    rows = _rows(collection)
    chosen = rows[np.linspace(0, len(rows) - 1, min(count, len(rows))).round().astype(np.int64)]
    owners = collection.captions["image_id"].to_pylist()
    first = {owner: row for row, owner in reversed(list(enumerate(owners)))}
    reader, texts = ImageReader(collection), plain(collection).captions["text"]
    stamp = stamped(collection.items("image"), lambda image: _square(image, size))
    assert collection.injected is not None, "a preview shows a collection with shortcuts"
    places = caption_places(collection.items("text"))
    carried = numbers(collection.injected, places, collection.injected.assignment)
    pairs = []
    for row in chosen.tolist():
        image_id = collection.images["id"][row].as_py()
        caption = first[image_id]
        number = int(carried[caption])
        pairs.append(
            PreviewPair(
                image_id,
                collection.captions["id"][caption].as_py(),
                int(places[caption]),
                number,
                Image.fromarray(stamp(row, _square(reader.open(row), size))),
                texts[caption].as_py(),
                ending(number) if collection.injected.shortcuts.on_captions else "",
            )
        )
    return pairs


def _rows(collection: Collection) -> NDArray[np.int64]:
    """The images that have a caption and whose picture is at hand."""
    captioned = set(collection.captions["image_id"].to_pylist())
    pictures = zip(collection.images["id"].to_pylist(), collection.images["path"].to_pylist(), strict=True)
    rows = np.array(
        [row for row, (image, path) in enumerate(pictures) if path is not None and image in captioned], np.int64
    )
    if not len(rows):
        raise CollectionError(
            f"{collection.name}: none of {collection.images.num_rows:,} images has both a picture at hand and a "
            "caption.",
            hint="say where the pictures are: --images FOLDER_OR_ZIP",
        )
    return rows


def _square(image: Image.Image, size: int) -> NDArray[np.uint8]:
    """(size, size, 3) bytes: the shorter side scaled, the centre cut out, as most models do."""
    return np.asarray(ImageOps.fit(image, (size, size), Image.Resampling.BICUBIC))
