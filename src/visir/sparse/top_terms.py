"""The heaviest terms of vectors: of pictures and captions of a collection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from visir.display import Columnar
from visir.records import Collection, Modality, SparseEmbeddings

if TYPE_CHECKING:
    from PIL.Image import Image

    from visir.sparse.encoder import SparseEncoder


@dataclass(frozen=True, eq=False, repr=False)
class TopTerms(Columnar):
    """The heaviest terms of a vector."""

    title: str  # an id, a file's name, or a text
    terms: tuple[tuple[str, float], ...]  # (term, weight), heaviest first
    own: frozenset[str] = frozenset()  # which of them the text has itself (always empty for a picture)
    picture: Image | None = None  # what is shown, if there is any
    caption: TopTerms | None = None  # the caption of a picture, with terms of its own

    def __repr__(self) -> str:
        heaviest = ", ".join(f"{term} {weight:.2f}" for term, weight in self.terms[:8])
        return f"TopTerms({self.title!r}: {heaviest or 'no words'}{', …' if len(self.terms) > 8 else ''})"


def top_terms_of_sample(encoder: SparseEncoder, opened: Collection, count: int, k: int) -> list[TopTerms]:
    """The `k` heaviest terms of `count` images, evenly spaced, each with its first caption."""
    n = opened.images.num_rows
    keep = np.zeros(n, bool)
    keep[np.unique(np.linspace(0, n - 1, min(count, n)).round().astype(int))] = True
    return top_terms_of_images(encoder, opened, opened.keep_images(keep), k)


def top_terms_of_images(encoder: SparseEncoder, opened: Collection, part: Collection, k: int) -> list[TopTerms]:
    """Each image of a small part of a collection, with its picture if it is at hand, and its first caption."""
    from visir.collections.images import ImageReader
    from visir.errors import ImageError

    weighted, reader = encode_part(encoder, opened, part, "image"), ImageReader(part, on_screen=True)
    first: dict[str, str] = {}
    for caption, image in zip(part.captions["id"].to_pylist(), part.captions["image_id"].to_pylist(), strict=True):
        first.setdefault(image, caption)
    captions = top_terms_of_captions(encoder, opened, part, list(first.values()), k)
    cards = []
    for row, image in enumerate(part.images["id"].to_pylist()):
        try:
            picture = reader.open(row)
        except ImageError:  # vectors may be there without pictures
            picture = None
        caption = captions.get(first.get(image, ""))
        cards.append(TopTerms(image, tuple(weighted.words(image, k)), picture=picture, caption=caption))
    return cards


def top_terms_of_captions(
    encoder: SparseEncoder, opened: Collection, part: Collection, ids: Sequence[str], k: int
) -> dict[str, TopTerms]:
    """Captions of a small part of a collection, by id."""
    if not part.captions.num_rows:
        return {}
    weighted = encode_part(encoder, opened, part, "text")
    texts = dict(zip(part.captions["id"].to_pylist(), part.captions["text"].to_pylist(), strict=True))
    return {
        caption: TopTerms(texts[caption], tuple(weighted.words(caption, k)), own_terms(encoder, texts[caption]))
        for caption in ids
    }


def encode_part(encoder: SparseEncoder, opened: Collection, part: Collection, modality: Modality) -> SparseEmbeddings:
    """Weighted words of a part of a collection; imported vectors may be known by their row in the whole one only."""
    from visir.encoders import encode_dense

    rows = part.images if modality == "image" else part.captions
    if encoder.dense.precomputed:
        dense = encode_dense(encoder.dense, opened, modality).select(rows["id"].combine_chunks())
    else:
        dense = encode_dense(encoder.dense, part, modality)
    own = modality == "text" and not encoder.expanded
    return encoder.sparsify(dense, encoder.tokenizer.terms(rows["text"].to_pylist()) if own else None)


def own_terms(encoder: SparseEncoder, text: str) -> frozenset[str]:
    """The terms that a text has itself."""
    terms = encoder.vocabulary.terms
    return frozenset(terms[int(term)].as_py() for term in encoder.tokenizer.terms([text]).terms)


# The common terms of a query and a document, and their parts of the score.


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
