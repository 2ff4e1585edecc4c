"""A shop's products: read once, whatever exported them, into a `CatalogueDraft`.

Of a draft comes a collection, for libraries and searches (`build`): each picture of a product is an image (or there is
one without a picture) under its id; its title is the caption, its categories, prices and other columns are facts of the
first of these images. And a catalogue, for category models (`catalogue`): products with attributes, and the tree of
their categories. The reader of tables is here, published exports are in `shop_exports.py` and `shop_layouts.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from visir.collections.cells import LONGEST_WORD, Counts, id_of, is_missing, moment_of, says_nothing, text_of
from visir.collections.draft import Draft
from visir.collections.readers.names import gc_paused, plain_stem
from visir.collections.readers.shop_cells import (
    CategoryStyle,
    as_folder,
    attribute_pairs,
    picture_names,
    without_entities,
)
from visir.collections.readers.shop_columns import (
    ATTRIBUTES,
    BRAND,
    CATEGORY,
    COLUMN_OPTIONS,
    ID,
    IMPACT,
    NAMES_ITSELF,
    ShopColumns,
    by_plain_name,
    is_shop,
)
from visir.collections.readers.shop_fields import (
    Amount,
    Prices,
    Variant,
    field_columns,
    named_values,
    read_prices,
    short,
    state_of,
    words_of_prices,
)
from visir.collections.sources import Format, Option, bad_rows_option
from visir.collections.tables import BadRows, is_table, is_text_table, plain_column, read_table, sniffed_columns
from visir.errors import CollectionError, nearest, raise_faults
from visir.records import Collection
from visir.records.catalogue import ATTRIBUTES as ATTRIBUTE_TABLE
from visir.records.catalogue import VARIANTS, Catalogue
from visir.records.category_tree import register_path
from visir.records.columns import text_column

PRODUCT = "product"
"""The fact that holds the id of the product that a picture shows."""
PICTURES = "pictures"
"""The fact that holds the names of a product's pictures as the table has them."""
NOTE = "products: "
"""How the notes of a source begin that say how a table was read, and what was counted in it."""
UNCATEGORISED = "(no category)"
"""Id and name of the category of products that have none, where they are wanted."""
DEEPEST = 64
"""A path of more levels (the thesis's deepest has nine) is text that happens to hold many separators."""
_OWN_TABLES = ("category", PICTURES)
_LONGEST = 160
_CHUNK_ROWS, _CHUNK_CHARACTERS = 1 << 18, 1 << 26
_DOUBTFUL = "prices that can be read in two ways (the product is kept)"
_AMBIGUOUS = "pictures that could be several files (the first is taken)"
Names = tuple[str, ...]
Paths = tuple[Sequence[Names], bool]
"""The category paths of a row, and whether each level of the first has a name, which is a text."""
Rows = Iterable[tuple[str, dict[str, Any]]]


@dataclass(slots=True)
class ShopProduct:
    """A product, from its first row on."""

    place: str  # "line 7"
    title: str  # its title, "" where it has none
    row: dict[str, Any]  # its cells; an empty one is filled from a later row with the same id
    pictures: list[str]  # the file names of its pictures
    paths: Sequence[Names]  # its category paths; equal ones are one object
    is_whole: bool  # whether each level of the first path has a name, which is a text
    variants: Sequence[Variant] = ()  # the rows of its variants


Amend = Callable[[str, ShopProduct, Counts], None]
"""Changes a product of a published layout (its id, the product, what is counted)."""


@dataclass
class CatalogueDraft(Draft):
    """A shop's products before their pictures are placed and anything is checked."""

    # Real exports have bad rows by the hundred. A catalogue leaves them out, counted by what is wrong with them, in its
    # notes; nothing is dropped silently, and nothing is changed but white space at the ends of names, titles and
    # attributes. A collection refuses them, unless they are to be skipped.

    header: tuple[str, ...] = ()  # all columns of the table
    columns: ShopColumns | None = None  # those with a cell; None for an empty table
    products: dict[str, ShopProduct] = field(default_factory=dict)  # by id, in the order of their first rows
    left_out: Counts = field(default_factory=Counts)  # the rows that cannot be read
    report: Counts = field(default_factory=Counts)  # what was joined, or read as something else
    about: str = ""  # where the catalogue comes from, in words
    category: str = ""  # how a cell of categories is read, as an example; "" where there is none
    categorised: bool = True  # whether there is a column of categories at all
    attribute_columns: Sequence[str] = ()  # columns that are an attribute each
    prices: Prices = field(default_factory=lambda: Prices({}, []))  # of the products
    of_variants: Prices = field(default_factory=lambda: Prices({}, []))  # of their variants
    decimal: str | None = None  # what stands before the cents
    day: int | None = None  # the moment whose sales count

    def __post_init__(self) -> None:
        self._first_rows: list[int] = []  # (products,) the row of its first picture
        self._shows: list[str] = []  # (n,) the product of each picture
        self._fields: dict[str, pa.Array] = {}  # from name to (products,) values
        self._doubts: dict[str, str] = {}  # faults that a catalogue counts: what is wrong
        self._placing = False
        self._of_source: list[str] = []  # what a collection says of the table

    def __len__(self) -> int:
        return len(self.products)

    def fault(self, text: str) -> None:
        """Write down a fault."""
        if self._placing:
            self.doubt(_AMBIGUOUS, text)
        else:
            super().fault(text)

    def doubt(self, problem: str, text: str) -> None:
        """Write down what is a fault of a collection, and which a catalogue counts."""
        self._doubts[text] = problem
        self.faults.append(text)

    def described_source(self) -> str:
        """Where it comes from, with the notes."""
        return "; ".join([self.source, *self._of_source, *self.notes])

    def complete(self) -> None:
        """List pictures, titles and fields, once all products are there."""
        for product, about in self.products.items():
            self._first_rows.append(len(self.ids))
            for number, name in enumerate(about.pictures or [None], start=1):
                image = product if number == 1 else f"{product}#{number}"
                while number > 1 and image in self.products:
                    image += "'"
                self.add_image(image, name)
                self._shows.append(product)
            if about.title:
                self.add_caption(product, about.title, product)
        self._placing = True
        if self.columns is None:
            return
        of_collection = Counts()
        every = list(self.products.values())
        for product, about in self.products.items():
            for what, is_there in (("picture", about.pictures), ("category", about.paths), ("title", about.title)):
                if not is_there:
                    of_collection.count(f"without a {what}", product)
        rows, places = [about.row for about in every], [about.place for about in every]
        variants = [(about, variant) for about in every for variant in about.variants]
        sold = [_priced(variant.row, about.row, self.columns) for about, variant in variants]
        prices = read_prices(
            self.columns, rows + sold, places + [variant.place for _, variant in variants], self.report,
            lambda text: self.doubt(_DOUBTFUL, text), count=len(rows), decimal=self.decimal, day=self.day,
        )  # fmt: skip
        self.prices, self.of_variants = prices.part(0, len(rows)), prices.part(len(rows), None)
        fields = field_columns(self.columns, [(about.place, about.row, about.variants) for about in every],
                                     self.prices, self.decimal, of_collection)  # fmt: skip
        if "price" in fields:
            for product, price in zip(self.products, self.prices.paid, strict=True):
                if not price[0]:
                    of_collection.count("without a price", product)
        self.prices.columns.clear()
        fields["category"] = [[as_folder(path) for path in about.paths] or None for about in every]
        fields[PICTURES] = [about.pictures or None for about in every]
        self._fields = {name: values for name, values in fields.items() if values.null_count < len(values)}
        self._describe(self.columns, of_collection)
        remaining = [*filter(None, [self.columns.attributes]), *self.attribute_columns]
        for about in every:
            if not about.variants:  # its texts are in the columns now
                about.row = {name: about.row[name] for name in remaining if name in about.row} if remaining else {}

    def _describe(self, columns: ShopColumns, counted: Counts) -> None:
        """Say how the table was read, and what was counted in it."""
        found_columns = {
            "id": columns.id, "title": columns.title, "pictures": ", ".join(columns.images),
            "category": ", ".join(columns.category), "price": ", ".join(columns.prices), "brand": columns.brand,
        }  # fmt: skip
        read_as = ", ".join(f"{role} from {name!r}" for role, name in found_columns.items() if name)
        pictureless = [] if columns.images else ["no column of pictures (image_column= names it)"]
        lines = [f"{len(self.products):,} read, {read_as}", *pictureless, *columns.doubts]
        if len(columns.prices) > 1:
            taken = ", ".join(f"{name!r} {count:,}" for name, count in self.prices.taken.items())
            without = counted.counts.get("without a price", 0)
            lines.append(f"prices by column: {taken}, products without a price {without:,}")
        lines += filter(None, [self.category])
        lines += self.left_out.lines("{what} (left out): {count:,} ({shown})", ", ")
        lines += (self.report + counted).lines("{what}: {count:,} ({shown})", ", ")
        self._of_source = [NOTE + line.replace("; ", ", ") for line in lines]

    def build(self) -> Collection:
        """The checked collection; raises `CollectionError` with every fault otherwise."""
        if self.columns is not None:
            # A fact stands beside the first picture of its product.
            beside: list[int | None] = [None] * len(self.ids)
            for row, at in enumerate(self._first_rows):
                beside[at] = row
            at_pictures = pa.array(beside, pa.int64())
            facts = {name: values.take(at_pictures) for name, values in self._fields.items()}
            self.facts = pa.table({"image_id": pa.array(self.ids), PRODUCT: pa.array(self._shows), **facts})
        return super().build()

    def catalogue(self, *, uncategorised: bool = False) -> Catalogue:
        """The products that have a category, as a catalogue; of several paths of a product the first is its own."""
        # uncategorised: Whether products without a category are wanted too, under `UNCATEGORISED`. Elsewhere they are
        # set aside and counted: nobody knows to which queries they are relevant.
        # The thesis gives every product one path (section 7.4.1); further ones are counted.
        read = self.left_out + self.report
        counts = Counts(dict(read.counts), {what: list(examples) for what, examples in read.examples.items()})
        for text, problem in self._doubts.items():
            if problem:
                counts.count(problem, text, longest=_LONGEST)
        raise_faults(
            CollectionError,
            f"{self.name} ({self.about})",
            [fault for fault in self.faults if fault not in self._doubts],
            hint="mend the table, or bad_rows=skip",
        )
        if self.columns is not None and not self.categorised:
            raise CollectionError(
                f"{self.root / self.name}: no column of categories.",
                hint=f"category_column= names it; there are {list(self.header)}",
                code="collection-no-column-3",
            )
        with gc_paused():
            made = _Products(self, counts, uncategorised)
        doubts = self.columns.doubts if self.columns else ()
        notes = counts.lines("set aside: {count:,} {what} ({shown})", "; ")
        source = "; ".join([self.about, *(doubt for doubt in doubts if not doubt.startswith("price")), *self.notes])
        if not made.rows:
            reasons = "".join(f"\n  - {note}" for note in notes)
            raise CollectionError(
                f"{self.name} ({source}): no products in it.{reasons}", hint="right file, format?", code="no-products"
            )
        return made.catalogue(source, notes)


class _Products:
    """The columns of a catalogue in the making."""

    def __init__(self, draft: CatalogueDraft, counts: Counts, uncategorised: bool) -> None:
        self.draft, self.counts = draft, counts
        self.rows: list[int] = []  # of the products that are kept, among those of the draft
        self.categories: dict[str, tuple[str, str | None]] = {}
        self.paths: list[tuple[str, Names]] = []  # (product, names) of every path
        self._ids: dict[Names, str] = {}
        self._own: list[str] = []
        self._attributes = _AttributeColumns(draft.name)
        for number, (product, about) in enumerate(draft.products.items()):
            label = f"{about.place}: {product!r}"
            paths = about.paths or ([(UNCATEGORISED,)] if uncategorised else [])
            if about.paths and not about.is_whole:
                shown = " > ".join(about.paths[0])[:60]
                self.reject("products with an unreadable category path", f"{label}: {shown!r}")
            elif not paths:
                if about.is_whole:  # otherwise it is counted already
                    self.reject("products without a category", label)
            elif len(paths[0]) > DEEPEST:
                self.reject(f"products with a category path of more than {DEEPEST} levels",
                             f"{label}: {len(paths[0]):,}")  # fmt: skip
            else:
                if len(paths) > 1:
                    self.reject("further category paths of a product that has several", label, len(paths) - 1)
                self.rows.append(number)
                self._own.append(self._category(paths[0]))
                self.paths += [(product, path) for path in paths]
                self._attributes.add(product, self._cleaned(label, self._described(label, about.row)))

    def reject(self, problem: str, place: str, count: int = 1) -> None:
        self.counts.count(problem, place, count, _LONGEST)

    def _category(self, names: Names) -> str:
        if names not in self._ids:
            self._ids[names] = register_path(names, self.categories)
        return self._ids[names]

    def _described(self, label: str, row: Mapping[str, Any]) -> Iterator[tuple[object, object]]:
        """(name, value) of what is an attribute of a product; what is no such pair is counted."""
        column = self.draft.columns.attributes if self.draft.columns else None
        if column:
            no_pair = "attributes that are no pair of name and value"
            try:
                yield from attribute_pairs(
                    row.get(column), lambda entry: self.reject(no_pair, f"{label}: {str(entry)[:40]!r}")
                )
            except orjson.JSONDecodeError as fault:
                self.reject("lists of attributes that are not valid JSON (the product is kept)", f"{label}: {fault}")
        # An empty cell says that the product has no such attribute, not that somebody forgot its value.
        yield from ((name, row[name]) for name in self.draft.attribute_columns if row.get(name) not in (None, ""))

    def _cleaned(self, place: str, attributes: Iterable[tuple[object, object]]) -> list[tuple[str, str]]:
        """Attributes as texts; empty ones and repetitions are counted and left out."""
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

    def catalogue(self, source: str, notes: Sequence[str]) -> Catalogue:
        """The checked catalogue."""
        draft = self.draft

        def column(values: Sequence[str | None]) -> pa.Array:
            return text_column(values, draft.name)

        every, ids = list(draft.products.values()), list(draft.products)
        remaining = [ids[row] for row in self.rows]
        first = pa.array([draft._first_rows[row] for row in self.rows], pa.int64())
        places = {name: draft.column(values) for name, values in (("path", draft.paths), ("archive", draft.archives))}
        ends = [*draft._first_rows[1:], len(draft.ids)]
        shown = [at for row in self.rows if every[row].pictures for at in range(draft._first_rows[row], ends[row])]
        owners = [ids[row] for row in self.rows for _ in every[row].pictures]
        words = words_of_prices(draft.prices) if draft.prices.paid else [""] * len(ids)
        rows = pa.array(self.rows, pa.int64())
        fields = {name: values.take(rows) for name, values in draft._fields.items() if name not in _OWN_TABLES}
        return Catalogue(
            draft.name,
            pa.table({"id": column(remaining), "title": column([every[row].title or None for row in self.rows]),
                      **{name: values.take(first) for name, values in places.items()},
                      "category_id": column(self._own)}),
            self._attributes.table(),
            pa.table({"id": column(list(self.categories)),
                      "name": column([name for name, _ in self.categories.values()]),
                      "parent": column([parent for _, parent in self.categories.values()])}),
            draft.root.absolute(),
            source,
            tuple(notes),
            {ids[row]: words[row] for row in self.rows if words[row]},
            images=pa.table({"product_id": column(owners),
                             "name": column([name for row in self.rows for name in every[row].pictures]),
                             **{name: values.take(pa.array(shown, pa.int64())) for name, values in places.items()}}),
            paths=pa.table({"product_id": column([product for product, _ in self.paths]),
                            "path": pa.array([names for _, names in self.paths], pa.list_(pa.string()))}),
            fields=pa.table({"product_id": column(remaining), **fields}),
            variants=self._variants(),
        )  # fmt: skip

    def _variants(self) -> pa.Table:
        """The variants of all products, with what each costs and whether there is any."""
        draft, columns = self.draft, self.draft.columns
        every = [(product, about, variant) for product, about in draft.products.items() for variant in about.variants]
        if columns is None or not every:
            return VARIANTS.empty_table()
        nothing: list[Amount] = [((), None)] * len(every)
        prices = draft.of_variants
        impacts = next((own for name, own in prices.columns.items() if plain_column(name) == IMPACT), nothing)
        of_products = dict(zip(draft.products, draft.prices.paid, strict=False))
        remaining = {product for product, _ in self.paths}
        listed = []
        for (product, about, variant), (numbers, currency), (impact, _) in zip(
            every, prices.paid or nothing, impacts, strict=True
        ):
            if not numbers:
                numbers, currency = of_products.get(product, ((), None))
                numbers = tuple(number + sum(impact) for number in numbers)
            if product not in remaining:
                continue
            named = named_values(columns, variant.row, about.row)
            own = {name: text for name in columns.differing if (text := text_of(variant.row.get(name)))}
            options = {name: ", ".join(values) for name, values in named.items()} | own
            names = [name for column in columns.images for name in picture_names(variant.row.get(column))]
            cell = variant.row.get(columns.availability) if columns.availability else None
            listed.append({
                "product_id": product, "id": variant.id, "options": list(options.items()),
                "price": numbers[0] if numbers else None, "currency": currency if numbers else None,
                "availability": state_of(cell), "picture": names[0] if names else None,
            })  # fmt: skip
        return pa.Table.from_pylist(listed, VARIANTS)


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
        columns = zip(ATTRIBUTE_TABLE.names, self._columns, strict=True)
        self._chunks.append(pa.table({name: text_column(values, self._name) for name, values in columns}))
        self._columns, self._size = ([], [], []), 0


# The rows of a table become products.


def place_of(source: Any) -> tuple[str, Path]:
    """The name of what a table becomes, and the folder to which its pictures are relative."""
    return (plain_stem(source), source.parent) if isinstance(source, Path) else ("products", Path.cwd())


def read(
    source: Any,
    *,
    decimal: str = "",
    prices_on: str = "",
    separator: str | None = None,
    paths_separator: str | None = None,
    bad_rows: str = "refuse",
    encoding: str = "",
    delimiter: str = "",
    quotes: str = "",
    attribute_columns: str | Sequence[str] | None = None,
    about: str = "",
    amend: Amend | None = None,
    **given: str | None,
) -> CatalogueDraft:
    """Read a table of products, a file or in memory."""
    # - Rows with the same id are one product where no cell contradicts: pictures and categories are added up, empty
    #   cells filled. Where one does, the first row counts, and both lines are reported.
    # - A category cell may hold one path or several. How it is written is found out (`CategoryStyle.find`).
    # - So are rows of variants, which name their product (`GROUP`); what differs between them is that of the first.
    # - HTML entities are read as characters (`without_entities`), but for ids.
    # - A product may have no picture, no category, no title and no price; each is counted and named.
    # - Prices are numbers, whatever sign of a currency stands beside them (`read_amounts`); other columns are numbers
    #   where all their cells are.
    # Columns without any cell are left out of account.
    name, root = place_of(source)
    called = source.name if isinstance(source, Path) else "in memory"
    about = about or (f"table {called}" if isinstance(source, Path) else "a table in memory")
    draft = CatalogueDraft(name, root, f"table of products {called}", about=about, decimal=decimal or None,
                           day=_day(prices_on))  # fmt: skip
    table = read_table(source, header="yes", encoding=encoding, delimiter=delimiter, quotes=quotes)
    path = table.path or Path(table.name)
    bad = BadRows(path.name, draft.fault, bad_rows, draft.left_out)
    rows = list(table.rows(bad.row))
    header = table.columns
    if table.layout is None and rows:
        header = list(dict.fromkeys(column for _, row in rows for column in row))
    if header:
        draft.header = tuple(header)
        columns = _columns_of(path, header, rows, given)
        draft.attribute_columns = _attribute_columns(attribute_columns, header, path)
        draft.categorised = bool(columns.category or ShopColumns.find(path, header, **given).category)
        known = (columns.title, columns.brand, columns.currency, *columns.images, *columns.category, *columns.prices)
        meant = frozenset(filter(None, known))
        for place, row in rows:
            _make_plain(row, columns, meant, place, draft.report)
        paths_of, draft.category = _categories(path, columns, rows, separator, paths_separator)
        fill(draft, rows, columns, paths_of, bad, amend)
    rows = []  # what the products need of them is theirs
    if not draft.products and not draft.faults:
        draft.fault(f"{name}: it is empty, or has no products below its header line; is it the right file?")
        draft._doubts[draft.faults[-1]] = ""
    draft.complete()
    return draft


def _day(text: str) -> int | None:
    if not text:
        return None
    moment = moment_of(text)
    if moment is None:
        raise CollectionError(f"prices_on={text}: no day.", hint="write it as 2026-11-28", code="no-day")
    return moment[0]


def _columns_of(path: Path, header: Sequence[str], rows: Sequence[tuple[str, dict[str, Any]]],
                given: Mapping[str, str | None]) -> ShopColumns:  # fmt: skip
    """Which column holds what, among those with a cell."""
    named = {name.strip() for text in given.values() if text for name in (text, *text.split(","))}
    unused = set(header) - named
    for _, row in rows:
        unused -= {name for name in unused if row.get(name) not in (None, "", [])}
        if not unused:
            break
    coded = [name for name in header if plain_column(name) == "google_product_category" and name not in named]
    unused |= {name for name in coded if any(str(row.get(name)).isdigit() for _, row in rows)}  # numbers of a list
    return ShopColumns.find(path, [name for name in header if name not in unused or not rows], **given)


def _attribute_columns(named: str | Sequence[str] | None, header: Sequence[str], path: Path) -> list[str]:
    """The columns that are an attribute each."""
    names = named.split(",") if isinstance(named, str) else named or ()
    names = [name.strip() for name in names if name.strip()]
    faults = [f"no column {name!r} ({nearest(name, header)})" for name in names if name not in header]
    raise_faults(CollectionError, f"{path}: attribute_columns", faults, code="no-such-column")
    return names


def fill(
    draft: CatalogueDraft,
    rows: Sequence[tuple[str, dict[str, Any]]],
    columns: ShopColumns,
    paths_of: Callable[[Mapping[str, Any]], Paths],
    bad: BadRows,
    amend: Amend | None = None,
    *,
    joins: bool = True,
) -> None:
    """Put the products of rows into a draft; `joins` says whether several rows may be of one product."""
    draft.columns, report = columns, draft.report
    product_of = _of_variants(columns, rows, report)
    later: list[tuple[str, ShopProduct, str | None]] = []  # variants of a product whose own row may stand below
    for place, row in rows:
        own = _id(row.get(columns.id))
        product, is_variant, waits = product_of(row, place, own)
        if product is None:
            if bad.is_blank(place, row.values()):
                continue
            bad.reject("rows without a product id", place, "", f"{place}, column {columns.id!r}: no id")
            continue
        try:
            paths, is_whole = paths_of(row)
        except ValueError as unread:
            column = columns.category[0] if columns.category else ""
            bad.reject("products with an unreadable category path", place, f"{product!r}: {unread}",
                       f"{place}, column {column!r}: {unread}")  # fmt: skip
            continue
        pictures: dict[str, None] = {}
        for column in columns.images:
            names = picture_names(row.get(column))
            pictures |= dict.fromkeys(names)
            if not names and not is_missing(row.get(column)):
                report.count("pictures that are no file name (the product is kept)",
                             f"{place}: {product!r}: {short(row[column])}")  # fmt: skip
        title = row.get(columns.title) if columns.title else None
        if isinstance(title, list | dict):
            report.count("titles that are not text (the product is kept)", f"{place}: {short(title)}")
            title = None
        title = text_of(title)
        now = ShopProduct(place, title or "", row, list(pictures), paths, is_whole)
        if is_variant and waits:
            later.append((product, now, own))
        elif (before := draft.products.setdefault(product, now)) is not now:
            if joins:
                _join(before, now, product, own, columns, report, is_variant=is_variant)
            else:
                report.count("rows with the id of an earlier product", f"{place}: {product!r}")
        elif is_variant:
            now.variants = (Variant(place, own, dict(row)),)
    for product, now, own in later:
        if (before := draft.products.setdefault(product, now)) is not now:
            _join(before, now, product, own, columns, report, is_variant=True)
    for product, about in draft.products.items():
        if amend is not None:
            amend(product, about, report)


def _make_plain(row: dict[str, Any], columns: ShopColumns, meant: frozenset[str], place: str, report: Counts) -> None:
    """Read HTML entities as characters, and words for what is missing as nothing; the id stays as it is."""
    for name, cell in row.items():
        if cell is None or name == columns.id:
            continue
        if type(cell) is str and len(cell) <= LONGEST_WORD and name in meant and says_nothing(cell):
            report.count(f"cells of {name} that say that there is nothing", f"{place}: {cell!r}")
            row[name] = None
        elif type(cell) is not str or "&" in cell:
            read = without_entities(cell)
            if read != cell:
                report.count("cells with HTML entities (read as characters)", f"{place}: {short(read)}")
                row[name] = read


def _of_variants(
    columns: ShopColumns, rows: Sequence[tuple[str, dict[str, Any]]], report: Counts
) -> Callable[[Mapping[str, Any], str, str | None], tuple[str | None, bool, bool]]:
    """What says of which product a row is (row, place, its own id): the product, and whether it is so as a variant."""
    # The last value: whether the product has a row of its own, which may come later.
    listed: dict[str, str] = {}  # from what a variant is called to its product, as the product's own row says it
    ids: dict[str, str] = {}  # from what the variants call a product to its id
    group, names_itself = columns.group or "", plain_column(columns.group or "") in NAMES_ITSELF
    if columns.variations is not None:  # Magento: "sku=A-S,size=S|sku=A-M,size=M" in the row of A
        for _, row in rows:
            for name in _VARIATION.findall(str(row.get(columns.variations) or "")):
                listed.setdefault(name.strip(), str(row.get(columns.id)).strip())
    if not group and not listed:
        return lambda row, place, own: (own, False, False)
    for _, row in rows if group else ():  # WooCommerce: "id:44", or the SKU of the product
        own = row.get(columns.id)
        for cell in (own, row.get(columns.sku) if columns.sku else None):
            if not is_missing(own) and not is_missing(cell) and is_missing(row.get(group)):
                ids.setdefault(str(cell).strip(), str(own).strip())

    def product_of(row: Mapping[str, Any], place: str, own: str | None) -> tuple[str | None, bool, bool]:
        name = row.get(group)
        if own is None or name is None or is_missing(name):
            product = listed.get(own or "", own)
            return product, product != own, product != own
        named = id_of(name).strip()
        product = ids.get(named.removeprefix("id:").strip(), ids.get(named))
        if product is not None or names_itself:
            return product or named, True, product is not None
        report.count("variants of a product that is not in the table (each is a product of its own)",
                     f"{place}: {own!r} of {named!r}")  # fmt: skip
        return own, False, False

    return product_of


_VARIATION = re.compile(r"(?:^|\|)\s*sku=([^,|]+)")


def _id(cell: Any) -> str | None:
    if type(cell) is str and len(cell) > LONGEST_WORD:
        return cell.strip() or None
    try:
        return None if is_missing(cell) else id_of(cell).strip()
    except TypeError:
        return None


def _categories(
    path: Path,
    columns: ShopColumns,
    rows: Sequence[tuple[str, dict[str, Any]]],
    separator: str | None,
    paths_separator: str | None,
) -> tuple[Callable[[Mapping[str, Any]], Paths], str]:
    """What reads the category paths of a row (`CategoryStyle.read_strictly`), and how it reads one, in words."""
    if len(columns.category) != 1:

        def of_levels(row: Mapping[str, Any]) -> Paths:
            cells = [str(row.get(column) or "").strip() for column in columns.category]
            while cells and not cells[-1]:
                cells.pop()
            names = tuple(filter(None, cells))
            return ([names] if names else []), len(names) == len(cells)

        return of_levels, ""
    column = columns.category[0]
    cells = [cell for _, row in rows if (cell := row.get(column)) not in (None, "")]
    if re.search(r"\(x, ?y", column):  # PrestaShop says in the header how it is written
        paths_separator = "," if paths_separator is None else paths_separator
        separator = "/" if separator is None and any("/" in str(cell) for cell in cells) else separator
    style = CategoryStyle.find(f"{path}, column {column!r}", cells, separator=separator,
                               paths_separator=paths_separator)  # fmt: skip
    deepest, most, shown = None, 0, ""
    for cell in cells:
        try:
            paths = style.read_strictly(cell)[0]
        except ValueError:
            continue
        if (depth := max(map(len, paths), default=0)) > most:
            deepest, most, shown = cell, depth, " and ".join(" > ".join(names) for names in paths[:2])
    words = f"category {str(deepest)[:80]!r} is read as {shown} (separator= and paths_separator= change it)"
    return (lambda row: style.read_strictly(row.get(column))), words if most else ""


def _join(
    before: ShopProduct,
    now: ShopProduct,
    product: str,
    own: str | None,
    columns: ShopColumns,
    report: Counts,
    *,
    is_variant: bool,
) -> None:
    """Add a row to the product of an earlier one with the same id, unless they contradict each other."""
    # is_variant: Whether the row says that it is of a variant. Otherwise it is one, with its picture, where it repeats
    # no title, as Shopify exports them; or repeats the title, and has another size.
    apart = {columns.id, *columns.images, *columns.category}
    differing = [
        name
        for name, cell in now.row.items()
        if name not in apart and cell not in (None, "") and before.row.get(name) not in (None, "", cell)
    ]
    values = {*(value for _, value in columns.options), *(value for _, value in columns.listed), *columns.differing}
    if not is_variant and differing and columns.title not in differing:
        is_variant = (columns.title is not None and not now.title) or bool(values.intersection(differing))
    if differing and not is_variant:
        name = differing[0]
        report.count(
            "rows with the id of an earlier product and other values (the first row counts)",
            f"{product!r} in {before.place} and {now.place}: {name} {short(before.row.get(name))} and "
            f"{short(now.row.get(name))}",
        )
        return
    variants = " (of variants: other values are those of the first)" if differing else ""
    report.count(f"rows joined to an earlier one with the same id{variants}",
                 f"{product!r}: {now.place} to {before.place}")  # fmt: skip
    offers = {*values, columns.variant, *columns.prices, columns.stock} - {None}
    if own != product or any(now.row.get(name) not in (None, "") for name in offers if name):
        is_first = own == product and not before.variants  # the first row may be a variant too
        if is_first and not _is_whole_product(before.row, now.row, values):
            before.variants = (Variant(before.place, _called(before.row, columns), dict(before.row)),)
        own = own if own != product else _called(now.row, columns)
        before.variants = (*before.variants, Variant(now.place, own, now.row))
    # The price of a sale, its days and the regular price of a product are those of one row.
    priced = {*columns.prices, *columns.sale.all}
    has_price = is_variant and any(before.row.get(name) not in (None, "") for name in columns.prices)
    before.row |= {name: cell for name, cell in now.row.items()
                   if before.row.get(name) in (None, "") and not (has_price and name in priced)}  # fmt: skip
    before.title = before.title or now.title
    before.pictures += [name for name in now.pictures if name not in before.pictures]
    before.is_whole = before.is_whole if before.paths else now.is_whole
    before.paths = (*before.paths, *(names for names in now.paths if names not in before.paths))


def _priced(row: dict[str, Any], product: dict[str, Any], columns: ShopColumns) -> dict[str, Any]:
    """The row of a variant with the days and discounts of its product where it has none."""
    own = columns.sale.all
    if not own or any(row.get(name) not in (None, "") for name in own):
        return row
    return row | {name: product.get(name) for name in own}


def _is_whole_product(row: Mapping[str, Any], variant: Mapping[str, Any], values: Iterable[str]) -> bool:
    """Whether a row is of the product, not of a variant as the other is: it has no size, or lists them all."""
    pairs = [(str(row.get(name) or ""), str(variant.get(name) or "")) for name in values]
    of_variant = [(own, other) for own, other in pairs if other]
    return bool(of_variant) and (
        not any(own for own, _ in pairs)
        or any(own != other and other in re.split(r"[;,|]\s*", own) for own, other in of_variant)
    )


def _called(row: Mapping[str, Any], columns: ShopColumns) -> str | None:
    """What a variant is called that shares the id of its product."""
    return text_of(row.get(columns.variant)) if columns.variant and columns.variant != columns.id else None


def _sniff(path: Path) -> bool:
    return path.is_file() and (is_table(path) or is_text_table(path)) and is_shop(sniffed_columns(path))


def _has_categories(path: Path) -> bool:
    columns = by_plain_name(sniffed_columns(path)) if path.is_file() else {}
    return bool(columns.keys() & set(ID)) and bool(columns.keys() & set(CATEGORY))


def _without_categories(path: Path) -> str:
    """What to do with a table of products in which no column has a usual name for categories."""
    if not _sniff(path) or _has_categories(path):
        return ""
    columns = ", ".join(sniffed_columns(path))
    return (
        f"a catalogue needs a column of categories; of {columns} none has a usual name for them; name it: "
        f'"products:{path.name}?category_column=COLUMN" (visir library make reads products without categories too)'
    )


FORMAT = Format(
    name="products",
    title="table of products of a shop",
    layout="file.csv, .tsv, .jsonl or .parquet (.gz, .xz) with columns of ids, titles, prices, categories, pictures, …",
    reference="",
    sniff=_sniff,
    options=(
        *COLUMN_OPTIONS,
        Option("brand_column", f"the column of the brand (default: {', '.join(BRAND[:4])}, …)"),
        Option("attributes_column", f"the column of all attributes (default: {', '.join(ATTRIBUTES)})"),
        Option("attribute_columns", "columns that are an attribute each, comma-separated"),
        bad_rows_option("refuse"),
    ),
    read=read,
    one_file=True,
)  # fmt: skip
"""As a collection, for libraries."""
OF_CATEGORIES = replace(
    FORMAT, sniff=_has_categories, read=partial(read, bad_rows="skip"), advice=_without_categories,
    options=(*FORMAT.options[:-1], bad_rows_option("skip")),
)  # fmt: skip
"""As a catalogue, whose bad rows are left out: categories are what it needs."""
