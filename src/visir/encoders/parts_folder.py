"""A folder of parts, to be read: the vectors, how far they are, and which input files are left out."""

from __future__ import annotations

import bisect
import itertools
import shlex
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from visir.collections.own_folders import kind_elsewhere, manifest_elsewhere
from visir.display import counted, named
from visir.encoders.part_file import read_card, read_part
from visir.encoders.part_list import (
    FOLDER,
    GIVEN_UP,
    PARTS,
    LeaseState,
    PartOf,
    SharedPlace,
    about_lease,
    about_process,
    facts_of,
    given_up_parts,
    lease_states,
    listed_parts,
    open_place,
    read_plan,
    set_aside_counts,
)
from visir.errors import EmbeddingError, VisirError, nearest, raise_faults
from visir.progress import Progress
from visir.records import Embeddings, EncoderCard
from visir.remote import UnreachableError, is_url, reaching
from visir.storage.manifest import MANIFEST, Manifest, is_made_by_visir

# Input files that somebody gave up: they are gone, or changed, for ever, and the others are to be complete without.


def give_up(place: SharedPlace, names: Sequence[str]) -> None:
    """Leave input files out; nothing is read or removed."""
    listed = {part.file.name: part for part in listed_parts(place)}
    finished, states = place.listing(FOLDER), lease_states(place)
    chosen: list[PartOf] = []
    faults: list[str] = []
    for name in names:
        matching = _named(name, listed)
        if len(matching) != 1:
            several = f"{', '.join(matching)}: which of them?"
            faults.append(f"{name}: {several if matching else 'was never listed; ' + nearest(name, listed)}")
        elif f"{listed[matching[0]].part}.parquet" in finished:
            faults.append(f"{name}: has its part; to encode what the file is now: --replace (in Python: replace=True)")
        else:
            chosen.append(listed[matching[0]])
    raise_faults(
        EmbeddingError,
        f"{place.place}: files that cannot be given up",
        faults,
        hint="name files that have no part, as --status (in Python: Parts.status) shows them",
    )
    for part in chosen:
        state = states.get(part.part)
        failed = state is not None and state.ending == "failed"
        reason = about_lease(place, state).get("reason", "") if state is not None and failed else ""
        place.create(f"{GIVEN_UP}/{part.part}", about_process(file=part.file.name, reason=reason))


def why_given_up(place: SharedPlace, parts: Collection[PartOf], finished: Mapping[str, float]) -> dict[str, str]:
    """Input file → why it was given up, and by whom."""
    given = given_up_parts(place, finished)
    about: dict[str, str] = {}
    for part in parts:
        if part.part in given:
            values = facts_of(place, f"{GIVEN_UP}/{part.part}")
            who = f"{values.get('owner', 'unknown')}, {values.get('since', 'unknown')}"
            about[part.file.name] = f"{values['reason']} ({who})" if values.get("reason") else who
    return about


def _named(name: str, listed: Mapping[str, PartOf]) -> list[str]:
    """The file of this name; or those that a path or an address ends in."""
    return [name] if name in listed else [own for own in listed if name.endswith(f"/{own}")]


# How fast parts are made: pictures in the time in which somebody worked on them, idle hours left out.


def images_per_second(work: Iterable[tuple[str, float, int]]) -> float | None:
    """The pictures of parts, divided by the time in which any process worked on one of them."""
    # work: Of each part when its process began (as ISO 8601; "" where that is not known), when the part was finished,
    # in seconds since 1970, and how many pictures it has.
    spans, images = list[tuple[float, float]](), 0
    for since, finished, count in work:
        began = seconds_of(since)
        if began is not None:
            spans.append((began, max(began, finished)))
            images += count
    seconds = covered(spans)
    return images / seconds if seconds > 0 else None


def covered(spans: Iterable[tuple[float, float]]) -> float:
    """How long the spans are together, where they overlap counted once."""
    total, reached = 0.0, float("-inf")
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return total


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
        if not with_model and not _is_refused(fault):
            raise
    except VisirError as fault:
        raise EmbeddingError(
            fault.message,
            hint="name a folder of parts that is whole; or, with --model MODEL, what is to be encoded",
        ) from fault


def _is_refused(fault: UnreachableError) -> bool:
    """Whether a place answers, and allows nobody, or not us, to look."""
    refused = isinstance(fault.__cause__, PermissionError | NotADirectoryError)  # this one of a file, not a folder
    return refused or getattr(fault.__cause__, "status", None) in (401, 403)


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
        for part in parts:
            if f"{part.part}.parquet" in finished:
                yield self._read(part)[0]

    def read(self, parts: Iterable[PartOf]) -> Iterator[tuple[str, Embeddings, dict[str, Any]]]:
        """The input file, the vectors and the card of each of these parts, without a warning.

        Args:
            parts: Finished parts, as `look` gives them.

        Raises:
            EmbeddingError: One is gone by now, or damaged.
        """
        for part in parts:
            yield part.file.name, *self._read(part)

    def broken(self) -> Iterator[tuple[str, str]]:
        """The id of each picture that was set aside, with the reason."""
        finished = self._place.listing(FOLDER)
        for part in listed_parts(self._place):
            if f"{part.part}.parquet" in finished:
                yield from self._card(part)["broken"].items()

    def given_up(self) -> dict[str, str]:
        """Input file → why it was given up, and by whom."""
        return why_given_up(self._place, listed_parts(self._place), self._place.listing(FOLDER))

    def give_up(self, *files: str) -> None:
        """Leave input files out that cannot be encoded any more: the parts are complete without them.

        This is recorded, with the last reason why the file failed, and shown by `status`. What a file is now is
        encoded by `encode_parts(…, replace=True)`.

        Args:
            files: By their names in `status`, or by paths or addresses that end so.

        Raises:
            EmbeddingError: A file was never listed, or has its part. Then none is given up.
        """
        give_up(self._place, files)

    def status(self) -> PartsStatus:
        """How far they are; nothing is touched."""
        return self.look()[0]

    def look(self) -> tuple[PartsStatus, list[PartOf]]:
        """How far they are, and the finished parts that this was said of, in the order in which files were listed."""
        seconds = float(self.plan["lease"])
        finished, states = self._place.listing(FOLDER), lease_states(self._place)
        parts = listed_parts(self._place)
        made = [part for part in parts if f"{part.part}.parquet" in finished]
        given_up = why_given_up(self._place, parts, finished)
        running, expired, failed = dict[str, str](), dict[str, str](), dict[str, str]()
        for part in set(parts).difference(made):
            if part.file.name in given_up:
                continue
            state = states.get(part.part)
            if state is None or state.ending in ("released", "made"):  # one that was made was removed since
                continue
            about = about_lease(self._place, state)
            who = f"{about.get('owner', 'unknown')}, since {about.get('since', 'unknown')}"
            if state.ending:
                failed[part.file.name] = about.get("reason", "unknown")
            else:
                (running if state.is_held(seconds) else expired)[part.file.name] = who
        rate = self._rate({part: finished[f"{part.part}.parquet"] for part in made}, states)
        broken, known = self._set_aside(made, states)
        running, expired, failed = (dict(sorted(group.items())) for group in (running, expired, failed))
        return PartsStatus(len(parts), len(made), running, expired, failed, given_up, broken, known, rate), made

    def _set_aside(self, made: Iterable[PartOf], states: Mapping[str, LeaseState]) -> tuple[int | None, int]:
        """How many pictures were set aside, and how many at least: by notes, or by the cards of a few without one."""
        counts, count, unsure = set_aside_counts(self._place), 0, list[PartOf]()
        for part in made:
            count += counts.get(part.part, 0)
            state = states.get(part.part)
            if part.part not in counts and (state is None or state.ending != "made"):
                unsure.append(part)  # of an earlier version, or its process was killed in the last moment
        if len(unsure) > CARDS_READ:
            return None, count
        count += sum(len(self._card(part)["broken"]) for part in unsure)
        return count, count

    def _rate(self, made: Mapping[PartOf, float], states: Mapping[str, LeaseState]) -> float | None:
        last = sorted(made.items(), key=lambda item: item[1])[-MEASURED:]
        claimed = [(part, published, states[part.part]) for part, published in last if part.part in states]
        return images_per_second(self._work(part, published, state) for part, published, state in claimed)

    def _work(self, part: PartOf, published: float, state: LeaseState) -> tuple[str, float, int]:
        """When its process began a part and had finished it, and how many pictures it has."""
        noted = about_lease(self._place, state) if state.ending == "made" else {}
        ended, images = seconds_of(str(noted.get("since", ""))), str(noted.get("images", ""))
        if ended is not None and images.isdecimal():
            return str(noted.get("began", "")), ended, int(images)
        if state.ending == "made":  # by a process that came later and found the part: it does not know of the work
            return "", published, 0
        # Of an earlier version: the time of the file, which is another one in a copy of the folder.
        since = str(facts_of(self._place, state.name).get("since", ""))
        return since, published, int(self._card(part)["count"])

    def _card(self, part: PartOf) -> dict[str, Any]:
        with self._reading(part) as stream:
            return read_card(stream, f"{self.place}/{part.path}")

    def _read(self, part: PartOf) -> tuple[Embeddings, dict[str, Any]]:
        with self._reading(part) as stream:
            return read_part(stream, f"{self.place}/{part.path}")

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


@dataclass(frozen=True)
class FinishedParts:
    """The parts of a finished run, by one look at it: these are read, whatever other processes do meanwhile."""

    made: list[PartOf]  # the parts
    given_up: Mapping[str, str]  # input file → why it was given up


def check_finished(parts: Parts) -> FinishedParts:
    """Check that every input file has its part, or was given up."""
    status, made = parts.look()
    if status.files and status.is_complete:
        return FinishedParts(made, status.given_up)
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


def join_parts(parts: Parts, finished: FinishedParts, path: Path) -> tuple[Embeddings, PartsSummary]:
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
