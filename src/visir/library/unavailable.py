"""Pictures that are away, not gone: in a folder that cannot be looked into, or on a disk that is not there.

An unmounted disk leaves an empty folder, or links, to a folder or to pictures, that lead nowhere. A library remembers
which of its folders lay on another disk than the place itself; one of them that is empty now, and no other disk any
more, is taken for unmounted. An empty folder that was always on the place's own disk is one whose pictures were
deleted.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path, PurePosixPath

import orjson

from visir.collections.readers.locate import LEADS_NOWHERE
from visir.library.database import Database
from visir.library.product_source import ShopTable
from visir.library.scan import Scan
from visir.library.source import PhotoSource, SourceEntry

_GONE = (errno.ENOENT, errno.ENOTDIR)


def keep_unavailable(source: PhotoSource, database: Database, scanned: Scan) -> dict[str, str]:
    """Leave pictures that are away, or whose folders are, as they were known; those folders and pictures, and why."""
    if isinstance(source, ShopTable):  # a product is gone when the table no longer has it
        return {}
    root, disks = Path(source.collection.root), _disks(database)
    reasons: dict[str, str] = {}
    columns = "path, item, mark, name, place, archive, category"
    for path, item, mark, name, place, archive, category in database.rows(f"SELECT {columns} FROM files"):
        if path in scanned.items or path in scanned.broken or place is None or archive is not None:
            continue
        parent = str(PurePosixPath(place).parent)
        if parent not in reasons:
            reasons[parent] = _reason(root, parent, disks)
        if not reasons[parent] and _leads_nowhere(root / place):
            reasons[place] = LEADS_NOWHERE
        if reasons[parent] or reasons.get(place):
            scanned.items[path] = item
            scanned.entries[path] = SourceEntry(-1, path, mark, name, place, archive, category)
    return {where: reason for where, reason in sorted(reasons.items()) if reason}


def disks_of(source: PhotoSource, database: Database, scanned: Scan) -> str:
    """The folders of the pictures that lie on other disks than the place, or did before they were away; as JSON."""
    root = Path(source.collection.root)
    before = _disks(database)
    places = {entry.place for path, entry in scanned.entries.items() if path in scanned.items and entry.archive is None}
    parents = {str(PurePosixPath(place).parent) for place in places if place is not None}
    folders = {str(folder) for parent in parents for folder in _upwards(parent)} - {"."}
    home = _disk(root)
    other = {
        folder
        for folder in folders
        if _disk(root / folder) not in (None, home) or (folder in before and _is_left(root / folder))
    }
    return orjson.dumps(sorted(other)).decode()


def _disks(database: Database) -> frozenset[str]:
    return frozenset(orjson.loads(database.value("SELECT value FROM meta WHERE name = 'disks'") or "[]"))


def _disk(folder: Path) -> int | None:
    try:
        return folder.stat().st_dev
    except OSError:
        return None


def _upwards(folder: str) -> list[PurePosixPath]:
    return [PurePosixPath(folder), *PurePosixPath(folder).parents]


def _is_left(folder: Path) -> bool:
    """Whether this is what an unmounted disk leaves: an empty folder on the disk of the folder above it."""
    try:
        return _disk(folder) == _disk(folder.parent) and not any(os.scandir(folder))
    except OSError:
        return False


def _leads_nowhere(path: Path) -> bool:
    return path.is_symlink() and not path.exists()


def _reason(root: Path, parent: str, disks: frozenset[str]) -> str:
    """Why a folder is away; empty where it is there, or gone."""
    try:
        next(os.scandir(root / parent), None)
    except OSError as fault:
        if fault.errno not in _GONE:
            return fault.strerror or str(fault)
    for above in _upwards(parent):
        folder = root / above
        if _leads_nowhere(folder):
            return LEADS_NOWHERE
        if str(above) in disks and _is_left(folder):
            return "its disk is not there"
    return ""
