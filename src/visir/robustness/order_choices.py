"""Choices of word order, made of any collection: each picture chooses its caption among the same words in other orders.

ARO's code makes COCO Order and Flickr30k Order in this way when it runs (Yuksekgonul et al. 2023, section 2.3). The
orders are drawn anew here, so numbers are close to ARO's and not equal to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from visir.collections import open_collection
from visir.records import TaskFile
from visir.records.items import Items
from visir.records.labels import GROUP, IMAGE
from visir.robustness.perturb import perturb_texts

ORDERS = ("shuffle_nouns_and_adj", "shuffle_allbut_nouns_and_adj", "shuffle_within_trigrams", "shuffle_trigrams")
"""ARO's four wrong captions."""


def order_choices(
    source: Any,
    *,
    images: Any = None,
    split: str | None = None,
    orders: Sequence[str] = ORDERS,
    seed: int = 0,
) -> TaskFile:
    """Make a choice task of a collection: a picture, its caption, and the caption's words in other orders."""
    collection = open_collection(source, images=images, split=split)
    captions = collection.captions
    ids, texts = captions["id"].combine_chunks(), captions["text"].combine_chunks()
    wrong = {order: perturb_texts(texts, ids, order, seed=seed).texts.to_pylist() for order in orders}
    rows: list[int] = []
    judged: list[str] = []
    pools: list[tuple[str, str]] = []
    documents: dict[str, str] = {}
    for row, (key, text) in enumerate(zip(ids.to_pylist(), texts.to_pylist(), strict=True)):
        others = {values[row]: order for order, values in reversed(wrong.items()) if values[row] != text}
        if not others:
            continue
        rows.append(row)
        candidates = {f"{key}/caption": text} | {f"{key}/{order}": other for other, order in others.items()}
        documents |= candidates
        judged.append(f"{key}/caption")
        pools += [(key, candidate) for candidate in candidates]
    chosen = pa.array(np.array(rows, np.int64))
    queries, owners = ids.take(chosen), captions["image_id"].combine_chunks().take(chosen)
    pictures = collection.items("image")
    assert pictures.places is not None
    places = pictures.places.take(pc.index_in(owners, pictures.ids))
    nothing = [""] * len(rows)
    judgements = {"split": nothing, "query_id": queries, "document_id": judged, "grade": [1.0] * len(rows)}
    pooled = [[""] * len(pools), *map(list, zip(*pools, strict=True))]
    return TaskFile(
        f"{collection.name}, order of words",
        Items(queries, None, places, pictures.root, "images", collection.name),
        Items.of_texts(documents, title="captions", name=collection.name),
        pa.table(judgements),
        pa.table(pooled, names=["split", "query_id", "document_id"]),
        "i2t",
        f"{collection.source}; orders: {', '.join(orders)}, seed {seed}",
        labels=pa.table({"query_id": queries, GROUP: queries, IMAGE: owners}),
        ties="pessimistic",
        measures=("all_first",),
    )
