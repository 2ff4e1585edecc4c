"""A run: the first queries with their answers, as pictures or texts where the run knows them."""

from __future__ import annotations

from visir.display import counted
from visir.records import Items, Run
from visir.reports.page import Block, GalleryEntry, Paragraph, QueryGallery, Strip, Tile, inline
from visir.reports.shown import BUDGET, PICTURES, ShownItems
from visir.reports.table import Cell, Column, Table
from visir.reports.views.parts import facts

QUERIES = 4
"""How many queries are shown."""
TEXTS = 10
"""How many answers are shown of each query where they are texts."""
DEPTH = 3
"""The same where only their ids are known."""


def blocks(run: Run) -> list[Block]:
    """The first queries, each with its best answers."""
    heading = facts(run.name, run.task, (len(run), "queries"), f"among {run.gallery.counted}")
    names = run.queries[:QUERIES].to_pylist()
    documents = run.document_items
    if documents is None:
        return [heading, _ids(run, names)]
    has_pictures = documents.places is not None
    each = max(1, PICTURES // len(names)) if has_pictures else TEXTS
    answers = {name: run.answer(name, each) for name in names}
    lists = [(documents, [document for answer in answers.values() for document, _ in answer])]
    if run.query_items is not None:
        lists.append((run.query_items, names))
    shown = ShownItems(lists, budget=BUDGET)
    entries = [_entry(run, name, answers[name], documents, shown) for name in names]
    more: list[Block] = []
    if len(run) > len(names):
        more.append(Paragraph(f"and {counted(len(run) - len(names), 'more queries')}", "soft"))
    return [*([heading] if len(run) > 1 else []), QueryGallery(entries), *more]


def _entry(run: Run, name: str, answer: list[tuple[str, float]], documents: Items, shown: ShownItems) -> GalleryEntry:
    text, pictures = "", []
    if run.query_items is not None:
        tile = shown.tile(run.query_items, name)
        text = tile.text if run.query_items.texts is not None else ""
        pictures = [] if tile.picture is None else [Tile(picture=tile.picture, alt=tile.alt, hint=name)]
    tiles = []
    for rank, (document, score) in enumerate(answer, 1):
        tile = shown.tile(documents, document, f"{rank} · {score:.3f}")
        lines = () if tile.text else (document.rpartition("/")[2],)
        tiles.append(Tile(tile.text, tile.picture, tile.alt, tile.note, None, document, lines))
    title = f"“{text}”" if text else ("" if pictures else name)
    verdict = inline("{} best of {}", len(tiles), run.gallery.counted)
    return GalleryEntry(title, verdict, [Strip(tiles)], pictures)


def _ids(run: Run, names: list[str]) -> Table:
    """The ids of the best answers, where the run knows no more of them."""
    rows: list[list[Cell]] = [
        [name, rank, *answer] for name in names for rank, answer in enumerate(run.answer(name, DEPTH), 1)
    ]
    note = f"the first {len(names)} of {len(run):,} queries" if len(run) > len(names) else ""
    columns = [Column("query"), Column("rank", 0), Column("document"), Column("score", 4)]
    return Table.of(columns, rows, notes=[note] if note else [])
