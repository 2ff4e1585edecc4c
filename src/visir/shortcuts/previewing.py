"""A few pictures and captions with their shortcuts, to look at before anything is trained on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from visir.collections import open_collection
from visir.collections.images import ImageReader
from visir.errors import CollectionError
from visir.records import Collection, Shortcuts
from visir.shortcuts.numbers import numbers
from visir.shortcuts.pictures import stamped
from visir.shortcuts.view import caption_places, ending, inject, plain


@dataclass(frozen=True, eq=False)
class PreviewPair:
    """One picture and its first caption."""

    image_id: str  # the id of the image, and `caption_id` that of the caption
    caption_id: str
    place: int  # their tuple, from 0
    number: int  # what the tuple carries
    picture: Image.Image  # RGB as a model of that input size sees it, with its digits where pictures carry them
    text: str  # the caption without its shortcut
    ending: str  # the digits behind it, "" where captions carry none


def preview(
    source: Any,
    shortcuts: str | Shortcuts = "unique",
    *,
    count: int = 12,
    size: int = 224,
    split: str | None = None,
    images: Any = None,
) -> list[PreviewPair]:
    """Some captioned pictures with their shortcuts, evenly spread, as a model sees them at evaluation.

    Args:
        source: A collection, or whatever `visir.open` takes. One that carries shortcuts is shown as it is.
        shortcuts: Which ones, as `inject` takes them: "unique", "bits:3", "unique?on=images".
        count: How many pictures.
        size: The model's input: pictures are scaled and cut to a square of so many pixels, then stamped in the same way
            as when they are encoded.
        split: One split only; numbers are those of the whole collection.
        images: Where the pictures are, when they do not lie beside the source.

    Raises:
        CollectionError: Where no captioned picture is at hand.
        ImageError: For a picture that cannot be read.

    Example:
        >>> import visir
        >>> pair = visir.shortcuts.preview("scenes:50?size=64", "bits:3", count=1, size=64)[0]
        >>> pair.picture.size, pair.ending == " ".join(f"{pair.number:06d}")
        ((64, 64), True)
    """
    collection = open_collection(source, images=images)
    view = collection if collection.injected is not None else inject(collection, shortcuts)
    return preview_pairs(view.split(split), count, size)


def preview_pairs(collection: Collection, count: int, size: int) -> list[PreviewPair]:
    """Some captioned pictures of a view with shortcuts; see `preview`."""
    rows = _rows(collection)
    chosen = rows[np.linspace(0, len(rows) - 1, min(count, len(rows))).round().astype(np.int64)]
    owners = collection.captions["image_id"].to_pylist()
    first = {owner: row for row, owner in reversed(list(enumerate(owners)))}
    reader, texts = ImageReader(collection, on_screen=True), plain(collection).captions["text"]
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
            code="none-images-both-picture",
        )
    return rows


def _square(image: Image.Image, size: int) -> NDArray[np.uint8]:
    """(size, size, 3) bytes: the shorter side scaled, the centre cut out, as most models do."""
    return np.asarray(ImageOps.fit(image, (size, size), Image.Resampling.BICUBIC))
