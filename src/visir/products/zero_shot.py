"""Encoders as they come, without training: a category's name against titles or against pictures."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from visir.encoders.base import Encoder
from visir.encoders.encoding import encode
from visir.encoders.store import Store
from visir.errors import ConfigurationError, nearest
from visir.products.bm25 import Bm25
from visir.products.systems import Dense, System, as_products
from visir.records import Collection, Embeddings
from visir.records.catalogue import Catalogue

FORMS = ("bm25", "text:NAME", "clip:NAME")
"""How a baseline is named; NAME is whatever `visir.encoders.load` takes."""


def baseline(name: str, catalogue: Catalogue, *, device: str | None = None, store: Store | None = None) -> System:
    """The baseline called "bm25", "text:NAME" (titles, MPNet in the thesis) or "clip:NAME" (pictures).

    Encoders' vectors go through the store. Raises `ConfigurationError` for any other form.
    """
    kind, _, model = name.partition(":")
    if name == "bm25":
        return Bm25()
    if kind not in ("text", "clip") or not model:
        raise ConfigurationError(f"unknown baseline {name!r}", hint=nearest(name, FORMS))
    from visir.encoders import load

    make = text_zero_shot if kind == "text" else image_zero_shot
    return make(load(model, device=device), catalogue, store=store)


def text_zero_shot(encoder: Encoder, catalogue: Catalogue, *, store: Store | None = None) -> Dense:
    """A text encoder on titles (thesis: MPNet): cosine of a category's name and a product's title."""
    titled = catalogue.products.filter(pc.greater(pc.fill_null(pc.utf8_length(catalogue.products["title"]), 0), 0))
    if titled.num_rows == 0:
        raise ConfigurationError(
            f"{catalogue.name}: no product has a title to encode.", hint="leave the text baselines out"
        )
    titles = texts(encoder, titled["id"], titled["title"], store=store)
    names = texts(encoder, catalogue.categories["id"], catalogue.categories["name"], store=store)
    return Dense(f"{encoder.card.name}, titles", names, as_products(titles))


def image_zero_shot(encoder: Encoder, catalogue: Catalogue, *, store: Store | None = None) -> Dense:
    """An image–text encoder on pictures (thesis: CLIP): cosine of a category's name and a product's picture.

    A picture that cannot be read is set aside: its product is a candidate that is never found.
    """
    if not {"image", "text"} <= encoder.modalities:
        raise encoder.cannot("text" if "image" in encoder.modalities else "image")
    pictures = encode(encoder, catalogue.pictures(), "image", store=store, skip_broken=True)
    names = texts(encoder, catalogue.categories["id"], catalogue.categories["name"], store=store)
    return Dense(f"{encoder.card.name}, pictures", names, pictures)


def texts(encoder: Encoder, ids: pa.ChunkedArray, values: pa.ChunkedArray, *, store: Store | None = None) -> Embeddings:
    """The vectors of texts by id, each distinct text encoded once, through the store."""
    written = values.combine_chunks().dictionary_encode()
    distinct: Sequence[str] = written.dictionary.to_pylist()
    keys = [str(row) for row in range(len(distinct))]
    # The store knows collections: each text is the caption of an image that nobody looks at.
    collection = Collection.build(
        "texts", images={"id": keys}, captions={"id": keys, "image_id": keys, "text": distinct}
    )
    found = encode(encoder, collection, "text", store=store)
    rows = np.asarray(written.indices.to_numpy(), dtype=np.int64)
    return Embeddings("text", ids.combine_chunks(), np.asarray(found.vectors)[rows], encoder.card)
