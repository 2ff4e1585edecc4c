"""What a reader of catalogues hands over, and a shop's table as a catalogue: CSV, TSV, JSON lines or Parquet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from visir.collections.cells import Counts, text_of
from visir.collections.draft import SourceDraft
from visir.collections.readers.products import (
    ATTRIBUTES as ATTRIBUTES_COLUMNS,
)
from visir.collections.readers.products import (
    CATEGORY,
    COLUMN_OPTIONS,
    ID,
    ShopColumns,
    ShopProduct,
    by_plain_name,
    place_of,
    prices_in_words,
    read_shop,
)
from visir.collections.readers.shop_cells import attribute_pairs
from visir.collections.sources import Format, Option, bad_rows_option
from visir.collections.tables import RowFault, sniffed_columns
from visir.errors import CollectionError, nearest, raise_faults
from visir.records.catalogue import ATTRIBUTES, Catalogue, register_path
from visir.records.columns import text_column

# What a reader of catalogues hands over: products to be, and everything it rejected, counted.

DEEPEST = 64
"""A path of more levels (the thesis's deepest has nine) is text that happens to hold many separators."""
UNCATEGORISED = "(no category)"
"""Id and name of the category of products that have none, where they are wanted (`with_uncategorised`)."""
_wanted: ContextVar[bool] = ContextVar("products without a category are wanted", default=False)
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

    rejected: Counts = field(default_factory=Counts)  # what is left out, in the plural
    prices: Mapping[str, str] = field(default_factory=dict)  # product id to its price, in words

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
        self.rejected.count(problem, place, count, _LONGEST)

    def reject_row(self, fault: RowFault, place: str, detail: str) -> None:
        """Count a row that cannot be read, as `visir.collections.tables.read_rows` reports it."""
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
            self.names.append(text_of(self._plain("pictures that are no file name", label, picture)))
            names = tuple(name.strip() for name in path)
            if names not in self._category_ids:
                self._category_ids[names] = register_path(names, self._categories)
            self._category_of_product.append(self._category_ids[names])
            self._titles.append(text_of(self._plain("titles that are not text", label, title)))
            self._attributes.add(product, self._clean(label, attributes))

    def build(self) -> Catalogue:
        """The catalogue; raises `CollectionError` when no product is left."""
        notes = self.rejected.lines("set aside: {count:,} {what} ({shown})", "; ")
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
            self.prices,
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
            for value in values if isinstance(values, list) else (values,):
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


Amend = Callable[[ProductDraft, str, str, ShopProduct], bool]
"""Changes a product of a published layout (draft, its label, its id, the product); whether it stays."""


def catalogue_of(
    table: Any,
    source: str,
    *,
    attribute_columns: Sequence[str] = (),
    decimal: str = "",
    amend: Amend = lambda draft, label, product, about: True,
    **options: Any,
) -> ProductDraft:
    """A shop's table, read as a library reads it (`read_shop`), as a catalogue: of several paths the first counts."""
    # The thesis gives every product one path (section 7.4.1); further ones are counted.
    draft = ProductDraft(*place_of(table), source)
    where = table if isinstance(table, Path) else draft.name
    faults: list[str] = []
    shop = read_shop(table, faults.append, **options)
    raise_faults(CollectionError, f"{draft.name} ({source})", faults, hint="mend the table, or bad_rows=skip")
    columns = shop.columns
    if columns is None:
        draft.rejected = shop.left_out
        return draft
    draft.prices = prices_in_words(shop, columns, decimal or None)
    draft.rejected = shop.left_out + shop.report
    faults = [f"no column {name!r} ({nearest(name, shop.header)})" for name in attribute_columns
              if name not in shop.header]  # fmt: skip
    raise_faults(CollectionError, f"{where}: attribute_columns", faults, code="no-such-column")
    named = {name: column for name, column in options.items() if name.endswith("_column")}
    if not columns.category and not ShopColumns.find(where, shop.header, **named).category:
        raise CollectionError(
            f"{where}: no column of categories.",
            hint=f"category_column= names it; there are {list(shop.header)}",
            code="collection-no-column-3",
        )
    draft.notes += [doubt for doubt in columns.doubts if not doubt.startswith("price")]
    for product, about in shop.products.items():
        row, label = about.row, f"{about.place}: {product!r}"
        if about.paths and not about.is_whole:
            cells = [row.get(column) for column in columns.category]
            draft.reject("products with an unreadable category path", f"{label}: {str(cells)[1:-1][:60]}")
            continue
        if len(about.paths) > 1:
            draft.reject("further category paths of a product that has several", label, len(about.paths) - 1)
        if not amend(draft, label, product, about):
            continue
        described = list(pairs(draft, label, row.get(columns.attributes))) if columns.attributes else []
        # An empty cell says that the product has no such attribute, not that somebody forgot its value.
        described += [(name, row.get(name)) for name in attribute_columns if row.get(name) not in (None, "")]
        draft.add(
            about.place,
            product,
            list(about.paths[0]) if about.paths else None,
            title=about.title,
            attributes=described,
            picture=next(iter(about.pictures), None),
        )
        about.row = {}  # its texts are in the draft's columns now
    return draft


def read(table: Any, *, attribute_columns: str | None = None, **options: Any) -> ProductDraft:
    """Read a shop's table, a file or in memory."""
    names = [name.strip() for name in (attribute_columns or "").split(",") if name.strip()]
    source = f"table {table.name}" if isinstance(table, Path) else "a table in memory"
    return catalogue_of(table, source, attribute_columns=names, **options)


def pairs(draft: ProductDraft, place: str, value: object) -> Iterator[tuple[object, object]]:
    """(name, value) of an attributes cell; what is none is counted."""
    no_pair = "attributes that are no pair of name and value"
    try:
        yield from attribute_pairs(value, lambda entry: draft.reject(no_pair, f"{place}: {str(entry)[:40]!r}"))
    except orjson.JSONDecodeError as fault:
        draft.reject("lists of attributes that are not valid JSON (the product is kept)", f"{place}: {fault}")


def _sniff(path: Path) -> bool:
    columns = by_plain_name(sniffed_columns(path)) if path.is_file() else {}
    return bool(columns.keys() & set(ID)) and bool(columns.keys() & set(CATEGORY))


FORMAT = Format(
    name="products",
    title="table of products of a shop",
    layout="file.csv, .tsv, .jsonl or .parquet (.gz, .xz) with columns of ids, category paths, titles, …",
    reference="",
    sniff=_sniff,
    options=(
        *COLUMN_OPTIONS,
        Option("attributes_column", f"the column of all attributes (default: {', '.join(ATTRIBUTES_COLUMNS)})"),
        Option("attribute_columns", "columns that are an attribute each, comma-separated"),
        bad_rows_option("skip"),
    ),
    read=read,
    one_file=True,
)
