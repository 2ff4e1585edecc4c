"""The parts of a finished folder as one: what needs all vectors at once, an index, is made of this.

The vectors are written one part after the other into one local file, which is mapped: memory holds one part and all
ids.
"""

from __future__ import annotations

import bisect
import itertools
import shlex
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from visir.display import counted
from visir.encoders.part_list import PartOf
from visir.encoders.parts_folder import Parts
from visir.errors import EmbeddingError
from visir.progress import Progress
from visir.records import Embeddings

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
