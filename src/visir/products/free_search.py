"""Free queries to a catalogue: any words, not only names of its categories."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from visir.display import Tabular, brief
from visir.encoders.store import Store
from visir.errors import ConfigurationError
from visir.products.opening import open_catalogue
from visir.products.saved_models import vectors_for
from visir.products.systems import CategoryVectorSystem, TitleBm25
from visir.products.tree import CategoryTree
from visir.products.zero_shot import baseline
from visir.records import Embeddings
from visir.records.catalogue import Catalogue
from visir.retrieval.exact import search as nearest_vectors

Ranking = tuple[tuple[str, float], ...]
"""Ids of products with scores, best first."""


@dataclass(frozen=True, eq=False, repr=False)
class ProductAnswer(Tabular, view="visir.products.reports.answer_view"):
    """The answer of one system to a free query.

    Args:
        query: The words.
        system: The name of the system that answered.
        unit: What a score is: "cosine" or "BM25".
        products: Ids of products with scores, best first.
        right: The products of every category of that very name (upper and lower case count alike); None when no
            category of the catalogue has this name.
        catalogue: What was searched.
    """

    query: str
    system: str
    unit: str
    products: Ranking
    right: frozenset[str] | None
    catalogue: Catalogue

    def __repr__(self) -> str:
        best = [f"{rank}. {product} ({score:.4g})" for rank, (product, score) in enumerate(self.products[:4], 1)]
        return brief(self, f"{self.query!r}, {self.system}: {len(self.products)} of {self.catalogue.name}", *best)


def search(
    catalogue: Catalogue | str | Path,
    query: str,
    system: str | Path = "bm25",
    k: int = 10,
    *,
    device: str | None = None,
    store: Store | None = None,
) -> ProductAnswer:
    """Search the products of a catalogue by the name of a category, or by any words.

    Args:
        catalogue: What is searched: a catalogue, or anything that `open_catalogue` takes.
        query: The words.
        system: The folder of a trained model (`visir products train`), or a baseline: "bm25", "bm25:plain",
            "text:NAME", "clip:NAME".
        k: How many products the answer has at most.
        device: Where encoders run; None takes the best there is.
        store: Where vectors are kept; None takes the cache of the user.

    Raises:
        ConfigurationError: The query is empty, or `system` is neither a folder nor a baseline.

    Example:
        >>> from visir.records import Catalogue
        >>> catalogue = Catalogue.of("two", ids=["a", "b"], paths=[["Dogs"], ["Cats"]], titles=["a red dog", "a cat"])
        >>> answer = search(catalogue, "dogs", "bm25")
        >>> [product for product, _ in answer.products], sorted(answer.right)
        (['a'], ['a'])
    """
    if not query.strip():
        raise ConfigurationError("the query is empty.", hint='for example "wooden dogs"')
    catalogue = open_catalogue(catalogue)
    if Path(system).is_dir():
        name, unit, products = _by_model(catalogue, query, Path(system), k, device, store)
    else:
        loaded = baseline(str(system), catalogue, device=device, store=store)
        name = loaded.name
        if isinstance(loaded, TitleBm25):
            unit, products = "BM25", _by_words(catalogue, query, loaded, k)
        else:
            assert isinstance(loaded, CategoryVectorSystem)
            unit, products = "cosine", _by_encoder(query, loaded, k, device)
    return ProductAnswer(query, name, unit, products, right_products(catalogue, query), catalogue)


def right_products(catalogue: Catalogue, query: str) -> frozenset[str] | None:
    """The products of all categories that are called `query`, or None when no category is."""
    tree = CategoryTree.of(catalogue)
    name = query.strip().casefold()
    same_name = np.array([row for row, other in enumerate(tree.names) if other.casefold() == name], dtype=np.int64)
    if not len(same_name):
        return None
    own = tree.rows(catalogue.products["category_id"])
    belongs = tree.contains(same_name[:, None], own).any(axis=0)
    return frozenset(catalogue.products["id"].filter(pa.array(belongs)).to_pylist())


def _by_model(
    catalogue: Catalogue, query: str, folder: Path, k: int, device: str | None, store: Store | None
) -> tuple[str, str, Ranking]:
    from visir.products.model.trained import load_categories_model

    model = load_categories_model(folder)
    _, products = model.embed(vectors_for(model, catalogue, device=device, store=store))
    queries = Embeddings("text", pa.array([query]), model.embed_texts([query]), model.card)
    return model.name, "cosine", _nearest(queries, products, k)


def _by_encoder(query: str, system: CategoryVectorSystem, k: int, device: str | None) -> Ranking:
    from visir.encoders.forms import one_each
    from visir.encoders.loading import load_recorded

    card = system.categories.encoder
    vectors = one_each(load_recorded(card.name, system.name, device=device).encode_texts([query], "query"), card.name)
    return _nearest(Embeddings("text", pa.array([query]), vectors, card), system.products, k)


def _nearest(queries: Embeddings, products: Embeddings, k: int) -> Ranking:
    run = nearest_vectors(queries, products, depth=k).run
    return tuple(run.answer(queries.ids[0].as_py()))


def _by_words(catalogue: Catalogue, query: str, system: TitleBm25, k: int) -> Ranking:
    titles = [title or "" for title in catalogue.products["title"].to_pylist()]
    ((rows, scores),) = system.bm25.ranked(titles, [query])
    products = catalogue.products["id"].take(pa.array(rows[:k])).to_pylist()
    return tuple(zip(products, map(float, scores[:k]), strict=True))
