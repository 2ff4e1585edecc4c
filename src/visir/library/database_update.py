"""What an update found, written into the database: only what differs, in one transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any

from visir.library.database import Database
from visir.library.pictures import Facts
from visir.library.product_source import ProductEntry
from visir.library.scan import Scan
from visir.library.source import PhotoSource
from visir.library.unavailable import disks_of

_FACTS = tuple(Facts.__dataclass_fields__)


def write_scan(
    database: Database,
    source: PhotoSource,
    scanned: Scan,
    items: Collection[str],
    captions: Mapping[str, tuple[str, str]],
) -> set[str]:
    """Make the database say what was found: `items`, their files, `captions` (id to item and text), fields, broken."""
    # Returns the items that were there before and have other captions or fields now.
    disks = disks_of(source, database, scanned)
    with database.writing():
        known = {item for (item,) in database.rows("SELECT id FROM items")}
        category = _files(database, scanned)
        _items(database, scanned, items, category)
        before = {caption: (item, text) for caption, item, text in database.rows("SELECT id, item, text FROM captions")}
        database.run_many(
            "DELETE FROM captions WHERE id = ?", [(caption,) for caption in before.keys() - captions.keys()]
        )
        other = [
            (caption, *item_and_text)
            for caption, item_and_text in captions.items()
            if before.get(caption) != item_and_text
        ]
        database.run_many("INSERT OR REPLACE INTO captions VALUES (?, ?, ?)", other)
        rewritten = {item for _, item, _ in other} | _fields(database, source, scanned)
        database.run("DELETE FROM broken")
        database.run_many(
            "INSERT INTO broken VALUES (?, ?, ?)",
            [(path, *mark_and_reason) for path, mark_and_reason in scanned.broken.items()],
        )
        database.run_many("INSERT OR REPLACE INTO removed VALUES (?, ?, ?)", scanned.removed)
        database.run("INSERT OR REPLACE INTO meta VALUES ('text_fingerprint', ?)", (source.text_fingerprint,))
        database.run("INSERT OR REPLACE INTO meta VALUES ('disks', ?)", (disks,))
    return rewritten & known & set(items)


def _files(database: Database, scanned: Scan) -> dict[str, str]:
    """Write the files; from item to the category of its first file."""
    before = {
        row[0]: row for row in database.rows("SELECT path, item, mark, name, place, archive, category FROM files")
    }
    now: dict[str, tuple[Any, ...]] = {}
    category: dict[str, str] = {}
    for path in sorted(scanned.items):
        entry, item = scanned.entries[path], scanned.items[path]
        now[path] = (path, item, entry.mark, entry.name, entry.place, entry.archive, entry.category)
        for number, picture in enumerate(entry.pictures if isinstance(entry, ProductEntry) else (), start=1):
            own = f"{path}#{number}"
            now[own] = (own, item, picture.mark, picture.name, picture.place, picture.archive, "")
        category.setdefault(item, entry.category)
    database.run_many("DELETE FROM files WHERE path = ?", [(path,) for path in before.keys() - now.keys()])
    changed = [row for path, row in now.items() if before.get(path) != row]
    database.run_many("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?, ?)", changed)
    return category


def _items(database: Database, scanned: Scan, items: Collection[str], category: Mapping[str, str]) -> None:
    before = dict(database.rows("SELECT id, category FROM items"))
    # For people to read: nothing depends on the clock, which may have been set back.
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    database.run_many("DELETE FROM items WHERE id = ?", [(item,) for item in before.keys() - set(items)])
    rows: list[tuple[Any, ...]] = [
        (item, category[item], now, *(getattr(scanned.facts[item], name) for name in _FACTS))
        for item in sorted(set(items) - before.keys())
    ]
    marks = ", ".join("?" * (3 + len(_FACTS)))
    database.run_many(f"INSERT INTO items(id, category, added, {', '.join(_FACTS)}) VALUES ({marks})", rows)
    moved = [(category[item], item) for item in items if item in before and before[item] != category[item]]
    database.run_many("UPDATE items SET category = ? WHERE id = ?", moved)
    healed = [(facts.thumbnail, item) for item, facts in scanned.facts.items() if item in before]
    database.run_many("UPDATE items SET thumbnail = ? WHERE id = ?", healed)


def _fields(database: Database, source: PhotoSource, scanned: Scan) -> set[str]:
    """Write the fields; the items that have others now."""
    before: dict[str, set[tuple[str, Any]]] = defaultdict(set)
    after: dict[str, set[tuple[str, Any]]] = defaultdict(set)
    for item, name, value in database.rows("SELECT item, name, value FROM fields"):
        before[item].add((name, value))
    for path, name, value in source.fields:
        if path in scanned.items:
            after[scanned.items[path]].add((name, value))
    changed = sorted(item for item in before.keys() | after.keys() if before.get(item) != after.get(item))
    database.run_many("DELETE FROM fields WHERE item = ?", [(item,) for item in changed])
    rows = [
        (item, *pair)
        for item in changed
        for pair in sorted(after.get(item, ()), key=lambda pair: tuple(map(str, pair)))
    ]
    database.run_many("INSERT INTO fields VALUES (?, ?, ?)", rows)
    return set(changed)
