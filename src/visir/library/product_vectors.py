"""Vectors of products: the mean of the unit vectors of a product's pictures, and of that with the one of its text.

A product that has only one side has the vector of that side. The same rule joins a text and a picture in a query.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from visir.encoders.encoding import encode, encode_detailed
from visir.encoders.forms import as_dense
from visir.errors import ImageError
from visir.library.layout import LibraryError
from visir.library.product_source import ProductEntry, ShopTable
from visir.records import Embeddings, Items, strings

if TYPE_CHECKING:
    from visir.encoders.base import Encoder
    from visir.encoders.store import Store


def product_vectors(
    encoder: Encoder, source: ShopTable, entries: Mapping[str, ProductEntry], store: Store
) -> tuple[Embeddings | None, dict[str, str]]:
    """The vectors of products."""
    if encoder.form != "dense":
        raise LibraryError(
            f"{encoder.label}: makes {encoder.form} vectors; a library of products takes one vector for each.",
            hint="another model: visir models --form dense",
        )
    if encoder.precomputed:  # vectors without ids belong to the whole collection, in its order
        every = as_dense(encode(encoder, source.collection, "image"))
        chosen = every.select([entry.path for entry in entries.values()])
        return replace(chosen, ids=strings(list(entries)), vectors=np.array(chosen.vectors)), {}
    pictures, broken = _pictures(encoder, source, entries, store) if "image" in encoder.modalities else (None, {})
    texts = _texts(encoder, entries, store) if "text" in encoder.modalities else None
    items = list(entries)
    sides = [side for side in (_means(items, entries, pictures), _unit_rows(items, texts)) if side is not None]
    if not sides:
        return None, {item: _without(entry, broken, encoder) for item, entry in entries.items()}
    total = np.sum(sides, axis=0, dtype=np.float32)
    lengths = np.linalg.norm(total, axis=1, keepdims=True)
    empty = lengths[:, 0] == 0
    reasons = {item: _without(entries[item], broken, encoder) for item, none in zip(items, empty, strict=True) if none}
    model = next(part for part in (pictures, texts) if part is not None)
    vectors = (total / np.maximum(lengths, np.finfo(np.float32).tiny))[~empty]
    return (
        Embeddings(
            "image",
            strings([item for item in items if item not in reasons]),
            np.ascontiguousarray(vectors, np.float32),
            model.encoder,
            origin=model.origin,
        ),
        reasons,
    )


def _pictures(
    encoder: Encoder, source: ShopTable, entries: Mapping[str, ProductEntry], store: Store
) -> tuple[Embeddings | None, dict[str, str]]:
    rows = sorted({picture.row for entry in entries.values() for picture in entry.pictures})
    if not rows:
        return None, {}
    try:
        result = encode_detailed(encoder, source.part(rows).items("image"), store=store, skip_broken=True)
    except ImageError as fault:  # not one of them can be used
        return None, {source.collection.images["id"][row].as_py(): fault.reason for row in rows}
    return as_dense(result.embeddings), dict(result.broken)


def _texts(encoder: Encoder, entries: Mapping[str, ProductEntry], store: Store) -> Embeddings:
    texts = {item: entry.text for item, entry in entries.items()}
    items = Items.of_texts(texts, title="texts of products", name="products")
    return as_dense(encode_detailed(encoder, items, store=store).embeddings)


def _means(
    items: Sequence[str], entries: Mapping[str, ProductEntry], pictures: Embeddings | None
) -> NDArray[np.float32] | None:
    """(items, d) the unit mean of the unit vectors of each product's pictures; zero where it has none."""
    if pictures is None:
        return None
    units = _unit(np.asarray(pictures.vectors, np.float32))
    row_of = {picture: row for row, picture in enumerate(pictures.ids.to_pylist())}
    means = np.zeros((len(items), units.shape[1]), np.float32)
    for row, item in enumerate(items):
        own = [row_of[picture.path] for picture in entries[item].pictures if picture.path in row_of]
        if own:
            means[row] = units[own].mean(axis=0)
    return _unit(means)


def _unit_rows(items: Sequence[str], texts: Embeddings | None) -> NDArray[np.float32] | None:
    if texts is None:
        return None
    if not texts.ids.equals(pa.array(items, pa.string())):
        texts = texts.select(list(items))
    return _unit(np.asarray(texts.vectors, np.float32))


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1), np.float32)


def _without(entry: ProductEntry, broken: Mapping[str, str], encoder: Encoder) -> str:
    """Why a product has no vector."""
    reasons = [broken[picture.path] for picture in entry.pictures if picture.path in broken]
    if reasons:
        return reasons[0]
    if "text" not in encoder.modalities:
        return f"{entry.path}: has no picture, and {encoder.label} takes pictures alone."
    return f"{entry.path}: {encoder.label} knows no word of {entry.text!r}."
