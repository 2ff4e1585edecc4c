"""Posting lists: in how many vectors each term is, which is how long its list in an inverted index is."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from visir.records import SparseEmbeddings


def list_lengths(embeddings: SparseEmbeddings) -> NDArray[np.int64]:
    """(V,) the number of rows in which each term has a weight: its document frequency, from 0 to n."""
    return np.bincount(embeddings.terms, minlength=embeddings.dimension).astype(np.int64)


def longest_lists(embeddings: SparseEmbeddings, n: int = 10) -> list[tuple[str, int]]:
    """The `n` terms with the longest posting lists, in words, with their lengths; equal ones by term number.

    A list as long as the collection is a term that says nothing of any image, and that every query with this term
    scans to the end: what high co-activation looks like from the index (thesis 3.3, definition 1).
    """
    lengths = list_lengths(embeddings)
    longest = [int(term) for term in np.argsort(-lengths, kind="stable")[:n] if lengths[term]]
    return [(embeddings.vocabulary.terms[term].as_py(), int(lengths[term])) for term in longest]
