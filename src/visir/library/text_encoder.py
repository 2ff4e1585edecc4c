"""Vectors of the texts that people search with: encoded in batches, and remembered."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from cachetools import LRUCache
from numpy.typing import NDArray

from visir.encoders.base import Encoder
from visir.encoders.intake import Embedded
from visir.records import TokenVectors

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
