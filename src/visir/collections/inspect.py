"""A collection at a glance: `visir data inspect`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from PIL import Image

from visir.collections.images import ImageReader
from visir.errors import CollectionError, nearest
from visir.records import LINKS, TASKS, Collection, HasImages


@dataclass(frozen=True)
class SplitSummary:
    """One split in numbers. Captions per image and words per caption are (least, median, most)."""

    name: str
    images: int
    pictures: int
    captions: int
    captions_per_image: tuple[int, float, int]
    words: tuple[int, float, int]


@dataclass(frozen=True)
class RelevanceSummary:
    """One relevance in one task: its queries, and its positives in all."""

    name: str
    task: str
    queries: int
    positives: int


@dataclass(frozen=True)
class Inspection:
    """What `inspect` tells."""

    about: dict[str, Any]
    splits: tuple[SplitSummary, ...]
    relevances: tuple[RelevanceSummary, ...]
    facts: tuple[str, ...]
    examples: tuple[tuple[str, tuple[str, ...]], ...]


def inspect(collection: Collection, *, examples: int = 3, seed: int = 0) -> Inspection:
    """Counts, splits, caption lengths (words between white space), relevances, and some examples drawn by `seed`."""
    splits = [_summary(name, collection.split(name)) for name in collection.splits]
    if len(splits) > 1:
        splits.append(_summary("all", collection))
    relevances = []
    for name in collection.relevances:
        for task in TASKS:
            if name == LINKS and collection.captions.num_rows == 0:
                continue
            if name != LINKS and not _judges(collection, name, task):
                continue
            qrels = collection.qrels(task, name)
            relevances.append(RelevanceSummary(name, task, len(qrels), int(qrels.positives.sum())))
    facts = collection.facts.column_names[1:] if collection.facts is not None else []
    return Inspection(
        collection.describe(), tuple(splits), tuple(relevances), tuple(facts), _examples(collection, examples, seed)
    )


def _summary(name: str, part: Collection) -> SplitSummary:
    counted = part.captions.group_by("image_id").aggregate([([], "count_all")])["count_all"].to_numpy()
    counted = np.concatenate([counted, np.zeros(part.images.num_rows - len(counted), counted.dtype)])
    words = pc.list_value_length(pc.utf8_split_whitespace(pc.utf8_trim_whitespace(part.captions["text"]))).to_numpy()
    pictures = part.images.num_rows - part.images["path"].null_count
    return SplitSummary(name, part.images.num_rows, pictures, part.captions.num_rows, _three(counted), _three(words))


def _three(values: Any) -> tuple[int, float, int]:
    if len(values) == 0:
        return 0, 0.0, 0
    return int(values.min()), float(np.median(values)), int(values.max())


def _judges(collection: Collection, name: str, task: str) -> bool:
    rows = collection.judgements
    chosen = pc.and_(pc.equal(rows["relevance"], name), pc.is_in(rows["task"], pa.array([task, "both"])))
    return bool(pc.any(chosen).as_py())


def _examples(collection: Collection, count: int, seed: int) -> tuple[tuple[str, tuple[str, ...]], ...]:
    captioned = pc.unique(collection.captions["image_id"]) if collection.captions.num_rows else collection.images["id"]
    rows = np.random.default_rng(seed).permutation(len(captioned))[:count]
    ids = [captioned[int(row)].as_py() for row in rows]
    chosen = collection.captions.filter(pc.is_in(collection.captions["image_id"], pa.array(ids, pa.string())))
    texts: dict[str, list[str]] = {image: [] for image in ids}
    for row in chosen.to_pylist():
        texts[row["image_id"]].append(row["text"])
    return tuple((image, tuple(listed)) for image, listed in texts.items())


# One picture of a collection by its id.


def picture_of(source: HasImages, id: str) -> Image.Image:
    """The picture of an id, upright RGB."""
    row = pc.index(source.images["id"], id).as_py()
    if row < 0:
        ids = source.images["id"].slice(0, 10_000).to_pylist()
        raise CollectionError(
            f"no image {id!r}.", hint=nearest(id, ids) if ids else "the collection is empty", code="no-image"
        )
    return ImageReader(source).open(row)
