"""The tables of a collection: their columns, how they are made of lists, and parts of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from visir.errors import CollectionError, nearest
from visir.fingerprint import hash_columns
from visir.records.columns import conform, strings
from visir.records.corrupted import Corrupted
from visir.records.qrels import Qrels
from visir.records.shortcuts import Injected

IMAGES = pa.schema([("id", pa.string()), ("path", pa.string()), ("archive", pa.string()), ("split", pa.string())])
CAPTIONS = pa.schema([("id", pa.string()), ("text", pa.string()), ("image_id", pa.string())])
LINKS = "links"
"""The name of the relevance that every collection has: a caption and the image it was written for, grade 1."""
LANGUAGE = "language"
"""The column of the captions' languages ("en", "de"), null where one is unknown; only where one is known."""
JUDGEMENTS = pa.schema(
    [
        ("relevance", pa.string()),  # the name of the set of judgements: "cxc", "eccv", "experts", …
        ("task", pa.string()),  # "t2i", "i2t", or "both"
        ("caption_id", pa.string()),
        ("image_id", pa.string()),
        ("grade", pa.float32()),  # > 0 is a positive; 0 is judged and not relevant
    ]
)


def captions_table(captions: pa.Table, where: str) -> pa.Table:
    """Return the columns of `CAPTIONS`, and the languages where one is known."""
    table = conform(captions, CAPTIONS, where)
    if LANGUAGE not in captions.column_names or captions[LANGUAGE].null_count == captions.num_rows:
        return table
    return table.append_column(LANGUAGE, strings(captions[LANGUAGE]))


def faults_of(images: pa.Table, captions: pa.Table) -> list[str]:
    """Return what is wrong with the two tables: ids missing or twice, captions without text or image."""
    faults: list[str] = []
    for kind, table in (("image", images), ("caption", captions)):
        ids = table["id"]
        if ids.null_count or pc.any(pc.equal(ids, "")).as_py():
            faults.append(f"{kind}s without an id")
        faults += [f"duplicate {kind} id {duplicate!r}" for duplicate in duplicates(ids)]
    if captions["text"].null_count:
        without = captions.filter(pc.is_null(captions["text"]))["id"]
        faults += [f"caption {caption_id!r} has no text (null)" for caption_id in without.to_pylist()]
    orphans = captions.filter(pc.invert(pc.is_in(captions["image_id"], pc.unique(images["id"]))))
    faults += [
        f"caption {row['id']!r} belongs to image {row['image_id']!r}, which is not in the collection"
        for row in orphans.slice(0, 50).to_pylist()
    ]
    return faults


def fingerprint_of(
    images: pa.Table, captions: pa.Table, judgements: pa.Table, views: Sequence[Injected | Corrupted | None]
) -> str:
    """Return the hash of `Collection.fingerprint`; `views` is what a view does to captions and images."""
    parts = [
        hash_columns([images["id"], images["split"]]),
        hash_columns([captions["id"], captions["text"], captions["image_id"]]),
        hash_columns([judgements[name] for name in JUDGEMENTS.names]),
        *([hash_columns([captions["id"], captions[LANGUAGE]])] if LANGUAGE in captions.column_names else []),
        *(view.fingerprint for view in views if view is not None),
    ]
    return hash_columns([pa.array(parts)], sort=False)


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


def captions_in(
    images: pa.Table, captions: pa.Table, languages: Sequence[str], where: str
) -> tuple[pa.Table, pa.ChunkedArray]:
    """Return the captions in these languages, and the (images,) mask of the images that stay."""
    # An image leaves when it has captions in other languages only.
    known = languages_of(captions)
    for name in languages:
        if not known:
            raise CollectionError(
                f"{where}: the language of its captions is not known; {name!r} was asked for.",
                hint="leave language= out",
                code="language-captions-not-known",
            )
        if name not in known:
            raise CollectionError(f"{where}: no captions in {name!r}", hint=nearest(name, known), code="no-captions")
    inside = pc.is_in(captions[LANGUAGE], pa.array(languages, pa.string()))
    chosen, others = captions.filter(inside), captions.filter(pc.invert(inside))
    lost = pc.and_not(*(pc.is_in(images["id"], pc.unique(part["image_id"])) for part in (others, chosen)))
    return chosen, pc.invert(lost)


def pairs_of(captions: pa.Table, judgements: pa.Table, task: str, relevance: str, where: str) -> Qrels:
    """Return the judgements of one task; see `Collection.qrels`."""
    if relevance == LINKS:
        pairs, grades = captions.select(["id", "image_id"]).rename_columns(["caption_id", "image_id"]), None
    else:
        known = (LINKS, *sorted(pc.unique(judgements["relevance"]).to_pylist()))
        if relevance not in known:
            raise CollectionError(
                f"{where}: unknown relevance {relevance!r}", hint=nearest(relevance, known), code="unknown-relevance"
            )
        of_task = pc.is_in(judgements["task"], pa.array([task, "both"]))
        pairs = judgements.filter(pc.and_(pc.equal(judgements["relevance"], relevance), of_task))
        if pairs.num_rows == 0:
            raise CollectionError(
                f"{where}: relevance {relevance!r} has no judgements for {task}.", code="relevance-no-judgements"
            )
        grades = pairs["grade"].to_numpy()
    query, document = ("caption_id", "image_id") if task == "t2i" else ("image_id", "caption_id")
    return Qrels.of(pairs[query], pairs[document], grades, name=relevance)


def of_images(
    images: pa.Table,
    captions: pa.Table,
    judgements: pa.Table,
    facts: pa.Table | None,
    caption_facts: pa.Table | None,
    keep: pa.ChunkedArray | pa.Array | np.ndarray,
) -> dict[str, Any]:
    """Return the tables of the images where the mask is true, by name."""
    images = images.filter(pa.array(keep) if isinstance(keep, np.ndarray) else keep)
    captions = _rows_with(captions, "image_id", images["id"])
    return {
        "images": images,
        "captions": captions,
        "judgements": _rows_with(_rows_with(judgements, "image_id", images["id"]), "caption_id", captions["id"]),
        "facts": facts if facts is None else _rows_with(facts, "image_id", images["id"]),
        "caption_facts": caption_facts
        if caption_facts is None
        else _rows_with(caption_facts, "caption_id", captions["id"]),
    }


def duplicates(ids: pa.ChunkedArray) -> list[str]:
    """Return the ids that occur more than once."""
    if len(ids) == pc.count_distinct(ids, mode="all").as_py():
        return []
    counts = ids.value_counts().to_pylist() if isinstance(ids, pa.Array) else pc.value_counts(ids).to_pylist()
    return [str(entry["values"]) for entry in counts if entry["counts"] > 1 and entry["values"] is not None]


def table_of(columns: Mapping[str, object], schema: pa.Schema) -> pa.Table:
    """Return a table of a schema; missing columns are null, a missing split is ""."""
    if schema is CAPTIONS and LANGUAGE in columns:
        schema = schema.append(pa.field(LANGUAGE, pa.string()))
    unknown = set(columns) - set(schema.names)
    if unknown:
        raise CollectionError(
            f"unknown column {sorted(unknown)[0]!r}",
            hint=nearest(sorted(unknown)[0], schema.names),
            code="unknown-column",
        )
    rows = max((len(values) for values in columns.values()), default=0)  # type: ignore[arg-type]
    arrays = []
    for part in schema:
        if part.name in columns:
            arrays.append(_column(columns[part.name], part.type))
        elif part.name == "split":
            arrays.append(pa.array([""] * rows, part.type))
        else:
            arrays.append(pa.nulls(rows, part.type))
    return pa.table(arrays, schema=schema)


def _rows_with(table: pa.Table, column: str, ids: pa.ChunkedArray) -> pa.Table:
    """The rows that have one of these ids in a column."""
    return table.filter(pc.is_in(table[column], pc.unique(ids)))


def _column(values: object, kind: pa.DataType) -> pa.Array | pa.ChunkedArray:
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values.cast(kind)
    if isinstance(values, Iterable):
        return pa.array(values if isinstance(values, (list, np.ndarray)) else list(values), kind)
    raise CollectionError(f"a column must be a list or an array, not {type(values).__name__}")
