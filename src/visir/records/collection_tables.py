"""The tables of a collection: their columns, and how they are made of lists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from visir.errors import CollectionError, nearest
from visir.records.columns import conform, strings

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
    """Return the columns of `CAPTIONS`, and the languages where one is known.

    Raises:
        CollectionError: A column is missing.
    """
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


def duplicates(ids: pa.ChunkedArray) -> list[str]:
    """Return the ids that occur more than once."""
    if len(ids) == pc.count_distinct(ids, mode="all").as_py():
        return []
    counts = ids.value_counts().to_pylist() if isinstance(ids, pa.Array) else pc.value_counts(ids).to_pylist()
    return [str(entry["values"]) for entry in counts if entry["counts"] > 1 and entry["values"] is not None]


def table_of(columns: Mapping[str, object], schema: pa.Schema) -> pa.Table:
    """Return a table of a schema; missing columns are null, a missing split is "".

    Raises:
        CollectionError: A column is not of the schema.
    """
    if schema is CAPTIONS and LANGUAGE in columns:
        schema = schema.append(pa.field(LANGUAGE, pa.string()))
    unknown = set(columns) - set(schema.names)
    if unknown:
        raise CollectionError(f"unknown column {sorted(unknown)[0]!r}", hint=nearest(sorted(unknown)[0], schema.names))
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


def _column(values: object, kind: pa.DataType) -> pa.Array | pa.ChunkedArray:
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values.cast(kind)
    if isinstance(values, Iterable):
        return pa.array(values if isinstance(values, (list, np.ndarray)) else list(values), kind)
    raise CollectionError(f"a column must be a list or an array, not {type(values).__name__}")
