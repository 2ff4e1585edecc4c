"""A collection with shortcuts is a view: captions end in digits, pictures are stamped when a model looks at them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.errors import CollectionError, ConfigurationError
from visir.records import Collection, Injected, Items, Shortcuts, strings
from visir.records.shortcuts import DIGITS, LARGEST
from visir.shortcuts.digits import resolve
from visir.shortcuts.numbers import numbers


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
