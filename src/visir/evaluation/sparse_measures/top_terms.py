"""The heaviest terms of every row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from visir.errors import ConfigurationError, EmbeddingError
from visir.records import SparseEmbeddings
from visir.retrieval.depth import depth_fault


def top_terms(embeddings: SparseEmbeddings, k: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Find the heaviest terms of every row."""
    # Returns: (rows, terms): row by row, heaviest first; equal weights by term number. A row with fewer terms gives all
    # it has.
    if fault := depth_fault(k):
        raise ConfigurationError(f"{fault}.")
    lengths = np.diff(embeddings.offsets)
    rows = np.repeat(np.arange(len(embeddings)), lengths)
    order = np.lexsort((-np.asarray(embeddings.values), rows))  # stable: terms ascend within a row
    place = np.arange(len(rows)) - np.repeat(embeddings.offsets[:-1], lengths)
    top = place < k
    return rows[top], np.asarray(embeddings.terms)[order[top]]


def check_same_texts(embeddings: SparseEmbeddings, texts: int) -> None:
    """Check that there is one text for each row."""
    if texts != len(embeddings):
        raise EmbeddingError(
            f"{len(embeddings):,} sparse {embeddings.modality} vectors, and the words of {texts:,} texts.",
            hint="tokenise the texts of the same ids, in the same order",
            code="sparse-vectors-words-texts",
        )
