"""Synonyms from vectors: the words of an index that a text encoder places near a word of the query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from visir.errors import ConfigurationError
from visir.records import Embeddings, Items

if TYPE_CHECKING:
    from visir.encoders.base import Encoder
    from visir.encoders.store import Store

NEAR = 0.6
"""The smallest cosine of two words that count as near."""
MOST_WORDS = 3


@dataclass(frozen=True, eq=False)
class NearWords:
    """The words of an index as vectors; `near` compares a word of a query with them."""

    encoder: Encoder  # a text encoder
    words: Sequence[str]  # (v,) the words
    vectors: NDArray[np.float32]  # (v, d) their vectors, of length 1
    threshold: float = NEAR  # the smallest cosine

    @classmethod
    def of(
        cls, encoder: Encoder, words: Sequence[str], *, threshold: float = NEAR, store: Store | None = None
    ) -> NearWords:
        """Encode the words; their vectors are kept in the store."""
        from visir.encoders.encoding import encode_items

        if not -1 <= threshold <= 1:
            raise ConfigurationError(
                f"the smallest cosine must be -1 to 1, not {threshold}", code="smallest-cosine-not"
            )
        if "text" not in encoder.modalities:
            raise encoder.cannot("text")
        embeddings = encode_items(encoder, Items.of_texts({word: word for word in words}, title="words"), store=store)
        if not isinstance(embeddings, Embeddings):
            raise ConfigurationError(
                f"{encoder.card.name} makes no single dense vectors.", hint="near words need a dense text encoder"
            )
        rows = embeddings.rows(list(words))
        return cls(encoder, words, _unit(np.asarray(embeddings.vectors)[rows]), threshold)

    def near(self, word: str) -> list[tuple[str, float]]:
        """Return up to three words with their cosines, the nearest first."""
        query = _unit(np.asarray(self.encoder.encode_texts([word], "query"), np.float32))[0]
        cosines = self.vectors @ query
        best = np.lexsort((np.arange(len(cosines)), -cosines))[: MOST_WORDS + 1]
        pairs = [(self.words[row], float(cosines[row])) for row in best if cosines[row] >= self.threshold]
        return [pair for pair in pairs if pair[0] != word][:MOST_WORDS]


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    vectors = vectors.astype(np.float32)
    unit: NDArray[np.float32] = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return unit
