"""Exact@k: how many of a caption's heaviest terms are words of the caption itself (thesis eq. 3.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from visir.evaluation.sparse_measures.top_terms import check_same_texts, top_terms
from visir.records import SparseEmbeddings

if TYPE_CHECKING:
    from visir.sparse.vocabulary import TextTerms


def exact_at(texts: SparseEmbeddings, words: TextTerms, k: int = 20) -> NDArray[np.float64]:
    """The share of the `k` heaviest terms of each row that are among the words of its text.

        Exact@k = 1/k · |{t | t ∈ x_C, t ∈ top_k(s_C)}|        (thesis eq. 3.2)

    The divisor is always k, as in the paper:

    - A text of m < k distinct terms cannot reach more than m/k. With captions of about ten words Exact@20 stays below
    one
      half, and values of texts of different length are not comparable.
    - A vector of fewer than k terms counts the missing places as misses. So a caption without expansion, with its own
      terms only, has (its active terms)/k. The other reading divides by the number of terms (a precision); it would
      give such a model 1 even if it drops words.

    The paper measures captions only: both equations are over s_C, and for images it shows examples (Table 3.4). Other
    rows can be measured with other words, such as images with the words of their captions, but no published value
    compares with that.

    Args:
        texts: (n, V) the sparse vectors.
        words: The distinct terms of each row's own text (`visir.sparse.vocabulary.Tokenizer.terms`), in the rows'
            order.
        k: The number of terms, from 1.

    Returns:
        (n,) shares in [0, 1].

    Raises:
        EmbeddingError: There is not one text for each row.
        ConfigurationError: k is below 1.
    """
    check_same_texts(texts, len(words))
    rows, terms = top_terms(texts, k)
    text_terms = np.repeat(np.arange(len(words)), np.diff(words.offsets)) * texts.dimension + words.terms
    is_own = np.isin(rows * texts.dimension + terms, text_terms)
    shares: NDArray[np.float64] = np.bincount(rows[is_own], minlength=len(texts)) / k
    return shares
