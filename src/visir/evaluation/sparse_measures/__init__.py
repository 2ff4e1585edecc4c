"""Measures of sparse vectors themselves, not of retrieval: their cost and their terms (thesis 3.3)."""

from visir.evaluation.sparse_measures.measures import (
    StaticVectors,
    active_terms,
    exact_at,
    flops,
    list_lengths,
    longest_lists,
    minilm_vectors,
    semantic_at,
)

__all__ = [
    "StaticVectors",
    "active_terms",
    "exact_at",
    "flops",
    "list_lengths",
    "longest_lists",
    "minilm_vectors",
    "semantic_at",
]
