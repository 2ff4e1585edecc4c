"""A collection: counts, and some of its pictures with a caption below each."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from visir.records import IMAGES, Collection
from visir.reports.page import Block, Paragraph, Strip, Tile, inline
from visir.reports.shown import BUDGET, ShownItems, first_captions
from visir.reports.views.parts import facts, some_rows

SHOWN = 12
"""Pictures of a collection: enough to see what it is of."""


def blocks(collection: Collection) -> list[Block]:
    """The counts, and pictures from all over the collection."""
    counts = {entry["values"]: entry["counts"] for entry in pc.value_counts(collection.images["split"]).to_pylist()}
    splits = [f"{split} {counts[split]:,}" for split in collection.splits if split]
    heading = facts(
        collection.name,
        (collection.images.num_rows, "images"),
        (collection.captions.num_rows, "captions"),
        f"splits: {', '.join(splits)}" if splits else "",
        f"judgements: {', '.join(collection.relevances)}" if collection.judgements.num_rows else "",
    )
    items = collection.items("image").take(some_rows(collection.images.num_rows, SHOWN))
    ids = items.ids.to_pylist()
    captions = first_captions(collection, ids)
    shown = ShownItems([(items, ids)], budget=BUDGET, alternatives=captions)
    tiles = [
        Tile(captions.get(name, ""), shown.picture(items, name), captions.get(name, name), hint=name) for name in ids
    ]
    where = [Paragraph(inline("from {}", collection.source), "soft")] if collection.source else []
    return [heading, *([Strip(tiles, is_ranked=False, is_large=True)] if tiles else []), *where]


def arrow(collection: Collection) -> pa.Table:
    """One row per caption: `image_id`, `path`, `archive`, `split`, `caption_id`, `text`."""
    # An image without a caption has one row, where `caption_id` and `text` are null.
    captions = collection.captions.rename_columns(["caption_id", "text", "image_id"])
    rows = pc.index_in(captions["image_id"], collection.images["id"].combine_chunks())
    bare = pc.invert(pc.is_in(collection.images["id"], pc.unique(captions["image_id"])))
    table = pa.concat_tables([collection.images.take(rows), collection.images.filter(bare)])
    table = table.rename_columns(["image_id", *IMAGES.names[1:]])
    nulls = pa.nulls(table.num_rows - captions.num_rows, pa.string())
    for name in ("caption_id", "text"):
        table = table.append_column(name, pa.chunked_array([*captions[name].chunks, nulls]))
    return table
