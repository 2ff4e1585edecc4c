"""Vectors in a folder of plain files that anyone can read, and that `load(folder)` takes back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from visir.encoders.checkpoints import read_description, write_description
from visir.encoders.models.imported import Imported
from visir.encoders.models.vector_files import Rows
from visir.errors import EmbeddingError, EncoderError
from visir.files import atomic_folder
from visir.records import Embeddings, EncoderCard, Modality, strings

SIDES: tuple[Modality, Modality] = ("image", "text")


def export(folder: str | Path, embeddings: Mapping[Modality, Embeddings], *, replace: bool = False) -> Path:
    """Write embeddings of one or both modalities: `visir.json`, and per modality `.npy` and `.ids.parquet`.

    Atomic. An existing folder is an error unless `replace`.
    """
    folder = Path(folder)
    with atomic_folder(folder, replace=replace) as temporary:
        for side, one in embeddings.items():
            np.save(temporary / f"{side}.npy", one.vectors, allow_pickle=False)
            pq.write_table(pa.table({"id": one.ids}), temporary / f"{side}.ids.parquet")
        content: dict[str, Any] = {
            side: {"encoder": one.encoder.to_dict(), "count": len(one), "dimension": one.dimension}
            for side, one in embeddings.items()
        }
        write_description(temporary, "embeddings", content)
    return folder


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
