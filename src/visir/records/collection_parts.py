"""Parts of a collection: some of its images, captions in some languages, the judgements of one task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from visir.errors import CollectionError, nearest
from visir.fingerprint import hash_columns
from visir.records.collection_tables import JUDGEMENTS, LANGUAGE, LINKS
from visir.records.qrels import Qrels
from visir.records.shortcuts import Injected


class CollectionTables(Protocol):
    """What a part of a collection is made of; `Collection` explains the attributes."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def images(self) -> pa.Table: ...  # noqa: D102
    @property
    def captions(self) -> pa.Table: ...  # noqa: D102
    @property
    def judgements(self) -> pa.Table: ...  # noqa: D102
    @property
    def facts(self) -> pa.Table | None: ...  # noqa: D102
    @property
    def caption_facts(self) -> pa.Table | None: ...  # noqa: D102
    @property
    def injected(self) -> Injected | None: ...  # noqa: D102


class Fingerprinted(Protocol):
    """What has a fingerprint."""

    @property
    def fingerprint(self) -> str: ...  # noqa: D102


def fingerprint_of(collection: CollectionTables, carried: Sequence[Fingerprinted | None]) -> str:
    """Return the hash of `Collection.fingerprint`; `carried` is what a view does to captions and images."""
    images, captions, judgements = collection.images, collection.captions, collection.judgements
    parts = [
        hash_columns([images["id"], images["split"]]),
        hash_columns([captions["id"], captions["text"], captions["image_id"]]),
        hash_columns([judgements[name] for name in JUDGEMENTS.names]),
        *([hash_columns([captions["id"], captions[LANGUAGE]])] if LANGUAGE in captions.column_names else []),
        *(record.fingerprint for record in carried if record is not None),
    ]
    return hash_columns([pa.array(parts)], sort=False)


def of_images(collection: CollectionTables, keep: pa.ChunkedArray | pa.Array | np.ndarray) -> dict[str, Any]:
    """Return the tables of the images where the mask is true, with their captions and judgements."""
    images = collection.images.filter(pa.array(keep) if isinstance(keep, np.ndarray) else keep)
    image_ids = pc.unique(images["id"])
    captions = collection.captions.filter(pc.is_in(collection.captions["image_id"], image_ids))
    caption_ids = pc.unique(captions["id"])
    judgements, facts, caption_facts = collection.judgements, collection.facts, collection.caption_facts
    judged = pc.and_(
        pc.is_in(judgements["image_id"], image_ids),
        pc.is_in(judgements["caption_id"], caption_ids),
    )
    if facts is not None:
        facts = facts.filter(pc.is_in(facts["image_id"], image_ids))
    if caption_facts is not None:
        caption_facts = caption_facts.filter(pc.is_in(caption_facts["caption_id"], caption_ids))
    return {
        "images": images,
        "captions": captions,
        "judgements": judgements.filter(judged),
        "facts": facts,
        "caption_facts": caption_facts,
        "injected": None if collection.injected is None else collection.injected.keep(image_ids, caption_ids),
    }


def languages_of(captions: pa.Table) -> tuple[str, ...]:
    """Return the languages of captions, sorted; empty where none is known."""
    if LANGUAGE not in captions.column_names:
        return ()
    return tuple(sorted(pc.unique(captions[LANGUAGE]).drop_null().to_pylist()))


def caption_labels(captions: pa.Table) -> pa.Table | None:
    """Return the labels of captions as queries: `query_id` and `language`; None where no language is known."""
    if LANGUAGE not in captions.column_names:
        return None
    return pa.table({"query_id": captions["id"], LANGUAGE: captions[LANGUAGE]})


def captions_in(collection: CollectionTables, languages: list[str]) -> tuple[pa.Table, pa.ChunkedArray]:
    """Return the captions in these languages, and the (images,) mask of the images that stay.

    An image leaves when it has captions in other languages only.

    Raises:
        CollectionError: There are no captions in a language, or no languages are known.
    """
    known = languages_of(collection.captions)
    for name in languages:
        if not known:
            raise CollectionError(
                f"{collection.name}: the language of its captions is not known; {name!r} was asked for.",
                hint="leave language= out",
            )
        if name not in known:
            raise CollectionError(f"{collection.name}: no captions in {name!r}", hint=nearest(name, known))
    inside = pc.is_in(collection.captions[LANGUAGE], pa.array(languages, pa.string()))
    captions = collection.captions.filter(inside)
    with_others = pc.unique(collection.captions.filter(pc.invert(inside))["image_id"])
    lost = pc.and_not(
        pc.is_in(collection.images["id"], with_others),
        pc.is_in(collection.images["id"], pc.unique(captions["image_id"])),
    )
    return captions, pc.invert(lost)


def qrels_of(collection: CollectionTables, task: str, relevance: str) -> Qrels:
    """Return the judgements of one task; see `Collection.qrels`.

    Raises:
        CollectionError: There is no set of this name, or it has no judgements of this task.
    """
    if relevance == LINKS:
        pairs, grades = collection.captions.select(["id", "image_id"]).rename_columns(["caption_id", "image_id"]), None
    else:
        known = (LINKS, *sorted(pc.unique(collection.judgements["relevance"]).to_pylist()))
        if relevance not in known:
            raise CollectionError(f"{collection.name}: unknown relevance {relevance!r}", hint=nearest(relevance, known))
        chosen = pc.and_(
            pc.equal(collection.judgements["relevance"], relevance),
            pc.is_in(collection.judgements["task"], pa.array([task, "both"])),
        )
        pairs = collection.judgements.filter(chosen)
        if pairs.num_rows == 0:
            raise CollectionError(f"{collection.name}: relevance {relevance!r} has no judgements for {task}.")
        grades = pairs["grade"].to_numpy()
    query, document = ("caption_id", "image_id") if task == "t2i" else ("image_id", "caption_id")
    return Qrels.of(pairs[query], pairs[document], grades, name=relevance)
