"""From queries to vectors: texts, pictures and items of the library, alone or mixed, dense and in words."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from visir.encoders.base import Encoder
from visir.errors import VisirError
from visir.library.deterministic_batches import COMPARED, DeterministicTextEncoder
from visir.library.library import Library
from visir.library.models import LibraryModels
from visir.library.prepared_image import PreparedImage
from visir.library.query import Query, QueryError
from visir.library.reranking import Reranker
from visir.records import Embeddings, EncoderCard, Modality, SparseEmbeddings
from visir.sparse.encoder import SparseEncoder

if TYPE_CHECKING:
    from PIL.Image import Image

Words = dict[int, float]
"""A weighted bag of words: term → weight."""
_COMMON = ["a", "the", "two", "in", "on", "with", "and", "dog", "man", "red", "blue", "house", "street", "old", "car"]
Side: TypeAlias = "NDArray[np.float32] | None"


@dataclass(frozen=True)
class EncodedQuery:
    """What a query is to each system: a unit vector (d,) and weighted words; None for a system that is not asked."""

    dense: NDArray[np.float32] | None = None
    sparse: Words | None = None


class QueryEncoder:
    """The models of a library, loaded when first needed, and what they make of queries and of pairs. Thread-safe.

    Where the sparse head stands on the very model of the dense index, a text is encoded once for both.
    """

    def __init__(self, models: LibraryModels) -> None:
        self.models = models
        self.reranker = Reranker()
        self._pinned: dict[str, DeterministicTextEncoder] = {}

    def of(
        self, queries: Sequence[Query], systems: Sequence[set[str]], library: Library
    ) -> list[EncodedQuery | VisirError]:
        """What each query is to each of its systems, or the error why it cannot be asked.

        An answer depends on its own query alone, never on the others.
        """
        found: list[EncodedQuery | VisirError] = []
        said = [query.said for query in queries]
        for system in ("dense", "sparse"):  # all texts together, and then found again one by one
            texts = [text for text, asked in zip(said, systems, strict=True) if text is not None and system in asked]
            if texts:
                self._texts(system).vectors(texts)
        words = self._words_of([text for text, asked in zip(said, systems, strict=True) if text and "sparse" in asked])
        for query, asked in zip(queries, systems, strict=True):
            try:
                found.append(self._one(query, asked, library, words))
            except VisirError as fault:
                found.append(fault.with_traceback(None))
        return found

    def takes_texts(self, systems: Iterable[str]) -> bool:
        """Whether the model of each of these systems encodes texts (loads the models)."""
        return all("text" in self._dense(system).modalities for system in systems)

    def check_texts(self, systems: Iterable[str]) -> None:
        """Raise `QueryError` unless texts can be asked."""
        if not self.takes_texts(systems):
            raise QueryError(
                "this library takes no text: its model encodes pictures alone.",
                hint="search with a picture, or for pictures like one of its own",
            )

    def prepare(self, picture: Image) -> PreparedImage:
        """An upright RGB picture as every model of the library takes it. Thread-safe."""
        held = (("dense", self.models.dense), ("sparse", self.models.sparse))
        encoders = {one.card.fingerprint: one for system, model in held if model is not None
                    if "image" in (one := self._dense(system)).modalities}  # fmt: skip
        return PreparedImage({key: one.preprocess(picture) for key, one in encoders.items()})

    def learn(self) -> None:
        """Learn with made-up texts, short ones and long ones, in which batches texts can be encoded."""
        drawn = random.Random(0)
        texts = [" ".join(drawn.choices(_COMMON, k=length)) for length in (8, 18) for _ in range(COMPARED)]
        held = (("dense", self.models.dense), ("sparse", self.models.sparse))
        asked = [system for system, model in held if model is not None and "text" in self._dense(system).modalities]
        for pinned in dict.fromkeys(map(self._texts, asked)):  # one, where the head stands on the dense model
            pinned.learn(texts)

    def _one(self, query: Query, systems: set[str], library: Library, words: Mapping[str, Words]) -> EncodedQuery:
        dense: NDArray[np.float32] | None = None
        sparse: Words | None = None
        if "dense" in systems:
            dense = _mixed(*self._sides(query, library), query.share)
            if dense is None:
                raise QueryError(
                    f"{_name(query)} has no vector: the model knows none of its words.",
                    hint="ask in other words, in the language that the model was trained on",
                )
        if "sparse" in systems:
            sparse = self._words(query, library, words)
        return EncodedQuery(dense, sparse)

    def _sides(self, query: Query, library: Library) -> tuple[Side, Side]:
        """The dense vector of the text, and of the picture or the item; None for what is not given."""
        text: Side = None
        other: Side = None
        if query.said is not None:
            text = self._texts("dense").vectors([query.said])[0]
        if query.image is not None:
            other = self._pictured("dense", query.image)[0]
        elif query.item is not None:
            other = np.asarray(_held(library, "dense", query.item).vectors[0], np.float32)
        return text, other

    def _pictured(self, system: str, picture: Image | PreparedImage) -> NDArray[np.float32]:
        """(1, d) the vector of a picture."""
        encoder = self._dense(system)
        if not isinstance(picture, PreparedImage):
            return encoder.encode_images([picture])
        pixels = picture.pixels.get(encoder.card.fingerprint)
        if pixels is None:
            raise encoder.cannot("image")
        return encoder.embed_images([pixels])

    def _words(self, query: Query, library: Library, said: Mapping[str, Words]) -> Words:
        text = None if query.said is None else said.get(query.said, {})
        other: Words | None = None
        if query.image is not None:
            [other] = self._weighed("image", self._pictured("sparse", query.image))
        elif query.item is not None:
            other = _bag(_held(library, "sparse", query.item), 0)
        if text is None or other is None:
            return text or other or {}
        return _mixed_words(text, other, query.share)

    def _words_of(self, texts: Sequence[str]) -> dict[str, Words]:
        """What texts are in weighted words, together: a text's weights depend on its own vector alone."""
        distinct = [*dict.fromkeys(texts)]
        if not distinct:
            return {}
        return dict(
            zip(distinct, self._weighed("text", self._texts("sparse").vectors(distinct), distinct), strict=True)
        )

    def _weighed(
        self, modality: Modality, vectors: NDArray[np.float32], texts: Sequence[str] | None = None
    ) -> list[Words]:
        head, ids = self._head(), [f"{at:06}" for at in range(len(vectors))]
        own = head.tokenizer.terms(texts) if texts is not None and not head.expanded else None
        rows = head.sparsify(Embeddings(modality, ids, vectors, head.dense.card), own)
        return [_bag(rows, at) for at in range(len(rows))]

    def card(self, system: str) -> EncoderCard:
        """Of the encoder whose vectors a system compares."""
        return self._head().card if system == "sparse" else self._dense("dense").card

    def queries(self, system: str, asked: Sequence[EncodedQuery]) -> Embeddings | SparseEmbeddings:
        """Vectors as an index takes them, under the ids "000000", "000001", …"""
        ids = pa.array([f"{at:06}" for at in range(len(asked))])
        if system == "dense":
            return Embeddings("text", ids, np.stack([one.dense for one in asked if one.dense is not None]),
                              self.card("dense"))  # fmt: skip
        rows = [sorted((one.sparse or {}).items()) for one in asked]
        offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
        terms = np.array([term for row in rows for term, _ in row], np.int32)
        values = np.array([weight for row in rows for _, weight in row], np.float32)
        head = self._head()
        return SparseEmbeddings("text", ids, offsets, terms, values, head.vocabulary, head.card)

    def _head(self) -> SparseEncoder:
        head = self.models.sparse
        assert head is not None, "a library with a sparse index has a head"
        return head

    def _dense(self, system: str) -> Encoder:
        """The encoder of dense vectors that a system begins with."""
        if system == "sparse":
            below, dense = self._head().dense, self.models.dense
            return below if dense is None or below.card.differences(dense.card) else dense
        dense = self.models.dense
        assert dense is not None, "a library with a dense index has an encoder"
        return dense

    def _texts(self, system: str) -> DeterministicTextEncoder:
        encoder = self._dense(system)
        return self._pinned.setdefault(encoder.card.fingerprint, DeterministicTextEncoder(encoder))


def _held(library: Library, system: str, item: str) -> Any:
    """The vector of an item. Raises `LibraryError` when the library has no such item."""
    library.item(item)
    return library.indexes[system].select([item])


def _bag(rows: SparseEmbeddings, at: int) -> Words:
    terms, weights = rows.row(at)
    return dict(zip(terms.tolist(), weights.tolist(), strict=True))


def _mixed(text: Side, other: Side, share: float) -> Side:
    """The weighted mean of the unit vectors, or the one that there is as it is; None when nothing is left."""
    some = [one for one in (text, other) if one is not None and one.any()]
    if len(some) < 2:
        return some[0] if some else None
    first, second = (one.astype(np.float64) for one in some)
    whole = share * first / np.linalg.norm(first) + (1 - share) * second / np.linalg.norm(second)
    return whole.astype(np.float32) if np.abs(whole).max() > 1e-6 else None


def _mixed_words(text: Words, other: Words, share: float) -> Words:
    mixed: Words = {}
    for side, part in ((text, share), (other, 1 - share)):
        length = float(np.sqrt(sum(weight * weight for weight in side.values())))
        for term, weight in side.items():
            mixed[term] = mixed.get(term, 0.0) + part * weight / length
    return {term: weight for term, weight in mixed.items() if np.float32(weight) > 0}


def _name(query: Query) -> str:
    return repr(query.said) if query.said is not None else "the picture"
