"""Everything that is wrong with a collection, all at once: `visir data check`."""

from __future__ import annotations

import hashlib
import io
import os
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from visir.collections.draft import Draft
from visir.collections.images import MAX_PIXELS, SCENE, ImageReader, decode, readable
from visir.collections.readers.texts import text_findings
from visir.errors import VisirError
from visir.progress import Progress
from visir.records import Collection

Level = Literal["error", "warning", "note"]
EXAMPLES = 10


@dataclass(frozen=True)
class Finding:
    """One kind of thing found: how grave, what, how often, and the first few cases by id."""

    level: Level
    what: str
    count: int
    examples: tuple[str, ...] = ()


@dataclass
class Report:
    """What a check found. `ok` is whether there is no error; warnings and notes are for the reader to judge."""

    name: str
    source: str
    images: int = 0
    captions: int = 0
    captions_per_image: dict[int, int] = field(default_factory=dict)
    decoded: int = 0
    formats: dict[str, int] = field(default_factory=dict)
    sizes: str = ""
    findings: list[Finding] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing found is an error."""
        return not any(finding.level == "error" for finding in self.findings)

    def add(self, level: Level, what: str, cases: Iterable[str]) -> None:
        """Note a finding, if there is any case of it."""
        listed = list(cases)
        if listed:
            self.findings.append(Finding(level, what, len(listed), tuple(listed[:EXAMPLES])))


def check_source(
    spec: str,
    *,
    format: str | None = None,
    images: object = None,
    decode: bool = True,
    workers: int | None = None,
    **options: Any,
) -> Report:
    """Check a path or spec as `open_collection` takes it, also where that would refuse it."""
    from visir.collections.open import read_draft

    try:
        read = read_draft(spec, format=format, images=images, **options)
    except VisirError as fault:
        report = Report(Path(spec).name, spec)
        report.add("error", "cannot be read as a collection", [fault.message])
        return report
    return check(read, decode=decode, workers=workers)


def check(source: Collection | Draft, *, decode: bool = True, workers: int | None = None) -> Report:
    """Look for all faults of a collection, or of what a reader made before it is one.

    Errors are what stops work or falsifies a number: ids missing or twice, captions of no image, pictures that are
    broken or not where they should be. Warnings: empty captions, a caption twice at one image, damaged characters, the
    same picture twice (above all in two splits). `decode` reads and decodes every picture, with `workers` threads
    (default: one per core); without, only their presence is looked at.
    """
    if isinstance(source, Draft):
        images, captions = source.tables()
        report = Report(source.name, "; ".join([source.source, *source.notes]))
        report.add("error", "faults of the source", source.faults)
        root, judgements = source.root, source.judgements
    else:
        images, captions = source.images, source.captions
        report = Report(source.name, source.source)
        root, judgements = Path(source.root), source.judgements
    report.images, report.captions = images.num_rows, captions.num_rows
    _check_ids(report, images, captions)
    if judgements is not None:
        _check_judgements(report, images, captions, judgements)
    report.findings += [Finding(*one) for one in text_findings(captions)]
    _check_pictures(report, _unique(images), root, decode, workers or os.cpu_count() or 1)
    return report


def _check_ids(report: Report, images: pa.Table, captions: pa.Table) -> None:
    for kind, table in (("image", images), ("caption", captions)):
        without = pc.sum(pc.or_kleene(pc.is_null(table["id"]), pc.equal(table["id"], ""))).as_py() or 0
        report.add("error", f"{kind}s without an id", [f"{without} rows"] * without)
        counts = Counter(table["id"].to_pylist())
        report.add(
            "error", f"{kind} ids that occur more than once", [f"{one!r} × {n}" for one, n in counts.items() if n > 1]
        )
    if images.num_rows == 0:
        report.add("error", "no images at all", [report.source])
    known = pc.is_in(captions["image_id"], pc.unique(images["id"]))
    orphans = captions.filter(pc.invert(known)).to_pylist()
    report.add("error", "captions of images that are not there", [f"{o['id']!r} of {o['image_id']!r}" for o in orphans])
    counted = Counter(captions["image_id"].to_pylist())
    report.captions_per_image = dict(sorted(Counter(counted.get(one, 0) for one in images["id"].to_pylist()).items()))
    if captions.num_rows:
        silent = images.filter(pc.invert(pc.is_in(images["id"], pc.unique(captions["image_id"]))))
        report.add("note", "images without captions", [repr(one) for one in silent["id"].to_pylist()])


def _check_judgements(report: Report, images: pa.Table, captions: pa.Table, judgements: pa.Table) -> None:
    known = pc.and_(
        pc.is_in(judgements["image_id"], pc.unique(images["id"])),
        pc.is_in(judgements["caption_id"], pc.unique(captions["id"])),
    )
    outside = judgements.filter(pc.invert(known)).to_pylist()
    report.add(
        "warning",
        "judgements about images or captions that are not there",
        [f"{one['relevance']}: {one['caption_id']!r} and {one['image_id']!r}" for one in outside],
    )


def _check_pictures(report: Report, images: pa.Table, root: Path, decode_them: bool, workers: int) -> None:
    missing = images.filter(pc.is_null(images["path"]))["id"].to_pylist()
    everything = len(missing) == images.num_rows
    report.add(
        "warning" if everything else "error",
        "images without a picture" + (" (all: metadata only)" if everything else ""),
        [repr(one) for one in missing],
    )
    present = images.filter(pc.is_valid(images["path"]))
    if not present.num_rows:
        return
    reader = ImageReader(Collection(report.name, present, _NO_CAPTIONS, root=root))
    if not decode_them:
        rows = present.select(["id", "path", "archive"]).to_pylist()
        gone = [
            f"{row['id']!r} ({row['path']})"
            for row in rows
            if row["archive"] is None and not row["path"].startswith(SCENE) and not (root / row["path"]).is_file()
        ]
        report.add("error", "pictures that are not where they should be", gone)
        return

    def look(row: int) -> tuple[str, str, tuple[int, int]] | str:
        try:
            data = reader.read(row)
            size = decode(data, reader.where(row), max_pixels=MAX_PIXELS).size
        except VisirError as fault:
            return fault.message
        return hashlib.blake2b(data, digest_size=16).hexdigest(), _format(data), size

    with ThreadPoolExecutor(workers) as pool, Progress("decoding", present.num_rows, "images") as advance:
        seen = []
        for one in pool.map(look, range(present.num_rows)):
            seen.append(one)
            advance(1)
    report.add("error", "pictures that cannot be had", [one for one in seen if isinstance(one, str)])
    good = [(row, one) for row, one in enumerate(seen) if not isinstance(one, str)]
    report.decoded = len(good)
    report.formats = dict(Counter(one[1] for _, one in good).most_common())
    if good:
        widths, heights = [one[2][0] for _, one in good], [one[2][1] for _, one in good]
        report.sizes = f"{min(widths)}–{max(widths)} × {min(heights)}–{max(heights)} pixels"
    _check_twins(report, present, {row: one[0] for row, one in good})


def _check_twins(report: Report, images: pa.Table, digests: dict[int, str]) -> None:
    groups: dict[str, list[int]] = {}
    for row, digest in digests.items():
        groups.setdefault(digest, []).append(row)
    ids, splits = images["id"].to_pylist(), images["split"].to_pylist()
    twins = [rows for rows in groups.values() if len(rows) > 1]
    across = [rows for rows in twins if len({splits[row] for row in rows}) > 1]
    within = [rows for rows in twins if len({splits[row] for row in rows}) == 1]
    report.add("warning", "same picture (byte for byte) under several ids", [_names(ids, rows) for rows in within])
    report.add("warning", "same picture in several splits", [_names(ids, rows) for rows in across])


def _names(ids: list[str], rows: list[int]) -> str:
    return " = ".join(repr(ids[row]) for row in rows[:4]) + (" …" if len(rows) > 4 else "")


def _format(data: bytes) -> str:
    from PIL import Image

    with Image.open(io.BytesIO(data), formats=readable()) as image:
        return image.format or "?"


def _unique(images: pa.Table) -> pa.Table:
    """Each id once, so that pictures can be looked at even where ids are faulty."""
    seen: set[str | None] = {None, ""}
    keep = [not (one in seen or seen.add(one)) for one in images["id"].to_pylist()]  # type: ignore[func-returns-value]
    return images.filter(pa.array(keep, pa.bool_()))


_NO_CAPTIONS = pa.table({name: pa.array([], pa.string()) for name in ("id", "text", "image_id")})
