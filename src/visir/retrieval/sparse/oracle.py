"""The reference of sparse search: SciPy multiplies two matrices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from visir.records import SparseEmbeddings
from visir.retrieval.answers import Hits
from visir.retrieval.parts import SPARSE
from visir.retrieval.rows import Rows
from visir.retrieval.sparse.products import best, transposed
from visir.retrieval.stored import StoredIndex


@dataclass(frozen=True)
class OracleSettings:
    """This kind has no settings."""


class OracleIndex(StoredIndex[SparseEmbeddings]):
    """Kind "scipy": the reference. Every other exact index of sparse vectors must return the same answers."""

    # Scores are dot products, summed in float64 in ascending order of terms and rounded to float32; ties by id. Only
    # documents that share a term with the query are answers. (The other reading ranks the rest too, by id, with score
    # 0; it would fill a short answer with documents that are not related to the query.)
    # It needs no time to build. A search has the scores of 64 queries with all documents in memory.

    kind = "scipy"
    exact = True
    form = SPARSE
    settings_type = OracleSettings

    def _construct(self, rows: Rows[SparseEmbeddings]) -> dict[int, Any]:
        return {}  # the transposed matrix of each part, made when it is first searched

    def _find(
        self, rows: Rows[SparseEmbeddings], built: dict[int, Any], queries: SparseEmbeddings, k: int, settings: Any
    ) -> Hits:
        hits = []
        for number, part in enumerate(rows.parts):
            if number not in built:
                built[number] = transposed(part)
            places = rows.places[rows.starts[number] : rows.starts[number + 1]]
            hits.append(best(queries, built[number], places, k))
        return Hits.joined(hits)

    def _details(self, rows: Rows[SparseEmbeddings], built: Any) -> dict[str, Any]:
        return postings(rows)


def postings(rows: Rows[SparseEmbeddings]) -> dict[str, Any]:
    """Return the number of weights, with those of deleted documents."""
    return {"postings": sum(len(part.terms) for part in rows.parts)}
