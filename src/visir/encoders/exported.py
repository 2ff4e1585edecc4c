"""Vectors in a folder of plain files that anyone can read, and that `load(folder)` takes back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from visir.arrays import load_array
from visir.encoders.checkpoints import Layout, read_description
from visir.encoders.models.vector_files import Imported, VectorRows
from visir.errors import EmbeddingError, EncoderError, VisirError
from visir.parquet import read_table
from visir.records import Embeddings, EncoderCard, Modality, MultiVectorEmbeddings, strings
from visir.remote import RemoteFolder, is_url
from visir.storage import MANIFEST, Manifest, Scratch, check_new_folder

SIDES: tuple[Modality, Modality] = ("image", "text")


Exported: TypeAlias = Embeddings | MultiVectorEmbeddings


def export(place: str | Path, embeddings: Mapping[Modality, Exported], *, replace: bool = False) -> None:
    """Write embeddings of one or both modalities: `visir.json`, and per modality `.npy` and `.ids.parquet`."""
    # Where items have several vectors, `.offsets.npy` says which: item i has `vectors[offsets[i]:offsets[i + 1]]`.
    # Atomic here. Elsewhere (`s3://bucket/vectors`) `visir.json` is written last, and without it nothing is read. An
    # existing folder is an error unless `replace`.
    check_new_place(place, replace=replace)
    if is_url(place):
        above, _, name = str(place).rstrip("/").rpartition("/")
        with Scratch.temporary("vectors") as scratch:
            folder = scratch.made(name)
            export(folder, embeddings)
            RemoteFolder(above).put(folder, name, [*Manifest.read(folder).files, MANIFEST])
        return
    files = [(f"{side}.npy", _ids_file(side), *_spans(side, vectors)) for side, vectors in embeddings.items()]
    layout = Layout.of("embeddings", tuple(file for names in files for file in names))
    layout.write(place, lambda folder: _write(folder, embeddings), replace=replace)


def _write(folder: Path, embeddings: Mapping[Modality, Exported]) -> dict[str, Any]:
    for side, vectors in embeddings.items():
        np.save(folder / f"{side}.npy", vectors.vectors, allow_pickle=False)
        pq.write_table(pa.table({"id": vectors.ids}), folder / _ids_file(side))
        for name in _spans(side, vectors):
            np.save(folder / name, vectors.offsets, allow_pickle=False)  # type: ignore[union-attr]
    return {
        side: {
            "encoder": vectors.encoder.to_dict(),
            "count": len(vectors),
            "dimension": vectors.dimension,
            "form": "multi-vector" if isinstance(vectors, MultiVectorEmbeddings) else "dense",
        }
        for side, vectors in embeddings.items()
    }


def _spans(side: Modality, vectors: Exported) -> tuple[str, ...]:
    return (f"{side}.offsets.npy",) if isinstance(vectors, MultiVectorEmbeddings) else ()


def _ids_file(side: Modality) -> str:
    return f"{side}.ids.parquet"


def check_new_place(place: str | Path, *, replace: bool) -> None:
    """Raise when there is something already and it is not to be replaced: before encoding rather than after."""
    if not is_url(place):
        check_new_folder(place, Layout.of("embeddings", ()).kind, replace=replace)
    elif RemoteFolder(str(place)).names() and not replace:
        raise VisirError(
            f"{place} exists already.", hint="name a new folder, or replace it (--replace; in Python: replace=True)"
        )


def load_checkpoint(folder: Path, device: str | None, dtype: str) -> Imported:
    """Read what `export` wrote; the vectors keep the card of the encoder that made them."""
    if dtype != "float32" or device not in (None, "cpu"):
        raise EncoderError(f"{folder}: holds vectors; device and dtype do not apply.", hint="leave these options out")
    description = read_description(folder)
    rows: dict[Modality, VectorRows] = {}
    cards: dict[Modality, EncoderCard] = {}
    for side in SIDES:
        if side not in description:
            continue
        try:
            vectors = load_array(folder / f"{side}.npy", mapped=True)
            ids = strings(read_table(folder / _ids_file(side))["id"])
            several = description[side].get("form") == "multi-vector"
            offsets = load_array(folder / f"{side}.offsets.npy") if several else None
        except (OSError, ValueError) as fault:
            raise EmbeddingError(f"{folder}: the {side} vectors cannot be read: {fault}") from fault
        rows[side] = VectorRows(vectors, ids, offsets)
        cards[side] = EncoderCard.from_dict(description[side]["encoder"])
    return Imported(rows, cards, folder)
