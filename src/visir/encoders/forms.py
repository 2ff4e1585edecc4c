"""The forms of vectors in the encoding pipeline: one vector for each input, several, or weighted words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
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


def joined_vectors(ids: pa.StringArray, parts: Sequence[Vectors]) -> Vectors:
    """The vectors of items that were encoded in several parts, in the order of the items."""
    first = parts[0]
    sizes = {part.modality: part.dimension for part in parts}
    if len(set(sizes.values())) > 1:
        stated = ", ".join(f"{modality} vectors have {size} values" for modality, size in sizes.items())
        raise EncoderError(
            f"{first.encoder.name}: {stated}: they cannot be compared with one another.",
            hint="name a model with one space for texts and images",
        )
    origin = "; ".join(dict.fromkeys(filter(None, (part.origin for part in parts))))
    names = pa.concat_arrays([part.ids for part in parts])
    rows = pc.index_in(ids, names)
    left = ids.filter(rows.is_valid())
    if isinstance(first, Embeddings):
        vectors = np.empty((len(left), first.dimension), np.float32)
        for part in parts:
            assert isinstance(part, Embeddings)
            vectors[pc.index_in(part.ids, left).to_numpy()] = part.vectors
        return Embeddings(first.modality, left, vectors, first.encoder, origin=origin)
    stacked = first if len(parts) == 1 else _stacked(names, parts)
    return replace(vectors_by_rows(left, stacked, rows.drop_null().to_numpy().astype(np.int64)), origin=origin)


def _stacked(ids: pa.StringArray, parts: Sequence[Vectors]) -> Vectors:
    """The weighted words, or the several vectors, of all parts, one after the other."""
    first = parts[0]
    if isinstance(first, SparseEmbeddings):
        from scipy.sparse import vstack

        matrix = vstack([part.to_scipy() for part in parts if isinstance(part, SparseEmbeddings)])
        return SparseEmbeddings.from_scipy(first.modality, ids, matrix, first.vocabulary, first.encoder)
    several = TokenVectors.concatenate([part.tokens for part in parts if isinstance(part, MultiVectorEmbeddings)])
    return MultiVectorEmbeddings(first.modality, ids, several.offsets, several.vectors, first.encoder)


def vectors_by_rows(ids: pa.StringArray, vectors: Vectors, rows: NDArray[np.int64]) -> Vectors:
    """The vectors of items that share vectors."""
    # ids: (n,) of the items.
    # rows: (n,) the row of each item.
    if isinstance(vectors, SparseEmbeddings):
        matrix = vectors.to_scipy()[rows]
        return SparseEmbeddings.from_scipy(vectors.modality, ids, matrix, vectors.vocabulary, vectors.encoder)
    if isinstance(vectors, MultiVectorEmbeddings):
        several = vectors.tokens.take(rows)
        return MultiVectorEmbeddings(vectors.modality, ids, several.offsets, several.vectors, vectors.encoder)
    return Embeddings(vectors.modality, ids, np.asarray(vectors.vectors)[rows], vectors.encoder)


def one_each(vectors: Embedded, name: str) -> NDArray[np.float32]:
    """The (n, d) vectors of an encoder that gives one for each input."""
    if isinstance(vectors, TokenVectors):
        raise EncoderError(f"{name} makes several vectors for each input; {_WANTED}.", hint=_WAY_ON)
    return vectors


def as_dense(vectors: Vectors) -> Embeddings:
    """The vectors, when there is one for each item."""
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
    """The vectors, when plain files can hold them: one for each item, or several."""
    return vectors if isinstance(vectors, MultiVectorEmbeddings) else as_dense(vectors)


_WANTED = "one for each is needed here"
_WAY_ON = "visir.encode, visir.search, visir.evaluate and visir index take such models; name another model here"
