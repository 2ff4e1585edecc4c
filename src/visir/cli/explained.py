"""Which terms matched, beside the answers that a terminal shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from visir.records import Embeddings, SparseEmbeddings


def explained(
    asked: Embeddings | SparseEmbeddings,
    documents: Embeddings | SparseEmbeddings,
    answers: Sequence[tuple[str, float]],
) -> dict[str, str]:
    """{document: its matched terms with what each gave}; empty for dense vectors, which have no terms."""
    from visir.records import SparseEmbeddings
    from visir.search.sparse.matched import in_words, matched

    if not isinstance(asked, SparseEmbeddings) or not isinstance(documents, SparseEmbeddings):
        return {}
    query = str(asked.ids[0])
    return {one: in_words(matched(asked, query, documents, one)) for one, _ in answers}
