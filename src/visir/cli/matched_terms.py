"""Which terms matched, beside the answers that a terminal shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from visir.records import Vectors


def matched_terms(
    query_vectors: Vectors,
    documents: Vectors,
    answers: Sequence[tuple[str, float]],
) -> dict[str, str]:
    """{document: its matched terms with what each gave}; empty for dense vectors, which have no terms."""
    from visir.records import SparseEmbeddings
    from visir.sparse.matched import in_words, matched

    if not isinstance(query_vectors, SparseEmbeddings) or not isinstance(documents, SparseEmbeddings):
        return {}
    query = str(query_vectors.ids[0])
    return {document: in_words(matched(query_vectors, query, documents, document)) for document, _ in answers}
