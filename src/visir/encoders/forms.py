"""The forms of vectors in the encoding pipeline: one vector for each input, several, or weighted words."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.encoders.intake import Embedded
from visir.errors import EncoderError
from visir.records import (
    Embeddings,
    Items,
    Modality,
    MultiVectorEmbeddings,
    SparseEmbeddings,
    TokenVectors,
    Vectors,
)


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


_FEW = 20


@dataclass(frozen=True, eq=False)
class ItemPart:
    """The texts or the images of items, as items of their own."""

    items: Items  # each distinct text or image once
    owners: pa.StringArray  # (n,) the id of the text or image of each of the n items; null where an item has none

    def rows(self, vectors: Vectors) -> NDArray[np.int64]:
        """(n,) the row of each item in the vectors of this part, −1 where it has none."""
        rows: NDArray[np.int64] = (
            pc.fill_null(pc.index_in(self.owners, vectors.ids), -1).to_numpy(zero_copy_only=False).astype(np.int64)
        )
        return np.where(self.owners.is_valid().to_numpy(zero_copy_only=False), rows, -1)

    def broken(self, vectors: Vectors) -> NDArray[np.bool_]:
        """(n,) whether the item has a text or an image of which there is no vector."""
        owned: NDArray[np.bool_] = self.owners.is_valid().to_numpy(zero_copy_only=False)
        return owned & (self.rows(vectors) < 0)


def how_to_compose(modalities: Collection[Modality], name: str) -> str:
    """What to do with texts with images, where an encoder reads them apart."""
    apart = [modality for modality in ("text", "image") if modality in modalities]
    rules = ["sum(0.5)", *apart] if len(apart) == 2 else apart
    written = " or ".join(f'"{rule}"' for rule in rules)
    known = f"say how to compose them: compose={written}, or {name}?compose={rules[-1]}; " if rules else ""
    return f"{known}or name an encoder that makes one vector of both"


def part_of_items(items: Items, modality: Modality, *, precomputed: bool = False) -> ItemPart | None:
    """The texts or the images of items."""
    # A text, or an image file, that several items have is one: many queries begin from one photo.
    keys = items.texts if modality == "text" else _places(items)
    if keys is None or keys.null_count == len(keys):
        return None
    apart = precomputed or items.injected is not None
    held = np.flatnonzero(keys.is_valid().to_numpy(zero_copy_only=False))
    first = held if apart else _first_rows(keys, held)
    part = items.take(first)
    if modality == "text":
        part = replace(part, places=None, corrupted=None, title=f"texts of {part.title}")
    else:
        part = replace(part, texts=None, title=f"images of {part.title}")
    if apart:
        return ItemPart(part, pc.if_else(keys.is_valid(), items.ids, pa.scalar(None, pa.string())))
    distinct = keys.take(pa.array(first))
    owners = part.ids.take(pc.if_else(keys.is_valid(), pc.index_in(keys, distinct), pa.scalar(None, pa.int32())))
    return ItemPart(part, owners)


def shared_part(items: Items) -> ItemPart | None:
    """The distinct texts, images, or texts with images of items, where many items share theirs."""
    # Choices name one photo over and over; a vector of it is enough.
    if items.injected is not None or items.corrupted is not None:
        return None
    columns = [column for column in (items.texts, _places(items)) if column is not None]
    keys = columns[0] if len(columns) == 1 else pc.binary_join_element_wise(*columns, "\0\0")
    repeated = len(keys) - pc.count_distinct(keys).as_py()
    if keys.null_count or repeated * _FEW < len(keys):
        return None
    first = _first_rows(keys, np.arange(len(keys)))
    part = items.take(first)
    return ItemPart(part, part.ids.take(pc.index_in(keys, keys.take(pa.array(first)))))


def _first_rows(keys: pa.StringArray, held: NDArray[np.int64]) -> NDArray[np.int64]:
    codes = keys.take(pa.array(held)).dictionary_encode().indices.to_numpy(zero_copy_only=False)
    _, first = np.unique(codes, return_index=True)
    return np.asarray(np.sort(held[first]), np.int64)


def _places(items: Items) -> pa.StringArray | None:
    if items.places is None:
        return None
    path, archive = (items.places[name].combine_chunks() for name in ("path", "archive"))
    keys = pc.binary_join_element_wise(pc.fill_null(archive, ""), path, "\0")
    return keys.combine_chunks() if isinstance(keys, pa.ChunkedArray) else keys
