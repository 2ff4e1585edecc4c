"""A shop's table of products: CSV, TSV, JSON lines or Parquet, one row per product or several with the same id.

It is read once, into `ShopContents`. A library makes a collection of it: each picture of a product is an image (or
there is one without a picture) under its id; its title is the caption, its categories, prices and other columns are
facts of the first of these images. `visir.products.readers.table` makes a catalogue of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from visir.collections.cells import (
    CODES,
    LONGEST_WORD,
    SIGNS,
    Counts,
    Decimal,
    id_of,
    is_missing,
    price_in_words,
    read_amounts,
    says_nothing,
    text_of,
)
from visir.collections.draft import Draft
from visir.collections.readers.names import plain_stem
from visir.collections.readers.shop_cells import (
    SAME,
    CategoryStyle,
    as_folder,
    attribute_pairs,
    picture_names,
    without_entities,
)
from visir.collections.readers.table import TEXT_OPTIONS
from visir.collections.sources import Format, Option, bad_rows_option, one_of
from visir.collections.tables import BadRows, is_table, is_text_table, plain_column, read_table, sniffed_columns
from visir.errors import CollectionError, nearest

# Which column of a table of products holds what, by the names that shops give them.

ID = ("id", "product_id", "productid", "uniq_id", "unique_id", "item_id", "asin", "sku", "article_id", "product_code",
      "article_number", "artikelnummer", "parent_asin", "handle", "pid", "gtin", "ean",
      "code")  # fmt: skip
TITLE = ("title", "product_title", "product_name", "productname", "productdisplayname", "product_display_name",
         "display_name", "item_name", "prod_name", "name", "produktname", "bezeichnung")  # fmt: skip
DESCRIPTION = ("description", "product_description", "about_product", "body_html", "body", "long_description",
               "short_description", "detail_desc", "beschreibung")  # fmt: skip
IMAGE = ("image", "images", "image_path", "image_paths", "file_name", "filename", "image_file", "image_name",
         "picture", "pictures", "photo", "photos", "image_url", "image_urls", "image_link", "img_link", "image_src",
         "img", "bild", "base_image", "main_image", "main_image_url")  # fmt: skip
CATEGORY = ("category_path", "category_paths", "category_tree", "product_category_tree", "breadcrumbs", "breadcrumb",
            "category", "categories", "product_category", "product_categories", "google_product_category",
            "product_type", "product_type_name", "kategorie", "department", "type")  # fmt: skip
PRICE = ("price_tax_incl", "price_tax_included", "price", "selling_price",
         "sale_price", "discounted_price", "current_price", "final_price", "unit_price",
         "price_eur", "price_usd", "price_gbp", "retail_price", "list_price", "regular_price", "variant_price", "preis",
         "prix", "precio", "actual_price", "mrp", "price_tax_excl", "price_tax_excluded")  # fmt: skip
_PAID = tuple(dict.fromkeys(("sale_price", "special_price", "discounted_price", *PRICE)))
"""The same, of several the one first that customers pay where it is there."""
BRAND = ("brand", "brand_name", "manufacturer", "vendor", "store", "make", "marke", "hersteller")
CURRENCY = ("currency", "currency_code", "waehrung")
GROUP = ("item_group_id", "parent", "parent_sku", "parent_id")
"""What names the product of which a row is a variant: a name of its own, or the id or SKU of another row."""
SKU = ("sku", "product_sku")
ATTRIBUTES = ("attributes", "specifications", "product_specifications", "properties")
_LEVELS = re.compile(r"(?:product_)?(?:cat|category|categorie|kategorie|level|lvl|l|category_level)_?(\d)")
_NAMED_LEVELS = (
    ("mastercategory", "subcategory", "articletype"),
    ("master_category", "sub_category", "article_type"),
    ("main_category", "sub_category"),
    ("category", "subcategory", "subsubcategory"),
    ("category", "sub_category", "sub_sub_category"),
)
_IMAGES = re.compile(r"(?:additional_|other_)?(?:image|picture|photo|img)(?:_(?:url|link|src|path|file))?_?\d+"
                     r"|additional_image(?:_link|_url)?s?")  # fmt: skip
_MONEY = re.compile(r"(?:^|_)(?:price|preis|prix|precio|mrp|msrp|rrp|uvp)(?:_|$)")


def by_plain_name(columns: Sequence[str]) -> dict[str, str]:
    """From the plain name of each column to it, also without what is in brackets at its end: "Body (HTML)"."""
    without = {plain_column(re.sub(r"\s*\([^()]*\)\s*$", "", name)): name for name in reversed(columns)}
    return without | {plain_column(name): name for name in reversed(columns)}


@dataclass(frozen=True)
class ShopColumns:
    """Which column holds what."""

    id: str  # the id of the product
    title: str | None  # its title; None where there is no such column, as for those below
    description: str | None  # a longer text
    images: tuple[str, ...]  # pictures, in one or several columns
    category: tuple[str, ...]  # the category paths, or one level of the only path in each column
    prices: tuple[str, ...]  # the prices that customers pay: of each product the first of these columns that has one
    brand: str | None  # the brand
    currency: str | None  # the currency of all prices
    attributes: str | None  # all attributes, as JSON
    money: tuple[str, ...]  # all columns of prices
    group: str | None  # what joins the rows of variants
    sku: str | None  # what a variant may call its product by, beside the id
    others: tuple[str, ...]  # columns that became fields under their own name
    doubts: tuple[str, ...] = field(default=())  # what else could have been taken, in sentences

    @classmethod
    def find(
        cls,
        path: Path | str,
        columns: Sequence[str],
        *,
        id_column: str | None = None,
        title_column: str | None = None,
        image_column: str | None = None,
        category_column: str | None = None,
        price_column: str | None = None,
        brand_column: str | None = None,
        attributes_column: str | None = None,
        variant_column: str | None = None,
    ) -> ShopColumns:
        """Find them among the columns of a table; some may have been named."""
        given = {"id": id_column, "title": title_column, "image": image_column, "category": category_column,
                 "price": price_column, "brand": brand_column, "attributes": attributes_column,
                 "variant": None if variant_column == SAME else variant_column}  # fmt: skip
        by_name = by_plain_name(columns)
        faults: list[str] = []
        doubts: list[str] = []

        def several(role: str) -> tuple[str, ...]:
            text = given[role]
            names = [name.strip() for name in text.split(",")] if text and text not in columns else filter(None, [text])
            by_place = {str(place): name for place, name in enumerate(columns, start=1)}
            names = [name if name in columns else by_place.get(name, name) for name in names]
            faults.extend(f"no column {name!r} ({nearest(name, columns)})" for name in names if name not in columns)
            return tuple(name for name in names if name in columns)

        def first(role: str, usual: Sequence[str]) -> str | None:
            if given.get(role) is not None:
                return next(iter(several(role)), None)
            fitting = list(dict.fromkeys(by_name[name] for name in usual if name in by_name))
            if len(fitting) > 1 and role in ("id", "category"):
                others = ", ".join(map(repr, fitting[1:]))
                doubts.append(f"{role}: column {fitting[0]!r} (not {others}, {role}_column= names another)")
            return fitting[0] if fitting else None

        def paid() -> tuple[str, ...]:
            named = tuple(dict.fromkeys(by_name[name] for name in _PAID if name in by_name))
            # One field has one currency: "price EUR" is not filled up from "price USD".
            currency = next(filter(None, map(_currency_in, named)), None)
            fitting = tuple(name for name in named if _currency_in(name) in (None, currency))
            if len(named) > 1:
                others = "".join(f", not {name!r}" for name in named if name not in fitting)
                shown = ", else ".join(map(repr, fitting))
                doubts.append(f"price: column {shown}{others} (price_column= names one)")
            return fitting

        identifier = first("id", ID)
        category = several("category") or _levels(columns) or tuple(filter(None, [first("category", CATEGORY)]))
        images = several("image")
        if not images:
            main = first("image", IMAGE) if image_column is None else None
            further = [name for name in columns if _IMAGES.fullmatch(plain_column(name)) and name != main]
            images = tuple(filter(None, [main, *further]))
        title, description = first("title", TITLE), first("description", DESCRIPTION)
        prices = several("price") or paid()
        brand, currency = first("brand", BRAND), first("currency", CURRENCY)
        attributes = first("attributes", ATTRIBUTES)
        group = None if variant_column == SAME else first("variant", GROUP)
        sku = by_name.get(next((name for name in SKU if name in by_name), ""))
        if identifier is None and not faults:
            raise CollectionError(
                f"{path}, line 1: no column of product ids.",
                hint=f"name it: {Path(path).name}?id_column={columns[0] if columns else 'COLUMN'}; there are: "
                f"{', '.join(columns)}",
                code="no-column-product-ids",
            )
        if faults:
            raise CollectionError(f"{path}, line 1: {'; '.join(faults)}.", hint=f"there are: {', '.join(columns)}")
        assert identifier is not None
        money = tuple(name for name in columns if name in prices or _MONEY.search(plain_column(name)))
        used = {identifier, title, description, brand, currency, attributes, group, *prices, *images, *category}
        others = tuple(name for name in columns if name not in used)
        return cls(identifier, title, description, images, category, prices, brand, currency, attributes, money, group,
                   sku, others, tuple(doubts))  # fmt: skip


def _levels(columns: Sequence[str]) -> tuple[str, ...]:
    """One column per level, by numbers ("cat1", "cat2") or by usual names; empty where there are none."""
    by_name = {plain_column(name): name for name in columns}
    numbered: dict[str, list[tuple[int, str]]] = {}
    for key, name in by_name.items():
        if match := _LEVELS.fullmatch(key):
            numbered.setdefault(key[: match.start(1)], []).append((int(match[1]), name))
    for found_levels in numbered.values():
        numbers = sorted(number for number, _ in found_levels)
        if len(numbers) > 1 and numbers == list(range(numbers[0], numbers[0] + len(numbers))):
            return tuple(name for _, name in sorted(found_levels))
    for names in _NAMED_LEVELS:
        present = [by_name[name] for name in names if name in by_name]
        if len(present) > 1 and names[0] in by_name:
            return tuple(present)
    return ()


# The products of a table, whatever they become.


@dataclass(slots=True)
class ShopProduct:
    """A product, from its first row on."""

    place: str  # "line 7"
    title: str  # its title, "" where it has none
    row: dict[str, Any]  # its cells; an empty one is filled from a later row with the same id
    pictures: list[str]  # the file names of its pictures
    paths: list[tuple[str, ...]]  # its category paths
    is_whole: bool  # whether each level of the first path has a name, which is a text


@dataclass(frozen=True)
class ShopContents:
    """A table of products, as it was read."""

    header: tuple[str, ...]  # all its columns
    columns: ShopColumns | None  # those with a cell; None for an empty table
    products: dict[str, ShopProduct]  # by id, in the order of their first rows
    left_out: Counts  # the rows that cannot be read
    report: Counts  # what was joined, or read as something else
    category: str  # how a cell of categories is read, as an example; "" where there is none


def place_of(source: Any) -> tuple[str, Path]:
    """The name of what a table becomes, and the folder to which its pictures are relative."""
    return (plain_stem(source), source.parent) if isinstance(source, Path) else ("products", Path.cwd())


def read_shop(
    source: Any,
    fault: Callable[[str], object],
    *,
    separator: str | None = None,
    paths_separator: str | None = None,
    bad_rows: str = "refuse",
    encoding: str = "",
    delimiter: str = "",
    quotes: str = "",
    **given: str | None,
) -> ShopContents:
    """Read a table of products; `fault` gets every row that cannot be read, unless these are to be skipped."""
    # - Rows with the same id are one product where no cell contradicts: pictures and categories are added up, empty
    #   cells filled. Where one does, the first row counts, and both lines are reported.
    # - A category cell may hold one path or several. How it is written is found out (`CategoryStyle.find`).
    # - So are rows of variants, which name their product (`GROUP`); what differs between them is that of the first.
    # - HTML entities are read as characters (`without_entities`), but for ids.
    # Columns without any cell are left out of account.
    left_out, report = Counts(), Counts()
    table = read_table(source, header="yes", encoding=encoding, delimiter=delimiter, quotes=quotes)
    path = table.path or Path(table.name)
    bad = BadRows(path.name, fault, bad_rows, left_out)
    rows = list(table.rows(bad.row))
    header = table.columns
    if table.layout is None and rows:
        header = list(dict.fromkeys(name for _, row in rows for name in row))
    if not header:
        return ShopContents((), None, {}, left_out, report, "")
    named = {name.strip() for text in given.values() if text for name in (text, *text.split(","))}
    unused = set(header) - named
    for _, row in rows:
        unused -= {name for name in unused if row.get(name) not in (None, "", [])}
    coded = [name for name in header if plain_column(name) == "google_product_category" and name not in named]
    unused |= {name for name in coded if any(str(row.get(name)).isdigit() for _, row in rows)}  # numbers of a list
    names = [name for name in header if name not in unused or not rows]
    columns = ShopColumns.find(path, names, **given)
    known = (columns.title, columns.brand, columns.currency, *columns.images, *columns.category, *columns.prices)
    meant = frozenset(filter(None, known))
    for place, row in rows:
        _make_plain(row, columns, meant, place, report)
    paths_of, category = _categories(path, columns, rows, separator, paths_separator)
    products: dict[str, ShopProduct] = {}
    product_of = _of_variants(columns, rows, report)
    for place, row in rows:
        product, is_variant = product_of(row, place, _id(row.get(columns.id)))
        if product is None:
            bad.reject("rows without a product id", place, "", f"{place}, column {columns.id!r}: no id")
            continue
        try:
            paths, is_whole = paths_of(row)
        except ValueError as unread:
            bad.reject("products with an unreadable category path", place, f"{product!r}: {unread}",
                       f"{place}, column {columns.category[0]!r}: {unread}")  # fmt: skip
            continue
        pictures: dict[str, None] = {}
        for column in columns.images:
            names = picture_names(row.get(column))
            pictures |= dict.fromkeys(names)
            if not names and not is_missing(row.get(column)):
                report.count("pictures that are no file name (the product is kept)",
                             f"{place}: {product!r}: {_short(row[column])}")  # fmt: skip
        title = text_of(row.get(columns.title)) if columns.title else None
        now = ShopProduct(place, title or "", row, list(pictures), list(paths), is_whole)
        before = products.setdefault(product, now)
        if before is not now:
            is_variant = is_variant or (columns.title is not None and not title)
            _join(before, now, product, columns, report, is_variant=is_variant)
    return ShopContents(tuple(header), columns, products, left_out, report, category)


def _make_plain(row: dict[str, Any], columns: ShopColumns, meant: frozenset[str], place: str, report: Counts) -> None:
    """Read HTML entities as characters, and words for what is missing as nothing; the id stays as it is."""
    for name, cell in row.items():
        if cell is None or name == columns.id:
            continue
        if name == columns.title and isinstance(cell, list | dict):
            report.count("titles that are not text (the product is kept)", f"{place}: {_short(cell)}")
            row[name] = None
        elif type(cell) is str and len(cell) <= LONGEST_WORD and name in meant and says_nothing(cell):
            report.count(f"cells of {name} that say that there is nothing", f"{place}: {cell!r}")
            row[name] = None
        elif type(cell) is not str or "&" in cell:
            read = without_entities(cell)
            if read != cell:
                report.count("cells with HTML entities (read as characters)", f"{place}: {_short(read)}")
                row[name] = read


def _of_variants(
    columns: ShopColumns, rows: Sequence[tuple[str, dict[str, Any]]], report: Counts
) -> Callable[[Mapping[str, Any], str, str | None], tuple[str | None, bool]]:
    """What says of which product a row is (row, place, its own id), and whether it is so as a variant."""
    if columns.group is None:
        return lambda row, place, own: (own, False)
    group, names_itself = columns.group, plain_column(columns.group) == GROUP[0]
    ids: dict[str, str] = {}
    for _, row in () if names_itself else rows:  # WooCommerce: "id:44", or the SKU of the product
        own = row.get(columns.id)
        for cell in (own, row.get(columns.sku) if columns.sku else None):
            if not is_missing(own) and not is_missing(cell) and is_missing(row.get(group)):
                ids.setdefault(str(cell).strip(), str(own).strip())

    def product_of(row: Mapping[str, Any], place: str, own: str | None) -> tuple[str | None, bool]:
        name = row.get(group)
        if own is None or is_missing(name):
            return own, False
        named = id_of(name).strip()
        product = named if names_itself else ids.get(named.removeprefix("id:").strip(), ids.get(named))
        if product is None:
            report.count("variants of a product that is not in the table (each is a product of its own)",
                         f"{place}: {own!r} of {named!r}")  # fmt: skip
            return own, False
        return product, True

    return product_of


def _id(cell: Any) -> str | None:
    if type(cell) is str and len(cell) > LONGEST_WORD:
        return cell.strip() or None
    try:
        return None if is_missing(cell) else id_of(cell).strip()
    except TypeError:
        return None


_Paths = tuple[Sequence[tuple[str, ...]], bool]


def _categories(
    path: Path,
    columns: ShopColumns,
    rows: Sequence[tuple[str, dict[str, Any]]],
    separator: str | None,
    paths_separator: str | None,
) -> tuple[Callable[[Mapping[str, Any]], _Paths], str]:
    """What reads the category paths of a row (`CategoryStyle.read_strictly`), and how it reads one, in words."""
    if len(columns.category) != 1:

        def of_levels(row: Mapping[str, Any]) -> _Paths:
            cells = [str(row.get(column) or "").strip() for column in columns.category]
            while cells and not cells[-1]:
                cells.pop()
            names = tuple(filter(None, cells))
            return ([names] if names else []), len(names) == len(cells)

        return of_levels, ""
    column = columns.category[0]
    cells = [cell for _, row in rows if (cell := row.get(column)) not in (None, "")]
    if paths_separator is None and re.search(r"\(x, ?y", column):  # PrestaShop says in the header how it is written
        paths_separator = ","
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
    before: ShopProduct, now: ShopProduct, product: str, columns: ShopColumns, report: Counts, *, is_variant: bool
) -> None:
    """Add a row to the product of an earlier one with the same id, unless they contradict each other."""
    # is_variant: Whether the row is of another variant, with its picture: it names its product, or repeats no title, as
    # Shopify exports them.
    apart = {columns.id, *columns.images, *columns.category}
    differing = [
        name
        for name, cell in now.row.items()
        if name not in apart and cell not in (None, "") and before.row.get(name) not in (None, "", cell)
    ]
    if differing and not is_variant:
        name = differing[0]
        report.count(
            "rows with the id of an earlier product and other values (the first row counts)",
            f"{product!r} in {before.place} and {now.place}: {name} {_short(before.row.get(name))} and "
            f"{_short(now.row.get(name))}",
        )
        return
    variants = " (of variants: other values are those of the first)" if differing else ""
    report.count(f"rows joined to an earlier one with the same id{variants}",
                 f"{product!r}: {now.place} to {before.place}")  # fmt: skip
    before.row |= {name: cell for name, cell in now.row.items() if before.row.get(name) in (None, "")}
    before.title = before.title or now.title
    before.pictures += [name for name in now.pictures if name not in before.pictures]
    before.is_whole = before.is_whole if before.paths else now.is_whole
    before.paths += [names for names in now.paths if names not in before.paths]


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 40 else f"{shown[:39]}…"


# The columns of a table of products as typed fields: prices and numbers as numbers, the rest as text.

_PLAIN_NUMBER = re.compile(r"[+-]?(?:\d{1,3}(?:[.,' ]\d{3})+|\d{1,11})(?:[.,]\d+)?")
_TAKEN = frozenset((
    "width", "height", "bytes", "format", "camera", "taken", "name", "path", "category", "caption", "product",
    "pictures", "image_id"
))  # fmt: skip
"""What a library has fields of its own for, or the reader facts: a column of this name becomes "product NAME"."""
_CODE = re.compile(r"0\d")
_MOST_FAULTS = 3


def field_columns(
    columns: ShopColumns,
    rows: Sequence[Mapping[str, Any]],
    places: Sequence[str],
    decimal: str | None,
    draft: Draft,
    report: Counts,
) -> dict[str, list[Any]]:
    """The fields of products: from the name to (products,) values, None where a product has none."""
    # The price is called "price" and the brand "brand", whatever their columns are called; other columns keep their
    # names. A price range has two values.
    fields: dict[str, list[Any]] = {}
    read = {name: _money(name, rows, places, decimal, draft.fault, report) for name in columns.money}
    if columns.prices:
        paid = _paid(columns, rows, read)
        fields["price"] = _as_values([numbers for numbers, _ in paid])
        fields["currency"] = [currency if numbers else None for numbers, currency in paid]
    for name, pairs in read.items():
        if name not in columns.prices[:1]:
            own = "regular price" if plain_column(name) == "price" else name
            fields[_free(own, fields)] = _as_values([numbers for numbers, _ in pairs])
    if columns.brand:
        fields["brand"] = [text_of(row.get(columns.brand)) for row in rows]
    if columns.description:
        fields["description"] = [text_of(row.get(columns.description)) for row in rows]
    for name in columns.others:
        if name not in columns.money:
            fields[_free(name, fields)] = _typed([row.get(name) for row in rows], decimal)
    if columns.attributes:
        cells = [row.get(columns.attributes) for row in rows]
        no_pair = "attributes that are no pair of name and value"
        attributes, unread = _attributes(cells, lambda entry: report.count(no_pair, _short(entry)))
        if 2 * len(unread) > len(cells):  # written in another way: text that can be searched all the same
            fields[_free(columns.attributes, fields)] = [text_of(cell) for cell in cells]
            return fields
        for row in unread:
            report.count(
                "cells of attributes that are not JSON (the product is kept)", f"{places[row]}: {cells[row]!r}"[:60]
            )
        for name, values in attributes.items():
            if plain_column(name) in BRAND and "brand" not in fields:
                name = "brand"
            fields[_free(name, fields)] = _typed(values, decimal)
    return fields


_Amount = tuple[tuple[float, ...], str | None]
"""The numbers of a cell, and their currency."""


def _money(
    name: str,
    rows: Sequence[Mapping[str, Any]],
    places: Sequence[str],
    decimal: str | None,
    fault: Callable[[str], object],
    report: Counts,
) -> list[_Amount]:
    """What a column of prices says of each product."""
    cells = [row.get(name) for row in rows]
    amounts = read_amounts(cells, decimal=cast("Decimal | None", decimal))
    for row, doubt in amounts.faults[:_MOST_FAULTS]:
        fault(f"{places[row]}, column {name!r}: {doubt}")
    if len(amounts.faults) > _MOST_FAULTS:
        fault(f"column {name!r}: {len(amounts.faults) - _MOST_FAULTS:,} more cells like these")
    for row in amounts.unread:
        report.count(
            f"cells of {name} that are no price (the product is kept)", f"{places[row]}: {str(cells[row])[:40]!r}"
        )
    of_header = _currency_in(name)
    return [(numbers, mark or of_header) for numbers, mark in zip(amounts.values, amounts.currencies, strict=True)]


def _paid(
    columns: ShopColumns, rows: Sequence[Mapping[str, Any]], read: Mapping[str, Sequence[_Amount]]
) -> list[_Amount]:
    """What customers pay for each product: of the columns of prices the first that has a number; and the currency."""
    nothing: _Amount = ((), None)
    first = [next((amount for amount in amounts if amount[0]), nothing)
             for amounts in zip(*(read[name] for name in columns.prices), strict=True)]  # fmt: skip
    stated = [text_of(row.get(columns.currency)) for row in rows] if columns.currency else [None] * len(rows)
    return [(numbers, code or beside) for code, (numbers, beside) in zip(stated, first, strict=True)]


def prices_in_words(shop: ShopContents, columns: ShopColumns, decimal: str | None) -> dict[str, str]:
    """What customers pay for each product of a shop that has a price, as `price_in_words` says it."""
    rows, places = [about.row for about in shop.products.values()], [about.place for about in shop.products.values()]
    doubtful = "prices that can be read in two ways (the product is kept)"
    read = {
        name: _money(name, rows, places, decimal, lambda text: shop.report.count(doubtful, text), shop.report)
        for name in columns.prices
    }
    paid = _paid(columns, rows, read) if columns.prices else []
    words = (price_in_words(numbers, currency) for numbers, currency in paid)
    return {product: text for product, text in zip(shop.products, words, strict=False) if text}


def _as_values(amounts: Sequence[tuple[float, ...]]) -> list[Any]:
    """Numbers as a field: a list for each product where one has a range, else a number."""
    several = any(len(numbers) > 1 for numbers in amounts)
    return [None if not numbers else list(numbers) if several else numbers[0] for numbers in amounts]


def _currency_in(header: str) -> str | None:
    """The currency that the name of a column tells: "Price (€)", "price_eur"."""
    for part in re.split(r"[\s_()\[\]]+", header):
        code = SIGNS.get(part) or (part.upper() if part.upper() in CODES else None)
        if code:
            return code
    return None


def _typed(cells: Sequence[Any], decimal: str | None) -> list[Any]:
    """A column as numbers where all its cells are, else as text."""
    # Codes stay texts: digits that begin with 0, and more than eleven of them.
    present = [cell for cell in cells if cell not in (None, "")]
    if all(isinstance(cell, int | float) and not isinstance(cell, bool) for cell in present):
        return [None if cell == "" else cell for cell in cells]
    if any(isinstance(cell, list) for cell in present):
        lists = [cell if isinstance(cell, list) else [cell] for cell in cells]
        return [[text for part in parts if (text := text_of(part))] or None for parts in lists]
    texts = ["" if cell is None else str(cell).strip() for cell in cells]
    if {text.lower() for text in texts} - {""} <= {"true", "false"}:
        return [text.lower() or None for text in texts]
    numbers = [text for text in texts if text]
    if numbers and all(_PLAIN_NUMBER.fullmatch(text) and not _CODE.match(text) for text in numbers):
        amounts = read_amounts(texts, decimal=cast("Decimal | None", decimal), money=False)
        if not amounts.faults and not amounts.unread:
            whole = all(re.fullmatch(r"[+-]?\d+", text) for text in numbers)
            return [(int(value[0]) if whole else value[0]) if value else None for value in amounts.values]
    return [text or None for text in texts]


def _attributes(cells: Sequence[Any], reject: Callable[[object], None]) -> tuple[dict[str, list[Any]], list[int]]:
    """The attributes of each product, by name, and the rows whose cell is neither JSON nor a hash of Ruby."""
    # What is no pair of name and value goes to `reject`.
    columns: dict[str, list[Any]] = {}
    unread = []
    for row, cell in enumerate(cells):
        try:
            for name, value in attribute_pairs(cell, reject):
                if isinstance(name, str) and name.strip() and value not in (None, ""):
                    if (name := name.strip()) not in columns:
                        columns[name] = [None] * len(cells)
                    columns[name][row] = value if isinstance(value, int | float | list) else str(value)
        except ValueError:
            unread.append(row)
    return columns, unread


def _free(name: str, fields: Any) -> str:
    """A name for a field that nothing else has."""
    name = " ".join(name.split())
    name = f"product {name}" if name.lower() in _TAKEN else name
    return f"{name} (attribute)" if name in fields else name


PRODUCT = "product"
"""The fact that holds the id of the product that a picture shows."""
PICTURES = "pictures"
"""The fact that holds the names of a product's pictures as the table has them."""
NOTE = "products: "
"""How the notes of a source begin that say how a table was read, and what was counted in it."""


def read(source: Any, *, decimal: str = "", **options: Any) -> Draft:
    """Read a table of products, a file or in memory, as a collection."""
    # - A product may have no picture, no category, no title and no price; each is counted and named.
    # - Prices are numbers, whatever sign of a currency stands beside them (`read_amounts`); other columns are numbers
    #   where all their cells are.
    name, root = place_of(source)
    draft = Draft(name, root, f"table of products {source.name if isinstance(source, Path) else 'in memory'}")
    shop = read_shop(source, draft.fault, **options)
    if not shop.products and not draft.faults:
        draft.fault(f"{name}: it is empty, or has no products below its header line; is it the right file?")
    if shop.columns is None:
        return draft
    columns, report = shop.columns, shop.report
    _add(draft, shop, columns, decimal or None)
    found_columns = {
        "id": columns.id, "title": columns.title, "pictures": ", ".join(columns.images),
        "category": ", ".join(columns.category), "price": ", ".join(columns.prices), "brand": columns.brand,
    }  # fmt: skip
    read_as = ", ".join(f"{role} from {name!r}" for role, name in found_columns.items() if name)
    pictureless = [] if columns.images else ["no column of pictures (image_column= names it)"]
    lines = [f"{len(shop.products):,} read, {read_as}", *pictureless, *columns.doubts, *filter(None, [shop.category])]
    lines += shop.left_out.lines("{what} (left out): {count:,} ({shown})", ", ")
    lines += report.lines("{what}: {count:,} ({shown})", ", ")
    draft.notes += [NOTE + line.replace("; ", ", ") for line in lines]
    return draft


def _add(draft: Draft, shop: ShopContents, columns: ShopColumns, decimal: str | None) -> None:
    """Put the products into the draft."""
    first_rows: list[int] = []
    shows: list[str] = []
    for product, about in shop.products.items():
        first_rows.append(len(draft.ids))
        for number, name in enumerate(about.pictures or [None], start=1):
            image = product if number == 1 else f"{product}#{number}"
            while number > 1 and image in shop.products:
                image += "'"
            draft.add_image(image, name)
            shows.append(product)
        if about.title:
            draft.add_caption(product, about.title, product)
        for what, is_there in (("picture", about.pictures), ("category", about.paths), ("title", about.title)):
            if not is_there:
                shop.report.count(f"without a {what}", product)
    products = list(shop.products.values())
    rows, places = [about.row for about in products], [about.place for about in products]
    facts = field_columns(columns, rows, places, decimal, draft, shop.report)
    for product, price in zip(shop.products, facts.get("price", ()), strict=False):
        if price is None:
            shop.report.count("without a price", product)
    facts["category"] = [[as_folder(path) for path in about.paths] or None for about in products]
    facts[PICTURES] = [about.pictures or None for about in products]
    table: dict[str, Any] = {"image_id": draft.ids, PRODUCT: shows}
    for name, values in facts.items():
        if all(value is None for value in values):
            continue
        spread = values
        if len(values) < len(draft.ids):  # a fact stands beside the first picture of its product
            spread = [None] * len(draft.ids)
            for row, value in zip(first_rows, values, strict=True):
                spread[row] = value
        table[name] = spread
    draft.facts = pa.table({name: pa.array(values) for name, values in table.items()})


def _sniff(path: Path) -> bool:
    return path.is_file() and (is_table(path) or is_text_table(path)) and is_shop(sniffed_columns(path))


def is_shop(columns: Iterable[str]) -> bool:
    """Whether columns are those of a table of products."""
    names = {*by_plain_name([*columns])}
    if names & {"caption", "captions", "text", "texts", "sentence", "sentences", "raw", "split", "image_id"}:
        return False
    signs = [
        names & set(ID),
        names & set(TITLE),
        names & {*PRICE, *BRAND, "asin", "sku", "gtin", "ean"},
        names & {*CATEGORY, "cat1", "category1", "category_1", "mastercategory"},
        names & {*IMAGE, *ATTRIBUTES, *DESCRIPTION},
    ]
    sure = names & {*PRICE, *BRAND, "category_path", "product_category_tree", "product_type", "product_category",
                    "mastercategory", "product_type_name"}  # fmt: skip
    return all(signs[:2]) and sum(map(bool, signs)) >= 3 and bool(sure)


COLUMN_OPTIONS = (
    Option("id_column", f"the column of the product's id (default: {', '.join(ID[:6])}, …)"),
    Option("title_column", f"the column of the title (default: {', '.join(TITLE[:4])}, …)"),
    Option("image_column", f"the columns of pictures, comma-separated (default: {', '.join(IMAGE[:4])}, …)"),
    Option("category_column", "the column of category paths, or one per level, comma-separated (default: "
           f"{', '.join(CATEGORY[:3])}, …; cat1,cat2,cat3)"),
    Option("variant_column", "the column that names the product of a variant; none: each row is one (default: "
           f"{', '.join(GROUP[:2])}, …)"),
    Option("separator", "what stands between the names of a category path; none: nothing (default: found)"),
    Option("paths_separator", "what stands between several category paths; none: nothing (default: found)"),
    Option("price_column", f"the column of the price (default: {', '.join(PRICE[2:6])}, …)"),
    Option("decimal", "what stands before the cents of a price: point or comma (default: it is found)", "",
           one_of("", "point", "comma")),
    *(option for option in TEXT_OPTIONS if option.name != "header"),
)  # fmt: skip
"""Options of every reader of a shop's table."""


FORMAT = Format(
    name="products",
    title="table of products of a shop",
    layout="file.csv, .tsv, .jsonl or .parquet (.gz, .xz) with columns of ids, titles, prices, categories, pictures, …",
    reference="",
    sniff=_sniff,
    options=(
        *COLUMN_OPTIONS,
        Option("brand_column", f"the column of the brand (default: {', '.join(BRAND[:4])}, …)"),
        bad_rows_option("refuse"),
    ),
    read=read,
    one_file=True,
)  # fmt: skip
