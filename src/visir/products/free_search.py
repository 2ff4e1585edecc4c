"""Free queries to a catalogue: any words, not only names of its categories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from visir.display import Tabular, brief
from visir.encoders.store import Store
from visir.errors import ConfigurationError, raise_faults
from visir.products.opening import open_catalogue
from visir.products.saved_models import vectors_for
from visir.products.systems import CategoryVectorSystem, TitleBm25
from visir.products.text_search import TextOptions, text_index
from visir.products.tree import CategoryTree
from visir.products.zero_shot import baseline
from visir.records import Embeddings, Gallery, Run
from visir.records.catalogue import Catalogue
from visir.retrieval.depth import depth_fault
from visir.retrieval.exact import search as nearest_vectors
from visir.retrieval.fusion import Fusion, fuse

FUSION_DEPTH = 100
"""How many products of each system are fused."""
WORDS = "bm25f"
"""The name of the search by words in all fields."""
_QUERY = "q"
Ranking = tuple[tuple[str, float], ...]
"""Ids of products with scores, best first."""


@dataclass(frozen=True, eq=False, repr=False)
class ProductAnswer(Tabular, view="visir.products.reports.answer_view"):
    """The answer of one system to a free query."""

    query: str  # the words
    system: str  # the name of the system that answered
    unit: str  # what a score is: "cosine" or "BM25"
    products: Ranking  # ids of products with scores, best first
    # The products of every category of that very name (upper and lower case count alike); None when no category of the
    # catalogue has this name.
    right: frozenset[str] | None
    catalogue: Catalogue  # what was searched
    changes: tuple[str, ...] = ()  # what was searched beside or instead of the words of the query, a sentence each

    def __repr__(self) -> str:
        best = [f"{rank}. {product} ({score:.4g})" for rank, (product, score) in enumerate(self.products[:3], 1)]
        return brief(
            self,
            f"{self.query!r}, {self.system}: {len(self.products)} of {self.catalogue.name}",
            *self.changes[:1],
            *best,
        )


def search(
    catalogue: Catalogue | str | Path,
    query: str,
    system: str | Path | Sequence[str | Path] = "bm25f",
    k: int = 10,
    *,
    text: TextOptions | None = None,
    fusion: Fusion = "rrf",
    weights: Sequence[float] | None = None,
    device: str | None = None,
    store: Store | None = None,
) -> ProductAnswer:
    """Search the products of a catalogue by the name of a category, or by any words.

    Args:
        catalogue: What is searched: a catalogue, or anything that `open_catalogue` takes.
        query: The words.
        system: "bm25f" (words against titles, categories and attributes, in an index that is kept); the folder of a
            trained model (`visir products train`); or a baseline: "bm25", "bm25:plain", "text:NAME", "clip:NAME".
            Several are fused; where "bm25f" is among them, the others get the query with the spelling corrected.
        k: How many products the answer has at most.
        text: How "bm25f" reads words.
        fusion: How several systems are joined: "rrf" or "weighted" (see `visir.retrieval.fusion.fuse`).
        weights: The weight of each system in the fusion; None weights all alike.
        device: Where encoders run; None takes the best there is.
        store: Where vectors are kept; None takes the cache of the user.

    Raises:
        ConfigurationError: The query is empty, `k` or the weights are wrong, or a system is neither a folder nor a
            baseline.

    Example:
        >>> from visir.records import Catalogue
        >>> catalogue = Catalogue.of("two", ids=["a", "b"], paths=[["Dogs"], ["Cats"]], titles=["a red dog", "a cat"])
        >>> answer = search(catalogue, "red dgos")
        >>> [product for product, _ in answer.products], answer.changes
        (['a'], ("searched for 'dogs' instead of 'dgos'",))
        >>> search(catalogue, "a red cat", ["bm25f", "text:bow"]).system
        'rrf(BM25F, bow:4096, titles)'
    """
    systems = [system] if isinstance(system, (str, Path)) else list(system)
    faults = [] if query.strip() else ["the query is empty"]
    if fault := depth_fault(k):
        faults.append(fault)
    if not systems:
        faults.append("no system is named")
    if len({str(name) for name in systems}) < len(systems):
        faults.append("a system is named twice")
    if weights is not None and len(weights) != len(systems):
        faults.append(f"{len(weights)} weights for {len(systems)} systems")
    raise_faults(ConfigurationError, "product search", faults, hint='for example "wooden dogs"')
    catalogue = open_catalogue(catalogue)
    depth = k if len(systems) == 1 else max(k, FUSION_DEPTH)
    text = text or TextOptions()
    typed = query
    if WORDS in systems and len(systems) > 1:  # the other systems do not correct words themselves
        index = text_index(catalogue, language=text.language, bm25f=text.bm25f)
        query = index.plan(query, spelling=text.spelling).corrected
    parts = [
        _answer(catalogue, typed if name == WORDS else query, name, depth, text, device, store) for name in systems
    ]
    if len(parts) == 1:
        return parts[0]
    gallery = Gallery.of("image", catalogue.products["id"].combine_chunks(), "all products")
    names = [f"{number} {part.system}" for number, part in enumerate(parts)]
    runs = {name: _run(part, gallery) for name, part in zip(names, parts, strict=True) if part.products}
    by_name = None if weights is None else dict(zip(names, weights, strict=True))
    if runs and by_name is not None:
        by_name = {name: by_name[name] for name in runs}
    products = fuse(runs, fusion=fusion, weights=by_name, depth=k).answer(_QUERY) if runs else []
    name = f"{fusion}({', '.join(part.system for part in parts)})"
    changes = tuple(change for part in parts for change in part.changes)
    return ProductAnswer(typed, name, fusion, tuple(products), right_products(catalogue, typed), catalogue, changes)


def _answer(
    catalogue: Catalogue,
    query: str,
    system: str | Path,
    k: int,
    text: TextOptions,
    device: str | None,
    store: Store | None,
) -> ProductAnswer:
    """The answer of one system."""
    changes: tuple[str, ...] = ()
    if Path(system).is_dir():
        name, unit, products = _by_model(catalogue, query, Path(system), k, device, store)
    elif system == WORDS:
        index = text_index(catalogue, language=text.language, bm25f=text.bm25f)
        answer = index.search(query, k, **text.for_queries(index, device=device, store=store))
        name, unit, changes = "BM25F", "BM25F", answer.changes
        products = tuple(zip(answer.ids, answer.scores, strict=True))
    else:
        loaded = baseline(str(system), catalogue, device=device, store=store, others=(WORDS,))
        name = loaded.name
        if isinstance(loaded, TitleBm25):
            unit, products = "BM25", _by_words(catalogue, query, loaded, k)
        else:
            assert isinstance(loaded, CategoryVectorSystem)
            unit, products = "cosine", _by_encoder(query, loaded, k, device)
    return ProductAnswer(query, name, unit, products, right_products(catalogue, query), catalogue, changes)


def _run(answer: ProductAnswer, gallery: Gallery) -> Run:
    """One answer as a run over all products."""
    ids, scores = zip(*answer.products, strict=True)
    return Run.ranked(answer.system, "products", [_QUERY] * len(ids), ids, np.array(scores), gallery)


def right_products(catalogue: Catalogue, query: str) -> frozenset[str] | None:
    """The products of all categories that are called `query`, or None when no category is."""
    name = query.strip().casefold()
    same_name = [row for row, other in enumerate(catalogue.categories["name"].to_pylist()) if other.casefold() == name]
    if not same_name:
        return None
    tree = CategoryTree.of(catalogue)
    inside = tree.contains(np.array(same_name)[:, None], np.arange(len(tree))).any(axis=0)
    products = catalogue.products
    belongs = pc.is_in(products["category_id"], catalogue.categories["id"].filter(pa.array(inside)).combine_chunks())
    return frozenset(products["id"].filter(belongs).to_pylist())


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
