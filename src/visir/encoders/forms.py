"""The forms of vectors in the encoding pipeline: one vector for each input, several, or weighted words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from visir.encoders.intake import Embedded
from visir.errors import EncoderError
from visir.records import Embeddings, MultiVectorEmbeddings, SparseEmbeddings, TokenVectors, Vectors


def joined(batches: Sequence[Embedded]) -> Embedded:
    """The vectors of several batches, in order."""
    sets = [batch for batch in batches if isinstance(batch, TokenVectors)]
    if sets:
        return TokenVectors.concatenate([batch for batch in sets if len(batch)] or sets[:1])
    return np.concatenate([batch for batch in batches if not isinstance(batch, TokenVectors)])


def taken(vectors: Embedded, rows: NDArray[np.int64]) -> Embedded:
    """The vectors of these inputs, in this order."""
    return vectors.take(rows) if isinstance(vectors, TokenVectors) else vectors[rows]


def part_of(vectors: Embedded, start: int, stop: int) -> Embedded:
    """The vectors of inputs `start` to `stop`, in the same memory."""
    if not isinstance(vectors, TokenVectors):
        return vectors[start:stop]
    offsets = vectors.offsets[start : stop + 1]
    return TokenVectors(vectors.vectors[int(offsets[0]) : int(offsets[-1])], offsets - offsets[0])


def one_each(vectors: Embedded, name: str) -> NDArray[np.float32]:
    """The (n, d) vectors of an encoder that gives one for each input.

    Args:
        vectors: What its `embed_…` method gave.
        name: What the encoder is called.

    Raises:
        EncoderError: There are several for each input.
    """
    if isinstance(vectors, TokenVectors):
        raise EncoderError(f"{name} makes several vectors for each input; {_WANTED}.", hint=_WAY_ON)
    return vectors


def as_dense(vectors: Vectors) -> Embeddings:
    """The vectors, when there is one for each item.

    Raises:
        EncoderError: They are weighted words, or there are several for each item.
    """
    if isinstance(vectors, SparseEmbeddings):
        raise EncoderError(
            f"{vectors.encoder.name} makes weighted words, and dense vectors are needed here.",
            hint="visir.encode gives the weighted words; encode with its dense encoder (encoder.dense)",
        )
    if not isinstance(vectors, Embeddings):
        raise EncoderError(
            f"{vectors.encoder.name} makes several vectors for each item; {_WANTED}.",
            hint=_WAY_ON,
        )
    return vectors


def as_exportable(vectors: Vectors) -> Embeddings | MultiVectorEmbeddings:
    """The vectors, when plain files can hold them: one for each item, or several.

    Raises:
        EncoderError: They are weighted words.
    """
    return vectors if isinstance(vectors, MultiVectorEmbeddings) else as_dense(vectors)


_WANTED = "one for each is needed here"
_WAY_ON = "visir.encode, visir.search, visir.evaluate and visir index take such models; name another model here"
