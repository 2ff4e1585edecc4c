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
from visir.encoders.checkpoints import Layout, read_description
from visir.encoders.loading import load
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
    """Two heads over frozen encoders; on the CPU, in evaluation mode.

    - `category`: over vectors of names (eq. 7.2); `product`: over what is known of a product (eq. 7.6)
    - `cards`: "categories", "images", … to the card of the encoder whose vectors it was trained over; empty for vectors
      that came without
    - `name`: the folder; `weights`: a hash over the weights; `facts`: how it came about
    """

    category: Tower
    product: ProductTower
    cards: Mapping[str, EncoderCard]
    name: str = "category model"
    weights: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def modalities(self) -> tuple[str, ...]:
        """What of a product it reads: "image", "title", "attributes"."""
        return tuple(self.product.spec.widths)

    @property
    def product_modality(self) -> Modality:
        """What the vectors of products are made of: "image", "text" (titles, attributes), or both."""
        if "image" not in self.modalities:
            return "text"
        return "image" if len(self.modalities) == 1 else "text+image"

    @property
    def card(self) -> EncoderCard:
        """Who makes the vectors that `embed` gives."""
        under = {name: one.to_dict() for name, one in self.cards.items()}
        return EncoderCard(self.name, "categories", weights=self.weights, text_preprocessing={"encoders": under})

    def embed(self, vectors: CatalogueVectors) -> tuple[Embeddings, Embeddings]:
        """All categories and all products of a catalogue in the common space, as unit vectors (their dot product is the
        cosine of eq. 7.7): (categories by category id, products by product id).

        Raises `EmbeddingError` when these are not vectors of the encoders that the model was trained over, and
        `ConfigurationError` when a modality is not there at all.
        """
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
        """(n, d) unit vectors of free queries: names of categories that need not be in any tree.

        `encoder`: the text encoder, when it is loaded already; otherwise it is loaded by the name in the card. Raises
        `EncoderError` when it is not known, or another one than the model was trained over.
        """
        if encoder is None:
            if "categories" not in self.cards:
                raise EncoderError(f"{self.name} does not know its text encoder.", hint="give it: encoder=…")
            encoder = load(self.cards["categories"].name)
        raise_faults(EncoderError, f"{self.name}: another text encoder", self._differing("categories", encoder.card))
        return self._encode(self.category, VectorSource([encoder.encode_texts(list(texts))]))

    def _encode(self, tower: Tower, source: VectorSource | ProductSource) -> Floats:
        if not len(source):
            return np.zeros((0, self.product.spec.head.outputs), np.float32)

        def vectors_of(inputs: Inputs) -> torch.Tensor:
            return functional.normalize(tower(inputs), dim=-1)

        tower.eval()
        return encode_source(source, vectors_of)

    def _refuse_others(self, vectors: CatalogueVectors) -> None:
        faults = [
            fault for part, found in vectors.cards.items() if part in self.cards
            for fault in self._differing(part, found)
        ]  # fmt: skip
        wanted = self.category.head.spec.inputs
        if vectors.categories.shape[1] != wanted:
            faults.append(f"categories: {vectors.categories.shape[1]} dimensions, trained with {wanted}")
        for name, width in self.product.spec.widths.items():
            one = getattr(vectors, {"image": "images", "title": "titles"}.get(name, name))
            if one is not None and one.width != width:
                faults.append(f"{name}: {one.width} dimensions, trained with {width}")
        raise_faults(
            EmbeddingError, f"{self.name}: vectors of other encoders", faults, hint="encode with those, or train again"
        )

    def _differing(self, part: str, found: EncoderCard) -> list[str]:
        trained = self.cards.get(part)
        if trained is None:
            return []
        before, now = trained.to_dict(), found.to_dict()
        return [
            f"{part}: {field} {now[field]!r}, trained with {before[field]!r}"
            for field in trained.differences(found, "image" if part == "images" else "text")
        ]


LAYOUT = Layout.of(KIND, (WEIGHTS_FILE,))


def write_files(folder: Path, model: CategoriesModel, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Write the files that `load_categories_model` reads into a folder; what `visir.json` is to say."""
    tensors = {f"category.{name}": one for name, one in model.category.state_dict().items()}
    tensors |= {f"product.{name}": one for name, one in model.product.state_dict().items()}
    save_weights(tensors, folder / WEIGHTS_FILE)
    return {
        "category": model.category.head.spec.to_dict(),
        "product": model.product.spec.to_dict(),
        "cards": {name: one.to_dict() for name, one in model.cards.items()},
        "facts": dict(facts),
    }


def load_categories_model(path: str | Path) -> CategoriesModel:
    """Read the folder that `visir categories train` wrote.

    Raises `EncoderError` when a file is missing or damaged, or the folder holds another kind of model.
    """
    folder = Path(path)
    description = read_description(folder)
    if description["kind"] != KIND:
        raise EncoderError(
            f"{folder} holds a checkpoint of kind {description['kind']!r}, not a category model.",
            hint="visir categories train makes one",
        )
    try:
        category = Tower(None, Head(HeadSpec.from_dict(description["category"])))
        product = ProductTower(ProductSpec.from_dict(description["product"]))
        facts = description["facts"]
        cards = {name: EncoderCard.from_dict(one) for name, one in description["cards"].items()}
        tensors = load_file(str(folder / WEIGHTS_FILE))
        for name, tower in (("category", category), ("product", product)):
            tower.load_state_dict({key[len(name) + 1 :]: one for key, one in tensors.items() if key.startswith(name)})
    except (KeyError, TypeError, ValueError, AttributeError) as fault:
        raise EncoderError(f"{folder}: its description is not one of a category model: {fault}", hint=_AGAIN) from fault
    except (OSError, SafetensorError, RuntimeError) as fault:
        raise EncoderError(f"{folder / WEIGHTS_FILE}: cannot be read: {fault}", hint=_AGAIN) from fault
    return CategoriesModel(
        category.eval(),
        product.eval(),
        cards,
        name=str(path),
        weights=hash_file(folder / WEIGHTS_FILE),
        facts=facts,
    )
