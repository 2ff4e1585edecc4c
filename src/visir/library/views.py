"""How libraries, their pictures and their answers look in a notebook: `blocks` of each class, and rows of some."""

from __future__ import annotations

import base64
import io
from functools import singledispatch
from itertools import islice

import pyarrow as pa

from visir.library.library import Library
from visir.library.models import NO_MODEL
from visir.library.results import DuplicatePictures, ExplainedPicture, LibraryHit, LibraryPicture, LibraryResults
from visir.reports.examples import region_figure
from visir.reports.page import Block, Bullets, Paragraph, Strip, Thumbnail, Tile, inline
from visir.reports.shown import PICTURES
from visir.reports.table import Cell, Column, Table
from visir.reports.views.parts import facts, some_rows

SHOWN = 12
"""Pictures of a library: enough to see what it is of."""
_GROUPS = 8
_COLUMNS = {"id": pa.string(), "name": pa.string(), "path": pa.string(), "caption": pa.string(),
            "category": pa.string(), "width": pa.int64(), "height": pa.int64(), "taken": pa.string(),
            "camera": pa.string()}  # fmt: skip


@singledispatch
def blocks(thing: object) -> list[Block]:
    """What a notebook shows of a thing."""
    raise TypeError(f"no view of a {type(thing).__name__}")


@blocks.register
def _(library: Library) -> list[Block]:
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


@blocks.register
def _(picture: LibraryPicture) -> list[Block]:
    """The picture at the size of its thumbnail."""
    return [Strip([tile(picture, side=320)], is_ranked=False)]


@blocks.register
def _(results: LibraryResults) -> list[Block]:
    """What was searched, and the pictures that were found, best first."""
    heading = facts(results.title, results.how_many, results.label)
    if not results.hits:
        return [heading]
    shown = [tile(hit) for hit in results.hits[:PICTURES]]
    rest = len(results.hits) - len(shown)
    more = [Paragraph(f"… and {rest} more; .to_pandas() has all", "soft")] if rest else []
    return [heading, Strip(shown, is_large=True), *more]


@blocks.register
def _(explained: ExplainedPicture) -> list[Block]:
    """The scores, the picture with the regions of the words, words in common, captions."""
    parts = [f"{part.label}: {part.score:.4f}" for part in explained.parts.values()]
    shown: list[Block] = [facts(explained.picture.name, explained.query.text or "", *parts)]
    if explained.regions is not None and explained.regions.words:
        small = thumbnail(explained.picture, 300)
        title = "What each word matched in the picture"
        shown.append(region_figure(explained.regions, small, title=title, name=explained.picture.id))
    elif explained.regions is not None and explained.regions.missing:
        shown.append(Paragraph(explained.regions.missing))
    if explained.terms:
        columns = [Column("word"), Column("search", 2), Column("picture", 2), Column("share of the score, %", 0)]
        rows: list[list[Cell]] = [
            [term.term, term.query, term.document, 100 * term.share] for term in explained.terms[:12]
        ]
        shown.append(Table.of(columns, rows, caption="Words in common"))
    if explained.captions:
        columns = [Column("caption"), Column("score", 3)]
        shown.append(Table.of(columns, list(explained.captions), caption="Captions nearest to the picture"))
    return shown


@blocks.register
def _(duplicates: DuplicatePictures) -> list[Block]:
    """How many groups there are, and the first few; near ones as pictures side by side."""
    exact, near = duplicates.exact, duplicates.near
    heading = Paragraph(f"{len(exact):,} groups of equal files, {len(near):,} groups of pictures that look alike")
    equal = [Bullets([", ".join(map(str, group)) for group in exact[:_GROUPS]])] if exact else []
    strips = [Strip([tile(picture) for picture in group[:6]], is_ranked=False) for group in near[:_GROUPS]]
    return [heading, *equal, *strips]


def arrow(thing: Library | LibraryResults) -> pa.Table:
    """One row for each picture of a library, or each hit of an answer."""
    if isinstance(thing, LibraryResults):
        ranked = pa.schema([("rank", pa.int64()), ("score", pa.float64()), *_COLUMNS.items()])
        return pa.Table.from_pylist([hit.to_dict() for hit in thing.hits], ranked)
    batches, pictures, schema = [], iter(thing), pa.schema(list(_COLUMNS.items()))
    while rows := [picture.to_dict() for picture in islice(pictures, 1000)]:
        batches.append(pa.Table.from_pylist(rows, schema))
    return pa.concat_tables(batches) if batches else schema.empty_table()


def tile(picture: LibraryPicture, *, side: int = 168) -> Tile:
    """A picture with its name below it; pointing at it shows where it lies."""
    note = f"{picture.rank} · {picture.score:.3f}" if isinstance(picture, LibraryHit) else ""
    shown = thumbnail(picture, side)
    return Tile(picture.caption or "", shown, picture.name, note, hint=str(picture.path or picture.id),
                lines=[picture.name])  # fmt: skip


def thumbnail(picture: LibraryPicture, side: int) -> Thumbnail:
    """A picture of a library, small; or the reason why there is none."""
    small = picture.thumbnail
    if small is None:
        return Thumbnail("", reason="no picture")
    small.thumbnail((side, side))
    stream = io.BytesIO()
    small.convert("RGB").save(stream, "WEBP", quality=75)
    uri = "data:image/webp;base64," + base64.b64encode(stream.getvalue()).decode("ascii")
    return Thumbnail(uri, small.width, small.height)
