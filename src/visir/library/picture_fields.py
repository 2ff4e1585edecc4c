"""The fields of pictures in a library: what is told of them is kept, and what differs is written by an update."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from pathlib import Path

import orjson

import visir.library.place_names as place_names
from visir.display import counted
from visir.library.database import Database
from visir.library.extractors import BESIDE, PLACES, Fields, Sidecars, Told, fields_of_item, told_of
from visir.library.pictures import brings_fields
from visir.library.plan import Scan
from visir.library.product_source import ShopTable
from visir.library.source import PhotoSource


def look_beside(source: PhotoSource, database: Database, scanned: Scan) -> None:
    """Read the files beside pictures that are new, or other ones than the library knows; and name those that went."""
    if isinstance(source, ShopTable):
        return
    held: dict[str, dict[str, str]] = defaultdict(dict)
    if database.has_extracted:
        sql = f"SELECT item, part, mark FROM extracted WHERE part LIKE '{BESIDE}%'"
        for item, part, mark in database.rows(sql):
            held[item][part] = mark
    sidecars, there = Sidecars(Path(source.collection.root)), set()
    for path, entry in scanned.entries.items():
        item = scanned.items.get(path)
        if item is None or entry.place is None or entry.archive is not None or not brings_fields(entry):
            continue
        results = sidecars.of(entry.place) if entry.row >= 0 else None
        if results is None:  # the picture is away, or its folder cannot be looked into: what is known of it is kept
            folder = entry.place.rpartition("/")[0]
            there |= {(item, part) for part in held[item] if part.removeprefix(BESIDE).rpartition("/")[0] == folder}
            continue
        for place, mark in results:
            there.add((item, BESIDE + place))
            if held[item].get(BESIDE + place) != mark:
                scanned.answers[item, BESIDE + place] = sidecars.read(place, mark)
    scanned.untold = [(item, part) for item, parts in held.items() for part in parts if (item, part) not in there]


def are_other(database: Database, scanned: Scan) -> bool:
    """Whether fields of pictures are to be written: of new pictures, of other files beside them, names of places."""
    if scanned.answers or scanned.untold:
        return True
    unnamed = (
        f"SELECT 1 FROM extracted WHERE part <> '{PLACES}' AND fields LIKE '%\"latitude\":%' AND item NOT IN "
        f"(SELECT item FROM extracted WHERE part = '{PLACES}' AND mark LIKE '{place_names.VERSION} %') LIMIT 1"
    )
    return place_names.is_there() and database.has_extracted and bool(database.rows(unnamed))


def write_told(database: Database, scanned: Scan, items: Collection[str]) -> dict[str, Fields]:
    """Write what was told of `items`, and name their places; the fields of every picture that has some."""
    database.run("DELETE FROM extracted WHERE item NOT IN (SELECT id FROM items)")
    database.run_many("DELETE FROM extracted WHERE item = ? AND part = ?", scanned.untold)
    present = set(items)
    _write(database, {key: answers for key, answers in scanned.answers.items() if key[0] in present})
    parts: dict[str, dict[str, Fields]] = defaultdict(dict)
    marks: dict[str, str] = {}
    for item, part, mark, fields in database.rows(
        f"SELECT item, part, mark, fields FROM extracted WHERE fields <> '{{}}' OR part = '{PLACES}'"
    ):
        answers = _told(mark, fields)
        if answers is not None:
            parts[item][part] = answers.fields
        if part == PLACES:
            marks[item] = mark
    _name_places(database, parts, marks)
    return {item: fields for item, each in parts.items() if (fields := fields_of_item(each))}


def _name_places(database: Database, parts: dict[str, dict[str, Fields]], marks: dict[str, str]) -> None:
    """Name the places that have no name yet; a picture that has no position any more loses its names."""
    wanted: dict[str, tuple[float, float]] = {}
    for item, each in parts.items():
        fields = fields_of_item(each)
        if "latitude" in fields and "longitude" in fields:
            wanted[item] = (float(fields["latitude"][0]), float(fields["longitude"][0]))
    gone = marks.keys() - wanted.keys()
    database.run_many(f"DELETE FROM extracted WHERE item = ? AND part = '{PLACES}'", [(item,) for item in gone])
    for item in gone:
        parts[item].pop(PLACES, None)
    if not place_names.is_there():
        return
    new = {item: at for item, at in wanted.items() if marks.get(item) != place_names.mark_of(*at)}
    if not new:
        return
    named = dict(zip(new, place_names.names_of([*new.values()]), strict=True))
    for item, names in named.items():
        parts[item][PLACES] = names
    _write(database, {(item, PLACES): Told(place_names.mark_of(*new[item]), names) for item, names in named.items()})


def _write(database: Database, answers: dict[tuple[str, str], Told]) -> None:
    database.run_many(
        "INSERT OR REPLACE INTO extracted VALUES (?, ?, ?, ?, ?)",
        [
            (item, part, each.mark, each.fault, orjson.dumps(each.fields).decode())
            for (item, part), each in sorted(answers.items())
        ],
    )


def _told(mark: str, fields: str) -> Told | None:
    """What a row says; None for what visir would not write, as a library of a stranger may hold."""
    try:
        return told_of({"mark": mark, "fields": orjson.loads(fields)})
    except ValueError:
        return None


def remarks_of(database: Database) -> list[str]:
    """What people should know of the fields: what is damaged, and what cannot be named here."""
    faults = database.rows("SELECT item, fault FROM extracted WHERE fault <> '' ORDER BY item, part")
    remarks = []
    if faults:
        item, fault = faults[0]
        path = database.value("SELECT min(path) FROM files WHERE item = ?", (item,))
        count = counted(len({item for item, _ in faults}), "pictures")
        remarks.append(f"metadata of {count} cannot be read in full, and is left out ({path}: {fault[:120]})")
    if not place_names.is_there():
        places = database.value("SELECT count(DISTINCT item) FROM fields WHERE name = 'latitude'")
        if places:
            remarks.append(f"{counted(places, 'pictures')} with a position, whose place has no name: "
                           "pip install 'visir[photos]', and update again")  # fmt: skip
    return remarks
