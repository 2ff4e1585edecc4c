"""Encoders as they come, without training: a category's name against titles or against pictures."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from visir.encoders.base import Encoder
from visir.encoders.store import Store
from visir.errors import ConfigurationError, nearest
from visir.products.bm25 import Bm25
from visir.products.encoding import encode_catalogue
from visir.products.systems import Dense, System
from visir.products.vectors import CatalogueVectors, Modality
from visir.records import Embeddings
from visir.records.catalogue import Catalogue

FORMS = ("bm25", "text:NAME", "clip:NAME")
"""How a baseline is named; NAME is whatever `visir.encoders.load` takes."""


def baseline(name: str, catalogue: Catalogue, *, device: str | None = None, store: Store | None = None) -> System:
    """The baseline called "bm25", "text:NAME" (titles; MPNet in the thesis) or "clip:NAME" (pictures).

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
    """A text encoder on titles (thesis: MPNet): cosine of a category's name and a product's title.

    A product without a title is a candidate that is never found. Raises `ConfigurationError` where none has one.
    """
    vectors = encode_catalogue(catalogue, text=encoder, attributes=False, store=store)
    if vectors.titles is None or not vectors.titles.present.any():
        raise ConfigurationError(
            f"{catalogue.name}: no product has a title to encode.", hint="leave the text baselines out"
        )
    return _dense(f"{encoder.card.name}, titles", vectors, vectors.titles, "titles")


def image_zero_shot(encoder: Encoder, catalogue: Catalogue, *, store: Store | None = None) -> Dense:
    """An image–text encoder on pictures (thesis: CLIP): cosine of a category's name and a product's picture.

    A product whose picture is missing, or cannot be read, is a candidate that is never found.
    """
    for modality in ("image", "text"):
        if modality not in encoder.modalities:
            raise encoder.cannot(modality)
    vectors = encode_catalogue(
        catalogue, image=encoder, text=encoder, titles=False, attributes=False, store=store, skip_broken=True
    )
    assert vectors.images is not None
    return _dense(f"{encoder.card.name}, pictures", vectors, vectors.images, "images")


def _dense(name: str, vectors: CatalogueVectors, products: Modality, kind: str) -> Dense:
    there = np.flatnonzero(products.present)
    return Dense(
        name,
        Embeddings(
            "text",
            vectors.catalogue.categories["id"].combine_chunks(),
            vectors.categories,
            vectors.cards["categories"],
        ),
        # Titles are texts too, but here they stand for what is searched.
        Embeddings(
            "image",
            vectors.catalogue.products["id"].combine_chunks().take(pa.array(there)),
            np.asarray(products.vectors[products.rows[there]]),
            vectors.cards[kind],
        ),
    )
