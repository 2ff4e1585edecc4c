"""A trained category model: a folder, and from the vectors of a catalogue to the common space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch.nn import functional

from visir.encoders.base import Encoder
from visir.encoders.checkpoints import Layout, check_files, read_description
from visir.encoders.forms import one_each
from visir.encoders.loading import load_recorded
from visir.encoders.towers.base import Inputs, Tower
from visir.encoders.towers.head import Head, HeadSpec
from visir.encoders.weights import hash_file, save_weights
from visir.errors import EmbeddingError, EncoderError, raise_faults
from visir.products.model.source import ProductSource
from visir.products.model.tower import ProductSpec, ProductTower
from visir.products.vectors import CatalogueVectors, Floats
from visir.records import Embeddings, EncoderCard, Modality
from visir.training.inputs.vectors import VectorSource
from visir.training.validation import encode_source

KIND = "categories"
WEIGHTS_FILE = "heads.safetensors"
_AGAIN = "copy the whole folder again"


@dataclass(frozen=True, eq=False)
class CategoriesModel:
    """Two heads over frozen encoders; on the CPU, in evaluation mode."""

    category: Tower  # over vectors of names (eq. 7.2).
    product: ProductTower  # over the modalities of a product (eq. 7.6).
    # "categories", "images", … to the card of the encoder whose vectors it was trained over; empty for vectors without
    # a card.
    cards: Mapping[str, EncoderCard]
    name: str = "category model"  # the folder
    weights: str | None = None  # a hash over the weights
    facts: Mapping[str, Any] = field(default_factory=dict)  # how it was trained

    @property
    def modalities(self) -> tuple[str, ...]:
        """What it reads of a product: "image", "title", "attributes"."""
        return tuple(self.product.spec.widths)

    @property
    def product_modality(self) -> Modality:
        """What the vectors of products are made of: "image", "text" (titles, attributes), or both."""
        if "image" not in self.modalities:
            return "text"
        return "image" if len(self.modalities) == 1 else "text+image"

    @property
    def card(self) -> EncoderCard:
        """The card of the vectors that `embed` makes."""
        encoders = {name: card.to_dict() for name, card in self.cards.items()}
        return EncoderCard(self.name, "categories", weights=self.weights, text_preprocessing={"encoders": encoders})

    def embed(self, vectors: CatalogueVectors) -> tuple[Embeddings, Embeddings]:
        """All categories and all products of a catalogue in the common space."""
        self._refuse_others(vectors)
        source = ProductSource(vectors, tuple(self.product.spec.widths), mean=self.product.attention is None)
        catalogue, card = vectors.catalogue, self.card
        categories = self._encode(self.category, VectorSource([vectors.categories]))
        products = self._encode(self.product, source)
        return (
            Embeddings("text", catalogue.categories["id"], categories, card, normalised=True),
            Embeddings(self.product_modality, catalogue.products["id"], products, card, normalised=True),
        )

    def embed_texts(self, texts: Sequence[str], encoder: Encoder | None = None) -> Floats:
        """(n, d) unit vectors of free queries: names of categories that need not be in any tree."""
        if encoder is None:
            if "categories" not in self.cards:
                raise EncoderError(f"{self.name} does not know its text encoder.", hint="give it: encoder=…")
            encoder = load_recorded(self.cards["categories"].name, self.name)
        raise_faults(
            EncoderError,
            f"{self.name}: another text encoder",
            self._differing("categories", encoder.card),
            code="another-text-encoder",
        )
        vectors = one_each(encoder.encode_texts(list(texts), "query"), encoder.label)
        return self._encode(self.category, VectorSource([vectors]))

    def _encode(self, tower: Tower, source: VectorSource | ProductSource) -> Floats:
        if not len(source):
            return np.zeros((0, self.product.spec.head.outputs), np.float32)

        def vectors_of(inputs: Inputs) -> torch.Tensor:
            return functional.normalize(tower(inputs), dim=-1)

        tower.eval()
        return encode_source(source, vectors_of)

    def _refuse_others(self, vectors: CatalogueVectors) -> None:
        faults = [
            fault for part, card in vectors.cards.items() if part in self.cards
            for fault in self._differing(part, card)
        ]  # fmt: skip
        expected = self.category.head.spec.inputs
        if vectors.categories.shape[1] != expected:
            faults.append(f"categories: {vectors.categories.shape[1]} dimensions, trained with {expected}")
        for name, width in self.product.spec.widths.items():
            part = getattr(vectors, {"image": "images", "title": "titles"}.get(name, name))
            if part is not None and part.width != width:
                faults.append(f"{name}: {part.width} dimensions, trained with {width}")
        raise_faults(
            EmbeddingError, f"{self.name}: vectors of other encoders", faults, hint="encode with those, or train again"
        )

    def _differing(self, part: str, card: EncoderCard) -> list[str]:
        trained = self.cards.get(part)
        if trained is None:
            return []
        before, now = trained.to_dict(), card.to_dict()
        return [
            f"{part}: {field} {now[field]!r}, trained with {before[field]!r}"
            for field in trained.differences(card, "image" if part == "images" else "text")
        ]


LAYOUT = Layout.of(KIND, (WEIGHTS_FILE,))


def write_files(folder: Path, model: CategoriesModel, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Write the files that `load_categories_model` reads into a folder, and return the contents of `visir.json`."""
    tensors = {f"category.{name}": tensor for name, tensor in model.category.state_dict().items()}
    tensors |= {f"product.{name}": tensor for name, tensor in model.product.state_dict().items()}
    save_weights(tensors, folder / WEIGHTS_FILE)
    return {
        "category": model.category.head.spec.to_dict(),
        "product": model.product.spec.to_dict(),
        "cards": {name: card.to_dict() for name, card in model.cards.items()},
        "facts": dict(facts),
    }


def load_categories_model(path: str | Path) -> CategoriesModel:
    """Read the folder that `visir products train` wrote.

    Raises:
        EncoderError: A file is missing or damaged, or the folder holds another kind of model.
    """
    folder = Path(path)
    description = read_description(folder)
    if description["kind"] != KIND:
        raise EncoderError(
            f"{folder} holds a checkpoint of kind {description['kind']!r}, not a category model.",
            hint="visir products train makes one",
        )
    check_files(folder)
    try:
        category = Tower(None, Head(HeadSpec.from_dict(description["category"])))
        product = ProductTower(ProductSpec.from_dict(description["product"]))
        facts = description["facts"]
        cards = {name: EncoderCard.from_dict(card) for name, card in description["cards"].items()}
        tensors = load_file(str(folder / WEIGHTS_FILE))
        for name, tower in (("category", category), ("product", product)):
            tower.load_state_dict(
                {key[len(name) + 1 :]: tensor for key, tensor in tensors.items() if key.startswith(name)}
            )
    except (KeyError, TypeError, ValueError, AttributeError) as fault:
        raise EncoderError(f"{folder}: its description is not one of a category model: {fault}", hint=_AGAIN) from fault
    except (OSError, SafetensorError, RuntimeError) as fault:
        raise EncoderError(
            f"{folder / WEIGHTS_FILE}: cannot be read: {fault}", hint=_AGAIN, code="cannot-read"
        ) from fault
    return CategoriesModel(
        category.eval(),
        product.eval(),
        cards,
        name=str(path),
        weights=hash_file(folder / WEIGHTS_FILE),
        facts=facts,
    )
