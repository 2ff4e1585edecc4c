"""Committing a change of a library: a new database, then indexes without what the database no longer holds.

Order, so that a kill at any moment shows nothing wrong: every picture of the database is in every index at all times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from visir.library.database import Database
from visir.library.layout import CAPTIONS, INDEXES, LibraryCard, thumbnail_name
from visir.library.pictures import thumbnails_as_written
from visir.library.plan import thumbnails_of_journal, write_decisions
from visir.library.product_words import write_words
from visir.library.vectors import Indexes
from visir.storage import FolderChange


def commit(
    change: FolderChange, card: LibraryCard, write: Callable[[Database], None], *, removed: Mapping[str, str | None]
) -> LibraryCard:
    """Write a new database, from what the last one holds, and make it count; the new card."""
    generation = card.generation + 1
    before = change.folder / card.database
    number = change.free_number(generation, "items-{}.sqlite", "words-{}", "decisions-{}.json")
    path = change.file(f"items-{number}.sqlite", fresh=True)
    draft = Database.draft(path, before if card.database and before.is_file() else None)
    try:
        write(draft)
        card = write_words(change, card, draft, f"words-{number}")
        card = replace(card, decisions=write_decisions(change, card, draft, f"decisions-{number}.json"))
        items = {item for (item,) in draft.rows("SELECT id FROM items")}
    finally:
        draft.close()
    indexes = tuple(name for name in INDEXES if name in card.kinds and (change.folder / card.place(name)).is_dir())
    card = replace(card, generation=generation, database=path.name, indexes=indexes)
    # What a killed update wrote, and its journal, end with this commit, whichever verb it is of.
    written = set(map(thumbnail_name, thumbnails_of_journal(change) - items))
    change.unclaim(*map(thumbnail_name, items))  # a killed removal of an item that is back by now
    removing = [*thumbnails_as_written(change.folder, removed), *written]
    change.keep_only(path.name, *filter(None, [card.words.get("place"), card.decisions]))
    change.commit(card.to_content(), removing=removing)
    return card


def clean_indexes(change: FolderChange, card: LibraryCard, indexes: Indexes | None = None) -> bool:
    """Delete from the indexes what the database does not know (any more); whether there was anything."""
    # It is committed too, so that a service takes the indexes as they are now.
    indexes = indexes or Indexes.of(change, card)
    database = Database.open(change.folder / card.database)
    try:
        known = {id for (id,) in database.rows("SELECT id FROM items")}
        captions = {id for (id,) in database.rows("SELECT id FROM captions")}
    finally:
        database.close()
    deleted = sum(indexes.keep(name, captions if name == CAPTIONS else known) for name in card.indexes)
    if deleted:
        change.commit(card.to_content())
    return deleted > 0
