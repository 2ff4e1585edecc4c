"""Crisscrossed Captions (CxC): human scores of COCO captions with other COCO images, as additional positives."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path

from visir.collections.judgements.judged import COCO_HINT, Judged, Judging
from visir.collections.readers.names import coco_id
from visir.collections.readers.sniffing import head
from visir.collections.sources import JudgementFormat, Option, one_of
from visir.errors import CollectionError, raise_faults
from visir.files import read_lines
from visir.records import Collection

HEADER = ["caption", "image", "agg_score", "sampling_method"]
RELEVANCE = "cxc"
_FILE = re.compile(r"^sits_(val|test)\.csv(?:\.gz|\.xz)?$")


def read(path: Path, collection: Collection, *, threshold: float = 3.0, links: str = "all") -> Judged:
    """Read `sits_val.csv` and `sits_test.csv` (a folder of them, or one) as the relevance "cxc"."""
    # Positive is every pair scored `threshold` (3 of 5) or higher by the annotators, *besides* the pairs that COCO
    # links (Parekh et al. 2021). Pairs scored lower are judged and not relevant (grade 0), unless they are links.
    # The files on image–image (`sis_*`) and text–text similarity (`sts_*`) belong to intra-modal retrieval, which has
    # no image–caption pairs; they are not read.
    files = [path] if path.is_file() else sorted(file for file in path.iterdir() if _FILE.match(file.name))
    if not files:
        raise CollectionError(f"{path}: no sits_val.csv or sits_test.csv in it.", hint="download the aggregated scores")
    judging = Judging(collection, f"CxC ({', '.join(file.name for file in files)})")
    scored = [row for file in files for row in _rows(file)]
    judged_captions = {caption for caption, _, _ in scored}
    judged_images = {image for _, image, _ in scored}
    linked: set[tuple[str, str]] = set()
    if links != "scored":
        linked = {
            (caption, image)
            for caption, image in judging.image_of.items()
            if image in judged_images and (links == "all" or caption in judged_captions)
        }
    for caption, image, score in scored:
        if (caption, image) not in linked:
            judging.add(RELEVANCE, "both", caption, image, 1.0 if score >= threshold else 0.0)
    if not judging.grades:
        return judging.done(hint=COCO_HINT)
    for caption, image in sorted(linked):
        judging.add(RELEVANCE, "both", caption, image, 1.0)
    return judging.done(hint=COCO_HINT)


def _rows(file: Path) -> Iterator[tuple[str, str, float]]:
    faults: list[str] = []
    for number, row in enumerate(csv.reader(read_lines(file)), start=1):
        if number == 1:
            if row != HEADER:
                raise CollectionError(
                    f"{file}, line 1: expected the columns {', '.join(HEADER)}; found {', '.join(row)}.",
                    hint="the file with aggregated scores is meant, not *_raw.csv, sis_* or sts_*",
                    code="expected-columns-found",
                )
            continue
        caption = row[0].rpartition(":sentid:")[2] if row else ""
        image = coco_id(row[1]) if len(row) == len(HEADER) else None
        if not caption.isdecimal() or image is None or not _is_score(row[2]):
            faults.append(f"line {number}: expected COCO_val2014:sentid:N, a COCO image and a score; found {row}")
            continue
        yield caption, image, float(row[2])
    raise_faults(CollectionError, str(file), faults)


def _is_score(text: str) -> bool:
    try:
        return 0 <= float(text) <= 5
    except ValueError:
        return False


def _sniff(path: Path) -> bool:
    if path.is_dir():
        return any(_FILE.match(file.name) for file in path.iterdir())
    return head(path).startswith(",".join(HEADER).encode())


FORMAT = JudgementFormat(
    name="cxc",
    title="Crisscrossed Captions (CxC)",
    layout="sits_val.csv, sits_test.csv: caption,image,agg_score,sampling_method",
    reference="Parekh et al., Crisscrossed Captions (EACL 2021)",
    sniff=_sniff,
    options=(
        Option("threshold", "the score (0 to 5) from which a pair is positive", 3.0, float),
        Option(
            "links",
            "which links of judged images are positive too: 'all', 'judged' captions' only, or 'scored' ones only",
            "all",
            one_of("all", "judged", "scored"),
        ),
    ),
    read=read,
    sets="cxc",
)
