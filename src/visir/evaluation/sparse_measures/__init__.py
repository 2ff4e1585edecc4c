"""Measures of sparse vectors themselves, not of retrieval: their cost and their terms (thesis 3.3)."""

from visir.evaluation.sparse_measures.active_terms import active_terms
from visir.evaluation.sparse_measures.exact import exact_at
from visir.evaluation.sparse_measures.flops import flops
from visir.evaluation.sparse_measures.posting_lists import list_lengths, longest_lists
from visir.evaluation.sparse_measures.semantic import semantic_at
from visir.evaluation.sparse_measures.static_vectors import StaticVectors, minilm_vectors

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
