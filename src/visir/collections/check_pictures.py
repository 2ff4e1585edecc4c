"""What is wrong with the pictures of a source: those that are missing, broken, or there twice."""

from __future__ import annotations

import hashlib
import io
import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from visir.collections.findings import Report
from visir.collections.images import SCENE, ImageReader, decode, readable
from visir.collections.picture_fragments import file_of
from visir.errors import VisirError
from visir.progress import Progress
from visir.records import Collection

_NO_CAPTIONS = pa.table({name: pa.array([], pa.string()) for name in ("id", "text", "image_id")})


def check_pictures(report: Report, images: pa.Table, root: Path, *, decoding: bool, workers: int | None) -> None:
    """Add what is wrong with pictures to a report."""
    images = _unique(images)
    missing = images.filter(pc.is_null(images["path"]))["id"].to_pylist()
    everything = len(missing) == images.num_rows
    report.add(
        "warning" if everything else "error",
        "images without a picture" + (" (all: metadata only)" if everything else ""),
        [repr(identifier) for identifier in missing],
    )
    present = images.filter(pc.is_valid(images["path"]))
    if not present.num_rows:
        return
    report.pictures_looked_for = True
    reader = ImageReader(Collection(report.name, present, _NO_CAPTIONS, root=root))
    if not decoding:
        rows = present.select(["id", "path", "archive"]).to_pylist()
        gone = [
            f"{row['id']!r} ({row['path']})"
            for row in rows
            if row["archive"] is None
            and not row["path"].startswith(SCENE)
            and not (root / file_of(row["path"])).is_file()
        ]
        report.add("error", "pictures that are not where they should be", gone)
        return

    def look(row: int) -> tuple[str, str, tuple[int, int]] | str:
        try:
            data = reader.read(row)
            size = decode(data, reader.where(row)).size
        except VisirError as fault:
            return fault.message
        return hashlib.blake2b(data, digest_size=16).hexdigest(), _format(data), size

    with (
        ThreadPoolExecutor(workers or os.cpu_count() or 1) as pool,
        Progress("decoding", present.num_rows, "images") as advance,
    ):
        looked = []
        for outcome in pool.map(look, range(present.num_rows)):
            looked.append(outcome)
            advance(1)
    report.add("error", "pictures that cannot be read", [outcome for outcome in looked if isinstance(outcome, str)])
    decoded = {row: outcome for row, outcome in enumerate(looked) if not isinstance(outcome, str)}
    report.decoded = len(decoded)
    report.formats = dict(Counter(format for _, format, _ in decoded.values()).most_common())
    if decoded:
        widths, heights = zip(*(size for _, _, size in decoded.values()), strict=True)
        report.sizes = f"{min(widths)}–{max(widths)} × {min(heights)}–{max(heights)} pixels"
    _check_twins(report, present, {row: digest for row, (digest, _, _) in decoded.items()})


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
    first_rows: dict[str | None, int] = {}
    for row, identifier in enumerate(images["id"].to_pylist()):
        if identifier:
            first_rows.setdefault(identifier, row)
    return images.take(pa.array(first_rows.values(), pa.int64()))
