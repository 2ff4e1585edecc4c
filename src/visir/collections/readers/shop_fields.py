"""What a shop's table says of a product as typed fields: prices that are paid, stock, variants, numbers and texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

import pyarrow as pa

from visir.collections.cells import Counts, Decimal, is_missing, moment_of, price_in_words, read_amounts, text_of
from visir.collections.readers.shop_cells import attribute_pairs
from visir.collections.readers.shop_columns import BRAND, SaleColumns, ShopColumns, currency_in
from visir.collections.tables import plain_column

Row = Mapping[str, Any]
Amount = tuple[tuple[float, ...], str | None]
"""The numbers of a cell, and their currency."""
_NOTHING: Amount = ((), None)
_MOST_FAULTS = 3


@dataclass(slots=True)
class Variant:
    """A row of a product that comes in several."""

    place: str  # "line 7"
    id: str | None  # its own id or SKU; None where it has none
    row: dict[str, Any]  # its cells


Product = tuple[str, Row, Sequence[Variant]]
"""The place, the cells and the variants of a product."""


@dataclass
class Prices:
    """The prices of rows: of products, or of their variants."""

    columns: dict[str, list[Amount]]  # by column what it says of each row
    paid: list[Amount]  # what customers pay for each
    taken: dict[str, int] = field(default_factory=dict)  # how often each column had the price that is paid

    def part(self, start: int, end: int | None) -> Prices:
        """Those of some rows."""
        columns = {name: amounts[start:end] for name, amounts in self.columns.items()}
        return Prices(columns, self.paid[start:end], self.taken)


def read_prices(
    columns: ShopColumns,
    rows: Sequence[Row],
    places: Sequence[str],
    report: Counts,
    doubt: Callable[[str], object],
    *,
    count: int,
    decimal: str | None = None,
    day: int | None = None,
) -> Prices:
    """The prices of rows; `doubt` gets cells that can be read in two ways."""
    # count: How many of the rows are of products; of the others, which are of variants, nothing is counted.
    # day: The moment whose sales count, in microseconds since 1970; None for now.
    read = {name: _money(name, rows, places, decimal, doubt, report, count) for name in columns.money}
    of_price = [read[name] for name in columns.prices]
    if not of_price:
        return Prices(read, [])
    now = int(datetime.now(UTC).timestamp() * 1e6) if day is None else day
    sale, taken = columns.sale, dict.fromkeys(columns.prices, 0)
    dated = [name in sale.prices for name in columns.prices]
    stated = [text_of(row.get(columns.currency)) for row in rows] if columns.currency else None
    takes_off = [_numbers(name, rows, decimal) if name else None for name in (sale.amount, sale.percent)]
    if sale.value and sale.mode:
        modes = [(text_of(row.get(sale.mode)) or "").lower() for row in rows]
        off = _numbers(sale.value, rows, decimal)
        takes_off = [[number if mode == kind else None for number, mode in zip(off, modes, strict=True)]
                     for kind in ("amount", "percent")]  # fmt: skip
    has_days, reduced = bool(sale.first or sale.last or sale.both), any(takes_off)
    paid: list[Amount] = []
    of_products = set(places[:count])  # the first row of a product may also be one of its variants
    for at, row in enumerate(rows):
        chosen = _NOTHING
        note = report if at < count or places[at] not in of_products else Counts()
        counts = not has_days or _is_on(sale, row, now, places[at], note)
        for number, amounts in enumerate(of_price):
            amount = amounts[at]
            if not amount[0]:
                continue
            is_off = dated[number] and not reduced and (not counts or not any(amount[0]))
            if is_off and any(other[at][0] for other in of_price[number + 1 :]):
                why = "of days that are not now" if any(amount[0]) else "of 0"
                note.count(f"prices of sales {why} (the next price counts)", f"{places[at]}: {amount[0][0]:g}")
                continue
            chosen = amount
            taken[columns.prices[number]] += at < count
            break
        if reduced and counts and chosen[0]:
            amount_off, percent_off = (cells[at] if cells else None for cells in takes_off)
            chosen = (_reduced(chosen[0], amount_off, percent_off), chosen[1])
        paid.append((chosen[0], stated[at] or chosen[1]) if stated else chosen)
    return Prices(read, paid, taken)


def _money(
    name: str,
    rows: Sequence[Row],
    places: Sequence[str],
    decimal: str | None,
    doubt: Callable[[str], object],
    report: Counts,
    count: int,
) -> list[Amount]:
    """What a column of prices says of each row."""
    cells = [row.get(name) for row in rows]
    amounts = read_amounts(cells, decimal=cast("Decimal | None", decimal))
    for row, text in amounts.faults[:_MOST_FAULTS]:
        doubt(f"{places[row]}, column {name!r}: {text}")
    if len(amounts.faults) > _MOST_FAULTS:
        doubt(f"column {name!r}: {len(amounts.faults) - _MOST_FAULTS:,} more cells like these")
    for row in (row for row in amounts.unread if row < count):
        report.count(
            f"cells of {name} that are no price (the product is kept)", f"{places[row]}: {str(cells[row])[:40]!r}"
        )
    of_header = currency_in(name)
    return [(numbers, mark or of_header) for numbers, mark in zip(amounts.values, amounts.currencies, strict=True)]


def _numbers(name: str, rows: Sequence[Row], decimal: str | None) -> list[float | None]:
    read = read_amounts([row.get(name) for row in rows], decimal=cast("Decimal | None", decimal), money=False).values
    return [numbers[0] if numbers else None for numbers in read]


def _reduced(numbers: Sequence[float], amount: float | None, percent: float | None) -> tuple[float, ...]:
    return tuple(max(0.0, round((number - (amount or 0)) * (1 - (percent or 0) / 100), 4)) for number in numbers)


def _is_on(sale: SaleColumns, row: Row, now: int, place: str, report: Counts) -> bool:
    """Whether the days of a sale, as far as they are said, contain a moment; the last day belongs to them."""
    both = text_of(row.get(sale.both)) if sale.both else None
    first, _, last = (both or "").partition("/")
    first = (text_of(row.get(sale.first)) if sale.first else None) or first
    last = (text_of(row.get(sale.last)) if sale.last else None) or last
    for text, is_last in ((first, False), (last, True)):
        if is_missing(text) or text.startswith("0000"):
            continue
        moment = moment_of(text)
        if moment is None:
            report.count("days of sales that cannot be read (the price of the sale counts)",
                         f"{place}: {(both or text)!r}")  # fmt: skip
            if both:
                return True
        elif (now >= moment[0] + (0 if ":" in text else _DAY)) if is_last else now < moment[0]:
            return False
    return True


_DAY = 86_400 * 10**6


# Whether it can be bought, and how many there are.

IN_STOCK, BACKORDER, PREORDER, OUT, DISCONTINUED = "in stock", "backorder", "preorder", "out of stock", "discontinued"
STATES = {
    **dict.fromkeys(("in stock", "instock", "available", "yes", "y", "true", "1", "limitedavailability", "onlineonly",
                     "instoreonly", "limited availability"), IN_STOCK),
    **dict.fromkeys(("backorder", "back order", "backordered", "on backorder", "onbackorder",
                     "available for order"), BACKORDER),
    **dict.fromkeys(("preorder", "pre order", "presale"), PREORDER),
    **dict.fromkeys(("out of stock", "outofstock", "sold out", "soldout", "unavailable", "not available", "no", "n",
                     "false", "0"), OUT),
    "discontinued": DISCONTINUED,
}  # fmt: skip
"""From what shops write to whether a product can be bought; of variants the first of these that one has."""
_ORDER = (IN_STOCK, BACKORDER, PREORDER, OUT, DISCONTINUED)


_COUNT = re.compile(r"-?\d{1,11}(?:\.\d+)?")


def state_of(cell: object) -> str | None:
    """Whether a product can be bought, as one of five words; None for other text."""
    text = (text_of(cell) or "").lower()
    if "schema.org/" in text:
        text = text.rpartition("/")[2]
    if _COUNT.fullmatch(text):
        return IN_STOCK if float(text) > 0 else OUT
    return STATES.get(re.sub(r"[\s_-]+", " ", text))


@dataclass(frozen=True)
class _Offers:
    """What is sold, product after product: its variants, or the product itself where it has none."""

    places: Sequence[str]
    rows: Sequence[Row]
    counts: Sequence[int]  # (products,) how many each has

    @classmethod
    def of(cls, products: Sequence[Product]) -> _Offers:
        if not any(variants for _, _, variants in products):
            return cls([place for place, _, _ in products], [row for _, row, _ in products], [1] * len(products))
        offers: list[list[tuple[str, Row]]] = []
        for place, row, variants in products:
            offers.append([(variant.place, variant.row) for variant in variants] or [(place, row)])
        flat = [offer for own in offers for offer in own]
        return cls([place for place, _ in flat], [row for _, row in flat], [len(own) for own in offers])

    def by_product(self, values: Sequence[Any]) -> Iterator[Sequence[Any]]:
        """The values of each product, of one for each offer."""
        start = 0
        for count in self.counts:
            yield values[start : start + count]
            start += count


def _states(name: str, offers: _Offers, report: Counts) -> list[str | None] | None:
    """Whether each product, or one of its variants, can be bought; None where most cells say something else."""
    known: dict[object, str | None] = {}
    states: list[str | None] = []
    filled, unread = 0, Counts()
    for place, row in zip(offers.places, offers.rows, strict=True):
        cell = row.get(name)
        if not isinstance(cell, str) or cell not in known:
            known[str(cell)] = state_of(cell)
        state = known[str(cell)]
        states.append(state)
        if not is_missing(cell):
            filled += 1
            if state is None:
                unread.count(f"cells of {name} that do not say whether there is any", f"{place}: {str(cell)[:40]!r}")
    if 2 * sum(unread.counts.values()) > filled:
        return None
    report.counts.update(unread.counts)
    report.examples.update(unread.examples)
    return [min(filter(None, own), key=_ORDER.index, default=None) for own in offers.by_product(states)]


def _stock(name: str, offers: _Offers, decimal: str | None) -> list[int | float | None] | None:
    """How many there are of each product: of one with variants the sum; None where a cell is no number."""
    cells = [row.get(name) for row in offers.rows]
    read = read_amounts([None if is_missing(cell) or cell == "parent" else cell for cell in cells],
                        decimal=cast("Decimal | None", decimal), money=False)  # fmt: skip
    if read.unread or read.faults or any(len(numbers) > 1 for numbers in read.values):
        return None
    sums: list[int | float | None] = []
    for own in offers.by_product(read.values):
        values_found = [numbers[0] for numbers in own if numbers]
        total = sum(values_found)
        sums.append(None if not values_found else int(total) if total == int(total) else total)
    return sums


# What the variants of a product differ in, and other values with names.


def named_values(columns: ShopColumns, row: Row, product: Row) -> dict[str, list[str]]:
    """The values that a row has under names that are cells too: "Size" of "Option1 Name", with "S"."""
    # product: The row of its product, which may alone have the names.
    values_found: dict[str, list[str]] = {}
    for name, value in columns.options:
        own, values = text_of(row.get(name)) or text_of(product.get(name)), text_of(row.get(value))
        if own and values and own.lower() != "title":  # Shopify's name where a product has no options
            several = [values] if name.lower().startswith("option") else _SEVERAL.split(values)
            values_found.setdefault(own, []).extend(part.replace("\\,", ",") for part in several if part)
    for name, value in columns.listed:
        pairs = zip(*(str(row.get(cell) or "").split(",") for cell in (name, value)), strict=False)
        for label, text in pairs:
            if (label := label.partition(":")[0].strip()) and (text := text.rpartition(":")[0].strip() or text.strip()):
                values_found.setdefault(label, []).append(text)
    for name in columns.named:
        for label, texts in _pairs_in(row.get(name)):
            values_found.setdefault(label, []).extend(texts)
    return values_found


_SEVERAL = re.compile(r"\s*(?<!\\)[,;|]\s*")
_NAMED = re.compile(r",(?=\s*[\w .-]+=)")
_PLACED = re.compile(r"\s*([^:,]+):(.+?):\d+\s*(?:,|$)")


def _pairs_in(cell: object) -> Iterable[tuple[str, list[str]]]:
    """ "color=red,size=M" of Magento, "Material:Wool:1, Fit:slim:2" of PrestaShop."""
    if not isinstance(cell, str):
        return
    if "=" not in cell:
        yield from ((name.strip(), [value.strip()]) for name, value in _PLACED.findall(cell))
        return
    for part in _NAMED.split(cell):
        name, _, value = part.partition("=")
        if name.strip() and value.strip():
            yield name.strip().strip('"'), [text for text in value.strip().strip('"').split("|") if text]


def _of_offers(name: str, row: Row, own: Sequence[Row]) -> Any:
    """A cell of a product; of one whose variants differ in it, all their values."""
    values_found = list(dict.fromkeys(text for offer in own if (text := text_of(offer.get(name)))))
    return values_found if len(values_found) > 1 else row.get(name)


# The columns of a table of products as typed fields: prices and numbers as numbers, the rest as text.

_PLAIN_NUMBER = re.compile(r"[+-]?(?:\d{1,3}(?:[.,' ]\d{3})+|\d{1,11})(?:[.,]\d+)?")
_TAKEN = frozenset((
    "width", "height", "bytes", "format", "camera", "taken", "name", "path", "category", "caption", "product",
    "pictures", "image_id"
))  # fmt: skip
"""What a library has fields of its own for, or the reader facts: a column of this name becomes "product NAME"."""
_CODE = re.compile(r"0\d")


class Fields(dict[str, pa.Array]):
    """Columns by name; what is put in becomes a column of Arrow at once, since texts of Python are large."""

    def __setitem__(self, name: str, values: list[Any]) -> None:
        super().__setitem__(name, pa.array(values))


def field_columns(
    columns: ShopColumns, products: Sequence[Product], prices: Prices, decimal: str | None, report: Counts
) -> Fields:
    """The fields of products: from the name to (products,) values, None where a product has none."""
    # The price is called "price" and the brand "brand", whatever their columns are called; other columns keep their
    # names. A price range has two values. What says whether there is any becomes "availability" and "stock".
    rows = [row for _, row, _ in products]
    offers = _Offers.of(products)
    fields = Fields()
    if columns.prices:
        fields["price"] = _as_values([numbers for numbers, _ in prices.paid])
        fields["currency"] = [currency if numbers else None for numbers, currency in prices.paid]
    for name, pairs in prices.columns.items():
        if name not in columns.prices[:1]:
            own = "regular price" if plain_column(name) == "price" else name
            fields[_free(own, fields)] = _as_values([numbers for numbers, _ in pairs])
    if columns.brand:
        fields["brand"] = [text_of(row.get(columns.brand)) for row in rows]
    if columns.description:
        fields["description"] = [text_of(row.get(columns.description)) for row in rows]
    state, stock = columns.availability, columns.stock
    numbers = _stock(stock, offers, decimal) if stock else None
    of_stock = [row.get(stock) for row in rows] if stock and numbers is None and state is None else []
    if of_stock and all(is_missing(cell) or state_of(cell) for cell in of_stock):
        state = stock  # "in stock", "sold out"
    new = {name: values for name, values in
           (("availability", _states(state, offers, report) if state else None), ("stock", numbers))
           if values and any(value is not None for value in values)}  # fmt: skip
    several = len(offers.rows) > len(rows)
    for name in columns.others:
        if name in columns.money or name.lower() in new:
            continue
        cells = [row.get(name) for row in rows]
        if several and name in columns.differing:
            cells = [_of_offers(name, row, own)
                     for row, own in zip(rows, offers.by_product(offers.rows), strict=True)]  # fmt: skip
        fields[_free(name, fields)] = _typed(cells, decimal)
    if columns.attributes:
        _add_attributes(columns.attributes, products, fields, decimal, report)
    for name, values in (new | _named_fields(columns, products)).items():
        fields[_free(name, fields)] = values
    return fields


def _named_fields(columns: ShopColumns, products: Sequence[Product]) -> dict[str, list[Any]]:
    """The values with names of each product and of its variants, as fields."""
    fields: dict[str, list[Any]] = {}
    if not (columns.options or columns.listed or columns.named):
        return fields
    for at, (_, product, variants) in enumerate(products):
        values_found: dict[str, dict[str, None]] = {}
        for row in (product, *(variant.row for variant in variants)):
            for name, values in named_values(columns, row, product).items():
                values_found.setdefault(name, {}).update(dict.fromkeys(values))
        for name, distinct in values_found.items():
            fields.setdefault(name, [None] * len(products))[at] = list(distinct)
    return {
        name: [cell and cell[0] for cell in cells] if all(cell is None or len(cell) == 1 for cell in cells) else cells
        for name, cells in fields.items()
    }


def _add_attributes(
    column: str, products: Sequence[Product], fields: Fields, decimal: str | None,
    report: Counts,
) -> None:  # fmt: skip
    cells = [row.get(column) for _, row, _ in products]
    no_pair = "attributes that are no pair of name and value"
    attributes, unread = _attributes(cells, lambda entry: report.count(no_pair, short(entry)))
    if 2 * len(unread) > len(cells):  # written in another way: text that can be searched all the same
        fields[_free(column, fields)] = [text_of(cell) for cell in cells]
        return
    for row in unread:
        report.count(
            "cells of attributes that are not JSON (the product is kept)", f"{products[row][0]}: {cells[row]!r}"[:60]
        )
    for name, values in attributes.items():
        if plain_column(name) in BRAND and "brand" not in fields:
            name = "brand"
        fields[_free(name, fields)] = _typed(values, decimal)


def words_of_prices(prices: Prices) -> list[str]:
    """What customers pay for each row, in words; "" where there is no price."""
    return [price_in_words(numbers, currency) for numbers, currency in prices.paid]


def short(value: object) -> str:
    """How something begins that people are shown as it is."""
    shown = repr(value)
    return shown if len(shown) <= 40 else f"{shown[:39]}…"


def _as_values(amounts: Sequence[tuple[float, ...]]) -> list[Any]:
    """Numbers as a field: a list for each product where one has a range, else a number."""
    several = any(len(numbers) > 1 for numbers in amounts)
    return [None if not numbers else list(numbers) if several else numbers[0] for numbers in amounts]


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
