"""Semantic@k: the similarity of a caption's heaviest terms to the words of the caption (thesis eq. 3.3)."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from visir.evaluation.sparse_measures.static_vectors import StaticVectors
from visir.evaluation.sparse_measures.top_terms import check_same_texts, top_terms
from visir.records import SparseEmbeddings

if TYPE_CHECKING:
    from visir.sparse.vocabulary import TextTerms


def semantic_at(texts: SparseEmbeddings, words: TextTerms, vectors: StaticVectors, k: int = 20) -> NDArray[np.float64]:
    """The mean cosine of each of the `k` heaviest terms and the text's nearest word.

        Semantic@k = 1/k · Σ_{t ∈ top_k(s_C)} max_{u ∈ x_C} cos(f_enc(t), f_enc(u))        (thesis eq. 3.3)

    A term of the text itself counts 1, so Semantic@k is at least Exact@k if no cosine is below 0. The divisor is k: a
    missing term counts 0, and so does every term of a text without words. The *level* depends on the table: with
    all-MiniLM-L6-v2's a random term reaches about 0.1 (the nearest of a dozen words), while the thesis prints 0.41 for
    models whose terms are words of the caption in 2 of 100 cases. So compare models with one table, and with the
    published values by their order only.

    The paper measures captions only, as with Exact@k.

    Args:
        texts: (n, V) the sparse vectors.
        words: The distinct terms of each row's own text, in the rows' order.
        vectors: f_enc, static vectors of a declared model (`minilm_vectors()`).
        k: The number of terms, from 1.

    Returns:
        (n,) mean cosines in [-1, 1].

    Raises:
        EmbeddingError: There is not one text for each row, or a usable term has no vector.
        ConfigurationError: k is below 1.
    """
    check_same_texts(texts, len(words))
    rows, terms = top_terms(texts, k)
    table = vectors.unit_vectors(texts.vocabulary)
    ends = np.searchsorted(rows, np.arange(len(texts) + 1))
    values = np.zeros(len(texts))
    for row, (first, last) in enumerate(pairwise(ends.tolist())):
        text_terms = words.of(row)
        if last > first and len(text_terms):
            values[row] = (table[terms[first:last]] @ table[text_terms].T).max(axis=1).sum() / k
    return values
