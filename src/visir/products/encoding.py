"""`encode_catalogue`: pictures, titles, attributes and categories of a catalogue through frozen encoders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow.compute as pc

from visir.encoders.base import Encoder
from visir.encoders.encoding import as_dense, encode, encode_items
from visir.encoders.loading import load
from visir.encoders.store import Store
from visir.errors import ConfigurationError
from visir.products.vectors import ABSENT, AttributeVectors, CatalogueVectors, Floats, Ints, Modality
from visir.records import Embeddings, EncoderCard, Items
from visir.records.catalogue import Catalogue

LONGEST = 20_000
"""Characters of a text that an encoder is given; the rest is never read by any model here.

The longest reach is 512 tokens. A value of ten million characters would be tokenised whole, for seconds, to be cut.
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
    """Encode what a catalogue holds, or find it in the embedding store.

    - `image`: an encoder of images, by name or loaded ("mobilenet_v2", "openai/clip-vit-base-patch32"); None goes
      without pictures
    - `text`: one of texts, for categories' names, titles and attributes ("st:all-MiniLM-L6-v2"; the thesis has MPNet,
      "st:all-mpnet-base-v2", for all three)
    - `titles`, `attributes`: whether they are encoded
    - `skip_broken`: pictures that cannot be read count as absent; otherwise the first one stops it

    An attribute is read as "name: value". Every distinct text is encoded once, and what was encoded before for the same
    set of texts or pictures is found in the store. Vectors imported from a file ("npz:FILE") are looked up by product
    id (pictures) and by the text itself (`text_ids` holds the texts). Products without a picture, or with an empty
    title, have the row `ABSENT`.

    Raises `EncoderError` when an encoder does not take what it is asked for, `ImageError` naming a broken picture.
    """
    words = text if isinstance(text, Encoder) else load(text, device=device)
    products = catalogue.products
    names = catalogue.categories["name"].to_pylist()
    found = _texts(catalogue, "categories", names, words, store)
    vectors, cards = _table(found, names), {"categories": words.card}
    pictures = heads = properties = None
    if image is not None:
        eyes = image if isinstance(image, Encoder) else load(image, device=device)
        pictures, cards["images"] = _pictures(catalogue, eyes, store, skip_broken)
    if titles:
        own = [_cut(one or "") for one in products["title"].to_pylist()]
        seen = _texts(catalogue, "titles", own, words, store)
        heads, cards["titles"] = Modality(seen.vectors, _rows(seen, own)), words.card
    if attributes:
        properties, cards["attributes"] = _attributes(catalogue, words, store), words.card
    return CatalogueVectors(catalogue, vectors, pictures, heads, properties, cards)


def attribute_texts(catalogue: Catalogue) -> list[str]:
    """ "name: value" of each attribute, in the order of `catalogue.attributes`."""
    table = catalogue.attributes
    joined = pc.binary_join_element_wise(table["name"], table["value"], ": ")
    return [_cut(one) for one in joined.to_pylist()]


def _pictures(
    catalogue: Catalogue, encoder: Encoder, store: Store | None, skip_broken: bool
) -> tuple[Modality, EncoderCard]:
    shown = catalogue.pictures()
    if not shown.images.num_rows:
        raise ConfigurationError(
            f"{catalogue.name}: no product has a picture.",
            hint="say where they are (images=FOLDER), or leave pictures out: image=None",
        )
    found = encode(encoder, shown, "image", store=store, skip_broken=skip_broken)
    rows = pc.fill_null(pc.index_in(catalogue.products["id"], value_set=found.ids), ABSENT)
    return Modality(_floats(found), rows.to_numpy().astype(np.int64)), encoder.card


def _attributes(catalogue: Catalogue, encoder: Encoder, store: Store | None) -> AttributeVectors:
    texts, n = attribute_texts(catalogue), catalogue.products.num_rows
    owners = pc.index_in(catalogue.attributes["product_id"], value_set=catalogue.products["id"].combine_chunks())
    owners = owners.to_numpy().astype(np.int64)
    found = _texts(catalogue, "attributes", texts, encoder, store)
    order = np.argsort(owners, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=n))]).astype(np.int64)
    return AttributeVectors(found.vectors, _rows(found, texts)[order], offsets)


class _Found:
    """Vectors of distinct texts, and where each is."""

    def __init__(self, texts: Sequence[str], vectors: Floats) -> None:
        self.vectors = vectors
        self.row = {one: number for number, one in enumerate(texts)}


def _texts(catalogue: Catalogue, what: str, texts: Sequence[str], encoder: Encoder, store: Store | None) -> _Found:
    """The vectors of the distinct texts among `texts` that say anything; a text is its own id."""
    if "text" not in encoder.modalities:
        raise encoder.cannot("text")
    distinct = [one for one in dict.fromkeys(texts) if one.strip()]
    if not distinct:
        return _Found([], np.zeros((0, encoder.dimension), np.float32))
    items = Items.of_texts({text: text for text in distinct}, title=what, name=f"{catalogue.name}: {what}")
    return _Found(distinct, _floats(as_dense(encode_items(encoder, items, store=store))))


def _rows(found: _Found, texts: Sequence[str]) -> Ints:
    return np.array([found.row.get(one, ABSENT) for one in texts], dtype=np.int64)


def _table(found: _Found, texts: Sequence[str]) -> Floats:
    return np.asarray(found.vectors[_rows(found, texts)], dtype=np.float32)


def _floats(found: Embeddings) -> Floats:
    """float32, memory-mapped where it was."""
    return found.vectors if found.vectors.dtype == np.float32 else found.vectors.astype(np.float32)


def _cut(text: str) -> str:
    return text[:LONGEST]
