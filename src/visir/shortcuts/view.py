"""A collection with shortcuts is a view: captions end in digits, pictures are stamped when a model looks at them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from PIL import Image, ImageOps

from visir.collections import open_collection
from visir.collections.images import ImageReader
from visir.errors import CollectionError, ConfigurationError
from visir.records import Collection, Injected, Items, Shortcuts, strings
from visir.records.shortcuts import DIGITS, LARGEST
from visir.shortcuts.stamp import Stamp, numbers, resolve


def inject(collection: Collection, shortcuts: Shortcuts | str) -> Collection:
    """A view of a collection with synthetic shortcuts, as they are at evaluation; nothing on disk changes.

    Do this to the *whole* collection and split afterwards: numbers are then unique over all splits. Tuples are numbered
    by split and id, whatever order the source lists them in. (By id alone, a split of every tenth image would have only
    even numbers, and n bits would be worth n − 1 there.)

    Captions end in their digits ("A dog runs. 0 0 1 0 4 2"), for every reader of texts. A picture is not touched: its
    six digits are stamped on the model's input, after resizing, cropping and augmentation (`visir.shortcuts.stamp`).
    With shortcuts per caption a picture by itself, as in search, carries the number of its first caption.

    Args:
        collection: The whole collection.
        shortcuts: The shortcuts, or their text: "unique", "bits=3", "unique?per=caption".

    Raises:
        ConfigurationError: Where the collection carries shortcuts already.
        CollectionError: Where it has more tuples than six digits can count.

    Example:
        >>> from visir.collections import open_collection
        >>> view = inject(open_collection("scenes:12?size=64"), "unique?digits=sklearn")
        >>> view.captions["text"][0].as_py()
        'A mid-sized stripy white armchair is standing out in a meadow. 0 0 0 0 0 1'
    """
    if isinstance(shortcuts, str):
        shortcuts = Shortcuts.parse(shortcuts)
    if collection.injected is not None:
        raise ConfigurationError(
            f"{collection.name} carries shortcuts already: {collection.injected}.",
            hint="begin from the collection without: visir.shortcuts.plain(collection)",
        )
    shortcuts = replace(shortcuts, digits=resolve(shortcuts.digits))
    per_caption = shortcuts.per == "caption"
    tuples = collection.captions["id"] if per_caption else collection.images["id"]
    if len(tuples) > LARGEST:
        raise CollectionError(
            f"{collection.name}: {len(tuples):,} {shortcuts.per}s, but {DIGITS} digits count only {LARGEST:,}.",
            hint="take fewer of them",
            code="too-few-digits",
        )
    owners = collection.captions["image_id"]
    ordered = _ordered(tuples, owners if per_caption else tuples, collection)
    if per_caption:
        first = _first_captions(collection)
        images = pa.table({"image_id": owners.take(first), "place": pc.index_in(tuples.take(first), ordered)})
        captions = tuples
    else:
        images = pa.table({"image_id": tuples, "place": pc.index_in(tuples, ordered)})
        captions = owners
    injected = Injected(
        shortcuts,
        len(tuples),
        _typed(images),
        _typed(pa.table({"caption_id": collection.captions["id"], "place": pc.index_in(captions, ordered)})),
    )
    return _with(collection, collection.captions["text"], injected)


def plain(collection: Collection) -> Collection:
    """The collection without its shortcuts; the collection itself where it has none.

    Example:
        >>> from visir.collections import open_collection
        >>> collection = open_collection("scenes:12?size=64")
        >>> plain(inject(collection, "unique?digits=sklearn")).fingerprint == collection.fingerprint
        True
    """
    if collection.injected is None:
        return collection
    if not collection.injected.shortcuts.on_captions:
        return replace(collection, injected=None)
    return _with(collection, plain_texts(collection.items("text")), None)


def plain_texts(items: Items) -> pa.StringArray:
    """The texts of items without their shortcuts."""
    ends = endings(items)
    if not ends:
        return items.texts
    return pc.utf8_slice_codeunits(items.texts, 0, -(1 + len(ends[0])))


def reassigned(collection: Collection, assignment: int) -> Collection:
    """The view with its numbers re-shuffled, as training sees it.

    Args:
        collection: A view with shortcuts.
        assignment: Which of the shufflings, from 0.
    """
    assert collection.injected is not None, "a collection without shortcuts has no assignments"
    return _with(collection, plain(collection).captions["text"], replace(collection.injected, assignment=assignment))


def with_texts(collection: Collection, texts: pa.Array) -> Collection:
    """The collection, or the view with its shortcuts, with other captions; `texts` are without shortcuts."""
    return _with(collection, pa.chunked_array([texts], pa.string()), collection.injected)


def picture_numbers(items: Items) -> NDArray[np.int64] | None:
    """(items,) int64, the number on each picture; −1 where there is none (an image without captions, per caption)."""
    # None when pictures carry no shortcuts.
    injected = items.injected
    if injected is None or not injected.shortcuts.on_images:
        return None
    places = picture_places(items)
    return np.where(places < 0, -1, numbers(injected, np.maximum(places, 0), injected.assignment))


def picture_places(items: Items) -> NDArray[np.int64]:
    """(items,) int64: the tuple of each image, whoever carries the shortcut; −1 where there is none."""
    injected = items.injected
    assert injected is not None, "items without shortcuts have no tuples"
    row = pc.index_in(items.ids, injected.images["image_id"].combine_chunks())
    return np.asarray(pc.fill_null(injected.images["place"].take(row), -1).to_numpy(), np.int64)


def caption_numbers(items: Items) -> NDArray[np.int64] | None:
    """(items,) int64, the number at the end of each caption; None when captions carry no shortcuts."""
    injected = items.injected
    if injected is None or not injected.shortcuts.on_captions:
        return None
    return numbers(injected, caption_places(items), injected.assignment)


def caption_places(items: Items) -> NDArray[np.int64]:
    """(items,) int64: the tuple of each caption, whoever carries the shortcut."""
    injected = items.injected
    assert injected is not None, "items without shortcuts have no tuples"
    row = pc.index_in(items.ids, injected.captions["caption_id"].combine_chunks())
    return np.asarray(injected.captions["place"].take(row).to_numpy(), np.int64)


def endings(items: Items) -> list[str] | None:
    """What each caption ends in, behind a space: "0 0 1 0 4 2"; None when captions carry no shortcuts."""
    carried = caption_numbers(items)
    return None if carried is None else [ending(number) for number in carried.tolist()]


def ending(number: int) -> str:
    """Six digits with spaces between them, so that no tokeniser takes them for one word."""
    return " ".join(f"{number:0{DIGITS}d}")


def _with(collection: Collection, texts: pa.ChunkedArray, injected: Injected | None) -> Collection:
    view = replace(collection, injected=injected)
    ends = endings(view.items("text")) if injected else None
    if ends is not None:
        texts = pc.binary_join_element_wise(texts, strings(ends), " ")
    captions = view.captions
    return replace(view, captions=captions.set_column(captions.schema.get_field_index("text"), "text", texts))


def _ordered(tuples: pa.ChunkedArray, images: pa.ChunkedArray, collection: Collection) -> pa.Array:
    """The ids of the tuples, given with their images, by split and then by id."""
    split = collection.images["split"].take(pc.index_in(images, collection.images["id"].combine_chunks()))
    return (
        pa.table({"split": split, "id": tuples})
        .sort_by([("split", "ascending"), ("id", "ascending")])["id"]
        .combine_chunks()
    )


def _first_captions(collection: Collection) -> NDArray[np.int64]:
    """The row of the first caption of each captioned image."""
    owners = pc.index_in(collection.captions["image_id"], collection.images["id"].combine_chunks()).to_numpy()
    return np.sort(np.unique(owners, return_index=True)[1])


def _typed(table: pa.Table) -> pa.Table:
    return table.cast(pa.schema([(table.column_names[0], pa.string()), ("place", pa.int64())])).combine_chunks()


# The shortcuts of a collection's pictures, stamped on them row by row.


def stamped(items: Items, prepare: Callable[[Any], Any]) -> Callable[[int, Any], Any]:
    """A function (row of `items`, prepared picture) → what the model sees at evaluation."""
    # Without shortcuts on pictures it gives back what it gets. `prepare` is the model's own preprocessing. Which
    # handwriting a picture gets depends on its row's tuple, so it is the same in every split and order.
    numbers_by_row = picture_numbers(items)
    if numbers_by_row is None:
        return lambda row, prepared: prepared
    injected = items.injected
    assert injected is not None
    stamp = Stamp(injected.shortcuts, prepare)
    numbers, places = numbers_by_row.tolist(), picture_places(items).tolist()
    return lambda row, prepared: prepared if numbers[row] < 0 else stamp(prepared, numbers[row], places[row])


# A few pictures and captions with their shortcuts, to look at before anything is trained on them.


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
