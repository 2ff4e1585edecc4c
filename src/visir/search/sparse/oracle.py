"""The slow truth of sparse search: SciPy multiplies two matrices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from visir.records import SparseEmbeddings
from visir.search.answers import Hits
from visir.search.parts import SPARSE
from visir.search.rows import Rows
from visir.search.sparse.products import best, transposed
from visir.search.stored import StoredIndex


@dataclass(frozen=True)
class OracleSettings:
    """There is nothing to set."""


class OracleIndex(StoredIndex[SparseEmbeddings]):
    """Kind "scipy": every index of sparse vectors has to answer what this one answers, or say that it is approximate.

    Scores are dot products, summed in float64 in ascending order of terms and rounded to float32; ties by id. Only
    documents that share a term with the query are answers. (The other reading ranks the rest too, by id, with score 0;
    it would fill a short answer with documents that have nothing to do with the query.)

    Built in no time, searched with the whole collection's scores in memory, 64 queries at a time.
    """

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
        for at, part in enumerate(rows.parts):
            if at not in built:
                built[at] = transposed(part)
            hits.append(best(queries, built[at], rows.places[rows.starts[at] : rows.starts[at + 1]], k))
        return Hits.joined(hits)

    def _details(self, rows: Rows[SparseEmbeddings], built: Any) -> dict[str, Any]:
        return postings(rows)


def postings(rows: Rows[SparseEmbeddings]) -> dict[str, Any]:
    """How many weights there are, deleted documents included."""
    return {"postings": sum(len(part.terms) for part in rows.parts)}
