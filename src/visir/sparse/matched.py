"""The common terms of a query and a document, and their parts of the score."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from visir.records import SparseEmbeddings


@dataclass(frozen=True)
class Match:
    """A term that both vectors have."""

    term: str  # the term
    query: float  # its weight in the query
    document: float  # its weight in the document
    product: float  # query × document, its part of the score
    share: float  # product / score, from 0 to 1; the shares of all matches sum to 1


def matched(queries: SparseEmbeddings, query: str, documents: SparseEmbeddings, document: str) -> list[Match]:
    """Return the common terms of a query and a document, largest product first, ties by the number of the term."""
    # The score of a sparse pair is the sum of exactly these products; nothing is estimated.
    query_terms, weights = queries.row(int(queries.rows([query])[0]))
    held, values = documents.row(int(documents.rows([document])[0]))
    common, query_rows, document_rows = np.intersect1d(query_terms, held, assume_unique=True, return_indices=True)
    query_weights, document_weights = weights[query_rows], values[document_rows]
    products = query_weights.astype(np.float64) * document_weights.astype(np.float64)
    total = products.sum()
    return [
        Match(
            str(queries.vocabulary.terms[int(common[index])]),
            float(query_weights[index]),
            float(document_weights[index]),
            float(products[index]),
            float(products[index] / total),
        )
        for index in np.argsort(-products, kind="stable")
    ]


def in_words(matches: list[Match], most: int = 6) -> str:
    """Return matches as one line of text."""
    phrases = [f"{match.term} {match.product:.2f} ({match.share:.0%})".replace("%", " %") for match in matches[:most]]
    rest = matches[most:]
    if rest:
        phrases.append(f"{len(rest)} more ({sum(left_out.share for left_out in rest):.0%})".replace("%", " %"))
    return ", ".join(phrases)
