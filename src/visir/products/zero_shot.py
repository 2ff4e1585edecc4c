"""Encoders as they come, without training: a category's name against titles or against pictures."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from visir.encoders.base import Encoder
from visir.encoders.store import Store
from visir.errors import ConfigurationError, nearest
from visir.products.encoding import encode_catalogue
from visir.products.systems import PLAIN, CategorySystem, CategoryVectorSystem, TitleBm25
from visir.products.vectors import CatalogueVectors, ProductVectors
from visir.records import Embeddings
from visir.records.catalogue import Catalogue

FORMS = ("bm25", "bm25:plain", "text:NAME", "clip:NAME")
"""How a baseline is named; NAME is whatever `visir.encoders.load` takes."""


def baseline(
    name: str,
    catalogue: Catalogue,
    *,
    device: str | None = None,
    store: Store | None = None,
    others: tuple[str, ...] = (),
) -> CategorySystem:
    """A baseline by its name."""
    # name: "bm25", "bm25:plain" (see `TitleBm25`), "text:NAME" (titles; MPNet in the thesis) or "clip:NAME" (pictures).
    kind, _, model = name.partition(":")
    if name == "bm25":
        return TitleBm25()
    if name == "bm25:plain":
        return TitleBm25(PLAIN, "BM25, plain")
    if kind not in ("text", "clip") or not model:
        what = f"{name}: no such folder, and no baseline." if "/" in name else f"unknown baseline {name!r}"
        raise ConfigurationError(what, hint=nearest(name, (*others, *FORMS)))
    from visir.encoders import load

    make = text_zero_shot if kind == "text" else image_zero_shot
    return make(load(model, device=device), catalogue, store=store)


def text_zero_shot(encoder: Encoder, catalogue: Catalogue, *, store: Store | None = None) -> CategoryVectorSystem:
    """A text encoder on titles (thesis: MPNet): the cosine of a category's name and a product's title."""
    # A product without a title is a candidate that is never found.
    vectors = encode_catalogue(catalogue, text=encoder, attributes=False, store=store)
    if vectors.titles is None or not vectors.titles.present.any():
        raise ConfigurationError(
            f"{catalogue.name}: no product has a title to encode.",
            hint="leave the text baselines out",
            code="no-product-title-encode",
        )
    return _system(f"{encoder.card.name}, titles", vectors, vectors.titles, "titles")


def image_zero_shot(encoder: Encoder, catalogue: Catalogue, *, store: Store | None = None) -> CategoryVectorSystem:
    """An image–text encoder on pictures (thesis: CLIP): the cosine of a category's name and a product's picture."""
    # A product whose picture is missing, or cannot be read, is a candidate that is never found.
    for modality in ("image", "text"):
        if modality not in encoder.modalities:
            raise encoder.cannot(modality)
    vectors = encode_catalogue(
        catalogue, image=encoder, text=encoder, titles=False, attributes=False, store=store, skip_broken=True
    )
    assert vectors.images is not None
    return _system(f"{encoder.card.name}, pictures", vectors, vectors.images, "images")


def _system(name: str, vectors: CatalogueVectors, products: ProductVectors, part: str) -> CategoryVectorSystem:
    rows = np.flatnonzero(products.present)
    catalogue = vectors.catalogue
    return CategoryVectorSystem(
        name,
        Embeddings(
            "text", catalogue.categories["id"].combine_chunks(), vectors.categories, vectors.cards["categories"]
        ),
        Embeddings(
            "image" if part == "images" else "text",
            catalogue.products["id"].combine_chunks().take(pa.array(rows)),
            np.asarray(products.vectors[products.rows[rows]]),
            vectors.cards[part],
        ),
    )
