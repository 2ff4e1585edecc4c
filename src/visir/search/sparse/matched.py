"""Which terms of a query and a document matched, and how much each gave to the score."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from visir.records import SparseEmbeddings


@dataclass(frozen=True)
class Match:
    """A term that both vectors have.

    - `query`, `document`: its weights; `product` = query × document, its part of the score
    - `share`: product / score, from 0 to 1; the shares of all matches sum to 1
    """

    term: str
    query: float
    document: float
    product: float
    share: float


def matched(queries: SparseEmbeddings, query: str, documents: SparseEmbeddings, document: str) -> list[Match]:
    """The terms that a query and a document have in common, largest product first, ties by the number of the term.

    The score of a sparse pair is a sum over exactly these terms, so this *is* the score, taken apart: nothing is
    attributed or estimated. Empty when the two share no term. Raises `EmbeddingError` for ids without a vector; both
    sides must be of one vocabulary.
    """
    query_terms, weights = queries.row(int(queries.rows([query])[0]))
    held, values = documents.row(int(documents.rows([document])[0]))
    common, here, there = np.intersect1d(query_terms, held, assume_unique=True, return_indices=True)
    query_weights, document_weights = weights[here].astype(np.float64), values[there].astype(np.float64)
    products = query_weights * document_weights
    total = products.sum()
    return [
        Match(
            str(queries.vocabulary.terms[int(common[at])]),
            float(query_weights[at]),
            float(document_weights[at]),
            float(products[at]),
            float(products[at] / total),
        )
        for at in np.argsort(-products, kind="stable")
    ]


def in_words(matches: list[Match], most: int = 6) -> str:
    """For a terminal: "beach 3.12 (41 %), dog 2.80 (37 %), 9 more (22 %)"."""
    phrases = [f"{match.term} {match.product:.2f} ({match.share:.0%})".replace("%", " %") for match in matches[:most]]
    rest = matches[most:]
    if rest:
        phrases.append(f"{len(rest)} more ({sum(left_out.share for left_out in rest):.0%})".replace("%", " %"))
    return ", ".join(phrases)
