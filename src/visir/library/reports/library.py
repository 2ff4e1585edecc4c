"""A library in a notebook: counts, and some of its pictures."""

from __future__ import annotations

from itertools import islice

import pyarrow as pa

from visir.library.library import Library
from visir.library.models import NO_MODEL
from visir.library.reports.tiles import tile
from visir.reports.page import Block, Paragraph, Strip, inline
from visir.reports.views.parts import facts, some_rows

SHOWN = 12
"""Pictures of a library: enough to see what it is of."""


def blocks(library: Library) -> list[Block]:
    """Name, model and counts, and pictures from all over the library."""
    ids = library.ids
    heading = facts(
        library.name,
        (len(ids), "pictures"),
        f"model {library.model or NO_MODEL}",
        "" if library.takes_texts is not False else "takes pictures, no texts",
    )
    tiles = [tile(library[ids[row]]) for row in some_rows(len(ids), SHOWN)]
    where = Paragraph(inline("of {} in {}", library.source, str(library.folder)), "soft")
    return [heading, Strip(tiles, is_ranked=False, is_large=True), where]


def arrow(library: Library) -> pa.Table:
    """One row for each picture."""
    columns = {"id": pa.string(), "name": pa.string(), "path": pa.string(), "caption": pa.string(),
               "category": pa.string(), "width": pa.int64(), "height": pa.int64(), "taken": pa.string(),
               "camera": pa.string()}  # fmt: skip
    batches, pictures = [], iter(library)
    while rows := [picture.to_dict() for picture in islice(pictures, 1000)]:
        batches.append(pa.Table.from_pylist(rows, pa.schema(list(columns.items()))))
    return pa.concat_tables(batches) if batches else pa.schema(list(columns.items())).empty_table()
