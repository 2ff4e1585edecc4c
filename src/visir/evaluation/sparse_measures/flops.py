"""FLOPs: how many terms a text and an image have in common, on average (thesis eq. 3.1)."""

from __future__ import annotations

from visir.errors import EmbeddingError
from visir.evaluation.sparse_measures.posting_lists import list_lengths
from visir.records import SparseEmbeddings
from visir.retrieval.sparse.scan import check_same_vocabulary


def flops(texts: SparseEmbeddings, images: SparseEmbeddings) -> float:
    """Mean number of co-active terms over all pairs of a text and an image.

        FLOPs = 1 / (|C| |I|) · Σ_c Σ_i s⁰_c · s⁰_i        (s⁰: 1 where the weight is above 0; thesis eq. 3.1)
              = 1 / (|C| |I|) · Σ_t df_C(t) · df_I(t)

    The second line is computed. The two are equal: s⁰_c · s⁰_i is a sum over terms of 1 where both have the term, and
    the sum over pairs may be taken first: for one term it counts the pairs in which both have it, df_C(t) · df_I(t). So
    only document frequencies are needed, not pairs, and the value is exact (whole numbers until the one division).

    It is the mean number of multiplications of one score in an inverted index, hence the name; it is not a time. The
    other reading, FLOPS of Paria et al. 2020 (SPLADE's regulariser), uses mean *weights* instead of frequencies.

    Args:
        texts: Sparse vectors of texts over V terms.
        images: Sparse vectors of images over the same terms.

    Returns:
        The mean, from 0 to V.

    Raises:
        EmbeddingError: The two sides have different vocabularies, or one is empty.
    """
    check_same_vocabulary(texts, images)
    if not len(texts) or not len(images):
        raise EmbeddingError("FLOPs is a mean over pairs of a text and an image; one side is empty.")
    frequencies = zip(list_lengths(texts).tolist(), list_lengths(images).tolist(), strict=True)
    common: int = sum(of_texts * of_images for of_texts, of_images in frequencies)  # Python's integers cannot overflow
    return common / (len(texts) * len(images))
