"""What an encoder computes."""

from __future__ import annotations

from typing import Literal, TypeAlias

from visir.records.embeddings import Embeddings
from visir.records.multi_vector import MultiVectorEmbeddings
from visir.records.sparse import SparseEmbeddings

Vectors: TypeAlias = Embeddings | SparseEmbeddings | MultiVectorEmbeddings
"""What an encoder computes: one dense vector, weighted words, or several dense vectors for each item."""

VectorForm: TypeAlias = Literal["dense", "sparse", "multi-vector"]
"""What these are called."""
