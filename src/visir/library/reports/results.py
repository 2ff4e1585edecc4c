"""The answer to a search in a library, in a notebook: pictures, best first."""

from __future__ import annotations

import pyarrow as pa

from visir.library.ranking import LibraryResults
from visir.library.reports.tiles import tile
from visir.reports.page import Block, Paragraph, Strip
from visir.reports.shown import PICTURES
from visir.reports.views.parts import facts

_COLUMNS = {"rank": pa.int64(), "score": pa.float64(), "id": pa.string(), "name": pa.string(), "path": pa.string(),
            "caption": pa.string(), "category": pa.string(), "width": pa.int64(), "height": pa.int64(),
            "taken": pa.string(), "camera": pa.string()}  # fmt: skip


def blocks(results: LibraryResults) -> list[Block]:
    """What was searched, and the pictures that were found."""
    heading = facts(results.title, results.how_many, results.label)
    if not results.hits:
        return [heading]
    shown = [tile(hit) for hit in results.hits[:PICTURES]]
    rest = len(results.hits) - len(shown)
    more = [Paragraph(f"… and {rest} more; .to_pandas() has all", "soft")] if rest else []
    return [heading, Strip(shown, is_large=True), *more]


def arrow(results: LibraryResults) -> pa.Table:
    """One row for each hit."""
    return pa.Table.from_pylist([hit.to_dict() for hit in results.hits], pa.schema(list(_COLUMNS.items())))
