"""From queries to vectors: texts, pictures and items of the library, alone or mixed, dense and in weighted words."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import numpy as np
from cachetools import LRUCache
from numpy.typing import NDArray

from visir.encoders.base import Encoder
from visir.encoders.intake import Embedded
from visir.errors import TextError, VisirError
from visir.library.check import mended_by_update
from visir.library.models import LibraryModels
from visir.library.pictures import PreparedImage
from visir.library.query import Query, QueryError
from visir.library.snapshot import LibrarySnapshot
from visir.parquet import text_array
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


# Vectors of the texts that people search with: encoded in batches, and remembered.

WIDEST = 32
"""Texts of one batch."""
CACHED_TEXTS = 2048
"""Texts whose vectors are remembered: 6 MB at 768 dimensions."""


class TextEncoder:
    """An encoder of texts with a memory; thread-safe."""

    # In a batch, a text's vector differs from that of the text alone by rounding (about 1e-7 for unit vectors). The
    # vector of a text is kept, so the pages of one query are consistent. Where answers must be equal to the bit, alone
    # and in any batch, `DeterministicTextEncoder` does that; it computes up to twice as much.

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder
        self._lock = threading.Lock()
        self._cache: LRUCache[str, NDArray[Any]] = LRUCache(CACHED_TEXTS)

    def vectors(self, texts: Sequence[str]) -> list[NDArray[Any]]:
        """The vector (d,) of each text, not normalised; its vectors (t, d) where the model makes several."""
        # Those of the last `CACHED_TEXTS` texts are remembered.
        with self._lock:
            vectors = {text: self._cache[text] for text in texts if text in self._cache}
            missing = [text for text in dict.fromkeys(texts) if text not in vectors]
            vectors.update(zip(missing, self._encode(missing), strict=True))
            self._cache.update(vectors)
        return [vectors[text] for text in texts]

    def learn(self, texts: Sequence[str]) -> None:
        """Prepare for texts like these: nothing to do here."""

    def _encode(self, texts: list[str]) -> list[NDArray[Any]]:
        """The vectors of texts without repetitions; those of about one length together, so that little is padded."""
        order = sorted(range(len(texts)), key=lambda position: len(texts[position]))
        vectors: dict[int, NDArray[Any]] = {}
        for start in range(0, len(order), WIDEST):
            batch = order[start : start + WIDEST]
            embedded = self.encoder.embed_texts([texts[position] for position in batch])
            vectors.update(zip(batch, vectors_of_each(self.encoder, embedded), strict=True))
        return [vectors[position] for position in range(len(texts))]


def vectors_of_each(encoder: Encoder, vectors: Embedded) -> list[NDArray[Any]]:
    """What an encoder made of each input: a vector (d,), or several (t, d), rounded as those that it keeps."""
    if isinstance(vectors, TokenVectors):
        return [np.asarray(matrix, encoder.kept_dtype) for matrix in vectors]
    return list(vectors)


# Vectors of texts that are the same, bit by bit, whatever else is encoded at the time.

Input = TypeVar("Input")

COMPARED = 32
"""Texts that a shape must have given the defined vectors of, before it is used. Sums that are cut otherwise still round
to the same bits now and then: in a network of a few dimensions for every second text."""


class DeterministicTextEncoder(TextEncoder):
    """An encoder of texts that gives a text one vector, alone or in any company; thread-safe."""

    # A network's vectors depend on the company by rounding (1e-7): padding changes how an attention's sums are cut, and
    # a product of matrices takes another kernel for another number of rows. Near ties then change places with the load.
    # So here a text's vector is *defined*: as the first of a batch of two, the text and itself, padded as if alone.
    # (Not of a batch of one: one row goes through a matrix-vector product, whose sums no larger batch may repeat.)
    # Batches of other sizes are only a faster way to the same bits. They hold texts that are padded to one length
    # (`Encoder.text_lengths`), and 1, 2, 4, 8, 16 or 32 of them, filled up with one of them again, so there are few
    # shapes. Those of a shape are encoded both ways until `COMPARED` texts were (`learn` does it ahead); only when all
    # vectors are the defined ones is that shape used from then on, otherwise never, and its texts are encoded one by
    # one. So that the ways agree is measured on the machine that runs, not assumed. An encoder that cannot tell lengths
    # encodes one by one.
    # A head over a frozen encoder is defined on four rows, and used on 4, 8, … in the same way.
    # Rounding the vectors to a grid instead would not do: whatever lies near the edge of two cells still falls into
    # either. At 768 dimensions, errors of 1e-7 and a grid of 1e-4, that is every second text.

    def __init__(self, encoder: Encoder) -> None:
        super().__init__(encoder)
        backbone = encoder.base_encoder("text")
        self._backbone = None if backbone is None else DeterministicTextEncoder(backbone)
        self._texts = BatchShapes[str](lambda texts: vectors_of_each(encoder, encoder.embed_texts_alike(texts)), 2)
        self._heads = BatchShapes[NDArray[Any]](lambda rows: projected(encoder, rows), 4)

    def learn(self, texts: Sequence[str]) -> None:
        """Find out with these texts which shapes can be used, so that no query pays for it."""
        # `COMPARED` texts or more of one length settle all shapes of it.
        with self._lock:
            if self._backbone is not None:
                self._backbone.learn(texts)
                self._heads.learn(0, self._backbone.vectors(texts))
                return
            for length, same_length in self._by_length(list(dict.fromkeys(texts))).items():
                self._texts.learn(length, same_length)

    def _encode(self, texts: list[str]) -> list[NDArray[Any]]:
        if self._backbone is not None:
            return self._heads.vectors(0, self._backbone.vectors(texts))
        vectors: dict[str, NDArray[Any]] = {}
        for length, same_length in self._by_length(texts).items():
            vectors.update(zip(same_length, self._texts.vectors(length, same_length), strict=True))
        return [vectors[text] for text in texts]

    def _by_length(self, texts: list[str]) -> dict[int, list[str]]:
        lengths = self.encoder.text_lengths(texts) if texts else None
        if lengths is None:
            return {-1 - position: [text] for position, text in enumerate(texts)}
        groups: dict[int, list[str]] = {}
        for text, length in zip(texts, lengths.tolist(), strict=True):
            groups.setdefault(length, []).append(text)
        return groups


class BatchShapes(Generic[Input]):
    """A network's vectors of inputs that are alike, in batches of the sizes that give the defined bits."""

    def __init__(self, network: Callable[[Sequence[Input]], Sequence[NDArray[Any]]], least: int) -> None:
        self._network, self._least = network, least
        self._agreed: dict[tuple[int, int], int] = {}

    def vectors(self, kind: int, inputs: list[Input]) -> list[NDArray[Any]]:
        """Of inputs of one kind: a length, below zero where it is unknown."""
        vectors: list[NDArray[Any]] = []
        for group, size in _cut(inputs):
            vectors += self._batch(kind, group, size)
        return vectors

    def learn(self, kind: int, inputs: list[Input]) -> None:
        """Compare every size of batch of one kind with the defined vectors."""
        if kind < 0 or not inputs:
            return
        defined = [self._defined(row) for row in inputs]
        for size in (1 << power for power in range(WIDEST.bit_length())):
            agreed = self._agreed.get((kind, size), 0)
            for start in range(0, len(inputs), size):
                if not 0 <= agreed < COMPARED:
                    break
                batch = inputs[start : start + size]
                together = self._network([*batch, *[batch[-1]] * (size - len(batch))])
                same = _are_equal(together[: len(batch)], defined[start : start + size])
                agreed = agreed + len(batch) if same else -1
            self._agreed[kind, size] = agreed

    def _batch(self, kind: int, inputs: list[Input], size: int) -> list[NDArray[Any]]:
        agreed = self._agreed.get((kind, size), 0)
        if agreed < 0 or kind < 0:
            return [self._defined(row) for row in inputs]
        together = list(self._network([*inputs, *[inputs[-1]] * (size - len(inputs))])[: len(inputs)])
        if agreed >= COMPARED:
            return together
        defined = [self._defined(row) for row in inputs]
        same = _are_equal(together, defined)
        self._agreed[kind, size] = agreed + len(inputs) if same else -1
        return defined

    def _defined(self, row: Input) -> NDArray[Any]:
        return self._network([row] * self._least)[0]


def projected(encoder: Encoder, rows: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """What the head of an encoder makes of the vectors of each input by its base encoder."""
    if encoder.form != "multi-vector":
        return list(encoder.project("text", np.stack(rows)))
    ends = np.cumsum([len(row) for row in rows])[:-1]
    flat = encoder.project("text", np.concatenate(rows)).astype(encoder.kept_dtype)
    return list(np.split(flat, ends))


def _are_equal(vectors: Sequence[NDArray[Any]], expected: Sequence[NDArray[Any]]) -> bool:
    return all(np.array_equal(vector, other) for vector, other in zip(vectors, expected, strict=True))


def _cut(inputs: list[Input]) -> list[tuple[list[Input], int]]:
    """Groups of at most `WIDEST`, each with the power of two that it is filled up to: 13 of 16; of 11, 8 and 3 of 4."""
    # A group that would be filled up by more than a quarter is cut instead.
    groups, start = [], 0
    while start < len(inputs):
        left = min(len(inputs) - start, WIDEST)
        size = 1 << left.bit_length() - 1
        if 2 * left >= 3 * size:
            size *= 2
        groups.append((inputs[start : start + size], size))
        start += size
    return groups


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
            if isinstance(vectors, SparseEmbeddings):
                self._vectors[system, item] = _words_of_row(vectors, row)
            elif isinstance(vectors, MultiVectorEmbeddings):
                self._vectors[system, item] = vectors.row(row)
            else:
                self._vectors[system, item] = np.asarray(vectors.vectors[row], np.float32)


class QueryEncoder:
    """The models of a library, loaded at first use; they encode queries and score pairs. Thread-safe."""

    # Where the sparse head is built on the model of the dense index, a text is encoded once for both.

    def __init__(self, models: LibraryModels, *, deterministic: bool = False) -> None:
        self.models, self.deterministic = models, deterministic
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
            text: Vector | None = None
            other: Vector | None = None
            if query.search_text is not None:
                text = self._text_vector("dense", query.search_text)
            if query.image is not None:
                other = self._image_vector("dense", query.image)
            elif query.like is not None:
                other = items.of("dense", query.like)
            dense = _mean_vector(text, other, query.text_weight)
            if dense is None:
                raise QueryError(
                    f"{_label(query)} has no vector: the model knows none of its words.",
                    hint="ask in other words, in the language that the model was trained on",
                )
        if "sparse" in systems:
            sparse = self._query_words(query, items, words)
        shows = query.image is not None or query.like is not None
        modality: Modality = "text" if not shows else "image" if query.search_text is None else "text+image"
        return EncodedQuery(modality, dense, sparse)

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


def _label(query: Query) -> str:
    return repr(query.search_text) if query.search_text is not None else "the picture"
