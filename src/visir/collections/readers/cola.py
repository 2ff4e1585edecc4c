"""COLA, multi-object: two pictures whose objects have swapped attributes, and a caption of each."""

from __future__ import annotations

import re
from pathlib import Path

from visir.collections.choice_draft import ChoiceDraft, Missing
from visir.collections.readers.choice_table import MISSING, record_files
from visir.collections.readers.sniffing import json_head
from visir.collections.readers.winoground import MEASURES
from visir.collections.sources import Format
from visir.files import read_json

_FIRST = re.compile(rb'\[\s*\[\s*"[^"]+"\s*,\s*"[^"]+"\s*,\s*"[^"]+"\s*,\s*"[^"]+"\s*\]')


def read(path: Path, *, missing: Missing = "drop") -> ChoiceDraft:
    """Read `COLA_multiobjects_matching_benchmark.json`: a list of [picture 1, caption 1, picture 2, caption 2]."""
    # COLA's accuracy is the `item_score` of the task "t2i": each caption must choose its picture.
    files = record_files(path, _fits)
    if not files:
        raise FORMAT.lacks(path, "no COLA_multiobjects_matching_benchmark.json")
    root = path if path.is_dir() else path.parent
    draft = ChoiceDraft("COLA", root, f"COLA {files[0].name}", measures=MEASURES, missing=missing,
                        obtain="the file has their addresses; they are from Visual Genome")  # fmt: skip
    for number, row in enumerate(read_json(files[0])):
        if not isinstance(row, list) or len(row) != 4 or not all(isinstance(value, str) for value in row):
            draft.fault(f"{files[0].name}, item {number}: expected [picture, caption, picture, caption]")
            continue
        pictures = {"image_0": row[0].rsplit("/", 1)[-1], "image_1": row[2].rsplit("/", 1)[-1]}
        draft.add(str(number), pictures, {"caption_0": row[1], "caption_1": row[3]}, [[0], [1]], {})
    return draft


def _fits(file: Path) -> bool:
    return _FIRST.match(json_head(file)) is not None


FORMAT = Format(
    name="cola",
    title="COLA: match two pictures with two captions, several objects",
    layout="COLA_multiobjects_matching_benchmark.json: a list of [picture 1, caption 1, picture 2, caption 2]",
    reference="Ray et al., COLA (NeurIPS 2023)",
    obtain="https://github.com/arijitray1993/COLA",
    sniff=lambda path: bool(record_files(path, _fits)),
    read=read,
    options=(MISSING,),
)
