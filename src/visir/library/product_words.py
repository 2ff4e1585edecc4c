"""Search by words in a library: an index of its texts, in the same folder as the database.

Of products these are titles, brands, descriptions and attributes; of pictures keywords, titles, people, places, the
captions of the source, and the names of files and folders.

The index is made of the database alone, and both count from the same commit: words never find what the library does not
have. What did not change is not read again (`TextIndex.updated`).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from visir.errors import ConfigurationError, VisirError
from visir.library.database import OWN_FILES, Database
from visir.library.layout import LibraryCard
from visir.records import Run
from visir.retrieval.text.index import TEXT_INDEX, Bm25F, TextIndex
from visir.retrieval.text.words import Language, Plan, Synonyms
from visir.storage import FolderChange

BM25F = Bm25F(
    0.5,
    {"title": 0.75, "brand": 0.75, "category": 0.75, "attributes": 0.4, "description": 0.75},
    {"category": 4.0, "description": 0.5},
)
"""Title, category and attributes as in docs/background/text-search.md; a description counts half of a title."""
OF_PICTURES = Bm25F(
    0.5,
    {"keyword": 0.2, "person": 0.2, "place": 0.2, "title": 0.5, "description": 0.75, "caption": 0.75, "other": 0.4,
     "name": 0.4},
    {"description": 0.5, "caption": 0.5, "other": 0.5, "name": 0.5},
)  # fmt: skip
"""What somebody chose for a picture counts twice what is said about it at length, or what its file is called."""
_WHERE = {
    "keyword": "keyword", "person": "person", "title": "title", "description": "description", "city": "place",
    "place": "place", "county": "place", "region": "place", "country": "place", "location": "place",
}  # fmt: skip
"""From the name of a field of a picture to where its values are searched; other texts are "other"."""
_EXTENSION = re.compile(r"\.[A-Za-z0-9]{2,5}$")
LANGUAGE = "plural"
MOST_RULES = 10_000
"""Synonyms of a library: they stand in its `visir.json`, which is read with every search."""
_OWN = {"brand": "brand", "category": "category", "description": "description"}
"""From the name of a field to where its values are searched; other texts are attributes."""
_NOT_SEARCHED = frozenset({"currency"})


@dataclass(frozen=True, eq=False)
class ProductWords:
    """The words of a library, open for reading."""

    index: TextIndex  # the ids of its documents are the items'
    place: str  # the folder of the index below the library's
    synonyms: Synonyms  # the rules of the library
    # A shop's words are all there is to know of it. Few of what a picture shows is written anywhere, so that a word
    # that is unknown is no misspelling, and vectors answer.
    of_products: bool = True

    def plan(self, text: str) -> Plan:
        """Return what is looked up for a text."""
        return self.index.plan(text, synonyms=self.synonyms, spelling=self.of_products)

    @cached_property
    def says_more(self) -> bool:
        """Whether there is more than names of files and folders."""
        names = [column for column, name in enumerate(self.index.fields) if name != "name"]
        return bool(self.index.postings.lengths[:, names].any())

    def run(self, plans: Mapping[str, Plan], k: int, within: Any) -> tuple[Run, list[int]]:
        """Return the best `k` items of each query, and how many share a word with it; `within`: `TextIndex.search`."""
        return self.index.run_counted(plans, k, name="words", within=within)


def texts_of(database: Database, card: LibraryCard) -> tuple[list[str], dict[str, list[str]]]:
    """Return the ids of all items, and for each field of the index their texts."""
    if card.unit != "products":
        return _texts_of_pictures(database)
    # Values are in order, so that equal products have equal texts. A whole number is a text too ("size 42"); prices and
    # other fractions are for conditions. An attribute stands with its name.
    items = [item for (item,) in database.rows("SELECT id FROM items ORDER BY id")]
    parts: dict[str, dict[str, list[str]]] = {name: defaultdict(list) for name in BM25F.b}  # type: ignore[union-attr]
    for item, text in database.rows("SELECT item, text FROM captions ORDER BY item, text"):
        parts["title"][item].append(text)
    for item, product in database.rows(f"SELECT item, path FROM files WHERE {OWN_FILES} ORDER BY item, path"):
        parts["attributes"][item].append(product)
    for item, name, value in database.rows("SELECT item, name, value FROM fields ORDER BY item, name, value"):
        if name in _NOT_SEARCHED or isinstance(value, float):
            continue
        field = _OWN.get(name)
        text = str(value).replace("/", ", ") if field == "category" else str(value)
        parts[field or "attributes"][item].append(text if field else f"{name} {text}")
    return items, {name: ["\n".join(texts.get(item, ())) for item in items] for name, texts in parts.items()}


def _texts_of_pictures(database: Database) -> tuple[list[str], dict[str, list[str]]]:
    items = [item for (item,) in database.rows("SELECT id FROM items ORDER BY id")]
    parts: dict[str, dict[str, list[str]]] = {name: defaultdict(list) for name in OF_PICTURES.b}  # type: ignore[union-attr]
    for item, text in database.rows("SELECT item, text FROM captions ORDER BY item, text"):
        parts["caption"][item].append(text)
    for item, name, folder in database.rows("SELECT item, name, category FROM files ORDER BY item, path"):
        parts["name"][item].append(f"{_EXTENSION.sub('', name)} {folder}")
    sql = "SELECT item, name, value FROM fields WHERE typeof(value) = 'text' ORDER BY item, name, value"
    for item, name, value in database.rows(sql):
        parts[_WHERE.get(name, "other")][item].append(value)
    return items, {name: ["\n".join(texts.get(item, ())) for item in items] for name, texts in parts.items()}


def settings_of(card: LibraryCard) -> Bm25F:
    """How the words of a library are weighted."""
    return BM25F if card.unit == "products" else OF_PICTURES


def write_words(change: FolderChange, card: LibraryCard, draft: Database, place: str) -> LibraryCard:
    """Bring the words of a library up to date with its new database; the new card."""
    if not card.words:
        return card
    items, texts = texts_of(draft, card)
    before = _opened(change.folder, card)
    index = (
        TextIndex.build(items, texts, language=card.words["language"], bm25f=settings_of(card))
        if before is None
        else before.updated(items, texts)
    )
    if index is before:
        return card
    words = {**card.words, "version": TEXT_INDEX.version, **index.write_part(change, place)}
    return replace(card, words=words)


def open_words(folder: Path, card: LibraryCard, held: ProductWords | None = None) -> ProductWords | None:
    """Open the words of a library; None where it has none, or some of another version."""
    if not has_words(card):
        return None
    place, rules = card.words["place"], Synonyms.of(card.words.get("synonyms", ()))
    same = held is not None and held.place == place
    index = held.index if held and same else TextIndex.read_part(folder, card.words)
    return ProductWords(index, place, rules, card.unit == "products")


def has_words(card: LibraryCard) -> bool:
    """Whether a library has words that this visir reads."""
    return "place" in card.words and card.words.get("version") == TEXT_INDEX.version


def planned_words(current: Mapping[str, Any], language: str | None, synonyms: str | Path | None) -> dict[str, Any]:
    """What the words of a library are to be: those that it has, or new ones where there are none or others."""
    wanted = language or current.get("language", LANGUAGE)
    Language(wanted)
    same = wanted == current.get("language") and current.get("version") == TEXT_INDEX.version
    rules = list(current.get("synonyms", ())) if synonyms is None else _rules(Path(synonyms))
    words = {name: value for name, value in current.items() if name != "synonyms"} if same else {"language": wanted}
    return {**words, "synonyms": rules} if rules else words


def _rules(path: Path) -> list[str]:
    Synonyms.read(path)
    rules = [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines()]
    rules = [rule for rule in rules if rule and not rule.startswith("#")]
    if len(rules) > MOST_RULES:
        raise ConfigurationError(
            f"{path}: {len(rules):,} rules; a library takes {MOST_RULES:,}.", hint="join rules of the same words"
        )
    return rules


def words_are_there(folder: Path, card: LibraryCard, files: Sequence[str]) -> bool:
    """Whether a library has the words that its card plans for, or plans for none; `files` are those of its manifest."""
    if not card.words:
        return True
    below = f"{card.words.get('place')}/"
    own = [name for name in files if name.startswith(below)]
    return bool(own) and all((folder / name).is_file() for name in own)


def _opened(folder: Path, card: LibraryCard) -> TextIndex | None:
    try:
        words = open_words(folder, card)
    except VisirError:  # a part was taken away, as the message about a damaged library says
        return None
    fields = tuple(settings_of(card).b)  # type: ignore[arg-type]
    return None if words is None or words.index.fields != fields else words.index
