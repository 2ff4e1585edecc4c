"""Search the texts of a catalogue by words: an index kept in the cache, and how its queries are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from visir.display import Tabular, brief
from visir.encoders.base import Encoder
from visir.encoders.store import Store
from visir.errors import ConfigurationError, VisirError, raise_faults
from visir.fingerprint import hash_json
from visir.products.opening import open_catalogue
from visir.products.systems import CategoryVectorSystem, TitleBm25, baseline
from visir.records import Gallery, Run
from visir.records.catalogue import ATTRIBUTES, Catalogue
from visir.records.category_tree import CategoryTree
from visir.retrieval.answers import depth_fault
from visir.retrieval.exact import search as nearest_vectors
from visir.retrieval.fusion import Fusion, fuse
from visir.retrieval.text.index import TEXT_INDEX, Bm25F, QueryOptions, TextIndex
from visir.retrieval.text.words import NearWords, Synonyms
from visir.storage import ContentStore

FIELDS = ("title", "category", "attributes")
DEFAULTS = Bm25F(0.5, {"title": 0.75, "category": 0.75, "attributes": 0.4}, {"category": 4.0})
"""Chosen on the queries of one catalogue (docs/background/text-search.md)."""
_IN_MEMORY: WeakKeyDictionary[Catalogue, dict[str, TextIndex]] = WeakKeyDictionary()


@dataclass(frozen=True)
class TextOptions:
    """How the texts of a catalogue are searched.

    Args:
        language: "plural" (English plurals), "none", or a Snowball stemmer ("english", "german", …; see
            `visir.retrieval.text.words.Language`).
        spelling: Whether misspelt words are corrected.
        synonyms: A file of rules, or `Synonyms`; None for none.
        near_words: A text encoder, or its name, for words that no product has; None for none.
        bm25f: The weights of the fields "title", "category" and "attributes"; None takes the defaults.
    """

    language: str = "plural"
    spelling: bool = True
    synonyms: Synonyms | str | Path | None = None
    near_words: Encoder | str | None = None
    bm25f: Bm25F | None = None

    def for_queries(self, index: TextIndex, *, device: str | None = None, store: Store | None = None) -> QueryOptions:
        """Return the options of a query; files are read, and the words of the index are encoded (once: see `Store`).

        Args:
            index: What is searched.
            device: Where the encoder runs; None takes the best there is.
            store: Where vectors are kept; None takes the cache of the user.
        """
        rules, encoder = self.synonyms, self.near_words
        if isinstance(rules, (str, Path)):
            rules = Synonyms.read(rules)
        if isinstance(encoder, str):
            from visir.encoders import load

            encoder = load(encoder, device=device)
        words = [word for word in index.postings.words if word.isalpha()]  # no sizes, no model numbers
        near = None if encoder is None else NearWords.of(encoder, words, store=store)
        return QueryOptions(spelling=self.spelling, synonyms=rules, near_words=near)


def catalogue_texts(catalogue: Catalogue) -> tuple[list[str], dict[str, list[str]]]:
    """Return the ids of the products and the texts of their fields."""
    # "title" is the title; "category" has the names of the path; "attributes" has the names and values of all
    # attributes.
    products = catalogue.products
    ids: list[str] = products["id"].to_pylist()
    tree = CategoryTree.of(catalogue)
    paths = {
        category: ", ".join(tree.names[above] for above in [*tree.ancestors(row).tolist(), row])
        for row, category in enumerate(tree.ids)
    }
    values: dict[str, list[str]] = {}
    for owner, name, value in zip(
        *(catalogue.attributes[column].to_pylist() for column in ATTRIBUTES.names), strict=True
    ):
        values.setdefault(owner, []).append(f"{name} {value}")
    return ids, {
        "title": [title or "" for title in products["title"].to_pylist()],
        "category": [paths[category] for category in products["category_id"].to_pylist()],
        "attributes": [", ".join(values.get(identifier, ())) for identifier in ids],
    }


def text_index(
    catalogue: Catalogue, *, language: str = "plural", bm25f: Bm25F | None = None, root: str | Path | None = None
) -> TextIndex:
    """Return the text index of a catalogue. It is kept in the cache; where products changed, only those are read again.

    Args:
        catalogue: The products.
        language: How words become terms, as `visir.retrieval.text.words.Language` takes it.
        bm25f: The settings of the scores; None takes the defaults. They are not part of what is kept.
        root: Where indexes are kept; `VISIR_CACHE`/text-indexes by default. It can be deleted at any time.

    Raises:
        ConfigurationError: Settings are wrong, or there is no such language.

    Example:
        >>> from visir.products import open_catalogue
        >>> index = text_index(open_catalogue("generated:50"))
        >>> len(index), index.fields
        (50, ('title', 'category', 'attributes'))
    """
    root = None if root is None else Path(root)
    place = hash_json({"name": catalogue.name, "source": catalogue.source, "language": language, "root": str(root)})
    held = _IN_MEMORY.setdefault(catalogue, {})
    index = held.get(place) or _stored(catalogue, language, ContentStore(TEXT_INDEX, root, name="text-indexes"), place)
    held[place] = index = index.with_settings(bm25f or DEFAULTS)
    return index


def _stored(catalogue: Catalogue, language: str, store: ContentStore, key: str) -> TextIndex:
    """The index in the store; made, or brought up to date, where the catalogue is another one."""
    index = _opened(catalogue, store, key)
    if index is not None:
        return index
    with store.writing(key, waiting="another process is indexing the same texts; waiting for it") as change:
        index = _opened(catalogue, store, key)  # the other process has made it
        if index is not None:
            change.abandon()
            return index
        ids, texts = catalogue_texts(catalogue)
        earlier = None
        if change.manifest.generation:
            try:
                earlier = TextIndex.open(store.path(key))
            except VisirError:  # damaged, or of another version: made anew from the texts
                earlier = None
        index = TextIndex.build(ids, texts, language=language) if earlier is None else earlier.updated(ids, texts)
        index.write(change)
        change.content["catalogue"] = catalogue.fingerprint
    return index


def _opened(catalogue: Catalogue, store: ContentStore, key: str) -> TextIndex | None:
    manifest = store.find(key, hashed=lambda name: False)
    if manifest is None or manifest.content.get("catalogue") != catalogue.fingerprint:
        return None
    try:
        return TextIndex.open(store.path(key))
    except VisirError:
        return None


# Free queries to a catalogue: any words, not only names of its categories.

FUSION_DEPTH = 100
"""How many products of each system are fused."""
WORDS = "bm25f"
"""The name of the search by words in all fields."""
_QUERY = "q"
Ranking = tuple[tuple[str, float], ...]
"""Ids of products with scores, best first."""


@dataclass(frozen=True, eq=False, repr=False)
class ProductAnswer(Tabular):
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
        fusion: How several systems are joined: "rrf" or "weighted". See `visir.retrieval.fusion.fuse`.
        weights: The weight of each model in the fusion, in their order. None weights all alike.
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
        left = {name: by_name[name] for name in runs}
        # Where only systems of weight 0 answered, they are all there is.
        by_name = left if any(left.values()) or len(left) == len(by_name) else None
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
    unit = "cosine"
    if system == WORDS and not Path(system).is_dir():
        index = text_index(catalogue, language=text.language, bm25f=text.bm25f)
        answer = index.search(query, k, **text.for_queries(index, device=device, store=store))
        name, unit, changes = "BM25F", "BM25F", answer.changes
        products = tuple(zip(answer.ids, answer.scores, strict=True))
    else:
        loaded = baseline(str(system), catalogue, device=device, store=store, others=(WORDS,))
        name = loaded.name
        if isinstance(loaded, TitleBm25):
            titles = [title or "" for title in catalogue.products["title"].to_pylist()]
            ((rows, scores),) = loaded.bm25.ranked(titles, [query])
            ids = catalogue.products["id"].take(pa.array(rows[:k])).to_pylist()
            unit, products = "BM25", tuple(zip(ids, map(float, scores[:k]), strict=True))
        else:
            assert isinstance(loaded, CategoryVectorSystem)
            run = nearest_vectors(loaded.query(query, device=device), loaded.products, depth=k).run
            products = tuple(run.answer(query))
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
