"""Whether a library is as it was written: looked at when it is opened, and completely by `visir index check`.

`library.json` carries a checksum over itself, and the size and hash of every other file that an update wrote. Files of
indexes never change, only `index.json` does, and it counts its changes; SQLite's file has a hash for the generation it
was left in. So what was changed meanwhile by an update that was killed is told from what was damaged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from visir.errors import MissingPackageError, VisirError, raise_faults
from visir.files import digest_of, read_json
from visir.library.database import Database
from visir.library.layout import (
    CAPTIONS,
    COPY_AGAIN,
    DATABASE,
    SYSTEMS,
    LibraryError,
    Manifest,
    thumbnail_path,
)
from visir.library.pictures import thumbnail_digest
from visir.search.index import Index
from visir.threads import usable_cores

AT_OPEN = 1 << 30
"""How many bytes are hashed when a library is opened, smallest files first: about a second on one core."""
_INDEX = "index.json"
Digests = Mapping[str, Mapping[str, Any]]


def digests(folder: Path, before: Digests, *, at_rest: bool, generation: int) -> dict[str, dict[str, Any]]:
    """Size and hash of every file of the indexes, and of the database if it is `at_rest`; known ones are not read."""
    made: dict[str, dict[str, Any]] = {}
    for system in (*SYSTEMS, CAPTIONS):
        for path in sorted((folder / system).rglob("*")):
            if not path.is_file() or path.name.startswith("."):
                continue
            name = path.relative_to(folder).as_posix()
            if path.name == _INDEX:
                made[name] = {**_digest(path), "generation": read_json(path)["generation"]}
            elif name in before and before[name]["bytes"] == path.stat().st_size:
                made[name] = dict(before[name])
            else:
                made[name] = _digest(path)
    if at_rest:
        made[DATABASE] = {**_digest(folder / DATABASE), "generation": generation}
    return made


def refuse_damaged(folder: Path, manifest: Manifest, database: Database) -> None:
    """Raise `LibraryError` that lists every file that is not as it was written: up to 1 GiB in all, smallest first.

    Before any of them is read: readers of arrays, Parquet and graphs raise nearly anything over a damaged byte.
    """
    faults = [] if database.generation >= manifest.generation else [
        f"{DATABASE} is of generation {database.generation}, {manifest.generation} was written: an older copy?"
    ]  # fmt: skip
    faults += _changed(folder, manifest, database.generation, AT_OPEN)
    _refuse(folder, manifest, faults)


def refuse_absent(folder: Path, manifest: Manifest, database: Database, ids: Mapping[str, Iterable[str]]) -> None:
    """Raise `LibraryError` unless every item of the database is in every index (`ids`)."""
    _refuse(folder, manifest, _absent(database, ids))


def _refuse(folder: Path, manifest: Manifest, faults: list[str]) -> None:
    # An update that ended while this was looked at has replaced what was looked at; then there is a newer manifest.
    if faults and Manifest.read(folder).generation == manifest.generation:
        raise_faults(LibraryError, f"{folder}: the library is damaged, or only half copied", faults, hint=COPY_AGAIN)


def load_index(folder: Path) -> Index[Any]:
    """One index of a library. Raises `LibraryError` when it is missing or damaged.

    `EngineError` where it lies on a server that cannot be reached: nothing is wrong with the library then.
    """
    from visir.search.kinds import load
    from visir.search.remote.engine import EngineError

    try:
        return load(folder)
    except (EngineError, MissingPackageError):
        raise
    except VisirError as fault:
        raise LibraryError(fault.message, hint=COPY_AGAIN) from fault
    except Exception as fault:  # damaged arrays, Parquet files and graphs raise nearly anything
        raise LibraryError(f"{folder}: the index is damaged: {fault!r}", hint=COPY_AGAIN) from fault


def refuse_changed(folder: Path, manifest: Manifest, database: Database) -> None:
    """Raise `LibraryError` unless every file is as it was written: before an update copies from it, whatever its size.

    Without this an update would give a damaged vector a new, correct checksum.
    """
    faults = _changed(folder, manifest, database.generation, None)
    hint = f"delete {folder / faults[0].partition('/')[0].partition(' ')[0]} and run the same again" if faults else ""
    raise_faults(LibraryError, f"{folder}: the library is damaged", faults, hint=f"{hint}: it is made anew")


def check(folder: str | Path, tell: Callable[[str, int, int], None] = lambda stage, done, total: None) -> list[str]:
    """Everything that is wrong with a library, as sentences; reads every byte of it. Empty for a sound one.

    Raises `LibraryError` only where `library.json` itself cannot be read.
    """
    folder = Path(folder)
    manifest = Manifest.read(folder)
    try:
        database = Database.open(folder / DATABASE)
    except LibraryError as fault:
        return [fault.message]
    try:
        faults = [f"{DATABASE}: {one}" for one in database.faults()]
        if faults:
            return faults
        faults += _changed(folder, manifest, database.generation, None, tell)
        ids = {}
        for system in manifest.present(folder):
            try:
                ids[system] = load_index(folder / system).ids.to_pylist()
            except VisirError as fault:
                faults.append(fault.message)
        faults += _absent(database, ids)
        orphans = database.value("SELECT count(*) FROM items WHERE id NOT IN (SELECT item FROM files)")
        if orphans:
            faults.append(f"{DATABASE}: {orphans:,} items without a file")
        faults += _thumbnails(folder, database)
    except LibraryError as fault:
        faults.append(fault.message)
    finally:
        database.close()
    return faults


def _changed(
    folder: Path,
    manifest: Manifest,
    generation: int,
    most: int | None,
    tell: Callable[[str, int, int], None] = lambda stage, done, total: None,
) -> list[str]:
    """The files that are not as they were written; of `most` bytes in all, smallest first."""
    chosen, total = [], 0
    for name, said in sorted(manifest.files.items(), key=lambda one: int(one[1]["bytes"])):
        total += int(said["bytes"])
        if most is None or total <= most:
            chosen.append((name, said))

    def one(work: tuple[str, Mapping[str, Any]]) -> str | None:
        name, said = work
        path = folder / name
        if path.name == _INDEX and not path.is_file():
            return f"{name} is missing"
        try:
            if name == DATABASE:
                log = path.with_name(f"{DATABASE}-wal")
                if generation != said["generation"] or (log.exists() and log.stat().st_size):
                    return None  # a killed update has changed it since, or one is under way: SQLite knows which
            found = _digest(path)
            # Asked after it was read: an update may have replaced the file in between.
            if path.name == _INDEX and read_json(path).get("generation") != said["generation"]:
                return None
        except FileNotFoundError:
            return None  # swallowed by a later part; what an index misses it says when it is loaded
        except VisirError as fault:
            return f"{name} cannot be read: {fault.message}"
        except (OSError, AttributeError) as fault:
            return f"{name} cannot be read: {fault}"
        return None if found == {key: said[key] for key in found} else f"{name} is not as it was written"

    faults = []
    with ThreadPoolExecutor(usable_cores(), "visir-check") as pool:
        for done, fault in enumerate(pool.map(one, chosen), 1):
            tell("checking", done, len(chosen))
            faults += [fault] if fault else []
    return faults


def _absent(database: Database, ids: Mapping[str, Iterable[str]]) -> list[str]:
    """Items and captions of the database that an index lacks."""
    faults = []
    for system, held in ids.items():
        there = set(held)
        wanted = database.rows("SELECT id FROM captions" if system == CAPTIONS else "SELECT id FROM items")
        lacking = sum(one not in there for (one,) in wanted)
        # A caption without a single known word has a vector of zeros, and is in no index.
        if lacking and system != CAPTIONS:
            faults.append(f"{system}/ lacks {lacking:,} of {len(wanted):,} items")
    return faults


def _thumbnails(folder: Path, database: Database) -> list[str]:
    faults = []
    for item, digest in database.rows("SELECT id, thumbnail FROM items WHERE thumbnail IS NOT NULL"):
        path = thumbnail_path(folder, item)
        name = path.relative_to(folder).as_posix()
        if not path.is_file():
            faults.append(f"{name} is missing (visir index PLACE --out LIBRARY makes it again)")
        elif thumbnail_digest(path.read_bytes()) != digest:
            faults.append(f"{name} is not as it was written (visir index PLACE --out LIBRARY makes it again)")
    return faults


def _digest(path: Path) -> dict[str, Any]:
    size, digest = digest_of(path)
    return {"bytes": size, "hash": digest}
