"""A folder of parts: what is to be encoded and how, who is at it, and the vectors of what is finished.

    visir.json             the encoder, the size of batches, how ids are made
    files/000001.parquet   the input files as they were listed: name, size, tag; later ones add to it
    parts/PART.parquet     the ids and vectors of a file, with their card in its metadata (`parts.py`)
    leases/PART.000001     who works on a part, alive when this was last touched; at its end PART.000001.made, .failed
    given-up/PART          why a file is left out
    set-aside/PART.12      so many pictures of a file are broken; its part names them
    sizes/PART.4096        so many bytes a part was written with

Each is made by one process and never changed.
"""

from __future__ import annotations

import bisect
import io
import itertools
import re
import shlex
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from visir.collections.own_folders import kind_elsewhere, manifest_elsewhere
from visir.collections.streams import InputFile, InputFiles, notes_on_tars
from visir.display import counted, named
from visir.encoders.claims import (
    CLAIM,
    LEASES,
    LeaseState,
    SharedPlace,
    about_lease,
    about_process,
    facts_of,
    is_at_work,
    lease_states,
    open_place,
)
from visir.errors import CollectionError, EmbeddingError, VisirError, nearest, raise_faults
from visir.fingerprint import hash_json
from visir.parquet import open_stream, read_table
from visir.progress import Progress
from visir.records import Embeddings, EncoderCard, strings
from visir.remote import UnreachableError, is_url, reaching
from visir.storage import MANIFEST, FolderKind, Manifest, SharedFolder, check_version
from visir.storage.manifest import is_made_by_visir

PARTS = FolderKind("parts", "a folder of parts", remedy="name a new folder (--parts)", error=EmbeddingError)
FILES, FOLDER, GIVEN_UP, SET_ASIDE, SIZES = "files", "parts", "given-up", "set-aside", "sizes"
FORMAT = 1
"""The version of a part's layout."""
_AGAIN = "delete it, and run the same visir encode --parts again"
_SCHEMA = pa.schema([("name", pa.large_string()), ("size", pa.int64()), ("tag", pa.large_string())])


def clear_away(place: SharedPlace, seconds: float) -> None:
    """Remove what killed processes had begun to write: a file appears whole, and until then has a hidden name."""
    if not isinstance(place, SharedFolder):
        return
    states = lease_states(place)
    for folder in ("", FILES, FOLDER, LEASES, GIVEN_UP, SET_ASIDE, SIZES):
        for path in (place.folder / folder).glob(".new-*"):
            writer, is_left = path.name.removeprefix(".new-"), False
            claim = CLAIM.fullmatch(writer) if folder == FOLDER else None
            state = None if claim is None else states.get(claim[1])
            if claim is not None and state is not None:  # the copy of a part, by a claim on it
                is_left = state.generation > int(claim[2]) or not is_at_work(place, state, seconds)
            else:  # of some bytes, which takes a moment
                with suppress(FileNotFoundError):
                    age = time.time() - path.stat().st_mtime
                    is_left = re.fullmatch("[0-9a-f]{8}", writer) is not None and age > seconds
            if is_left:
                place.clear(folder, writer)


# What is to be encoded, and how: agreed upon by the first process, and read by every one that joins in.


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

    def is_in(self, finished: Mapping[str, float]) -> bool:
        """Whether the part is among the finished ones, by a listing of their folder."""
        return f"{self.part}.parquet" in finished


def read_plan(place: SharedPlace) -> dict[str, Any] | None:
    """How the parts of a place are made; None where there are none."""
    data = place.read(MANIFEST)
    return None if data is None else dict(Manifest.from_bytes(data, f"{place.place}/{MANIFEST}", PARTS).content)


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
    maker, mine = (EncoderCard.from_dict(each["encoder"]) for each in (existing, plan))
    faults = [
        f"their {name} is {existing[name]!r}, not {value!r}" for name, value in given.items() if existing[name] != value
    ]
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


def agreed_parts(place: SharedPlace, inputs: InputFiles, *, replace: bool = False, retry: bool = False) -> list[PartOf]:
    """The parts that are finished or to be made, after files that are new in the source are added."""
    # replace: List again what has changed in the source, and what was given up and is there.
    # retry: And the files that lack pictures, which were set aside.
    now = {file.name: file for file in inputs.files}
    while True:
        lists = _lists(place)
        current = {part.file.name: part for part in listed_parts(place, lists)}
        finished = place.listing(FOLDER)
        given_up, lacking = given_up_parts(place, finished), _numbers(place, SET_ASIDE) if retry else {}
        both = [current[name] for name in now if name in current]
        if current and not both:
            raise CollectionError(
                f"{inputs.source}: has none of the {len(current):,} files that {place.place} is made of, e.g. "
                f"{next(iter(current))}.",
                hint="name the same source as before, or another folder (--parts)",
                code="none-files-made",
            )
        again = [part for part in both if part.part in given_up or (part.part in lacking and part.is_in(finished))]
        states = {part: now[part.file.name] for part in both if part not in again}
        changed = {part: file for part, file in states.items() if not part.file.is_same(file.size, file.tag)}
        if not replace:
            raise_faults(
                CollectionError,
                f"{inputs.source}: files that have changed since they were listed",
                [
                    f"{inputs.place(file.name)}: {inputs.difference(part.file, file.size, file.tag)}"
                    for part, file in changed.items()
                ],
                hint="put them back as they were; encode what is there now: --replace (in Python: replace=True); or "
                "leave out those without a part: --give-up FILE (in Python: Parts(place).give_up)",
                code="files-changed-since-listed",
            )
        notes = notes_on_tars([*current, *now])  # a tar may be gone by now, and what was noted about it not
        added = [file for name, file in now.items() if name not in current and name not in notes]
        added += [*changed.values(), *(now[part.file.name] for part in again)] if replace else []
        if not added:
            return [part for part in current.values() if part.part not in given_up]
        stream = io.BytesIO()
        columns = [[getattr(file, name) for file in added] for name in _SCHEMA.names]
        pq.write_table(pa.table(columns, schema=_SCHEMA), stream)
        # Another process may have made a list since these were read, which then has this number: its rows count.
        place.create(f"{FILES}/{len(lists) + 1:06}.parquet", stream.getvalue())


def listed_parts(place: SharedPlace, lists: Sequence[str] | None = None) -> list[PartOf]:
    """The parts of all files, in the order in which these were listed; of each file that which was listed last."""
    rows: list[PartOf] = []
    for name in _lists(place) if lists is None else lists:
        data = place.read(f"{FILES}/{name}") or b""
        try:
            table = read_table(io.BytesIO(data), _SCHEMA.names).cast(_SCHEMA)
        except (pa.ArrowException, OSError, ValueError) as fault:
            raise EmbeddingError(f"{place.place}/{FILES}/{name}: damaged ({fault}).", hint=PARTS.remedy) from fault
        rows += [PartOf(len(rows) + number, InputFile(**row)) for number, row in enumerate(table.to_pylist())]
    return list({row.file.name: row for row in rows}.values())


def _lists(place: SharedPlace) -> list[str]:
    """The names of the lists of files, in order; what others put beside them is passed over."""
    return sorted(name for name in place.listing(FILES) if re.fullmatch(r"\d{6,}\.parquet", name))


# Notes on parts, before they are published: how many pictures one lacks, and how many bytes it has.


def note_number(place: SharedPlace, folder: str, part: PartOf, number: int) -> None:
    """Write down a number about a part, in the name of a file: so one listing has all."""
    place.create(f"{folder}/{part.part}.{number}", orjson.dumps({"file": part.file.name}))


def _numbers(place: SharedPlace, folder: str) -> dict[str, list[int]]:
    """Part → the numbers that were noted of it; several where it was made again after it was deleted."""
    numbers: dict[str, list[int]] = {}
    for name in place.listing(folder):
        part, _, number = name.rpartition(".")
        if number.isdigit():
            numbers.setdefault(part, []).append(int(number))
    return numbers


def cut_parts(place: SharedPlace, made: Iterable[PartOf]) -> dict[PartOf, str]:
    """The parts that were cut after they were written, in words; objects elsewhere are whole."""
    sizes = _numbers(place, SIZES) if isinstance(place, SharedFolder) else {}
    cut = dict[PartOf, str]()
    for part in made if sizes else ():
        with suppress(FileNotFoundError):
            size = (place.folder / part.path).stat().st_size  # type: ignore[union-attr]
            written = min(sizes.get(part.part, [size]))
            if size < written:
                cut[part] = f"{place.place}/{part.path} has {size:,} of {written:,} bytes ({part.file.name})"
    return cut


# Input files that somebody gave up: they are gone, or changed, for ever, and the others are to be complete without.


def given_up_parts(place: SharedPlace, finished: Mapping[str, float]) -> set[str]:
    """The names of parts that were given up before they were finished."""
    return {name for name in place.listing(GIVEN_UP) if f"{name}.parquet" not in finished}


# A part is read.


def read_part(stream: IO[bytes], place: str) -> tuple[Embeddings, dict[str, Any]]:
    """The vectors of a part, and its card."""
    with _damage_named(place):
        parquet = open_stream(stream, checked=True)
        card = _card_of(parquet, place)
        table = parquet.read(use_threads=False)
        flat = table["vector"].combine_chunks()
        flat = pa.concat_arrays(flat.chunks) if isinstance(flat, pa.ChunkedArray) else flat
        vectors = flat.flatten().to_numpy(zero_copy_only=False).reshape(len(flat), flat.type.list_size)
        encoder = EncoderCard.from_dict(card["encoder"])
        origin = f"from the part {place}"
        return Embeddings("image", strings(table["image_id"]), vectors, encoder, origin=origin), card


def read_card(stream: IO[bytes], place: str) -> dict[str, Any]:
    """The card of a part; no vectors are read."""
    with _damage_named(place):
        return _card_of(open_stream(stream), place)


@contextmanager
def _damage_named(place: str) -> Iterator[None]:
    """What reading a damaged part raises becomes an `EmbeddingError` that names it; a break in reading is no damage."""
    try:
        yield
    except (OSError, pa.ArrowException, KeyError, TypeError, ValueError) as fault:
        is_break = isinstance(fault, ConnectionError | TimeoutError | FileNotFoundError)
        if is_break or (isinstance(fault, OSError) and fault.errno is not None):
            raise
        raise EmbeddingError(f"{place}: damaged ({fault}).", hint=_AGAIN, code="damaged") from fault


def _card_of(parquet: pq.ParquetFile, place: str) -> dict[str, Any]:
    card: Any = orjson.loads((parquet.metadata.metadata or {}).get(b"visir", b"null"))
    if not isinstance(card, dict):
        raise EmbeddingError(f"{place}: no part that visir wrote.", hint="leave the folder of parts to visir")
    check_version(card.get("version"), FORMAT, place, what="part", remedy=_AGAIN, error=EmbeddingError)
    return card


# How fast parts are made: pictures in the time in which somebody worked on them, idle hours left out.


def images_per_second(work: Iterable[tuple[str, float, int]]) -> float | None:
    """The pictures of parts, divided by the time in which any process worked on one of them."""
    # work: Of each part when its process began (as ISO 8601; "" where that is not known), when the part was finished,
    # in seconds since 1970, and how many pictures it has.
    known = [(began, ended, images) for since, ended, images in work if (began := seconds_of(since)) is not None]
    seconds, reached = 0.0, float("-inf")
    for began, ended, _ in sorted(known):  # where spans overlap, their time is counted once
        seconds += max(0.0, ended - max(began, reached))
        reached = max(reached, began, ended)
    return sum(images for *_, images in known) / seconds if seconds > 0 else None


def seconds_of(time: str) -> float | None:
    """A time in ISO 8601, in seconds since 1970; None where it is none."""
    try:
        return datetime.fromisoformat(time).timestamp()
    except ValueError:
        return None


MEASURED = 32
"""The rate is that of so many last parts."""
CARDS_READ = 100
"""Of so many parts, at most, that say nowhere else how many pictures were set aside, the cards are read for it."""


@dataclass(frozen=True)
class PartsStatus:
    """How far the parts are."""

    files: int  # how many input files there are
    finished: int  # how many of them have a part
    running: Mapping[str, str] = field(default_factory=dict)  # input file → who works on it, and since when
    # Input file → who had begun it, and gave no sign of life for a lease's time.
    expired: Mapping[str, str] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)  # input file → why it could not be encoded
    # Input file → why it was given up, and by whom (`Parts.give_up`).
    given_up: Mapping[str, str] = field(default_factory=dict)
    # How many pictures of the finished files were set aside (`Parts.broken` names them); None where many parts were
    # made by a version that did not note it, and it was not counted.
    broken: int | None = 0
    broken_at_least: int = 0  # how many of these are known
    # Of all processes together, over the last parts, in the time in which any process was at one of them; None when
    # none is finished.
    images_per_second: float | None = None

    @property
    def is_complete(self) -> bool:
        """Whether every input file has its part, or was given up."""
        return self.finished + len(self.given_up) == self.files


def is_parts(place: str | Path) -> bool:
    """Whether a place is a folder of parts, here or elsewhere; for elsewhere one small file is asked for."""
    return kind_elsewhere(str(place)) == PARTS.name if is_url(place) else is_made_by_visir(place, PARTS.name)


def check_parts_can_be_told(place: str | Path, *, with_model: bool = False) -> None:
    """Raise what hides whether a place is a folder of parts."""
    try:
        if is_url(place):
            manifest = manifest_elsewhere(str(place))
            if manifest is not None and not with_model:
                manifest.check_kind(f"{place}/{MANIFEST}", PARTS)
        elif is_made_by_visir(place):
            if with_model:
                Manifest.read(Path(place))
            else:
                read_plan(open_place(place))
    except UnreachableError as fault:
        # A place may answer, and allow nobody, or not us, to look; `NotADirectoryError` is of a file, not a folder.
        refused = isinstance(fault.__cause__, PermissionError | NotADirectoryError)
        if not (with_model or refused or getattr(fault.__cause__, "status", None) in (401, 403)):
            raise
    except VisirError as fault:
        raise EmbeddingError(
            fault.message,
            hint="name a folder of parts that is whole; or, with --model MODEL, what is to be encoded",
        ) from fault


class Parts:
    """A folder of parts, finished or not. Iterating gives the `Embeddings` of each finished part, one after the other.

    Where input files were given up, iterating warns, and names the first of them. An index of all of them is one call:
    `visir.retrieval.build_index(Parts("parts"), "ivf", "x.index")`.

    Args:
        place: The folder, or its address (`s3://bucket/parts`).

    Raises:
        EmbeddingError: There are no parts in this place.
    """

    def __init__(self, place: str | Path | SharedPlace) -> None:
        if is_url(place) and "?" in str(place) and is_parts(str(place)):
            address, _, options = str(place).partition("?")
            raise EmbeddingError(
                f"{address}: a folder of parts takes no options ({options}).",
                hint=f"name it without them: {address}",
                code="folder-parts-takes-no",
            )
        self._place = open_place(place) if isinstance(place, str | Path) else place
        plan = read_plan(self._place)
        if plan is None:
            raise EmbeddingError(
                f"{self._place.place}: holds no parts.",
                hint="visir encode SOURCE --model MODEL --parts FOLDER",
                code="holds-no-parts",
            )
        self.place, self.plan = self._place.place, plan

    def __repr__(self) -> str:
        return f"Parts({self.place!r}, by {self.encoder.name})"

    @property
    def encoder(self) -> EncoderCard:
        """The encoder that makes them."""
        return EncoderCard.from_dict(self.plan["encoder"])

    def __iter__(self) -> Iterator[Embeddings]:
        finished, parts, given_up = self._place.listing(FOLDER), listed_parts(self._place), self.given_up()
        if given_up:
            name, why = next(iter(given_up.items()))
            warnings.warn(
                f"{self.place}: {len(given_up):,} of {len(parts):,} input files were given up and have no part, "
                f"e.g. {named(name, why)}",
                stacklevel=2,
            )
        for _, vectors, _ in self.read(part for part in parts if part.is_in(finished)):
            yield vectors

    def read(self, parts: Iterable[PartOf]) -> Iterator[tuple[str, Embeddings, dict[str, Any]]]:
        """The input file, the vectors and the card of each of these parts, without a warning.

        Args:
            parts: Finished parts, as `look` gives them.

        Raises:
            EmbeddingError: One is gone by now, or damaged.
        """
        for part in parts:
            with self._reading(part) as stream:
                vectors, card = read_part(stream, f"{self.place}/{part.path}")
            if card["source"]["name"] != part.file.name:
                raise EmbeddingError(
                    f"{self.place}/{part.path}: is the part of {card['source']['name']}, not of {part.file.name}.",
                    hint=_AGAIN,
                    code="part-of-another-file",
                )
            yield part.file.name, vectors, card

    def broken(self) -> Iterator[tuple[str, str]]:
        """The id of each picture that was set aside, with the reason."""
        finished = self._place.listing(FOLDER)
        for part in listed_parts(self._place):
            if part.is_in(finished):
                yield from self._card(part)["broken"].items()

    def given_up(self) -> dict[str, str]:
        """Input file → why it was given up, and by whom."""
        return self._given_up(listed_parts(self._place), self._place.listing(FOLDER))

    def _given_up(self, parts: Iterable[PartOf], finished: Mapping[str, float]) -> dict[str, str]:
        given, about = given_up_parts(self._place, finished), dict[str, str]()
        for part in parts:
            if part.part in given:
                values = facts_of(self._place, f"{GIVEN_UP}/{part.part}")
                who = f"{values.get('owner', 'unknown')}, {values.get('since', 'unknown')}"
                about[part.file.name] = f"{values['reason']} ({who})" if values.get("reason") else who
        return about

    def give_up(self, *files: str) -> None:
        """Leave input files out that cannot be encoded any more: the parts are complete without them.

        This is recorded, with the last reason why the file failed, and shown by `status`. What a file is now is
        encoded by `encode_parts(…, replace=True)`.

        Args:
            files: By their names in `status`, or by paths or addresses that end so.

        Raises:
            EmbeddingError: A file was never listed, or has its part. Then none is given up.
        """
        listed = {part.file.name: part for part in listed_parts(self._place)}
        finished, states = self._place.listing(FOLDER), lease_states(self._place)
        cut = cut_parts(self._place, [part for part in listed.values() if part.is_in(finished)])
        chosen: list[PartOf] = []
        faults: list[str] = []
        for name in files:
            # The file of this name; or those that a path or an address ends in.
            matching = [name] if name in listed else [own for own in listed if name.endswith(f"/{own}")]
            part = listed[matching[0]] if len(matching) == 1 else None
            if part is None:
                several = f"{', '.join(matching)}: which of them?"
                faults.append(f"{name}: {several if matching else 'was never listed; ' + nearest(name, listed)}")
            elif part in cut:
                faults.append(f"{name}: has its part, which was cut: {cut[part]}; {_AGAIN}")
            elif part.is_in(finished):
                faults.append(
                    f"{name}: has its part; to encode what the file is now: --replace (in Python: replace=True)"
                )
            else:
                chosen.append(part)
        raise_faults(
            EmbeddingError,
            f"{self.place}: files that cannot be given up",
            faults,
            hint="name files that have no part, as --status (in Python: Parts.status) shows them",
        )
        for part in chosen:
            state = states.get(part.part)
            failed = state is not None and state.ending == "failed"
            reason = about_lease(self._place, state).get("reason", "") if state is not None and failed else ""
            self._place.create(f"{GIVEN_UP}/{part.part}", about_process(file=part.file.name, reason=reason))

    def status(self) -> PartsStatus:
        """How far they are; nothing is touched."""
        return self.look()[0]

    def look(self) -> tuple[PartsStatus, list[PartOf]]:
        """How far they are, and the finished parts that this was said of, in the order in which files were listed."""
        status, made, cut = self.survey()
        self.check_whole(cut)
        return status, made

    def check_whole(self, cut: Mapping[PartOf, str]) -> None:
        """Raise over parts that were cut."""
        raise_faults(EmbeddingError, f"{self.place}: damaged parts", list(cut.values()), hint=_AGAIN, code="damaged")

    def survey(self) -> tuple[PartsStatus, list[PartOf], Mapping[PartOf, str]]:
        """As `look`, of whole parts; and those that were cut, in words, in place of an error."""
        place, seconds = self._place, float(self.plan["lease"])
        finished, states, parts = place.listing(FOLDER), lease_states(place), listed_parts(place)
        made = [part for part in parts if part.is_in(finished)]
        cut = cut_parts(place, made)
        given_up = self._given_up(parts, finished)
        running, expired, failed = dict[str, str](), dict[str, str](), dict[str, str]()
        for part in sorted({*parts}.difference(made), key=lambda part: part.file.name):
            state = states.get(part.part)
            # One that was made was removed since.
            if part.file.name in given_up or state is None or state.ending in ("released", "made"):
                continue
            about = about_lease(place, state)
            who = f"{about.get('owner', 'unknown')}, since {about.get('since', 'unknown')}"
            if state.ending:
                failed[part.file.name] = about.get("reason", "unknown")
            else:
                (running if is_at_work(place, state, seconds) else expired)[part.file.name] = who
        made = [part for part in made if part not in cut]
        rate = images_per_second(self._last_work(made, finished, states))
        broken, known = self._set_aside(made, states)
        return PartsStatus(len(parts), len(made), running, expired, failed, given_up, broken, known, rate), made, cut

    def _set_aside(self, made: Iterable[PartOf], states: Mapping[str, LeaseState]) -> tuple[int | None, int]:
        """How many pictures were set aside, and how many at least: by notes, or by the cards of a few without one."""
        counts, count, unsure = _numbers(self._place, SET_ASIDE), 0, list[PartOf]()
        for part in made:
            count += max(counts.get(part.part, [0]))
            state = states.get(part.part)
            if part.part not in counts and (state is None or state.ending != "made"):
                unsure.append(part)  # of an earlier version, or its process was killed in the last moment
        if len(unsure) > CARDS_READ:
            return None, count
        count += sum(len(self._card(part)["broken"]) for part in unsure)
        return count, count

    def _last_work(
        self, made: Iterable[PartOf], finished: Mapping[str, float], states: Mapping[str, LeaseState]
    ) -> Iterator[tuple[str, float, int]]:
        """When its process began each of the last parts and had finished it, and how many pictures it has."""
        published = {part: finished[f"{part.part}.parquet"] for part in made}
        for part in sorted(published, key=published.__getitem__)[-MEASURED:]:
            state = states.get(part.part)
            if state is not None and state.ending == "made":
                noted = about_lease(self._place, state)
                ended, images = seconds_of(str(noted.get("since", ""))), str(noted.get("images", ""))
                # Of a process that came later and found the part there is no number: it does not know of the work.
                if ended is not None and images.isdecimal():
                    yield str(noted.get("began", "")), ended, int(images)
            elif state is not None:
                # Of an earlier version: the time of the file, which is another one in a copy of the folder.
                since = str(facts_of(self._place, state.name).get("since", ""))
                yield since, published[part], int(self._card(part)["count"])

    def _card(self, part: PartOf) -> dict[str, Any]:
        with self._reading(part) as stream:
            return read_card(stream, f"{self.place}/{part.path}")

    @contextmanager
    def _reading(self, part: PartOf) -> Iterator[IO[bytes]]:
        try:
            with self._place.open(part.path) as stream, reaching(f"{self.place}/{part.path}"):
                yield stream
        except (OSError, UnreachableError) as fault:
            if not isinstance(fault.__cause__ if isinstance(fault, UnreachableError) else fault, FileNotFoundError):
                raise
            raise EmbeddingError(
                f"{self.place}/{part.path}: the part of {part.file.name} is gone: somebody has removed it meanwhile.",
                hint="run the same again: it says what is missing then, and what makes it",
                code="part-gone",
            ) from fault


def check_parts(folder: Path) -> tuple[set[str], list[str], list[str]]:
    """(files that were read or are notes, faults, what is not finished) of a folder of parts, every part read."""
    parts = Parts(folder)
    place = parts._place
    try:
        status, made, cut = parts.survey()
    except VisirError as fault:
        return set(), [fault.message], []
    faults = list(cut.values())
    for part in made:
        try:
            list(parts.read([part]))
        except VisirError as fault:
            faults.append(fault.message)
    states = lease_states(place)
    for part in listed_parts(place):
        was_made = part.part in states and states[part.part].ending == "made"
        if was_made and not (folder / part.path).is_file():
            faults.append(f"{part.path} of {part.file.name} is missing: it was made")
    names = {part.path for part in (*made, *cut)} | {f"{FILES}/{name}" for name in _lists(place)}
    names |= {f"{notes}/{name}" for notes in (LEASES, GIVEN_UP, SET_ASIDE, SIZES) for name in place.listing(notes)}
    if not status.files:
        faults.append(f"{FILES}/ lists no input file")
    left = [] if status.is_complete else [f"{status.finished:,} of {status.files:,} input files have their part"]
    return names, faults, left


# The parts of a finished folder as one: what needs all vectors at once, an index, is made of this.

_IDS_BYTES = 2**31 - 1
"""A record holds no more text than this (offsets of 32 bits)."""
_SHOWN, _LISTED = 5, 20


@dataclass(frozen=True)
class PartsSummary:
    """What the vectors of a folder of parts are of."""

    place: str  # the folder of parts
    files: int  # how many input files have a part
    vectors: int  # how many vectors the parts hold
    broken: int  # how many pictures were set aside; `Parts.broken` lists them
    given_up: Mapping[str, str]  # input file → why it was given up

    def left_out(self) -> str:
        """What has no vector, in words; "" where everything has one."""
        words = []
        if self.given_up:
            more = ", …" if len(self.given_up) > 1 else ""
            words.append(f"{counted(len(self.given_up), 'input files')} given up ({next(iter(self.given_up))}{more})")
        if self.broken:
            words.append(f"{counted(self.broken, 'broken pictures')} set aside")
        return ", ".join(words)

    def warn(self) -> None:
        """Warn the caller's caller of what has no vector."""
        if self.left_out():
            warnings.warn(
                f"{self.place}: without a vector: {self.left_out()} (Parts.given_up and Parts.broken say why)",
                stacklevel=3,
            )


class Finished(NamedTuple):
    """The parts of a finished run, by one look at it: these are read, whatever other processes do meanwhile."""

    made: list[PartOf]  # the parts
    given_up: Mapping[str, str]  # input file → why it was given up


def check_finished(parts: Parts) -> Finished:
    """Check that every input file has its part, or was given up."""
    status, made = parts.look()
    if status.files and status.is_complete:
        return Finished(made, status.given_up)
    begun = [
        *(f"{name}: could not be encoded: {reason}" for name, reason in status.failed.items()),
        *(f"{name}: is being encoded by {who}" for name, who in status.running.items()),
        *(f"{name}: was begun by {who}, who gives no sign of life" for name, who in status.expired.items()),
    ]
    waiting = status.files - status.finished - len(status.given_up) - len(begun)
    if waiting:
        begun.append(f"{counted(waiting, 'input files')} that nobody works on")
    if len(begun) > _LISTED:
        begun[_LISTED:] = [f"… and {len(begun) - _LISTED:,} more"]
    given_up = f", {len(status.given_up):,} given up" if status.given_up else ""
    lines = "".join(f"\n  - {line}" for line in begun or ["no input file is listed yet"])
    place = shlex.quote(parts.place)
    raise EmbeddingError(
        f"{parts.place}: is not finished: {status.finished:,} of {status.files:,} input files have their part"
        f"{given_up}; the others:{lines}",
        hint=f"visir encode SOURCE --model {shlex.quote(parts.encoder.name)} --parts {place} makes them; "
        f"visir encode --parts {place} --give-up FILE leaves one out that is lost; in Python, Parts(place) gives the "
        "parts that are there",
        code="not-finished",
    )


def join_parts(parts: Parts, finished: Finished, path: Path) -> tuple[Embeddings, PartsSummary]:
    """Write the vectors of all parts into one file."""
    names: list[str] = []
    ids: list[pa.StringArray] = []
    files = broken = size = dimension = 0
    with path.open("wb") as stream, Progress(f"reading the parts of {parts.place}", None, "vectors") as advance:
        for file, vectors, card in parts.read(finished.made):
            files += 1
            broken += len(card["broken"])
            if len(vectors) == 0:
                continue
            dimension = dimension or vectors.dimension
            _check_same(parts, file, vectors, dimension)
            stream.write(np.ascontiguousarray(vectors.vectors).data)
            names.append(file)
            ids.append(vectors.ids)
            size += pc.sum(pc.binary_length(vectors.ids)).as_py()
            if size > _IDS_BYTES:
                raise EmbeddingError(
                    f"{parts.place}: its ids are more than 2 GiB of text, which one index cannot hold.",
                    hint="encode the source into several folders of parts, by a pattern of files each, make an index "
                    "of each, and merge what they find: visir.retrieval.merge_shards",
                    code="ids-more-gib-text",
                )
            advance(len(vectors))
    if not ids:
        raise EmbeddingError(
            f"{parts.place}: there is no vector in its parts ({counted(files, 'parts')}, "
            f"{counted(broken, 'broken pictures')}).",
            hint="are the input files the right ones?",
        )
    joined = pa.concat_arrays(ids)
    mapped = np.memmap(path, np.float32, "r", shape=(len(joined), dimension))
    try:
        vectors = Embeddings("image", joined, mapped, parts.encoder, origin=f"from the parts {parts.place}")
    except EmbeddingError:
        _check_no_repeats(parts, joined, names, list(itertools.accumulate(map(len, ids))))
        raise
    return vectors, PartsSummary(parts.place, files, len(joined), broken, finished.given_up)


def _check_same(parts: Parts, file: str, vectors: Embeddings, dimension: int) -> None:
    """Refuse a part that somebody has put there from elsewhere."""
    differing = vectors.encoder.differences(parts.encoder, "image")
    if differing or vectors.dimension != dimension or vectors.vectors.dtype != np.float32:
        raise EmbeddingError(
            f"{parts.place}: the part of {file} has {vectors.dimension} dimensions ({vectors.vectors.dtype}), by "
            f"{vectors.encoder.name}; the parts are by {parts.encoder.name}, of {dimension} dimensions (float32).",
            hint="delete that part, and run the same visir encode --parts again",
            code="part-dimensions-parts-dimensions",
        )


def _check_no_repeats(parts: Parts, ids: pa.StringArray, names: list[str], ends: list[int]) -> None:
    """Say which ids stand in several parts, and in which."""
    counts = pc.value_counts(ids)
    twice = counts.filter(pc.greater(counts.field("counts"), 1)).field("values")
    if not len(twice):
        return
    lines = []
    for repeated in twice[:_SHOWN]:
        rows = pc.indices_nonzero(pc.equal(ids, repeated)).to_pylist()
        places = dict.fromkeys(names[bisect.bisect_right(ends, row)] for row in rows)
        more = ", …" if len(places) > _SHOWN else ""
        lines.append(f"\n  - {repeated.as_py()!r}: in {', '.join(itertools.islice(places, _SHOWN))}{more}")
    lines += ["\n  - …"] if len(twice) > _SHOWN else []
    stand = "ids stand" if len(twice) > 1 else "id stands"
    raise EmbeddingError(
        f"{parts.place}: {len(twice):,} {stand} in several parts:{''.join(lines)}",
        hint="every id names one vector: encode into a new folder without --key-ids, so that ids begin with the name "
        "of their file",
        code="several-parts",
    )
