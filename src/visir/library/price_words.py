"""Prices and numbers in the words of a search: "red dress under 50 €" asks for price < 50.

| words | condition |
|---|---|
| under, below, less than, cheaper than N; < N | field < N |
| up to, at most, max, no more than N; <= N | field <= N |
| over, above, more than N; > N | field > N |
| from, at least, min N; >= N | field >= N |
| between N and M; from N to M; N - M with a currency | field >= N and field <= M |

German, French, Spanish, Italian and Dutch words are read too: "unter 50", "moins de 50 €", "entre 20 et 40". Short
words that mean other things as well ("bis", "ab", "tot", "da") need a currency beside the number.

The field is the price, or a field of numbers whose name stands before the words: "weight under 5". A number may have a
currency: € $ £ ¥ ₹, a code ("EUR") or a word ("euros"). Of a shop in one currency another currency is no condition.
A number with another unit ("under 40 cm", "over 18 years") is left as it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from visir.collections.cells import CODES, SIGNS
from visir.library.filters import Field, FieldCondition, Op

PRICE, CURRENCY = "price", "currency"
_NAMES = {"euro": "EUR", "euros": "EUR", "dollar": "USD", "dollars": "USD", "pound": "GBP", "pounds": "GBP",
          "rupee": "INR", "rupees": "INR", "yen": "JPY"}  # fmt: skip
_UNITS = (
    "%|(?:mm|cm|dm|m|km|in|inch|inches|ft|feet|g|kg|mg|oz|lb|lbs|ml|cl|l|litres?|liters?|w|kw|v|gb|tb|mb|mah|hz|"
    "years?|months?|weeks?|days?|hours?|minutes?|pieces?|pcs|pack|people|persons?|pages?|stars?|"
    "jahren?|monaten?|wochen?|tagen?|stunden?|zoll|stück|personen|teile|seiten|ans|mois|pièces?|personnes?|"
    "años?|meses|piezas?|personas?|anni|mesi|pezzi|persone|jaar|maanden?|stuks?)\\b"
)
_OPS: dict[str, Op] = {
    "under": "<", "below": "<", "less than": "<", "cheaper than": "<", "<": "<",
    "up to": "<=", "at most": "<=", "max": "<=", "maximum": "<=", "no more than": "<=", "<=": "<=", "≤": "<=",
    "over": ">", "above": ">", "more than": ">", ">": ">",
    "from": ">=", "at least": ">=", "min": ">=", "minimum": ">=", ">=": ">=", "≥": ">=",
    # German, French, Spanish, Italian, Dutch
    "unter": "<", "weniger als": "<", "billiger als": "<", "günstiger als": "<", "moins de": "<", "menos de": "<",
    "meno di": "<", "onder": "<", "minder dan": "<", "goedkoper dan": "<",
    "bis": "<=", "bis zu": "<=", "höchstens": "<=", "maximal": "<=", "jusqu'à": "<=", "jusqu’à": "<=",
    "au maximum": "<=", "hasta": "<=", "como máximo": "<=", "fino a": "<=", "al massimo": "<=", "tot": "<=",
    "hoogstens": "<=",
    "über": ">", "mehr als": ">", "plus de": ">", "más de": ">", "più di": ">", "oltre": ">", "boven": ">",
    "meer dan": ">",
    "ab": ">=", "mindestens": ">=", "à partir de": ">=", "au moins": ">=", "desde": ">=", "al menos": ">=",
    "da": ">=", "almeno": ">=", "vanaf": ">=", "minstens": ">=",
}  # fmt: skip
_SHORT = frozenset({"bis", "ab", "tot", "da", "desde", "hasta"})
"""Words that are a condition beside a currency only: "ab 50 €"."""
_MARK = "|".join(sorted((re.escape(mark) for mark in (*SIGNS, *CODES, *_NAMES)), key=len, reverse=True))
_NUMBER = r"(?>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:[.,]\d{1,2})?)"
"""A number, which is never tried again with fewer digits: that took time quadratic in their count."""


def _amount(name: str) -> str:
    return rf"(?P<before_{name}>{_MARK})?\s?(?P<{name}>{_NUMBER})(?![\d.,]*\d)\s?(?P<after_{name}>(?:{_MARK})(?!\w))?"


_WORDS = "|".join(re.escape(words) for words in sorted(_OPS, key=len, reverse=True))
_BETWEEN, _AND = "between|from|zwischen|entre|tra|fra|tussen", "and|to|und|et|y|e|en|-|–"
_RANGE = re.compile(
    rf"(?<!\w)(?P<word>{_BETWEEN})\s+{_amount('low')}\s*(?:{_AND})\s*{_amount('high')}(?!\s*(?:{_UNITS}))(?!\w)",
    re.IGNORECASE,
)
_SPAN = re.compile(rf"(?<![\w.,]){_amount('low')}\s*[-–]\s*{_amount('high')}(?!\w)", re.IGNORECASE)
_ONE = re.compile(rf"(?<![\w<>])(?P<word>{_WORDS})\s*{_amount('low')}(?!\s*(?:{_UNITS}))(?!\w)", re.IGNORECASE)


@dataclass(frozen=True)
class ReadWords:
    """Words of a search that were read as conditions."""

    words: str  # as they were written: "under 50 €"
    where: tuple[FieldCondition, ...]  # the conditions


def read_prices(text: str, fields: Mapping[str, Field]) -> tuple[str, tuple[ReadWords, ...]]:
    """The text without the words that are conditions, and these."""
    if PRICE not in fields or fields[PRICE].type != "number":
        return text, ()
    read: list[ReadWords] = []
    for pattern in (_RANGE, _ONE, _SPAN):
        text = _taken(pattern, text, fields, read)
    return " ".join(text.split()), tuple(read)


def _taken(pattern: re.Pattern[str], text: str, fields: Mapping[str, Field], read: list[ReadWords]) -> str:
    """The text without what a pattern finds in it; conditions are added to `read`."""
    position = 0
    while (match := pattern.search(text, position)) is not None:
        marks = [mark for name, mark in match.groupdict().items() if mark and name.startswith(("before", "after"))]
        conditions = _conditions(match, marks, fields)
        needs_mark = pattern is _SPAN or match.groupdict().get("word", "").lower() in _SHORT
        if conditions is None or (needs_mark and not marks):
            position = match.end()
            continue
        start, field = match.start(), PRICE
        before = _field_before(text[:start], fields)
        if before is not None and not marks:
            start, field = before
        where = tuple(
            FieldCondition(field if condition.field == PRICE else condition.field, condition.op, condition.value)
            for condition in conditions
        )
        read.append(ReadWords(" ".join(text[start : match.end()].split()), where))
        text = f"{text[:start]} {text[match.end() :]}"
        position = start
    return text


def _conditions(match: re.Match[str], marks: list[str], fields: Mapping[str, Field]) -> list[FieldCondition] | None:
    """The conditions of a match; None where its currency is none of the shop's."""
    codes = {_code(mark) for mark in marks}
    if len(codes) > 1:
        return None
    known = fields[CURRENCY].values if CURRENCY in fields else ()
    code = next(iter(codes), None)
    if code is not None and known and code not in known:
        return None
    low = _read(match["low"])
    if "high" in match.re.groupindex:
        bounds = sorted((low, _read(match["high"])))
        conditions = [FieldCondition(PRICE, ">=", bounds[0]), FieldCondition(PRICE, "<=", bounds[1])]
    else:
        conditions = [FieldCondition(PRICE, _OPS[" ".join(match["word"].lower().split())], low)]
    if code is not None and len(known) > 1:
        conditions.append(FieldCondition(CURRENCY, "=", code))
    return conditions


def _field_before(text: str, fields: Mapping[str, Field]) -> tuple[int, str] | None:
    """(where it begins, name) of a field of numbers whose name ends the text."""
    lowered = text.rstrip().lower()
    for name in sorted(fields, key=len, reverse=True):
        at = len(lowered) - len(name)
        if fields[name].type == "number" and lowered.endswith(name.lower()) and (at == 0 or lowered[at - 1] == " "):
            return at, name
    return None


def _code(mark: str) -> str:
    by_case = {sign.lower(): code for sign, code in SIGNS.items()} | _NAMES
    return by_case.get(mark.lower(), mark.upper())


def _read(text: str) -> int | float:
    """A number: "1,299", "12.50", "12,50"."""
    text = text.replace(",", "") if re.search(r",\d{3}(?!\d)", text) else text.replace(",", ".")
    return int(text) if text.isdecimal() else float(text)
