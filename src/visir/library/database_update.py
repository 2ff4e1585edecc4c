"""What an update found, written into the database: only what differs, in one transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any

from visir.library.database import Database
from visir.library.pictures import Facts
from visir.library.scan import Scan
from visir.library.source import PhotoSource
from visir.library.unavailable import disks_of

_FACTS = tuple(Facts.__dataclass_fields__)


def write_scan(
    database: Database,
    source: PhotoSource,
    found: Scan,
    items: Collection[str],
    captions: Mapping[str, tuple[str, str]],
) -> None:
    """Make the database say what was found: `items`, their files, `captions` (id to item and text), fields, broken."""
    disks = disks_of(source, database, found)
    with database.writing():
        category = _files(database, found)
        _items(database, found, items, category)
        had = {one: (item, text) for one, item, text in database.rows("SELECT id, item, text FROM captions")}
        database.run_many("DELETE FROM captions WHERE id = ?", [(one,) for one in had.keys() - captions.keys()])
        other = [(one, *said) for one, said in captions.items() if had.get(one) != said]
        database.run_many("INSERT OR REPLACE INTO captions VALUES (?, ?, ?)", other)
        _fields(database, source, found)
        database.run("DELETE FROM broken")
        database.run_many("INSERT INTO broken VALUES (?, ?, ?)", [(path, *why) for path, why in found.broken.items()])
        database.run_many("INSERT OR REPLACE INTO removed VALUES (?, ?, ?)", found.removed)
        database.run("INSERT OR REPLACE INTO meta VALUES ('told', ?)", (source.told,))
        database.run("INSERT OR REPLACE INTO meta VALUES ('disks', ?)", (disks,))


def _files(database: Database, found: Scan) -> dict[str, str]:
    """Write the files; from item to the category of its first file."""
    had = {row[0]: row for row in database.rows("SELECT path, item, mark, name, place, archive, category FROM files")}
    now: dict[str, tuple[Any, ...]] = {}
    category: dict[str, str] = {}
    for path in sorted(found.items):
        one, item = found.entries[path], found.items[path]
        now[path] = (path, item, one.mark, one.name, one.place, one.archive, one.category)
        category.setdefault(item, one.category)
    database.run_many("DELETE FROM files WHERE path = ?", [(path,) for path in had.keys() - now.keys()])
    changed = [row for path, row in now.items() if had.get(path) != row]
    database.run_many("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?, ?)", changed)
    return category


def _items(database: Database, found: Scan, items: Collection[str], category: Mapping[str, str]) -> None:
    had = dict(database.rows("SELECT id, category FROM items"))
    # For people to read: nothing depends on the clock, which may have been set back.
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    database.run_many("DELETE FROM items WHERE id = ?", [(one,) for one in had.keys() - set(items)])
    rows: list[tuple[Any, ...]] = [
        (one, category[one], now, *(getattr(found.facts[one], name) for name in _FACTS))
        for one in sorted(set(items) - had.keys())
    ]
    marks = ", ".join("?" * (3 + len(_FACTS)))
    database.run_many(f"INSERT INTO items(id, category, added, {', '.join(_FACTS)}) VALUES ({marks})", rows)
    moved = [(category[one], one) for one in items if one in had and had[one] != category[one]]
    database.run_many("UPDATE items SET category = ? WHERE id = ?", moved)
    healed = [(one.thumbnail, item) for item, one in found.facts.items() if item in had]
    database.run_many("UPDATE items SET thumbnail = ? WHERE id = ?", healed)


def _fields(database: Database, source: PhotoSource, found: Scan) -> None:
    had: dict[str, set[tuple[str, Any]]] = defaultdict(set)
    now: dict[str, set[tuple[str, Any]]] = defaultdict(set)
    for item, name, value in database.rows("SELECT item, name, value FROM fields"):
        had[item].add((name, value))
    for path, name, value in source.fields:
        if path in found.items:
            now[found.items[path]].add((name, value))
    changed = sorted(item for item in had.keys() | now.keys() if had.get(item) != now.get(item))
    database.run_many("DELETE FROM fields WHERE item = ?", [(item,) for item in changed])
    rows = [(item, *one) for item in changed for one in sorted(now.get(item, ()), key=lambda one: tuple(map(str, one)))]
    database.run_many("INSERT INTO fields VALUES (?, ?, ?)", rows)
