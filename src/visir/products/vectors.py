"""The vectors of a catalogue: of its categories, pictures, titles and attributes, by frozen encoders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from visir.errors import EmbeddingError, raise_faults
from visir.records import EncoderCard
from visir.records.catalogue import Catalogue

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

ABSENT = -1
"""The row of a product that has no picture, or no title."""


@dataclass(frozen=True, eq=False)
class ProductVectors:
    """Vectors of the pictures or of the titles of products."""

    vectors: Floats  # (m, d) float32, memory-mapped or not; as the encoder gives them, not normalised
    rows: Ints  # (n,) int64, the row of each product; `ABSENT` (−1) where it has none. Products may share a row.

    @property
    def width(self) -> int:
        """d, the length of one vector."""
        return int(self.vectors.shape[1])

    @property
    def present(self) -> NDArray[np.bool_]:
        """(n,) bool: which products have one."""
        return np.asarray(self.rows != ABSENT)


@dataclass(frozen=True, eq=False)
class AttributeVectors:
    """Vectors of the attributes of products: any number each, in the order of `catalogue.attributes`."""

    vectors: Floats  # (m, d) float32, one per distinct text "name: value"
    rows: Ints  # (a,) int64; product i has the attributes `rows[offsets[i]:offsets[i + 1]]`
    offsets: Ints  # (n + 1,) int64

    @property
    def width(self) -> int:
        """d, the length of one vector."""
        return int(self.vectors.shape[1])

    @property
    def counts(self) -> Ints:
        """(n,) int64: how many attributes each product has."""
        return np.diff(self.offsets)

    @property
    def present(self) -> NDArray[np.bool_]:
        """(n,) bool: which products have any."""
        return np.asarray(self.counts > 0)


@dataclass(frozen=True, eq=False)
class CatalogueVectors:
    """A catalogue and the vectors of everything in it that a model reads."""

    # `encode_catalogue` makes it; or make it from vectors that you have already. Products without a picture, a title or
    # attributes keep their position (`ProductVectors.present`); the model decides what stands there.

    catalogue: Catalogue  # products and their tree
    categories: Floats  # (c, d) float32 vectors of the *names* of categories, in the order of `catalogue.categories`
    images: ProductVectors | None = None  # of the pictures, in the order of `catalogue.products`; None without
    titles: ProductVectors | None = None  # of the titles, in the same order; None without
    attributes: AttributeVectors | None = None  # of the attributes, in the same order; None without
    # "categories", "images", "titles", "attributes" to the card of the encoder.
    cards: Mapping[str, EncoderCard] = field(default_factory=dict)

    def __post_init__(self) -> None:
        n = self.catalogue.products.num_rows
        faults = []
        if self.categories.ndim != 2 or len(self.categories) != self.catalogue.categories.num_rows:
            count = self.catalogue.categories.num_rows
            faults.append(f"categories: {self.categories.shape} for {count:,} categories; expected ({count}, d)")
        for name, part in (("images", self.images), ("titles", self.titles)):
            if part is not None:
                faults += _faults(name, part.vectors, part.rows, smallest=ABSENT)
                faults += [f"{name}: {len(part.rows):,} rows for {n:,} products"] * (len(part.rows) != n)
        if self.attributes is not None:
            attributes = self.attributes
            faults += _faults("attributes", attributes.vectors, attributes.rows, smallest=0)
            if len(attributes.offsets) != n + 1 or list(attributes.offsets[[0, -1]]) != [0, len(attributes.rows)]:
                faults.append(f"attributes: offsets must be {n + 1:,} numbers from 0 to {len(attributes.rows):,}")
            elif (attributes.counts < 0).any():
                faults.append("attributes: offsets must not fall")
        raise_faults(EmbeddingError, f"{self.catalogue.name}: vectors that do not fit the catalogue", faults)

    def __len__(self) -> int:
        """The number of products."""
        return int(self.catalogue.products.num_rows)

    def keep_products(self, keep: NDArray[np.bool_]) -> CatalogueVectors:
        """The part whose products are true in `keep`, with the whole tree (`Catalogue.keep_products`)."""
        # Vectors are shared, not copied: only rows are chosen.
        keep = np.asarray(keep, dtype=np.bool_)
        attributes = self.attributes
        if attributes is not None:
            counts = attributes.counts
            attributes = replace(
                attributes,
                rows=attributes.rows[np.repeat(keep, counts)],
                offsets=np.concatenate([[0], np.cumsum(counts[keep])]).astype(np.int64),
            )
        return replace(
            self,
            catalogue=self.catalogue.keep_products(keep),
            images=self.images and replace(self.images, rows=self.images.rows[keep]),
            titles=self.titles and replace(self.titles, rows=self.titles.rows[keep]),
            attributes=attributes,
        )


def _faults(name: str, vectors: Floats, rows: Ints, smallest: int) -> list[str]:
    if vectors.ndim != 2:
        return [f"{name}: vectors must be an (m, d) matrix, not {vectors.shape}"]
    if len(rows) and (rows.min() < smallest or rows.max() >= len(vectors)):
        return [f"{name}: rows from {rows.min()} to {rows.max()} for {len(vectors):,} vectors"]
    return []
