"""`encode_catalogue`: pictures, titles, attributes and categories of a catalogue through frozen encoders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.encoders.base import Encoder
from visir.encoders.encoding import encode_dense, encode_items, is_stored
from visir.encoders.forms import as_dense
from visir.encoders.loading import load
from visir.encoders.store import Store, check_there
from visir.errors import ConfigurationError, EmbeddingError, raise_faults
from visir.records import Embeddings, EncoderCard, Items, Role
from visir.records.catalogue import Catalogue

# The vectors of a catalogue: of its categories, pictures, titles and attributes, by frozen encoders.

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


LONGEST = 20_000
"""Characters of a text that an encoder gets.

No model here reads more than 512 tokens. A text of ten million characters would be tokenised for seconds, and then cut.
"""


def encode_catalogue(
    catalogue: Catalogue,
    *,
    image: str | Path | Encoder | None = None,
    text: str | Path | Encoder,
    titles: bool = True,
    attributes: bool = True,
    store: Store | None = None,
    device: str | None = None,
    skip_broken: bool = False,
) -> CatalogueVectors:
    """Encode the contents of a catalogue, or find their vectors in the embedding store.

    An attribute is read as "name: value". Every distinct text is encoded once. What was encoded before for the same
    set of texts or pictures is found in the store. Vectors imported from a file ("npz:FILE") are looked up by product
    id (pictures) and by the text itself (`text_ids` holds the texts). Products without a picture, or with an empty
    title, have the row `ABSENT`. Models that embed queries and documents in different ways take the names of
    categories as queries, and everything else as documents.

    Args:
        catalogue: Products and their tree.
        image: An encoder of images, by name or loaded ("mobilenet_v2", "openai/clip-vit-base-patch32"); None leaves
            pictures out.
        text: An encoder of texts, for the names of categories, titles and attributes ("st:all-MiniLM-L6-v2"; the thesis
            has MPNet, "st:all-mpnet-base-v2", for all three).
        titles: Whether titles are encoded.
        attributes: Whether attributes are encoded.
        store: Where vectors are kept; None takes the cache of the user.
        device: Where encoders that are given by name run.
        skip_broken: Pictures that cannot be read count as absent; otherwise the first one stops the encoding.

    Raises:
        EncoderError: An encoder does not take images, or texts.
        ImageError: A picture is broken; the message names it.

    Example:
        >>> from visir.products.generated import generate_catalogue
        >>> catalogue = generate_catalogue(30).catalogue
        >>> vectors = encode_catalogue(catalogue, text="bow:64")
        >>> vectors.categories.shape, int(vectors.titles.present.sum())
        ((113, 64), 30)
    """
    text_encoder = text if isinstance(text, Encoder) else load(text, device=device)
    image_encoder = image if image is None or isinstance(image, Encoder) else load(image, device=device)
    if image_encoder is not None and not skip_broken:
        check_pictures(catalogue, image_encoder)
    products = catalogue.products
    names = catalogue.categories["name"].to_pylist()
    encoded = _texts(catalogue, "categories", names, text_encoder, store, "query")
    categories = np.asarray(encoded.vectors[encoded.rows(names)], dtype=np.float32)
    cards = {"categories": text_encoder.card}
    images = title_vectors = attribute_vectors = None
    if image_encoder is not None:
        images, cards["images"] = _pictures(catalogue, image_encoder, store, skip_broken)
    if titles:
        texts = [_cut(title or "") for title in products["title"].to_pylist()]
        encoded = _texts(catalogue, "titles", texts, text_encoder, store)
        title_vectors, cards["titles"] = ProductVectors(encoded.vectors, encoded.rows(texts)), text_encoder.card
    if attributes:
        attribute_vectors, cards["attributes"] = _attributes(catalogue, text_encoder, store), text_encoder.card
    return CatalogueVectors(catalogue, categories, images, title_vectors, attribute_vectors, cards)


def attribute_texts(catalogue: Catalogue) -> list[str]:
    """ "name: value" of each attribute, in the order of `catalogue.attributes`."""
    table = catalogue.attributes
    joined = pc.binary_join_element_wise(table["name"], table["value"], ": ")
    return [_cut(text) for text in joined.to_pylist()]


def check_pictures(catalogue: Catalogue, encoder: Encoder) -> None:
    """Raise one `ImageError` for all pictures that would be read and that are not there."""
    pictures = catalogue.pictures()
    if not is_stored(encoder, pictures.items("image")):
        check_there([pictures], "count them as absent: --skip-broken (skip_broken=True)")


def _pictures(
    catalogue: Catalogue, encoder: Encoder, store: Store | None, skip_broken: bool
) -> tuple[ProductVectors, EncoderCard]:
    pictures = catalogue.pictures()
    if not pictures.images.num_rows:
        raise ConfigurationError(
            f"{catalogue.name}: no product has a picture.",
            hint="say where they are (images=FOLDER), or leave pictures out: image=None",
            code="no-product-picture",
        )
    embeddings = encode_dense(encoder, pictures, "image", store=store, skip_broken=skip_broken)
    rows = pc.fill_null(pc.index_in(catalogue.products["id"], value_set=embeddings.ids), ABSENT)
    return ProductVectors(_as_float32(embeddings), rows.to_numpy().astype(np.int64)), encoder.card


def _attributes(catalogue: Catalogue, encoder: Encoder, store: Store | None) -> AttributeVectors:
    texts, n = attribute_texts(catalogue), catalogue.products.num_rows
    owners = pc.index_in(catalogue.attributes["product_id"], value_set=catalogue.products["id"].combine_chunks())
    owners = owners.to_numpy().astype(np.int64)
    encoded = _texts(catalogue, "attributes", texts, encoder, store)
    order = np.argsort(owners, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=n))]).astype(np.int64)
    return AttributeVectors(encoded.vectors, encoded.rows(texts)[order], offsets)


class _DistinctTexts:
    """Vectors of distinct texts, and the row of each."""

    def __init__(self, texts: Sequence[str], vectors: Floats) -> None:
        self.vectors = vectors
        self._row_of = {text: row for row, text in enumerate(texts)}

    def rows(self, texts: Sequence[str]) -> Ints:
        """(n,) the row of each text; `ABSENT` for a text without words."""
        return np.array([self._row_of.get(text, ABSENT) for text in texts], dtype=np.int64)


def _texts(
    catalogue: Catalogue,
    part: str,
    texts: Sequence[str],
    encoder: Encoder,
    store: Store | None,
    role: Role = "document",
) -> _DistinctTexts:
    """The vectors of the distinct texts that are not blank; the id of a text is the text itself."""
    if "text" not in encoder.modalities:
        raise encoder.cannot("text")
    distinct = [text for text in dict.fromkeys(texts) if text.strip()]
    if not distinct:
        return _DistinctTexts([], np.zeros((0, encoder.dimension), np.float32))
    items = Items.of_texts({text: text for text in distinct}, title=part, name=f"{catalogue.name}: {part}")
    return _DistinctTexts(distinct, _as_float32(as_dense(encode_items(encoder, items, role, store=store))))


def _as_float32(embeddings: Embeddings) -> Floats:
    """The vectors as float32, memory-mapped if they were."""
    return embeddings.vectors if embeddings.vectors.dtype == np.float32 else embeddings.vectors.astype(np.float32)


def _cut(text: str) -> str:
    return text[:LONGEST]
