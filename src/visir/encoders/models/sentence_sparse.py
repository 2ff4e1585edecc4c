"""A `SparseEncoder` of sentence-transformers (SPLADE and its relatives): texts and pictures as weighted words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from visir.encoders.base import Encoder, EncoderOver
from visir.encoders.models.hub import loading
from visir.encoders.models.precision import inference
from visir.encoders.models.sentence_encoder import SentenceEncoder
from visir.encoders.models.sentence_inputs import SentencePictures
from visir.encoders.models.sentence_loading import SentenceRequest
from visir.errors import EncoderError
from visir.records import (
    EncoderCard,
    Items,
    Modality,
    MultiVectorEmbeddings,
    Role,
    SparseEmbeddings,
    TokenVectors,
    VectorForm,
    Vectors,
    Vocabulary,
)

if TYPE_CHECKING:
    pass

_EXACT = 1 << 24
"""Whole numbers below it are exact in float32."""


class WeightedTerms(SentenceEncoder):
    """What the store keeps: a pair (number of the term, weight) for each term that has a weight."""

    # An item without any term has one pair (0, 0).

    form: VectorForm = "multi-vector"
    kept_dtype: Literal["float16", "float32"] = "float32"

    def text_lengths(self, texts: Sequence[str]) -> None:
        """None: the same terms come out in any company."""
        return

    def embed_texts(self, texts: Sequence[str]) -> TokenVectors:
        """The terms of n texts: as the library encodes them, which may keep the heaviest only."""
        if "text" not in self.modalities:
            raise self.cannot("text")
        return self._encoded(self._texts(texts))

    def _found_dimension(self) -> int:
        return 2

    def _taken(self, vectors: Any) -> TokenVectors:
        weights = vectors.float().cpu().numpy()
        if (weights < 0).any():
            raise EncoderError(
                f"{self.card.name}: this model gives terms weights below 0, and weighted words have none.",
                hint="end it in SpladePooling, or in another module that cuts at 0",
            )
        empty = ~weights.any(axis=1)
        rows, terms = np.nonzero(weights)
        values = weights[rows, terms]
        rows, terms = np.concatenate([rows, np.flatnonzero(empty)]), np.concatenate([terms, np.zeros(empty.sum(), int)])
        pairs = np.stack([terms, np.concatenate([values, np.zeros(empty.sum())])], axis=1).astype(np.float32)
        order = np.argsort(rows, kind="stable")
        offsets = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(weights)))]).astype(np.int64)
        return TokenVectors(pairs[order], offsets)

    def _encoded(self, inputs: Sequence[Any]) -> TokenVectors:
        if not len(inputs):
            return TokenVectors(np.zeros((0, 2), np.float32), np.zeros(1, np.int64))
        with inference():
            weights = self._model.encode(
                list(inputs),
                prompt=self._prompt,
                batch_size=len(inputs),
                show_progress_bar=False,
                convert_to_sparse_tensor=False,
                task=self._role,
            )
        return self._taken(weights)


class SentenceSparseEncoder(EncoderOver):
    """Exactly `SparseEncoder.encode_query` and `.encode_document`: weighted words, compared by dot product."""

    # `visir.encode` gives `SparseEmbeddings`. The interface of every encoder is there too, for a handful of inputs:
    # rows of |V| numbers.

    form: VectorForm = "sparse"
    over = ("_terms",)

    def __init__(self, terms: WeightedTerms, vocabulary: Vocabulary) -> None:
        self._terms, self.vocabulary = terms, vocabulary
        self.card: EncoderCard = terms.card
        self.dimension = len(vocabulary)
        self.modalities, self.distinguishes_roles = terms.modalities, terms.distinguishes_roles
        self.batch_size = terms.batch_size

    def base_encoder(self, modality: Modality) -> Encoder:
        """The model as pairs of term and weight, which are what the store keeps."""
        return self._terms

    def project_items(self, items: Items, embeddings: Vectors) -> SparseEmbeddings:
        """The weighted words of items."""
        return self._words(embeddings)

    def encode_inputs(self, modality: Modality, inputs: Mapping[str, Any], role: Role = "query") -> SparseEmbeddings:
        """The weighted words of a handful of texts ("text") or PIL images ("image") by id."""
        return self._words(self._terms.encode_inputs(modality, inputs, role))

    def made_of(self, modality: Modality, vectors: Any) -> NDArray[np.float32]:
        """(n, |V|) weights."""
        full = np.zeros((len(vectors), self.dimension), np.float32)
        rows = np.repeat(np.arange(len(full)), np.diff(vectors.offsets))
        full[rows, vectors.vectors[:, 0].astype(np.int64)] = vectors.vectors[:, 1]
        return full

    def _words(self, pairs: Vectors) -> SparseEmbeddings:
        assert isinstance(pairs, MultiVectorEmbeddings), "pairs of term and weight"
        active = pairs.vectors[:, 1] > 0
        before = np.concatenate([[0], np.cumsum(active)]).astype(np.int64)
        return SparseEmbeddings(
            pairs.modality,
            pairs.ids,
            before[pairs.offsets],
            pairs.vectors[active, 0].astype(np.int32),
            np.asarray(pairs.vectors[active, 1], np.float32),
            self.vocabulary,
            self.card,
            pairs.origin,
        )


def load(request: SentenceRequest) -> SentenceSparseEncoder:
    """The sparse encoder that a name leads to."""
    from sentence_transformers import SparseEncoder as LibrarySparseEncoder

    model = request.model(LibrarySparseEncoder)
    prompts = request.prompts(model)
    with loading(request.name, code=request.trusted):
        pictures = SentencePictures(model) if model.supports("image") else None
        images = None if pictures is None else pictures.values()
        limit = {} if model.max_active_dims is None else {"max_active_dims": int(model.max_active_dims)}
        card = request.card(model, prompts, images, "sentence-transformers-sparse", more=limit)
        terms = WeightedTerms(card, model, request.files.folder, prompts, pictures, max_length=request.max_length)
        return SentenceSparseEncoder(terms, vocabulary_of(model, card.name))


def vocabulary_of(model: Any, name: str) -> Vocabulary:
    """What the dimensions of a sparse encoder are: the tokens of its tokenizer, or numbers where they are no tokens."""
    from PIL import Image as images

    trial = "a" if model.supports("text") else images.new("RGB", (64, 64))
    # Where the size is written differs between kinds of modules, and not all of them write the right one.
    size = int(model.encode_document([trial], convert_to_sparse_tensor=False, show_progress_bar=False).shape[1])
    if size >= _EXACT:
        raise EncoderError(f"{name}: weighted words of {size:,} terms are more than can be kept.")
    tokens: list[str | None] = []
    if type(model[-1]).__name__ != "SparseAutoEncoder" and size >= len(model.tokenizer):
        tokens = model.tokenizer.convert_ids_to_tokens(list(range(len(model.tokenizer))))
    if None in tokens or len(set(tokens)) != len(tokens):
        tokens = []
    # Models are padded to round numbers of rows; some learn dimensions that are no words.
    terms = [*map(str, tokens), *(f"[{number}]" for number in range(len(tokens), size))]
    return Vocabulary(name, terms, np.ones(size, bool))
