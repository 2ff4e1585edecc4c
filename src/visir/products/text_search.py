"""Search the texts of a catalogue by words: an index kept in the cache, and how its queries are read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from weakref import WeakKeyDictionary

from visir.encoders.base import Encoder
from visir.encoders.store import Store
from visir.errors import VisirError
from visir.fingerprint import hash_json
from visir.products.tree import CategoryTree
from visir.records.catalogue import ATTRIBUTES, Catalogue
from visir.retrieval.text.bm25f import Bm25F
from visir.retrieval.text.index import TEXT_INDEX, QueryOptions, TextIndex
from visir.retrieval.text.near_words import NearWords
from visir.retrieval.text.synonyms import Synonyms
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
