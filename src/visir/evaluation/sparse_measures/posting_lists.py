"""Posting lists: the number of vectors with each term, which is the length of its list in an inverted index."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from visir.records import SparseEmbeddings


def list_lengths(embeddings: SparseEmbeddings) -> NDArray[np.int64]:
    """Count the rows in which each term has a weight: its document frequency.

    Args:
        embeddings: n rows over V terms.

    Returns:
        (V,) counts, from 0 to n.
    """
    return np.bincount(embeddings.terms, minlength=embeddings.dimension).astype(np.int64)


def longest_lists(embeddings: SparseEmbeddings, n: int = 10) -> list[tuple[str, int]]:
    """Find the terms with the longest posting lists.

    A list as long as the collection belongs to a term that distinguishes no image, and every query with this term scans
    it to the end: this is high co-activation in the index (thesis 3.3, definition 1).

    Args:
        embeddings: The sparse vectors.
        n: How many terms.

    Returns:
        (word, length), the longest first; equal lengths by term number.
    """
    lengths = list_lengths(embeddings)
    longest = [int(term) for term in np.argsort(-lengths, kind="stable")[:n] if lengths[term]]
    return [(embeddings.vocabulary.terms[term].as_py(), int(lengths[term])) for term in longest]
