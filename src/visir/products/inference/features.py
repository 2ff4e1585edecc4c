"""What products and categories are compared by: weighted words, vectors of an encoder or a trained model, or yours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from visir.encoders.store import Store
from visir.errors import ConfigurationError, nearest
from visir.products.saved_models import vectors_for
from visir.products.systems import CategoryVectorSystem
from visir.products.text_search import catalogue_texts
from visir.products.zero_shot import baseline
from visir.records import Embeddings
from visir.records.catalogue import Catalogue
from visir.retrieval.text.words import STOP_WORDS, Language, words_of

WORDS = "words"
FORMS = (WORDS, "text:NAME", "clip:NAME", "the folder of a trained model")
"""How a system is named."""
Rows = NDArray[np.float32] | csr_array


@dataclass(frozen=True, eq=False)
class ProductFeatures:
    """Products and categories as rows of length 1, compared by cosine."""

    name: str  # the system they come from
    products: Rows  # (n, d) in the order of `catalogue.products`; a product without text or picture has zeros
    # (c, d) in the order of `catalogue.categories`, in the same space; None where there are none.
    categories: Rows | None

    @property
    def present(self) -> NDArray[np.bool_]:
        """(n,) bool: which products can be compared."""
        squares = self.products.power(2) if isinstance(self.products, csr_array) else np.square(self.products)
        return np.asarray(squares.sum(axis=1)).ravel() > 0


def product_features(
    catalogue: Catalogue,
    system: str | Path | Embeddings,
    *,
    device: str | None = None,
    store: Store | None = None,
) -> ProductFeatures:
    """Return the features of all products and categories. No category of a product is read."""
    # system: "words" (words of titles and attributes, rare ones count more), "text:NAME" (titles), "clip:NAME"
    # (pictures), the folder of a trained model, or vectors of your own with product ids.
    if isinstance(system, Embeddings):
        features = ProductFeatures(system.encoder.name, _placed(system, catalogue.products["id"]), None)
    elif system == WORDS:
        features = _words(catalogue)
    elif Path(system).is_dir():
        from visir.products.model.trained import load_categories_model

        model = load_categories_model(system)
        categories, products = model.embed(vectors_for(model, catalogue, device=device, store=store))
        features = _of_vectors(catalogue, model.name, categories, products)
    elif str(system).partition(":")[0] in ("text", "clip"):
        loaded = baseline(str(system), catalogue, device=device, store=store)
        assert isinstance(loaded, CategoryVectorSystem)
        features = _of_vectors(catalogue, loaded.name, loaded.categories, loaded.products)
    else:
        raise ConfigurationError(
            f"unknown system {str(system)!r}: no such folder",
            hint=nearest(str(system), FORMS),
            code="configuration-no-such-folder",
        )
    if not features.present.any():
        raise ConfigurationError(
            f"{catalogue.name}: no product has what {features.name} reads.",
            hint="name another system, or give titles, attributes or pictures",
        )
    return features


def _of_vectors(catalogue: Catalogue, name: str, categories: Embeddings, products: Embeddings) -> ProductFeatures:
    return ProductFeatures(
        name, _placed(products, catalogue.products["id"]), _placed(categories, catalogue.categories["id"])
    )


def _placed(embeddings: Embeddings, ids: object) -> NDArray[np.float32]:
    """(n, d) unit vectors in the order of `ids`; zeros where there is none."""
    rows = pc.fill_null(pc.index_in(ids, value_set=embeddings.ids), -1).to_numpy().astype(np.int64)
    vectors = np.zeros((len(rows), embeddings.vectors.shape[1]), np.float32)
    vectors[rows >= 0] = np.asarray(embeddings.vectors)[rows[rows >= 0]]
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1))


def _words(catalogue: Catalogue) -> ProductFeatures:
    _, texts = catalogue_texts(catalogue)
    language = Language("plural")

    def terms(text: str) -> list[str]:
        return language.terms([word for word in words_of(text) if word not in STOP_WORDS])

    products = [terms(f"{title} {rest}") for title, rest in zip(texts["title"], texts["attributes"], strict=True)]
    frequencies = Counter(term for words in products for term in set(words))
    columns = {term: column for column, term in enumerate(sorted(frequencies))}
    idf = np.log((1 + len(products)) / (1 + np.array([frequencies[term] for term in columns]))) + 1
    names = [terms(name) for name in catalogue.categories["id"].to_pylist()]
    return ProductFeatures(WORDS, _weighted(products, columns, idf), _weighted(names, columns, idf))


def _weighted(texts: Sequence[Sequence[str]], columns: dict[str, int], idf: NDArray[np.float64]) -> csr_array:
    """(n, terms) TF-IDF: (1 + log count) · idf, rows of length 1."""
    counts = [Counter(columns[term] for term in words if term in columns) for words in texts]
    indices = np.array([column for count in counts for column in count], np.int64)
    values = np.array([number for count in counts for number in count.values()], np.float64)
    offsets = np.concatenate([[0], np.cumsum([len(count) for count in counts])]).astype(np.int64)
    values = (1 + np.log(values)) * idf[indices]
    owners = np.repeat(np.arange(len(texts)), np.diff(offsets))
    lengths = np.sqrt(np.bincount(owners, values**2, minlength=len(texts)))
    data = (values / lengths[owners]).astype(np.float32)
    return csr_array((data, indices, offsets), shape=(len(texts), len(columns)))


def similarities(first: Rows, second: Rows) -> NDArray[np.float32]:
    """(a, b) the cosine of every pair of rows."""
    product = first @ second.T
    return np.asarray(product.toarray() if isinstance(product, csr_array) else product, np.float32)


def chosen_rows(features: Rows, rows: NDArray[np.int64]) -> Rows:
    """The rows with these numbers."""
    if isinstance(features, csr_array):
        return vstack([features[rows]], format="csr") if len(rows) else features[:0]
    return features[rows]
