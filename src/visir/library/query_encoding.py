"""From queries to vectors: texts, pictures and items of the library, alone or mixed, dense and in weighted words."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from visir.arrow import text_array
from visir.encoders.base import Encoder
from visir.errors import TextError, VisirError
from visir.library.check import mended_by_update
from visir.library.deterministic_batches import COMPARED, DeterministicTextEncoder
from visir.library.models import LibraryModels
from visir.library.prepared_image import PreparedImage
from visir.library.query import Query, QueryError
from visir.library.reranking import Reranker
from visir.library.snapshot import LibrarySnapshot
from visir.library.text_encoder import TextEncoder, vectors_of_each
from visir.records import (
    Embeddings,
    EncoderCard,
    Modality,
    MultiVectorEmbeddings,
    SparseEmbeddings,
    TokenVectors,
    Vectors,
)

if TYPE_CHECKING:
    from PIL.Image import Image

    from visir.sparse.encoder import SparseEncoder  # it needs PyTorch, which a query for other models does not

Words = dict[int, float]
"""A weighted bag of words: term → weight."""
_COMMON = ["a", "the", "two", "in", "on", "with", "and", "dog", "man", "red", "blue", "house", "street", "old", "car"]
Vector: TypeAlias = "NDArray[Any]"
"""(d,) of a model that makes one vector, (t, d) of one that makes several."""


@dataclass(frozen=True)
class EncodedQuery:
    """A query as each system takes it."""

    # What the query holds: a text, an image (a picture, or an item of the library), or both.
    modality: Modality = "text"
    # A vector (d,), or several (t, d) of a model of late interaction; None where they are not searched.
    dense: Vector | None = None
    sparse: Words | None = None  # weighted words; None where they are not searched


class ItemVectors:
    """What the indexes hold of the items that queries are to be like, read together."""

    def __init__(self, library: LibrarySnapshot, queries: Sequence[Query], systems: Sequence[set[str]]) -> None:
        self._library = library
        self._vectors: dict[tuple[str, str], Any] = {}
        for system in library.indexes:
            wanted = [query.like for query, own in zip(queries, systems, strict=True) if query.like and system in own]
            with suppress(VisirError):  # one of them is not in the index: its own query says so
                self._read(system, [*dict.fromkeys(wanted)])

    def of(self, system: str, item: str) -> Any:
        """A vector (d,), several (t, d), or weighted words. Raises `EmbeddingError` for what is not in the index."""
        if (system, item) not in self._vectors:
            self._read(system, [item])
        return self._vectors[system, item]

    def _read(self, system: str, items: Sequence[str]) -> None:
        with mended_by_update(self._library.folder, system):
            vectors: Any = self._library.indexes[system].select(items) if items else ()
        for row, item in enumerate(items):
            self._vectors[system, item] = _row_of(vectors, row)


class QueryEncoder:
    """The models of a library, loaded at first use; they encode queries and score pairs. Thread-safe."""

    # Where the sparse head is built on the model of the dense index, a text is encoded once for both.

    def __init__(self, models: LibraryModels, *, deterministic: bool = False) -> None:
        self.models, self.deterministic = models, deterministic
        self.reranker = Reranker()
        self._text_encoders: dict[str, TextEncoder] = {}

    def encode(
        self, queries: Sequence[Query], systems: Sequence[set[str]], library: LibrarySnapshot
    ) -> list[EncodedQuery | VisirError]:
        """Encode each query for each of its systems; in its place the error of one that cannot be encoded."""
        # An encoded query depends on its own query alone, but for the rounding of texts that are encoded together.
        results: list[EncodedQuery | VisirError] = []
        texts = [query.search_text for query in queries]
        for system in ("dense", "sparse"):  # all texts together; they are looked up one by one below
            of_system = [text for text, own in zip(texts, systems, strict=True) if text is not None and system in own]
            if of_system:
                text_encoder = self._text_encoder(system)
                with suppress(VisirError):  # one of them cannot be encoded: its own query says so below
                    text_encoder.vectors(of_system)
        words = self._text_words([text for text, own in zip(texts, systems, strict=True) if text and "sparse" in own])
        items = ItemVectors(library, queries, systems)
        for query, own in zip(queries, systems, strict=True):
            try:
                results.append(self._encode_one(query, own, items, words))
            except VisirError as error:
                results.append(error.with_traceback(None))
        return results

    def takes_texts(self, systems: Iterable[str]) -> bool:
        """Whether the model of each of these systems encodes texts (loads the models)."""
        return all(
            (system == "dense" and self.models.dense_texts is not None) or "text" in self._encoder(system).modalities
            for system in systems
        )

    def check_texts(self, systems: Iterable[str]) -> None:
        """Raise `QueryError` unless the models of these systems encode texts."""
        if not self.takes_texts(systems):
            raise QueryError(
                "this library takes no text: its model encodes pictures alone.",
                hint="search with a picture, or for pictures like one of its own",
                code="model-encodes-pictures-alone",
            )

    def prepare(self, image: Image) -> PreparedImage:
        """Preprocess an upright RGB picture for every model of the library. Thread-safe."""
        encoders = {}
        for system in self._systems():
            encoder = self._encoder(system)
            if "image" in encoder.modalities:
                encoders[encoder.card.fingerprint] = encoder
        return PreparedImage({key: encoder.preprocess(image) for key, encoder in encoders.items()})

    def text_vectors(self, text: str) -> Vector:
        """The vector (d,) of a text in the dense index's space, or its vectors (t, d)."""
        return self._text_vector("dense", text)

    def learn_batch_sizes(self) -> None:
        """Find out with made-up texts, short and long ones, in which batches texts are encoded the same to the bit."""
        if not self.deterministic:
            return
        drawn = random.Random(0)
        texts = [" ".join(drawn.choices(_COMMON, k=length)) for length in (8, 18) for _ in range(COMPARED)]
        systems = [system for system in self._systems() if "text" in self._encoder(system).modalities]
        for text_encoder in dict.fromkeys(map(self._text_encoder, systems)):  # one, where both stand on one model
            text_encoder.learn(texts)

    def card(self, system: str) -> EncoderCard:
        """The card of the encoder whose vectors a system compares."""
        if system == "sparse":
            return self._head().card
        return (self.models.dense_texts or self._encoder("dense")).card

    def query_vectors(self, system: str, encoded: Sequence[EncodedQuery]) -> Vectors:
        """Vectors as an index takes them, under the ids "000000", "000001", …"""
        ids = text_array([f"{row:06}" for row in range(len(encoded))])
        modalities = {query.modality for query in encoded}
        modality: Modality = modalities.pop() if len(modalities) == 1 else "text+image"
        if system == "dense":
            vectors = [query.dense for query in encoded if query.dense is not None]
            if (self.models.dense_texts or self._encoder("dense")).form == "multi-vector":
                tokens = TokenVectors.of(vectors)
                return MultiVectorEmbeddings(modality, ids, tokens.offsets, tokens.vectors, self.card("dense"))
            return Embeddings(modality, ids, np.stack(vectors), self.card("dense"))
        rows = [sorted((query.sparse or {}).items()) for query in encoded]
        offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
        terms = np.array([term for row in rows for term, _ in row], np.int32)
        weights = np.array([weight for row in rows for _, weight in row], np.float32)
        head = self._head()
        return SparseEmbeddings(modality, ids, offsets, terms, weights, head.vocabulary, head.card)

    def _systems(self) -> list[str]:
        """The systems of which the library has a model."""
        models = {"dense": self.models.dense, "sparse": self.models.sparse}
        return [system for system, model in models.items() if model is not None]

    def _encode_one(
        self, query: Query, systems: set[str], items: ItemVectors, words: Mapping[str, Words | VisirError]
    ) -> EncodedQuery:
        dense: Vector | None = None
        sparse: Words | None = None
        if "dense" in systems:
            dense = _mean_vector(*self._dense_sides(query, items), query.text_weight)
            if dense is None:
                raise QueryError(
                    f"{_label(query)} has no vector: the model knows none of its words.",
                    hint="ask in other words, in the language that the model was trained on",
                )
        if "sparse" in systems:
            sparse = self._query_words(query, items, words)
        return EncodedQuery(_modality(query), dense, sparse)

    def _dense_sides(self, query: Query, items: ItemVectors) -> tuple[Vector | None, Vector | None]:
        """The dense vector of the text, and of the picture or the item; None for what the query does not have."""
        text: Vector | None = None
        other: Vector | None = None
        if query.search_text is not None:
            text = self._text_vector("dense", query.search_text)
        if query.image is not None:
            other = self._image_vector("dense", query.image)
        elif query.like is not None:
            other = items.of("dense", query.like)
        return text, other

    def _text_vector(self, system: str, text: str) -> Vector:
        """The vector (d,) of a text, or its vectors (t, d); `QueryError` for a text that the model cannot read."""
        try:
            return self._text_encoder(system).vectors([text])[0]
        except TextError as fault:
            raise QueryError(fault.message, hint=fault.hint, code=fault.code) from fault

    def _image_vector(self, system: str, image: Image | PreparedImage) -> Vector:
        """The vector (d,) of a picture, or its vectors (t, d)."""
        encoder = self._encoder(system)
        if not isinstance(image, PreparedImage):
            return vectors_of_each(encoder, encoder.encode_images([image], role="query"))[0]
        pixels = image.pixels.get(encoder.card.fingerprint)
        if pixels is None:
            raise encoder.cannot("image")
        return vectors_of_each(encoder, encoder.embed_images([pixels]))[0]

    def _query_words(self, query: Query, items: ItemVectors, text_words: Mapping[str, Words | VisirError]) -> Words:
        text = None if query.search_text is None else text_words.get(query.search_text, {})
        if isinstance(text, VisirError):
            raise text
        other: Words | None = None
        if query.image is not None:
            [other] = self._words_of_vectors("image", self._image_vector("sparse", query.image)[None])
        elif query.like is not None:
            other = items.of("sparse", query.like)
        if text is None or other is None:
            return text or other or {}
        return _mean_words(text, other, query.text_weight)

    def _text_words(self, texts: Sequence[str]) -> dict[str, Words | VisirError]:
        """The weighted words of texts, or the error of one that cannot be encoded."""
        # They are computed together: a text's weights depend on its own vector alone.
        vectors: dict[str, Vector] = {}
        unreadable: dict[str, VisirError] = {}
        for text in dict.fromkeys(texts):
            try:
                vectors[text] = self._text_vector("sparse", text)
            except VisirError as fault:
                unreadable[text] = fault
        if not vectors:
            return {**unreadable}
        words = self._words_of_vectors("text", np.stack([*vectors.values()]), [*vectors])
        return {**dict(zip(vectors, words, strict=True)), **unreadable}

    def _words_of_vectors(self, modality: Modality, vectors: Vector, texts: Sequence[str] | None = None) -> list[Words]:
        head, ids = self._head(), [f"{row:06}" for row in range(len(vectors))]
        own_terms = head.tokenizer.terms(texts) if texts is not None and not head.expanded else None
        rows = head.sparsify(Embeddings(modality, ids, vectors, head.dense.card), own_terms)
        return [_words_of_row(rows, row) for row in range(len(rows))]

    def _head(self) -> SparseEncoder:
        head = self.models.sparse
        assert head is not None, "a library with a sparse index has a head"
        return head

    def _encoder(self, system: str) -> Encoder:
        """The encoder of queries whose dense vectors a system begins with."""
        if system == "sparse":
            below, dense = self._head().dense, self.models.dense
            encoder = below if dense is None or below.card.differences(dense.card) else dense
            return encoder.for_role("query")
        dense = self.models.dense
        assert dense is not None, "a library with a dense index has an encoder"
        return dense.for_role("query")

    def _text_encoder(self, system: str) -> TextEncoder:
        texts = self.models.dense_texts
        encoder = texts if texts is not None and system == "dense" else self._encoder(system)
        if texts is not None and not texts.card.differences(encoder.card, "text"):
            encoder = texts  # also of a sparse head on the same model, so that a text is encoded once for both
        text_encoder = DeterministicTextEncoder if self.deterministic else TextEncoder
        return self._text_encoders.setdefault(encoder.card.fingerprint, text_encoder(encoder))


def _row_of(vectors: Any, row: int) -> Any:
    if isinstance(vectors, SparseEmbeddings):
        return _words_of_row(vectors, row)
    if isinstance(vectors, MultiVectorEmbeddings):
        return vectors.row(row)
    return np.asarray(vectors.vectors[row], np.float32)


def _words_of_row(rows: SparseEmbeddings, row: int) -> Words:
    terms, weights = rows.row(row)
    return dict(zip(terms.tolist(), weights.tolist(), strict=True))


def _mean_vector(text: Vector | None, other: Vector | None, text_weight: float) -> Vector | None:
    """The weighted mean of the two unit vectors; a single one as it is; None when nothing is left."""
    vectors = [vector for vector in (text, other) if vector is not None and vector.any()]
    if len(vectors) < 2:
        return vectors[0] if vectors else None
    first, second = (vector.astype(np.float64) for vector in vectors)
    if first.ndim == 2:  # MaxSim is linear in the query: the score is the weighted mean of the two scores
        shares = (text_weight / _total_length(first), (1 - text_weight) / _total_length(second))
        return np.concatenate([first * shares[0], second * shares[1]]).astype(np.float32)
    mean = text_weight * first / np.linalg.norm(first) + (1 - text_weight) * second / np.linalg.norm(second)
    return mean.astype(np.float32) if np.abs(mean).max() > 1e-6 else None


def _total_length(vectors: NDArray[np.float64]) -> float:
    """The greatest score that vectors can have with a document of unit vectors."""
    return float(np.linalg.norm(vectors, axis=1).sum())


def _mean_words(text: Words, other: Words, text_weight: float) -> Words:
    mean: Words = {}
    for words, part in ((text, text_weight), (other, 1 - text_weight)):
        length = float(np.sqrt(sum(weight * weight for weight in words.values())))
        for term, weight in words.items():
            mean[term] = mean.get(term, 0.0) + part * weight / length
    return {term: weight for term, weight in mean.items() if np.float32(weight) > 0}


def _modality(query: Query) -> Modality:
    if query.image is None and query.like is None:
        return "text"
    return "image" if query.search_text is None else "text+image"


def _label(query: Query) -> str:
    return repr(query.search_text) if query.search_text is not None else "the picture"
