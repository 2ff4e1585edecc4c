"""Vectors in a folder of plain files that anyone can read, and that `load(folder)` takes back."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from visir.encoders.checkpoints import read_description, write_description
from visir.encoders.families import CHECKPOINT_FILE
from visir.encoders.models.imported import Imported
from visir.encoders.models.vector_files import Rows
from visir.errors import EmbeddingError, EncoderError, VisirError
from visir.files import atomic_folder
from visir.records import Embeddings, EncoderCard, Modality, strings
from visir.remote import RemoteFolder, is_url

SIDES: tuple[Modality, Modality] = ("image", "text")


def export(place: str | Path, embeddings: Mapping[Modality, Embeddings], *, replace: bool = False) -> None:
    """Write embeddings of one or both modalities: `visir.json`, and per modality `.npy` and `.ids.parquet`.

    Atomic here. Elsewhere (`s3://bucket/vectors`) `visir.json` is written last, and without it nothing is read. An
    existing folder is an error unless `replace`.
    """
    refuse_existing(place, replace=replace)
    if is_url(place):
        above, _, name = str(place).rstrip("/").rpartition("/")
        with tempfile.TemporaryDirectory() as temporary:
            export(Path(temporary) / name, embeddings)
            files = sorted((one.name for one in (Path(temporary) / name).iterdir()), key=CHECKPOINT_FILE.__eq__)
            RemoteFolder(above).put(Path(temporary) / name, name, files)
        return
    with atomic_folder(place, replace=replace) as temporary:
        for side, one in embeddings.items():
            np.save(temporary / f"{side}.npy", one.vectors, allow_pickle=False)
            pq.write_table(pa.table({"id": one.ids}), temporary / f"{side}.ids.parquet")
        content: dict[str, Any] = {
            side: {"encoder": one.encoder.to_dict(), "count": len(one), "dimension": one.dimension}
            for side, one in embeddings.items()
        }
        write_description(temporary, "embeddings", content)


def refuse_existing(place: str | Path, *, replace: bool) -> None:
    """Raise when there is something already and it is not to be replaced: before encoding rather than after."""
    there = RemoteFolder(str(place)).names() != [] if is_url(place) else Path(place).exists()
    if there and not replace:
        raise VisirError(f"{place} exists already.", hint="choose another folder, or replace it with --force")


def load_checkpoint(folder: Path, device: str | None, dtype: str) -> Imported:
    """Read what `export` wrote; the vectors keep the card of the encoder that made them."""
    if dtype != "float32" or device not in (None, "cpu"):
        raise EncoderError(f"{folder}: holds vectors; device and dtype do not apply.", hint="leave these options out")
    description = read_description(folder)
    rows: dict[Modality, Rows] = {}
    cards: dict[Modality, EncoderCard] = {}
    for side in SIDES:
        if side not in description:
            continue
        try:
            vectors = np.load(folder / f"{side}.npy", mmap_mode="r", allow_pickle=False)
            ids = strings(pq.read_table(folder / f"{side}.ids.parquet")["id"])
        except (OSError, ValueError) as fault:
            raise EmbeddingError(f"{folder}: the {side} vectors cannot be read: {fault}") from fault
        rows[side] = Rows(vectors, ids)
        cards[side] = EncoderCard(**description[side]["encoder"])
    return Imported(rows, cards)
