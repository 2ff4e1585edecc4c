"""Taking pictures out of a library while their files stay where they are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from visir.library.check import digests, refuse_changed
from visir.library.database import Database
from visir.library.layout import CAPTIONS, DATABASE, LOCK, SYSTEMS, LibraryError, Manifest, UnknownItemError
from visir.library.thumbnails import remove_thumbnails
from visir.library.vectors import Indexes
from visir.locks import locked_or


def remove(folder: str | Path, items: Iterable[str]) -> int:
    """Take these items out of the library, for good: later updates leave them out. How many that were.

    The photos stay where they are. Raises `LibraryError` that names unknown ids, and when an update is under way.
    """
    folder, gone = Path(folder), sorted(set(items))
    manifest = Manifest.read(folder)
    busy = LibraryError(f"{folder}: another process is updating this library.", hint="wait until it is done")
    with locked_or(folder / LOCK, busy):
        database = Database.create(folder / DATABASE, manifest.generation)
        try:
            known = {one for (one,) in database.of("SELECT id FROM items WHERE id IN", gone)}
            unknown = [one for one in gone if one not in known]
            if unknown:
                raise UnknownItemError(f"{manifest.name}: no item {', '.join(map(repr, unknown[:3]))}.")
            refuse_changed(folder, manifest, database)
            with database.writing():
                database.run_many(
                    "INSERT OR REPLACE INTO removed SELECT item, path, mark FROM files WHERE item = ?",
                    [(one,) for one in gone],
                )
                for table, column in (("files", "item"), ("captions", "item"), ("fields", "item"), ("items", "id")):
                    database.run_many(f"DELETE FROM {table} WHERE {column} = ?", [(one,) for one in gone])
                database.run("UPDATE meta SET value = value + 1 WHERE name = 'generation'")
            indexes = Indexes(folder, manifest.kinds)
            kept = {one for (one,) in database.rows("SELECT id FROM items")}
            for system in SYSTEMS:
                if system in manifest.kinds:
                    indexes.keep(system, kept)
            if CAPTIONS in manifest.kinds:
                indexes.keep(CAPTIONS, {one for (one,) in database.rows("SELECT id FROM captions")})
            generation = database.generation
            files = digests(folder, manifest.files, at_rest=database.settle(), generation=generation)
            replace(manifest, generation=generation, files=files).write(folder)
            remove_thumbnails(folder, gone)
            return len(gone)
        finally:
            database.close()
