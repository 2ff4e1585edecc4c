"""What a reader of catalogues hands over: products to be, and everything it rejected, counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

import pyarrow as pa

from visir.collections.draft import SourceDraft
from visir.collections.readers.rows import RowFault
from visir.errors import CollectionError
from visir.records.catalogue import ATTRIBUTES, Catalogue, register_path
from visir.records.columns import text_column

DEEPEST = 64
"""A path of more levels (the thesis's deepest has nine) is text that happens to hold many separators."""
UNCATEGORISED = "(no category)"
"""Id and name of the category of products that have none, where they are wanted (`with_uncategorised`)."""
_wanted: ContextVar[bool] = ContextVar("products without a category are wanted", default=False)
_EXAMPLES = 3
_LONGEST = 160
_CHUNK_ROWS, _CHUNK_CHARACTERS = 1 << 18, 1 << 26


@contextmanager
def with_uncategorised() -> Iterator[None]:
    """Drafts that are read inside this block have the products without a category too, under `UNCATEGORISED`."""
    # Elsewhere they are set aside and counted: nobody knows to which queries they are relevant.
    token = _wanted.set(True)
    try:
        yield
    finally:
        _wanted.reset(token)


@dataclass
class ProductDraft(SourceDraft):
    """A catalogue before its pictures are placed."""

    # Real catalogues have bad rows by the hundred, so a bad row is no reason to stop: it is left out, counted by what
    # is wrong with it, and listed in the catalogue's `notes` with the places of the first few. Nothing is dropped
    # silently, and nothing is changed but white space at the ends of category names, titles and attributes.
    # Products lie in columns from the start: a list of tuples per product would take several times the memory of the
    # catalogue that it becomes.

    # What is left out (in the plural) → the places of the first few.
    rejected: dict[str, list[str]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)  # what is left out → how often

    def __post_init__(self) -> None:
        self._ids: set[str] = set()
        self._categories: dict[str, tuple[str, str | None]] = {}
        self._category_ids: dict[tuple[str, ...], str] = {}
        self._category_of_product: list[str] = []
        self._titles: list[str | None] = []
        self._attributes = _AttributeColumns(self.name)

    def __len__(self) -> int:
        return len(self.ids)

    def reject(self, problem: str, place: str, count: int = 1) -> None:
        """Count something that is left out."""
        self.counts[problem] = self.counts.get(problem, 0) + count
        places = self.rejected.setdefault(problem, [])
        if len(places) < _EXAMPLES:
            places.append(place if len(place) <= _LONGEST else f"{place[:_LONGEST]}…")

    def reject_row(self, fault: RowFault, place: str, detail: str) -> None:
        """Count a row that cannot be read, as `visir.collections.readers.rows.read_rows` reports it."""
        self.reject(fault.plural, f"{place}: {detail}")

    def fault(self, text: str) -> None:
        """Count a picture that cannot be placed; the product stays."""
        self.reject("pictures that could be several files (the first is taken)", text)

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
        """Add one product as the source has it, unless something forbids."""
        # attributes: (name, value) pairs; numbers become text; empty ones and repetitions are counted and left out.
        product = None if isinstance(identifier, (dict, list)) else text_of(identifier)
        if not path and _wanted.get():
            path = [UNCATEGORISED]
        if product is None:
            self.reject("rows without a product id", place)
        elif product in self._ids:
            self.reject("rows with the id of an earlier product", f"{place}: {product!r}")
        elif not path:
            self.reject("products without a category", f"{place}: {product!r}")
        elif not isinstance(path, list) or not all(isinstance(name, str) and name.strip() for name in path):
            self.reject("products with an unreadable category path", f"{place}: {product!r}: {_start(path)}")
        elif len(path) > DEEPEST:
            self.reject(
                f"products with a category path of more than {DEEPEST} levels", f"{place}: {product!r}: {len(path):,}"
            )
        else:
            self._ids.add(product)
            label = f"{place}: {product!r}"
            self.ids.append(product)
            self.names.append(_file_name(self._plain("pictures that are no file name", label, picture)))
            names = tuple(name.strip() for name in path)
            if names not in self._category_ids:
                self._category_ids[names] = register_path(names, self._categories)
            self._category_of_product.append(self._category_ids[names])
            self._titles.append(text_of(self._plain("titles that are not text", label, title)))
            self._attributes.add(product, self._clean(label, attributes))

    def build(self) -> Catalogue:
        """The catalogue; raises `CollectionError` when no product is left."""
        notes = [
            f"set aside: {count:,} {problem} ({'; '.join(self.rejected[problem])}{'; …' if count > _EXAMPLES else ''})"
            for problem, count in self.counts.items()
        ]
        if not self.ids:
            reasons = "".join(f"\n  - {note}" for note in notes)
            raise CollectionError(
                f"{self.name} ({self.source}): no products in it.{reasons}",
                hint="right file, format?",
                code="no-products",
            )
        categories = self._categories
        return Catalogue(
            self.name,
            pa.table(
                {
                    "id": self.column(self.ids),
                    "title": self.column(self._titles),
                    "path": self.column(self.paths),
                    "archive": self.column(self.archives),
                    "category_id": self.column(self._category_of_product),
                }
            ),
            self._attributes.table(),
            pa.table(
                {
                    "id": self.column(list(categories)),
                    "name": self.column([name for name, _ in categories.values()]),
                    "parent": self.column([parent for _, parent in categories.values()]),
                }
            ),
            self.root.absolute(),
            self.described_source(),
            tuple(notes),
        )

    def _plain(self, problem: str, place: str, value: object) -> object:
        """The value unless it is a structure, which is counted."""
        if isinstance(value, (dict, list)):
            self.reject(f"{problem} (the product is kept)", f"{place}: {_start(value)}")
            return None
        return value

    def _clean(self, place: str, attributes: Iterable[tuple[object, object]]) -> list[tuple[str, str]]:
        pairs: dict[tuple[str, str], None] = {}
        for name, values in attributes:
            label = text_of(name)
            for value in values if isinstance(values, list) else [values]:
                if isinstance(value, (dict, list)):
                    self.reject("attributes that are not text", f"{place}: {label!r}")
                    continue
                text = text_of(value)
                if label is None:
                    self.reject("attributes without a name", place)
                elif text is None:
                    self.reject("attributes without a value", f"{place}: {label!r}")
                elif (label, text) in pairs:
                    self.reject("repetitions of an attribute of the same product", f"{place}: {label!r}")
                else:
                    pairs[label, text] = None
        return list(pairs)


class _AttributeColumns:
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
