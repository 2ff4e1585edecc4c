"""What a reader of catalogues hands over: products to be, and everything it set aside, counted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from visir.collections.draft import Draft
from visir.collections.readers.locate import place_images
from visir.errors import CollectionError
from visir.records.catalogue import ATTRIBUTES, Catalogue, register_path
from visir.records.columns import text_column

DEEPEST = 64
"""A path of more levels (the thesis's deepest has nine) is text that happens to hold many separators."""
_EXAMPLES = 3
_LONGEST = 160
_CHUNK_ROWS, _CHUNK_CHARACTERS = 1 << 18, 1 << 26


@dataclass
class ProductDraft:
    """A catalogue before its pictures are placed.

    Real catalogues have bad rows by the hundred, so a bad row is no reason to stop: it is set aside, counted by what is
    wrong with it, and told in the catalogue's `notes` with the places of the first few. Nothing is dropped silently,
    and nothing is mended beyond white space at the ends of category names, titles and attributes.

    What is kept lies in columns from the start: a list of tuples per product would take several times the memory of the
    catalogue that it becomes.
    """

    name: str
    root: Path
    source: str
    asides: dict[str, list[str]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._pictures = Draft(self.name, self.root, self.source)
        self._seen: set[str] = set()
        self._categories: dict[str, tuple[str, str | None]] = {}
        self._paths: dict[tuple[str, ...], str] = {}
        self._leaves: list[str] = []
        self._titles: list[str | None] = []
        self._attributes = _Attributes(self.name)

    def __len__(self) -> int:
        return len(self._leaves)

    def aside(self, what: str, place: str, count: int = 1) -> None:
        """Count something that is left out (`what`, in the plural) and keep where the first few are."""
        self.counts[what] = self.counts.get(what, 0) + count
        places = self.asides.setdefault(what, [])
        if len(places) < _EXAMPLES:
            places.append(place if len(place) <= _LONGEST else f"{place[:_LONGEST]}…")

    def add(
        self,
        place: str,
        identifier: object,
        path: object,
        *,
        title: object = None,
        attributes: Iterable[tuple[object, object]] = (),
        picture: object = None,
    ) -> None:
        """One product as the source has it, at `place` ("line 7"), unless something forbids.

        - `path`: list of category names from the most general on. A product without one is set aside: whether it is
          relevant to a query is unknown.
        - `attributes`: (name, value) pairs; numbers become text; empty ones and repetitions are counted and left out
        - `picture`: a file name, or the address it was downloaded from, whose last part is the file name
        """
        one = None if isinstance(identifier, (dict, list)) else text_of(identifier)
        if one is None:
            self.aside("rows without a product id", place)
        elif one in self._seen:
            self.aside("rows with the id of an earlier product", f"{place}: {one!r}")
        elif not path:
            self.aside("products without a category", f"{place}: {one!r}")
        elif not isinstance(path, list) or not all(isinstance(name, str) and name.strip() for name in path):
            self.aside("products with an unreadable category path", f"{place}: {one!r}: {_start(path)}")
        elif len(path) > DEEPEST:
            self.aside(
                f"products with a category path of more than {DEEPEST} levels", f"{place}: {one!r}: {len(path):,}"
            )
        else:
            self._seen.add(one)
            label = f"{place}: {one!r}"
            self._pictures.add_image(one, _file_name(self._plain("pictures that are no file name", label, picture)))
            names = tuple(name.strip() for name in path)
            if names not in self._paths:
                self._paths[names] = register_path(names, self._categories)
            self._leaves.append(self._paths[names])
            self._titles.append(text_of(self._plain("titles that are not text", label, title)))
            self._attributes.add(one, self._clean(label, attributes))

    def build(self, images: object = None) -> Catalogue:
        """Place the pictures (as `place_images` does for collections) and make the catalogue.

        Raises `CollectionError` when no product is left.
        """
        notes = [
            f"set aside: {count:,} {what} ({'; '.join(self.asides[what])}{'; …' if count > _EXAMPLES else ''})"
            for what, count in self.counts.items()
        ]
        if not self._leaves:
            reasons = "".join(f"\n  - {note}" for note in notes)
            raise CollectionError(
                f"{self.name} ({self.source}): no products in it.{reasons}", hint="right file, format?"
            )
        place_images(self._pictures, images)
        pictures, categories = self._pictures, self._categories
        return Catalogue(
            self.name,
            pa.table(
                {
                    "id": text_column(pictures.ids, self.name),
                    "title": text_column(self._titles, self.name),
                    "path": text_column(pictures.paths, self.name),
                    "archive": text_column(pictures.archives, self.name),
                    "category_id": text_column(self._leaves, self.name),
                }
            ),
            self._attributes.table(),
            pa.table(
                {
                    "id": text_column(list(categories), self.name),
                    "name": text_column([name for name, _ in categories.values()], self.name),
                    "parent": text_column([above for _, above in categories.values()], self.name),
                }
            ),
            self.root.absolute(),
            "; ".join([self.source, *pictures.notes]),
            tuple(notes),
        )

    def _plain(self, what: str, place: str, value: object) -> object:
        """The value unless it is a structure, which is counted."""
        if isinstance(value, (dict, list)):
            self.aside(f"{what} (the product is kept)", f"{place}: {_start(value)}")
            return None
        return value

    def _clean(self, place: str, attributes: Iterable[tuple[object, object]]) -> list[tuple[str, str]]:
        kept: dict[tuple[str, str], None] = {}
        for name, values in attributes:
            label = text_of(name)
            for value in values if isinstance(values, list) else [values]:
                if isinstance(value, (dict, list)):
                    self.aside("attributes that are not text", f"{place}: {label!r}")
                    continue
                text = text_of(value)
                if label is None:
                    self.aside("attributes without a name", place)
                elif text is None:
                    self.aside("attributes without a value", f"{place}: {label!r}")
                elif (label, text) in kept:
                    self.aside("repetitions of an attribute of the same product", f"{place}: {label!r}")
                else:
                    kept[label, text] = None
        return list(kept)


class _Attributes:
    """The attributes' table in the making: Python's texts become a chunk of columns every now and then."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._chunks: list[pa.Table] = []
        self._columns: tuple[list[str], list[str], list[str]] = ([], [], [])
        self._size = 0

    def add(self, owner: str, pairs: list[tuple[str, str]]) -> None:
        for column, values in zip(self._columns, ([owner] * len(pairs), *zip(*pairs, strict=True)), strict=False):
            column.extend(values)
        self._size += sum(len(value) for _, value in pairs)
        if len(self._columns[0]) >= _CHUNK_ROWS or self._size >= _CHUNK_CHARACTERS:
            self._flush()

    def table(self) -> pa.Table:
        self._flush()
        return pa.concat_tables(self._chunks)

    def _flush(self) -> None:
        columns = zip(ATTRIBUTES.names, self._columns, strict=True)
        self._chunks.append(pa.table({name: text_column(values, self._name) for name, values in columns}))
        self._columns, self._size = ([], [], []), 0


def _start(value: object) -> str:
    """How something begins, whatever its length."""
    return repr((value if isinstance(value, str) else str(value[:5] if isinstance(value, list) else value))[:60])


def text_of(value: object) -> str | None:
    """The text of a cell, or None where there is nothing: null, blank, or the not-a-number that pandas writes."""
    if type(value) is str:
        return value.strip() or None
    if value is None or value != value:
        return None
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text.strip() or None


def _file_name(value: object) -> str | None:
    text = text_of(value)
    if text is None or "://" not in text:
        return text
    return text.split("?")[0].rstrip("/").rsplit("/", 1)[-1] or None
