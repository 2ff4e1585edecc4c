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
import os
import re
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Protocol

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from visir.collections.streams import InputFile, InputFiles, notes_on_tars
from visir.errors import CollectionError, EmbeddingError, VisirError, raise_faults
from visir.fingerprint import hash_json
from visir.parquet import read_table
from visir.records import EncoderCard
from visir.remote import RemoteFolder, is_url
from visir.storage import MANIFEST, FolderKind, Manifest, SharedFolder

LEASES = "leases"
_NAME = re.compile(r"(.+)\.(\d{6})(\.failed|\.released|\.made)?")


class SharedPlace(Protocol):
    """What processes on many machines write into: `SharedFolder` on a disk, `RemoteFolder` in an object store."""

    place: str

    def listing(self, folder: str = "") -> dict[str, float]:
        """The names of files, with the times of their last change."""

    def read(self, name: str) -> bytes | None:
        """The content of a small file; None where there is none."""

    def exists(self, name: str) -> bool:
        """Whether there is a file."""

    def open(self, name: str) -> IO[bytes]:
        """A file, to be read at any place in it."""

    def create(self, name: str, data: bytes) -> bool:
        """Make a small file; False where there is one."""

    def touch(self, name: str) -> None:
        """Give a file the time of this moment."""

    def publish(self, file: Path, name: str, writer: str) -> bool:
        """Make a file of a local one; False where there is one."""

    def clear(self, folder: str, writer: str) -> None:
        """Remove what a dead writer had begun to publish."""


def open_place(place: str | Path) -> SharedPlace:
    """The place of a path or an address."""
    return RemoteFolder(str(place)) if is_url(place) else SharedFolder(place)


@dataclass(frozen=True)
class LeaseState:
    """The last claim on a part."""

    part: str  # the part
    generation: int  # the number of the claim
    renewed: float  # when its holder was last alive, or gave it up; seconds since 1970
    ending: str = ""  # "failed", "released" or "made"; empty while it is held

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"{LEASES}/{self.part}.{self.generation:06}"

    def is_held(self, seconds: float) -> bool:
        """Whether its holder has given a sign of life within so many seconds."""
        return not self.ending and time.time() - self.renewed < seconds


def lease_states(place: SharedPlace) -> dict[str, LeaseState]:
    """The last claim on each part that was ever claimed, by one listing."""
    states: dict[str, LeaseState] = {}
    for name, changed in sorted(place.listing(LEASES).items()):  # a claim comes before its ending
        match = _NAME.fullmatch(name)
        if match is not None:
            states[match[1]] = LeaseState(match[1], int(match[2]), changed, (match[3] or "").removeprefix("."))
    return states


def about_lease(place: SharedPlace, state: LeaseState) -> Mapping[str, str]:
    """What a claim, or its ending, says: "owner", "since", "reason"; of a part that was made "began" and "images"."""
    return facts_of(place, f"{state.name}.{state.ending}" if state.ending else state.name)


def facts_of(place: SharedPlace, name: str) -> Mapping[str, str]:
    """What `about_process` wrote into a file; nothing of one that is cut, as after a crash of its machine."""
    try:
        values = orjson.loads(place.read(name) or b"{}")
    except orjson.JSONDecodeError:
        return {}
    return values if isinstance(values, dict) else {}


class PartLease:
    """A claim that this process holds. As a context it is renewed until the end of the block."""

    def __init__(self, place: SharedPlace, state: LeaseState, seconds: float) -> None:
        self.place, self.state, self.seconds = place, state, seconds
        self._next = LeaseState(state.part, state.generation + 1, 0.0).name
        self._over = threading.Event()
        self._lost = False
        self._thread = threading.Thread(target=self._renew, name="lease", daemon=True)

    @classmethod
    def take(cls, place: SharedPlace, part: str, last: LeaseState | None, seconds: float) -> PartLease | None:
        """Claim a part that nobody holds."""
        generation = 1 if last is None else last.generation + 1
        state = LeaseState(part, generation, time.time())
        return cls(place, state, seconds) if place.create(state.name, about_process()) else None

    @property
    def writer(self) -> str:
        """A name that no other process has."""
        return f"{self.state.part}.{self.state.generation:06}"

    @property
    def lost(self) -> bool:
        """Whether somebody has claimed the part since, as far as is known here; looked at with every renewal."""
        return self._lost

    def is_held(self) -> bool:
        """Whether nobody has claimed the part since, looked at now."""
        self._lost = self._lost or self.place.exists(self._next)
        return not self._lost

    def end(self, ending: str, reason: str = "", **facts: str) -> None:
        """Say that nobody works on the part any more: "made", "failed" for a `reason`, or "released"."""
        self.place.create(f"{self.state.name}.{ending}", about_process(reason=reason, **facts))

    def __enter__(self) -> PartLease:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _renew(self) -> None:
        while not self._over.wait(self.seconds / 4):
            try:
                if not self.is_held():
                    return
                self.place.touch(self.state.name)
            except (VisirError, OSError):
                continue  # a later sign of life may get through; if none does, somebody else takes the part


def about_process(**facts: str) -> bytes:
    """What a claim says: who makes it, when, and further facts."""
    return orjson.dumps({"owner": f"{socket.gethostname()}:{os.getpid()}", "since": this_moment()} | facts)


def this_moment() -> str:
    """The time, to a thousandth of a second: small files are encoded in less than one."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


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
