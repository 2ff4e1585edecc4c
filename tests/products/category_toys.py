"""Hand-made vectors over a generated catalogue: what carries what is known exactly."""

from __future__ import annotations

import re

import numpy as np

from visir.products.encoding import AttributeVectors, CatalogueVectors, Floats, ProductVectors, attribute_texts
from visir.products.generated import MATERIALS, GeneratedCatalogue, generate_catalogue
from visir.records import EncoderCard

WIDTH = 48


def word_vectors(texts: list[str]) -> Floats:
    """Each text as the sum of vectors of its words, drawn by the word: texts that share words are alike."""
    return np.array(
        [sum((_word(one) for one in re.findall(r"\w+", text.lower())), _ZERO) for text in texts], np.float32
    )


def generate_vectors(n: int, seed: int = 0, noise: float = 1.0) -> tuple[GeneratedCatalogue, CatalogueVectors]:
    """The catalogue of `generate_catalogue(n)` and its vectors.

    Pictures say the subject, under noise of `noise` times its length; texts say their words.
    """
    made = generate_catalogue(n, seed=seed)
    catalogue = made.catalogue
    subjects = [path.rsplit("subject=", 1)[1] for path in catalogue.products["path"].to_pylist()]
    rng = np.random.default_rng(seed)
    shown = np.array([_word(f"shows {one}") for one in subjects])
    pictures = shown + noise * rng.normal(size=shown.shape) / np.sqrt(WIDTH) * np.linalg.norm(shown, axis=1)[:, None]
    texts = attribute_texts(catalogue)
    distinct = list(dict.fromkeys(texts))
    ids = {one: row for row, one in enumerate(catalogue.products["id"].to_pylist())}
    owners = np.array([ids[one] for one in catalogue.attributes["product_id"].to_pylist()])
    attributes = AttributeVectors(
        word_vectors(distinct),
        np.array([distinct.index(one) for one in texts]),
        np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=n))]),
    )
    rows = np.arange(n)
    return made, CatalogueVectors(
        catalogue,
        word_vectors([_singular(one) for one in catalogue.categories["name"].to_pylist()]),
        ProductVectors(pictures.astype(np.float32), rows),
        ProductVectors(word_vectors(catalogue.products["title"].to_pylist()), rows),
        attributes,
        {name: EncoderCard("by hand", "hand") for name in ("categories", "images", "titles", "attributes")},
    )


_ZERO = np.zeros(WIDTH)
_ALIKE = {word.lower(): material for material, word in MATERIALS.items()}  # "Wooden" is made of "wood"


def _singular(name: str) -> str:
    return re.sub(r"s\b", "", name)


def _word(word: str) -> Floats:
    word = _ALIKE.get(word, word)
    seed = int.from_bytes(word.encode()[:8].ljust(8, b"\0"), "little") ^ len(word)
    return np.random.default_rng(seed).normal(size=WIDTH).astype(np.float32)
