"""What is to be encoded, and how: written into the folder of parts once, and read by every process that joins in.

    visir.json             the encoder, the size of batches, how ids are made
    files/000001.parquet   the input files as they were listed: name, size, tag; later ones add to it
    parts/, leases/        see `parts.py` and `leases.py`
    given-up/              see `given_up.py`
    set-aside/PART.12      so many pictures of a file are broken; its part names them

Each is made by one process and never changed.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from visir.collections.streams import InputFile, InputFiles, notes_on_tars
from visir.encoders.leases import SharedPlace
from visir.errors import CollectionError, EmbeddingError, raise_faults
from visir.fingerprint import hash_json
from visir.parquet import read_table
from visir.records import EncoderCard
from visir.storage import MANIFEST, FolderKind, Manifest

PARTS = FolderKind("parts", "a folder of parts", remedy="name a new folder (--parts)", error=EmbeddingError)
FILES, FOLDER, GIVEN_UP, SET_ASIDE = "files", "parts", "given-up", "set-aside"
_SCHEMA = pa.schema([("name", pa.large_string()), ("size", pa.int64()), ("tag", pa.large_string())])


@dataclass(frozen=True)
class PartOf:
    """An input file and the name of its part."""

    number: int  # from 0, in the order in which files were listed
    file: InputFile  # the file

    @property
    def part(self) -> str:
        """The name of the part: another file, or another content of the file, has another one."""
        about = {"name": self.file.name, "size": self.file.size, "tag": self.file.tag}
        return f"{self.number:08}-{hash_json(about)[:8]}"

    @property
    def path(self) -> str:
        """Where the part is, below the place."""
        return f"{FOLDER}/{self.part}.parquet"


def read_plan(place: SharedPlace) -> dict[str, Any] | None:
    """How the parts of a place are made; None where there are none."""
    data = place.read(MANIFEST)
    if data is not None:
        return dict(Manifest.from_bytes(data, f"{place.place}/{MANIFEST}", PARTS).content)
    return None


def agreed_plan(place: SharedPlace, plan: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The plan of a place, which is made if there is none."""
    existing = read_plan(place)
    if existing is None:
        strangers = sorted(place.listing().keys() - {MANIFEST})
        if strangers:
            raise EmbeddingError(
                f"{place.place}: holds files that visir did not write ({', '.join(strangers[:3])}).",
                hint="name a new folder (--parts)",
                code="holds-files-visir",
            )
        place.create(MANIFEST, Manifest(PARTS.name, plan, version=PARTS.version).to_bytes())
        existing = read_plan(place) or dict(plan)
    maker = EncoderCard.from_dict(existing["encoder"])
    faults = [
        f"their {name} is {existing[name]!r}, not {value!r}" for name, value in given.items() if existing[name] != value
    ]
    mine = EncoderCard.from_dict(plan["encoder"])
    if mine.identity("image") != maker.identity("image"):
        differing = mine.differences(maker, "image") or ["dtype or revision"]
        faults.insert(0, f"made by {maker.name}, not by {mine.name} (they differ in {', '.join(differing)})")
    raise_faults(
        EmbeddingError,
        f"{place.place}: parts that are made in another way",
        faults,
        hint="name another folder (--parts)",
    )
    return existing


def listed_parts(place: SharedPlace) -> list[PartOf]:
    """The parts of all files, in the order in which these were listed."""
    return list(_current(_rows(place)).values())


def given_up_parts(place: SharedPlace, finished: Mapping[str, float]) -> set[str]:
    """The names of parts that were given up before they were finished."""
    return {name for name in place.listing(GIVEN_UP) if f"{name}.parquet" not in finished}


def note_set_aside(place: SharedPlace, part: PartOf, count: int) -> None:
    """Write down, before a part is published, how many pictures it lacks; nothing for none."""
    # The number is in the name of a file, so that one listing has all of them.
    if count:
        place.create(f"{SET_ASIDE}/{part.part}.{count}", orjson.dumps({"file": part.file.name, "pictures": count}))


def set_aside_counts(place: SharedPlace) -> dict[str, int]:
    """Part → how many of its pictures were set aside; of several records, the largest."""
    counts: dict[str, int] = {}
    for name in place.listing(SET_ASIDE):
        part, _, count = name.rpartition(".")
        if count.isdigit():
            counts[part] = max(counts.get(part, 0), int(count))
    return counts


def agreed_parts(place: SharedPlace, inputs: InputFiles, *, replace: bool = False) -> list[PartOf]:
    """The parts that are finished or to be made, after files that are new in the source are added."""
    while True:
        rows = _rows(place)
        current = _current(rows)
        now = {file.name: file for file in inputs.files}
        given_up = given_up_parts(place, place.listing(FOLDER))
        if current and not current.keys() & now.keys():
            raise CollectionError(
                f"{inputs.source}: has none of the {len(current):,} files that {place.place} is made of, e.g. "
                f"{next(iter(current))}.",
                hint="name the same source as before, or another folder (--parts)",
                code="none-files-made",
            )
        lost = {name: file for name, file in now.items() if name in current and current[name].part in given_up}
        changed = [
            file
            for name, file in now.items()
            if name in current and name not in lost and not current[name].file.is_same(file.size, file.tag)
        ]
        if not replace:
            raise_faults(
                CollectionError,
                f"{inputs.source}: files that have changed since they were listed",
                [
                    f"{inputs.place(file.name)}: {inputs.difference(current[file.name].file, file.size, file.tag)}"
                    for file in changed
                ],
                hint="put them back as they were; encode what is there now: --replace (in Python: replace=True); or "
                "leave out those without a part: --give-up FILE (in Python: Parts(place).give_up)",
                code="files-changed-since-listed",
            )
        notes = notes_on_tars([*current, *now])  # a tar may be gone by now, and what was noted about it not
        added = [file for name, file in now.items() if name not in current and name not in notes]
        added += [*changed, *lost.values()] if replace else []
        if not added:
            return [part for part in current.values() if part.part not in given_up]
        number = len(_lists(place)) + 1
        place.create(f"{FILES}/{number:06}.parquet", _table(added))  # another process may have: then its rows count


def _current(rows: list[PartOf]) -> dict[str, PartOf]:
    """By the name of each file the last that was listed of it."""
    return {row.file.name: row for row in rows}


def _lists(place: SharedPlace) -> list[str]:
    """The names of the lists of files, in order; what others put beside them is passed over."""
    return sorted(name for name in place.listing(FILES) if re.fullmatch(r"\d{6,}\.parquet", name))


def _rows(place: SharedPlace) -> list[PartOf]:
    rows: list[PartOf] = []
    for name in _lists(place):
        data = place.read(f"{FILES}/{name}") or b""
        try:
            table = read_table(io.BytesIO(data), _SCHEMA.names).cast(_SCHEMA)
        except (pa.ArrowException, OSError, ValueError) as fault:
            raise EmbeddingError(f"{place.place}/{FILES}/{name}: damaged ({fault}).", hint=PARTS.remedy) from fault
        rows += [PartOf(len(rows) + number, InputFile(**row)) for number, row in enumerate(table.to_pylist())]
    return rows


def _table(files: list[InputFile]) -> bytes:
    stream = io.BytesIO()
    columns = [[getattr(file, name) for file in files] for name in _SCHEMA.names]
    pq.write_table(pa.table(columns, schema=_SCHEMA), stream)
    return stream.getvalue()
