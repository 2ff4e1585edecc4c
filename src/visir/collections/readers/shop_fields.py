"""The columns of a table of products as typed fields: prices and numbers as numbers, the rest as text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast

from visir.collections.draft import Draft
from visir.collections.readers.shop_columns import BRAND, ShopColumns, plain
from visir.collections.readers.shop_numbers import CODES, SIGNS, Decimal, read_amounts

_PLAIN_NUMBER = re.compile(r"[+-]?(?:\d{1,3}(?:[.,' ]\d{3})+|\d{1,11})(?:[.,]\d+)?")
_TAKEN = frozenset((
    "width", "height", "bytes", "format", "camera", "taken", "name", "path", "category", "caption", "product",
    "pictures", "image_id"
))  # fmt: skip
"""What a library has fields of its own for, or the reader facts: a column of this name becomes "product NAME"."""
_MOST_FAULTS = 3
_RUBY_ARROW, _RUBY_NIL = re.compile(r'(?<!\\)"=>'), re.compile(r'(?<!\\)"=>nil\b')
"""A hash of Ruby, {"a"=>nil}: within its texts quotes are escaped, so an arrow there never follows a bare one."""


class _Counts(Protocol):
    def count(self, what: str, example: str) -> None:
        """Count something, with an example."""


def field_columns(
    columns: ShopColumns,
    rows: Sequence[Mapping[str, Any]],
    places: Sequence[str],
    decimal: str | None,
    draft: Draft,
    report: _Counts,
) -> dict[str, list[Any]]:
    """The fields of products: from the name to (products,) values, None where a product has none."""
    # The price is called "price" and the brand "brand", whatever their columns are called; other columns keep their
    # names. A price range has two values.
    fields: dict[str, list[Any]] = {}
    for name in columns.money:
        fields |= _money(name, columns, rows, places, decimal, draft, report)
    if columns.brand:
        fields["brand"] = [_text(row.get(columns.brand)) for row in rows]
    if columns.description:
        fields["description"] = [_text(row.get(columns.description)) for row in rows]
    for name in columns.others:
        if name not in columns.money:
            fields[_free(name, fields)] = _typed([row.get(name) for row in rows], decimal)
    if columns.attributes:
        cells = [row.get(columns.attributes) for row in rows]
        attributes, unread = _attributes(cells)
        if 2 * len(unread) > len(cells):  # written in another way: text that can be searched all the same
            fields[_free(columns.attributes, fields)] = [_text(cell) for cell in cells]
            return fields
        for row in unread:
            report.count(
                "cells of attributes that are not JSON (the product is kept)", f"{places[row]}: {cells[row]!r}"[:60]
            )
        for name, values in attributes.items():
            if plain(name) in BRAND and "brand" not in fields:
                name = "brand"
            fields[_free(name, fields)] = _typed(values, decimal)
    return fields


def _money(
    name: str,
    columns: ShopColumns,
    rows: Sequence[Mapping[str, Any]],
    places: Sequence[str],
    decimal: str | None,
    draft: Draft,
    report: _Counts,
) -> dict[str, list[Any]]:
    cells = [row.get(name) for row in rows]
    amounts = read_amounts(cells, decimal=cast("Decimal | None", decimal))
    for row, fault in amounts.faults[:_MOST_FAULTS]:
        draft.fault(f"{places[row]}, column {name!r}: {fault}")
    if len(amounts.faults) > _MOST_FAULTS:
        draft.fault(f"column {name!r}: {len(amounts.faults) - _MOST_FAULTS:,} more cells like these")
    for row in amounts.unread:
        report.count(
            f"cells of {name} that are no price (the product is kept)", f"{places[row]}: {str(cells[row])[:40]!r}"
        )
    values = [None if not numbers else numbers[0] if len(numbers) == 1 else list(numbers) for numbers in amounts.values]
    if any(isinstance(value, list) for value in values):
        values = [[value] if isinstance(value, float) else value for value in values]
    if name != columns.price:
        return {_free(name, ()): values}
    stated = [_text(row.get(columns.currency)) for row in rows] if columns.currency else [None] * len(rows)
    of_header = _currency_in(name)
    currencies = [
        (code or beside or of_header) if value is not None else None
        for code, beside, value in zip(stated, amounts.currencies, values, strict=True)
    ]
    return {"price": values, "currency": currencies}


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
        return [[text for part in parts if (text := _text(part))] or None for parts in lists]
    texts = [str(cell).strip() if cell is not None else "" for cell in cells]
    numbers = [text for text in texts if text]
    if numbers and all(_PLAIN_NUMBER.fullmatch(text) and not re.match(r"0\d", text) for text in numbers):
        amounts = read_amounts(texts, decimal=cast("Decimal | None", decimal), money=False)
        if not amounts.faults and not amounts.unread:
            whole = all(re.fullmatch(r"[+-]?\d+", text) for text in numbers)
            return [(int(value[0]) if whole else value[0]) if value else None for value in amounts.values]
    return [text or None for text in texts]


def _attributes(cells: Sequence[Any]) -> tuple[dict[str, list[Any]], list[int]]:
    """The attributes of each product, by name, and the rows whose cell is neither JSON nor a hash of Ruby."""
    columns: dict[str, list[Any]] = {}
    unread = []
    for row, cell in enumerate(cells):
        value = cell
        if isinstance(cell, str) and cell.strip():
            try:
                value = _specifications(json.loads(_RUBY_ARROW.sub('":', _RUBY_NIL.sub('":null', cell))))
            except ValueError:
                unread.append(row)
                continue
        for name, text in value.items() if isinstance(value, dict) else _pairs(value):
            if isinstance(name, str) and name.strip() and text not in (None, ""):
                column = columns.setdefault(name.strip(), [None] * len(cells))
                column[row] = text if isinstance(text, int | float | list) else str(text)
    return columns, unread


def _specifications(value: object) -> object:
    """What stands in {"product_specification": …}, as the Flipkart samples wrap it: a list, or one pair."""
    if not isinstance(value, dict) or [*value] != ["product_specification"]:
        return value
    inner = value["product_specification"]
    return [inner] if isinstance(inner, dict) else inner


def _pairs(value: object) -> list[tuple[Any, Any]]:
    if not isinstance(value, list):
        return []
    return [
        (entry.get("name", entry.get("key")), entry.get("value")) if isinstance(entry, dict) else tuple(entry)
        for entry in value
        if isinstance(entry, dict) or (isinstance(entry, list | tuple) and len(entry) == 2)
    ]


def _free(name: str, fields: Any) -> str:
    """A name for a field that nothing else has."""
    name = " ".join(name.split())
    name = f"product {name}" if name.lower() in _TAKEN else name
    return f"{name} (attribute)" if name in fields else name


def _text(cell: object) -> str | None:
    text = "" if cell is None else str(cell).strip()
    return text or None
