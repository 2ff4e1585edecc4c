"""Numbers and prices as shops write them: "€ 1.299,00", "1,299.00 USD", "12 – 20", "CHF 1'299.–".

One column is written in one way. Which sign stands before the cents is found from all its cells together: "1.299" alone
does not tell it, "1.299" beside "12,50" does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

Decimal = Literal["point", "comma"]

SIGNS = {
    "€": "EUR", "$": "USD", "£": "GBP", "¥": "JPY", "₹": "INR", "₽": "RUB", "₩": "KRW", "₺": "TRY", "zł": "PLN",
    "Kč": "CZK", "US$": "USD", "A$": "AUD", "C$": "CAD", "Rs.": "INR", "Rs": "INR",
}  # fmt: skip
"""From the sign of a currency to its code (ISO 4217). "$" is read as the dollar of the United States."""
CODES = frozenset((
    "AED", "AUD", "BRL", "CAD", "CHF", "CNY", "CZK", "DKK", "EUR", "GBP", "HKD", "HUF", "ILS", "INR", "JPY", "KRW",
    "MXN", "NOK", "NZD", "PLN", "RON", "RUB", "SEK", "SGD", "TRY", "USD", "ZAR"
))  # fmt: skip
"""The codes that are read beside an amount."""
_MARKS = "|".join(sorted((re.escape(mark) for mark in (*SIGNS, *CODES)), key=len, reverse=True))
_AMOUNT = r"[+-]?\d(?:[\d.,'’\u00a0\u202f]| (?=\d{3}(?!\d)))*(?:[.,][-–—])?"
_CELL = re.compile(
    rf"(?P<before>{_MARKS})?\s*(?P<low>{_AMOUNT})\s*(?P<after>{_MARKS})?"
    rf"(?:\s*(?:-|–|—|to|bis)\s*(?:{_MARKS})?\s*(?P<high>{_AMOUNT})\s*(?:{_MARKS})?)?",
    re.IGNORECASE,
)
_UPPER = {mark.upper(): code for mark, code in SIGNS.items()}


@dataclass(frozen=True)
class Amounts:
    """The numbers of one column."""

    values: list[tuple[float, ...]]  # (rows,) the numbers of each cell: none, one, or the two ends of "12 - 20"
    currencies: list[str | None]  # (rows,) the code of the currency beside each; None where there is none
    unread: list[int] = field(default_factory=list)  # the rows whose cell has text that is no number
    # Rows whose cell is a number in the other style, or in one that the cells leave open.
    faults: list[tuple[int, str]] = field(default_factory=list)


def read_amounts(cells: Sequence[object], *, decimal: Decimal | None = None, money: bool = True) -> Amounts:
    """Read a column of numbers."""
    # cells: (rows,) texts, numbers, or None.
    read = [_CELL.fullmatch(cell.strip()) if isinstance(cell, str) else None for cell in cells]
    parts = [(match["low"], match["high"]) if match else (None, None) for match in read]
    style, faults = _style(parts, decimal, money)
    values: list[tuple[float, ...]] = []
    currencies: list[str | None] = []
    unread: list[int] = []
    for row, (cell, match) in enumerate(zip(cells, read, strict=True)):
        numbers: list[float] = []
        if isinstance(cell, int | float) and not isinstance(cell, bool):
            numbers = [float(cell)]
        elif match is not None:
            numbers = [number for part in parts[row] if part and (number := _number(part, style)) is not None]
        elif cell is not None and str(cell).strip():
            unread.append(row)
        values.append(tuple(dict.fromkeys(numbers)))
        mark = (match["before"] or match["after"]) if match else None
        currencies.append(None if mark is None else _UPPER.get(mark.upper(), mark.upper()))
    return Amounts(values, currencies, unread, faults)


def _style(
    parts: Sequence[tuple[str | None, str | None]], decimal: Decimal | None, money: bool
) -> tuple[Decimal, list[tuple[int, str]]]:
    """The style of a column, and the cells that do not fit it."""
    seen: dict[Decimal, list[tuple[int, str]]] = {"point": [], "comma": []}
    open_cells: list[tuple[int, str]] = []
    for row, pair in enumerate(parts):
        for text in filter(None, pair):
            shown = _shown_style(text)
            if shown == "open":
                open_cells.append((row, text))
            elif shown is not None:
                seen[shown].append((row, text))
    if decimal is None and seen["point"] and seen["comma"]:
        first = ", ".join(f"{seen[style][0][1]!r}" for style in seen)
        message = f"{first}: two ways to write a number in one column; say which with decimal=comma or decimal=point"
        return "point", [(seen[style][0][0], message) for style in seen]
    style: Decimal = decimal or ("comma" if seen["comma"] else "point")
    faults = []
    if decimal is None and not seen["comma"] and not seen["point"]:
        # "1,299" alone: nobody writes a price with three digits of cents, but "1.299" is also how programs write 1.299.
        points = [cell for cell in open_cells if "." in cell[1]]
        commas = [cell for cell in open_cells if "," in cell[1]]
        undecided = (points if money else []) + ([] if money else commas)
        for row, text in undecided:
            plain = re.sub(r"[.,]", "", text)
            faults.append(
                (row, f"{text!r} is {plain} or {text.replace(',', '.')}: say which with decimal=comma or decimal=point")
            )
    elif decimal is not None:
        other: Decimal = "comma" if decimal == "point" else "point"
        faults = [(row, f"{text!r} does not fit decimal={decimal}") for row, text in seen[other]]
    return style, faults


def _shown_style(text: str) -> Decimal | Literal["open"] | None:
    """What a number shows of its style: None nothing ("12"), "open" for "1.299" and "1,299"."""
    text = re.sub(r"[.,][-–—]$", "", text)
    points, commas = text.count("."), text.count(",")
    if points and commas:
        return "comma" if text.rfind(",") > text.rfind(".") else "point"
    if points > 1 or commas > 1:
        return "comma" if points > 1 else "point"
    if points + commas == 0:
        return None
    sign = "." if points else ","
    whole, _, fraction = text.lstrip("+-").partition(sign)
    if len(fraction) == 3 and 1 <= len(whole) <= 3 and whole != "0":
        return "open"
    return "point" if points else "comma"


def _number(text: str, style: Decimal) -> float | None:
    text = re.sub(r"[.,][-–—]$", "", text)
    text = re.sub(r"['’\u00a0\u202f ]", "", text)
    text = text.replace(",", "") if style == "point" else text.replace(".", "").replace(",", ".")
    try:
        return float(text)
    except ValueError:
        return None
