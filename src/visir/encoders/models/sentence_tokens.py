"""The vectors of the tokens of a text, before a sentence-transformers model pools them: for late interaction."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from visir.encoders.base import Encoder
from visir.encoders.models.forward import inference, to_vectors
from visir.encoders.models.sentence_encoder import SentenceEncoder
from visir.encoders.truncation import TextLimit
from visir.errors import EncoderError, nearest
from visir.records import Modality, Role, TokenVectors

VECTORS = ("tokens", "tokens+words")
"""What `vectors` may be: what the transformer makes of each token in its text; beside it, the token's own embedding."""


class SentenceTokens(Encoder):
    """`st:NAME?vectors=tokens`: what a sentence encoder pools, a vector for each token, those of start and end too."""

    # With "tokens+words" each is joined with the embedding of the token before the first layer. A sentence encoder is
    # made to forget the wording, and this is nothing but the wording. Both parts have length 1.

    form = "multi-vector"
    modalities: frozenset[Modality] = frozenset({"text"})

    def __init__(self, sentences: SentenceEncoder, vectors: str, name: str) -> None:
        if vectors not in VECTORS:
            raise EncoderError(
                f"{name}: vectors={vectors} is none of its vectors: {nearest(vectors, VECTORS)}",
                hint="without it, there is one vector for a text",
                code="vectors-none-vectors",
            )
        self.sentences, self.vectors = sentences, vectors
        values = {**sentences.card.text_preprocessing, "vectors": vectors}
        self.card = replace(sentences.card, name=name, text_preprocessing=values)
        self.distinguishes_roles = sentences.distinguishes_roles
        self.batch_size = sentences.batch_size
        try:
            self.dimension = self.embed_texts(["a"]).dimension
        except KeyError as fault:
            raise EncoderError(
                f"{name}: this model makes no vectors of tokens ({fault}); those that begin with a transformer do.",
                hint="leave out vectors=",
            ) from fault

    def for_role(self, role: Role) -> SentenceTokens:
        """The same with its prompt for queries, or for documents."""
        if not self.distinguishes_roles:
            return self
        encoder = copy(self)
        encoder.sentences = self.sentences.for_role(role)
        return encoder

    def embed_texts(self, texts: Sequence[str]) -> TokenVectors:
        """The vectors of the tokens of n texts."""
        if not len(texts):
            return TokenVectors(np.zeros((0, self.dimension), np.float32), np.zeros(1, np.int64))
        with inference():
            features = self.sentences.features(texts)
            present = features["attention_mask"].bool()
            vectors = features["token_embeddings"][present]
            if self.vectors == "tokens+words":
                words = self.sentences.word_embeddings(features["input_ids"][present])
                vectors = torch.cat([functional.normalize(part.float(), dim=-1) for part in (vectors, words)], dim=1)
            offsets = np.concatenate([[0], present.sum(1).cumsum(0).cpu().numpy()]).astype(np.int64)
            return TokenVectors(to_vectors(vectors), offsets)

    def text_pieces(self, texts: Sequence[str], role: Role) -> list[list[str]]:
        """The tokens as they are written: "[CLS]", "surf", "##board"; a vector stands for each."""
        features = self.for_role(role).sentences.features(texts)
        pieces = zip(features["input_ids"], features["attention_mask"].bool(), strict=True)
        return [self.sentences.tokenizer.convert_ids_to_tokens(ids[present].tolist()) for ids, present in pieces]

    def text_lengths(self, texts: Sequence[str]) -> NDArray[np.int64] | None:
        """As the encoder of sentences counts them."""
        return self.sentences.text_lengths(texts)

    def text_limit(self) -> TextLimit | None:
        """As the encoder of sentences reads."""
        return self.sentences.text_limit()

    def truncate(self, texts: Sequence[str], ending: str) -> list[str]:
        """As the encoder of sentences does it."""
        return self.sentences.truncate(texts, ending)


def load(sentences: Encoder, vectors: str, name: str) -> SentenceTokens:
    """The vectors of the tokens that an encoder of sentences pools.

    Raises:
        EncoderError: It is none that pools tokens.
    """
    if not isinstance(sentences, SentenceEncoder) or "text" not in sentences.modalities:
        raise EncoderError(f"{name}: this model has no vectors of tokens to pool.", hint="leave out vectors=")
    return SentenceTokens(sentences, vectors, name)
