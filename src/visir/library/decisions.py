"""What the user decided about a library, in a file beside the database, which can be made anew from the photos.

decisions-7.json    the pictures that were taken out for good: item, path and mark of each; named in `visir.json`

The database has the same rows (`removed`). Each of the two is enough: what one lacks is taken from the other.
"""

from __future__ import annotations

from pathlib import Path

import orjson

from visir.errors import VisirError
from visir.files import json_bytes
from visir.library.database import Database
from visir.library.layout import COPY_AGAIN, LibraryCard, LibraryError
from visir.storage import FolderChange
from visir.storage.versions import check_version

FORMAT = 1
Removal = tuple[str, str, str]
"""Item, path, mark."""


def removals(folder: Path, card: LibraryCard, database: Database) -> set[Removal]:
    """What was taken out for good. Raises `LibraryError` for decisions of a newer visir."""
    return _in_file(folder, card) | set(database.rows("SELECT item, path, mark FROM removed"))


def write_decisions(change: FolderChange, card: LibraryCard, draft: Database, name: str) -> str:
    """Bring the file and the new database up to date with each other; the name of the file that is to count."""
    decided = removals(change.folder, card, draft)
    draft.run_many("INSERT OR REPLACE INTO removed VALUES (?, ?, ?)", sorted(decided))
    if not decided or decided == _in_file(change.folder, card):
        return card.decisions if decided else ""
    change.file(name, fresh=True).write_bytes(json_bytes({"visir_decisions": FORMAT, "removed": sorted(decided)}))
    return name


def are_written(folder: Path, card: LibraryCard, decided: set[Removal]) -> bool:
    """Whether the file says all that was decided: a library of an older visir has none, and a file can be lost."""
    return decided == _in_file(folder, card)


def _in_file(folder: Path, card: LibraryCard) -> set[Removal]:
    """What the file says; nothing where it is missing or damaged, which `check` reports: the database has the same."""
    path = folder / (card.decisions or "-")
    try:
        values = orjson.loads(path.read_bytes())
        version = values["visir_decisions"]
        check_version(version, FORMAT, path, what="decisions", remedy=COPY_AGAIN, error=LibraryError)
        rows = [tuple(row) for row in values["removed"]]
    except VisirError:
        raise
    except (OSError, ValueError, TypeError, KeyError):
        return set()
    return {row for row in rows if len(row) == 3 and all(isinstance(value, str) for value in row)}
