"""Taking pictures out of a library while their files stay where they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from visir.library.check import check_before_change
from visir.library.commit import clean_indexes, commit
from visir.library.database import Database
from visir.library.layout import LIBRARY, LibraryCard, UnknownItemError, being_updated
from visir.storage import changing


def remove(folder: str | Path, items: Iterable[str]) -> int:
    """Take these items out of the library, for good: later updates leave them out. How many that were."""
    # The photos stay where they are. Raises `LibraryError` that names unknown ids, and when an update is under way.
    folder, removed = Path(folder), sorted(set(items))
    LibraryCard.read(folder)
    with changing(folder, LIBRARY, busy=being_updated(folder), make=False, resume=True) as change:
        card = LibraryCard.of(change.manifest)
        database = Database.open(folder / card.database)
        try:
            digests = dict(database.of("SELECT id, thumbnail FROM items WHERE id IN", removed))
            unknown = [item for item in removed if item not in digests]
            if unknown:
                raise UnknownItemError(
                    f"{card.name}: no picture {', '.join(map(repr, unknown[:3]))}.", code="no-picture"
                )
        finally:
            database.close()
        check_before_change(folder)
        card = commit(change, card, lambda draft: _remove(draft, removed), removed=digests)
        clean_indexes(change, card)
    return len(removed)


def _remove(draft: Database, removed: Sequence[str]) -> None:
    with draft.writing():
        draft.run_many(
            "INSERT OR REPLACE INTO removed SELECT item, path, mark FROM files WHERE item = ?",
            [(item,) for item in removed],
        )
        for table, column in (("files", "item"), ("captions", "item"), ("fields", "item"), ("items", "id")):
            draft.run_many(f"DELETE FROM {table} WHERE {column} = ?", [(item,) for item in removed])
