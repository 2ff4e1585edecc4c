"""Sparse embeddings in a folder of plain files, memory-mapped when they are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from visir.arrays import load_array
from visir.errors import EmbeddingError
from visir.files import read_json
from visir.parquet import read_columns
from visir.records import EncoderCard, SparseEmbeddings, Vocabulary, modality_of, strings
from visir.storage import FolderKind, new_folder, read_checked

CARD_FILE = "sparse.json"
VOCABULARY_FILE = "vocabulary.parquet"
_ARRAYS = ("offsets", "terms", "values")
_AGAIN = "write the folder again: visir.sparse.save_sparse"
SPARSE = FolderKind("sparse-embeddings", "a folder of sparse embeddings", remedy=_AGAIN, error=EmbeddingError)


def save_sparse(folder: str | Path, embeddings: SparseEmbeddings, *, replace: bool = False) -> Path:
    """Write `offsets.npy`, `terms.npy`, `values.npy`, `ids.parquet`, `vocabulary.parquet` and `sparse.json` in one
    step.

    Args:
        folder: To make.
        embeddings: What to write.
        replace: Replace a folder that is there; otherwise it is an error.
    """
    folder = Path(folder)
    with new_folder(folder, SPARSE, replace=replace) as change:
        for name in _ARRAYS:
            np.save(change.file(f"{name}.npy"), getattr(embeddings, name), allow_pickle=False)
        pq.write_table(pa.table({"id": embeddings.ids}), change.file("ids.parquet"))
        write_vocabulary(change.file(VOCABULARY_FILE).parent, embeddings.vocabulary)
        change.write_json(
            CARD_FILE,
            {
                "modality": embeddings.modality,
                "count": len(embeddings),
                "weights": len(embeddings.terms),
                "encoder": embeddings.encoder.to_dict(),
                "vocabulary": {"name": embeddings.vocabulary.name, "fingerprint": embeddings.vocabulary.fingerprint},
            },
        )
    return folder


def load_sparse(folder: str | Path) -> SparseEmbeddings:
    """Read what `save_sparse` wrote; the three arrays stay on disk until they are used.

    Raises:
        EmbeddingError: A file is missing, damaged, or does not fit the others; the message names it.
    """
    folder = Path(folder)
    if not (folder / CARD_FILE).is_file():
        raise EmbeddingError(
            f"{folder}: no sparse embeddings here (there is no {CARD_FILE}).",
            hint=_AGAIN,
            code="no-sparse-embeddings-no",
        )
    read_checked(folder, SPARSE)
    card: dict[str, Any] = read_json(folder / CARD_FILE)
    arrays = {name: _array(folder / f"{name}.npy") for name in _ARRAYS}
    try:
        vocabulary = read_vocabulary(folder, card["vocabulary"]["name"])
        ids = strings(read_columns(folder / "ids.parquet", {"id": pa.string()}, EmbeddingError, _AGAIN)["id"])
        for name, actual, stated in (
            ("ids.parquet", len(ids), card["count"]),
            ("offsets.npy", len(arrays["offsets"]), card["count"] + 1),
            ("terms.npy", len(arrays["terms"]), card["weights"]),
            ("values.npy", len(arrays["values"]), card["weights"]),
            (VOCABULARY_FILE, vocabulary.fingerprint, card["vocabulary"]["fingerprint"]),
        ):
            if actual != stated:
                raise EmbeddingError(
                    f"{folder / name}: {actual}, but {CARD_FILE} says {stated}.", hint=_AGAIN, code="sparse-json-says"
                )
        encoder = EncoderCard.from_dict(card["encoder"])
        modality = modality_of(card["modality"])
    except (KeyError, TypeError, ValueError) as fault:
        raise EmbeddingError(f"{folder / CARD_FILE}: damaged: {fault!r}.", hint=_AGAIN) from fault
    try:
        return SparseEmbeddings(modality, ids, **arrays, vocabulary=vocabulary, encoder=encoder)
    except EmbeddingError as fault:
        raise EmbeddingError(f"{folder}: {fault.message}", hint=_AGAIN) from fault


def write_vocabulary(folder: Path, vocabulary: Vocabulary) -> None:
    """Write the terms of a vocabulary, and which are usable, into `folder`."""
    table = pa.table({"term": vocabulary.terms, "usable": pa.array(vocabulary.usable)})
    pq.write_table(table, folder / VOCABULARY_FILE)


def read_vocabulary(folder: Path, name: str) -> Vocabulary:
    """What `write_vocabulary` wrote; raises `EmbeddingError` for a file that is missing or damaged."""
    columns = {"term": pa.string(), "usable": pa.bool_()}
    table = read_columns(folder / VOCABULARY_FILE, columns, EmbeddingError, _AGAIN)
    try:
        return Vocabulary(name, strings(table["term"]), table["usable"].to_numpy())
    except EmbeddingError as fault:
        raise EmbeddingError(f"{folder / VOCABULARY_FILE}: damaged: {fault.message}", hint=_AGAIN) from fault


def _array(path: Path) -> Any:
    if not path.is_file():
        raise EmbeddingError(f"{path}: missing.", hint=_AGAIN)
    try:
        return load_array(path, mapped=True)
    except (OSError, ValueError) as fault:
        raise EmbeddingError(f"{path}: damaged ({fault}).", hint=_AGAIN, code="damaged") from fault
