"""Free questions to a catalogue: any words, not only names of its categories."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from visir.encoders.store import Store
from visir.errors import ConfigurationError
from visir.products.saved_models import vectors_for
from visir.products.systems import CategoryVectorSystem, TitleBm25
from visir.products.tree import CategoryTree
from visir.products.zero_shot import baseline
from visir.records import Embeddings
from visir.records.catalogue import Catalogue
from visir.search.exact import search


@dataclass(frozen=True)
class Answer:
    """What was found: product ids with scores, best first.

    - `system`: who answered; `unit`: what a score is ("cosine", "BM25")
    - `right`: the products of every category of that very name, when there is one (whatever the case of its letters);
      None when the words are no category of the catalogue
    """

    query: str
    system: str
    unit: str
    products: tuple[tuple[str, float], ...]
    right: frozenset[str] | None


def ask(
    catalogue: Catalogue,
    query: str,
    how: str | Path,
    k: int = 10,
    *,
    device: str | None = None,
    store: Store | None = None,
) -> Answer:
    """The `k` products that fit `query` best.

    `how`: the folder of a trained model (`visir categories train`), or a baseline: "bm25", "text:NAME", "clip:NAME".
    Raises `ConfigurationError` for empty words, or a `how` that is neither.
    """
    if not query.strip():
        raise ConfigurationError("nothing is asked.", hint='for example "wooden dogs"')
    if Path(how).is_dir():
        name, unit, found = _by_model(catalogue, query, Path(how), k, device, store)
    else:
        system = baseline(str(how), catalogue, device=device, store=store)
        if isinstance(system, TitleBm25):
            name, unit, found = system.name, "BM25", _by_words(catalogue, query, system, k)
        else:
            assert isinstance(system, CategoryVectorSystem)
            name, unit, found = system.name, "cosine", _by_encoder(query, system, k, device)
    return Answer(query, name, unit, found, right_for(catalogue, query))


def right_for(catalogue: Catalogue, query: str) -> frozenset[str] | None:
    """The products of all categories that are called `query`, or None when none is."""
    tree = CategoryTree.of(catalogue)
    wanted = query.strip().casefold()
    named = np.array([row for row, name in enumerate(tree.names) if name.casefold() == wanted], dtype=np.int64)
    if not len(named):
        return None
    own = tree.rows(catalogue.products["category_id"])
    belongs = tree.contains(named[:, None], own).any(axis=0)
    return frozenset(catalogue.products["id"].filter(pa.array(belongs)).to_pylist())


def _by_model(
    catalogue: Catalogue, query: str, folder: Path, k: int, device: str | None, store: Store | None
) -> tuple[str, str, tuple[tuple[str, float], ...]]:
    from visir.products.model.trained import load_categories_model

    model = load_categories_model(folder)
    _, products = model.embed(vectors_for(model, catalogue, device=device, store=store))
    asked = Embeddings("text", pa.array([query]), model.embed_texts([query]), model.card)
    return model.name, "cosine", _nearest(asked, products, k)


def _by_encoder(query: str, system: CategoryVectorSystem, k: int, device: str | None) -> tuple[tuple[str, float], ...]:
    from visir.encoders import load

    card = system.categories.encoder
    asked = load(card.name, device=device).encode_texts([query])
    return _nearest(Embeddings("text", pa.array([query]), asked, card), system.products, k)


def _nearest(asked: Embeddings, products: Embeddings, k: int) -> tuple[tuple[str, float], ...]:
    run = search(asked, products, depth=k).run
    return tuple(run.answer(asked.ids[0].as_py()))


def _by_words(catalogue: Catalogue, query: str, system: TitleBm25, k: int) -> tuple[tuple[str, float], ...]:
    ids = catalogue.products["id"]
    titles = [one or "" for one in catalogue.products["title"].to_pylist()]
    ((rows, scores),) = system.bm25.ranked(titles, [query])
    found = ids.take(pa.array(rows[:k])).to_pylist()
    return tuple(zip(found, map(float, scores[:k]), strict=True))
