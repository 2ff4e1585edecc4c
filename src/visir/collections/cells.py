"""What a cell of a table means, whoever asks: nothing, a text, an id, a list, a truth value, an amount, a moment.

Tables of captions, of products and of tasks, data frames, logs and live events all ask here, so that a cell has one
meaning. Cells come as text (CSV) or as the values of Python, NumPy, pandas and Arrow.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from email.utils import parsedate_to_datetime
from functools import lru_cache
from math import isfinite
from pathlib import PurePath
from typing import Any, Literal

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

# Nothing, texts, ids, truth values.

NOTHING = frozenset((
    "", "-", "–", "—", "#n/a", "(none)", "(null)", "<na>", "\\n", "n/a", "na", "nan", "nat", "nil", "none", "null",
    "undefined",
))  # fmt: skip
"""What people and programs write where there is no value, in lower case."""
_WORDS = NOTHING - {""}
LONGEST_WORD = 9
_NA = ("NAType", "NaTType")
"""The classes of what is missing in pandas; they are equal to nothing, and true or false neither."""


def is_missing(cell: object) -> bool:
    """Whether a cell has no value: null, blank, not a number, an empty list, or a word that says so."""
    if type(cell) is str:
        return cell.strip().lower() in NOTHING if len(cell) <= LONGEST_WORD else cell.isspace()
    if cell is None or type(cell).__name__ in _NA:
        return True
    return len(cell) == 0 if isinstance(cell, list | tuple | dict) else isinstance(cell, float) and cell != cell


def missing_in(cells: pa.StringArray) -> list[int]:
    """The rows of a column of texts that have a text without a value, as `is_missing` says."""
    # Arrow finds what may be one; of these few, Python decides.
    short = np.flatnonzero(pc.less_equal(pc.binary_length(cells), 4 * LONGEST_WORD).fill_null(False))
    words = pc.utf8_lower(pc.utf8_trim_whitespace(cells.take(pa.array(short))))
    short = short[pc.is_in(words, pa.array(sorted(NOTHING))).to_numpy(zero_copy_only=False)]
    blank = np.flatnonzero(pc.utf8_is_space(cells).fill_null(False))
    rows = np.union1d(short, blank)
    texts = cells.take(pa.array(rows))
    missing = {text for text in pc.unique(texts).to_pylist() if is_missing(text)}
    return [row for row, text in zip(rows.tolist(), texts.to_pylist(), strict=True) if text in missing]


def says_nothing(cell: object) -> bool:
    """Whether a cell has a word for a value that is missing: it is worth counting, unlike an empty one."""
    return type(cell) is str and len(cell) <= LONGEST_WORD and cell.strip().lower() in _WORDS


def text_of(cell: object) -> str | None:
    """The text of a cell; None where there is no value. What is text stays, also a word such as "None"."""
    if type(cell) is str:
        return cell.strip() or None
    if cell is None or type(cell).__name__ in _NA or (isinstance(cell, float) and cell != cell):
        return None
    return (str(cell).lower() if isinstance(cell, bool) else str(cell)).strip() or None


_DIGITS_KEPT = 2**53
"""Whole numbers beyond it are not all there in a column of floating-point numbers."""


def id_of(cell: object) -> str:
    """An id as text, digit for digit: "007", "1e5". A whole number that a data frame made a fraction is whole again."""
    # Raises `TypeError` for what is no id, and where digits were lost.
    if isinstance(cell, str):
        return cell
    if isinstance(cell, bool | bytes | list | tuple | dict) or cell is None:
        raise TypeError(f"an id must be a number or text, found {str(cell)[:40]}")
    if isinstance(cell, float) and cell.is_integer():
        if abs(cell) >= _DIGITS_KEPT:
            raise TypeError(f"an id of so many digits that a fraction holds: {cell!r}; read its column as text")
        return str(int(cell))
    return cell.as_posix() if isinstance(cell, PurePath) else str(cell)


_FLAGS = {"1": True, "true": True, "yes": True, "1.0": True, "0": False, "false": False, "no": False, "0.0": False}


def flag_of(cell: object) -> bool | None:
    """A truth value, also as a number or a word ("TRUE", as Excel writes it); None for anything else."""
    return _FLAGS.get(str(cell).strip().lower())


# Lists.

_ENTRY = re.compile(r"""\s*('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?|None)\s*,?\s*""", re.DOTALL)
"""An entry of a list as Python prints it; NumPy prints no commas."""
_TEXTS: tuple[set[type], ...] = (set(), {str}, {str, type(None)})
"""The types in a list that can be one of captions."""


def entries_of(cell: Any, *, texts: bool = False) -> list[Any]:
    """The values in a cell: those of a list, also of one that is written out, else the value; none if null."""
    # texts: A list of anything but texts is no list of captions, so that "[1]" is what somebody wrote.
    if isinstance(cell, str):
        written = written_list(cell) if cell.startswith(("[", " [")) else None
        if written is None or (texts and {*map(type, written)} not in _TEXTS):
            return [cell]
        return written
    if getattr(cell, "ndim", 0) == 1:
        cell = cell.tolist()
    return [] if cell is None else list(cell) if isinstance(cell, list | tuple) else [cell]


def written_list(text: str) -> list[Any] | None:
    """The list that a text is as JSON, Python or NumPy write it; None for any other text."""
    text = text.strip()
    if not (text.startswith("[") and text.endswith("]")):
        return None
    try:
        value = orjson.loads(text)
        return value if isinstance(value, list) else None
    except orjson.JSONDecodeError:
        pass
    entries, place = [], 1
    while place < len(text) - 1:
        entry = _ENTRY.match(text, place)
        if entry is None:
            return None
        try:
            entries.append(ast.literal_eval(entry[1]))
        except (SyntaxError, ValueError):  # no line break, and no half of an escape, stands in quotes of Python
            return None
        place = entry.end()
    return entries


# Numbers and prices as people write them: "€ 1.299,00", "1,299.00 USD", "12 – 20", "CHF 1'299.–".


Decimal = Literal["point", "comma"]

SIGNS = {
    "€": "EUR", "$": "USD", "£": "GBP", "¥": "JPY", "₹": "INR", "₽": "RUB", "₩": "KRW", "₺": "TRY", "zł": "PLN",
    "Kč": "CZK", "US$": "USD", "A$": "AUD", "C$": "CAD", "R$": "BRL", "Rs.": "INR", "Rs": "INR",
}  # fmt: skip
"""From the sign of a currency to its code (ISO 4217). "$" is read as the dollar of the United States."""
CODES = frozenset((
    "AED", "AUD", "BRL", "CAD", "CHF", "CNY", "CZK", "DKK", "EUR", "GBP", "HKD", "HUF", "ILS", "INR", "JPY", "KRW",
    "MXN", "NOK", "NZD", "PLN", "RON", "RUB", "SEK", "SGD", "TRY", "USD", "ZAR"
))  # fmt: skip
"""The codes that are read beside an amount."""
_MARKS = "|".join(sorted((re.escape(mark) for mark in (*SIGNS, *CODES)), key=len, reverse=True))
_BLANKS = "_\u00a0\u202f\u2009"
_AMOUNT = rf"\d(?:[\d.,'’{_BLANKS}]| (?=\d{{3}}(?!\d)))*(?:[.,][-–—])?"
_CELL = re.compile(
    rf"(?P<sign>[+−-])?\s*(?P<before>{_MARKS})?\s*(?P<low>[+−-]?{_AMOUNT})\s*(?P<after>{_MARKS})?"
    rf"(?:\s*(?:-|–|—|to|bis)\s*(?:{_MARKS})?\s*(?P<high>[+−-]?{_AMOUNT})\s*(?:{_MARKS})?)?",
    re.IGNORECASE,
)
_OF_PROGRAMS = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
"""A number as programs write it: "5.", ".5", "1.5e3"."""
_UPPER = {mark.upper(): code for mark, code in SIGNS.items()}
_NO_CENTS = re.compile(r"[.,][-–—]$")
_BETWEEN_DIGITS = re.compile(rf"['’{_BLANKS} ]")


@dataclass(frozen=True)
class Amounts:
    """The numbers of one column."""

    values: list[tuple[float, ...]]  # (rows,) the numbers of each cell: none, one, or the two ends of "12 - 20"
    currencies: list[str | None]  # (rows,) the code of the currency beside each; None where there is none
    # The rows whose cell has text that is no number, or one of another style than the one that was said.
    unread: list[int] = field(default_factory=list)
    # Rows whose cell is a number of which the cells leave open what it is.
    faults: list[tuple[int, str]] = field(default_factory=list)


def read_amounts(cells: Sequence[object], *, decimal: Decimal | None = None, money: bool = True) -> Amounts:
    """Read a column of numbers."""
    # cells: (rows,) texts, numbers, or None.
    read = [_parts(cell) if isinstance(cell, str) else None for cell in cells]
    parts = [part[:2] if part else (None, None) for part in read]
    style, misfits, faults = _style(parts, decimal, money)
    values: list[tuple[float, ...]] = []
    currencies: list[str | None] = []
    unread: list[int] = []
    for row, (cell, part) in enumerate(zip(cells, read, strict=True)):
        numbers: tuple[float, ...] = ()
        if row in misfits:
            unread.append(row)
        elif part is not None:
            numbers = _numbers(part[0], part[1], style)
        elif isinstance(cell, int | float) and not isinstance(cell, bool):
            numbers = (float(cell),) if isfinite(cell) else ()
        elif cell is not None and str(cell).strip():
            unread.append(row)
        values.append(numbers)
        currencies.append(part[2] if part else None)
    return Amounts(values, currencies, unread, faults)


def amount_of(cell: object, decimal: str | None = None) -> float | None:
    """The one amount of a cell that stands alone, as in a log; None for a range, and for text that is no amount."""
    # A log is too long to look at all its prices first. So, unless `decimal` says it, "1.299" alone is the number that
    # a program wrote; beside the sign of a currency it has two readings, which is none.
    if isinstance(cell, bool) or is_missing(cell):
        return None
    if not isinstance(cell, str):
        try:
            number = float(cell)  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError):
            return None
        return number if isfinite(number) else None
    part = _parts(cell)
    if part is None or part[1] is not None:
        return None
    low, shown = part[0], _shown_style(part[0])
    if shown == "open" and decimal is None:
        shown = "point" if "," in low or part[2] is None else None
        return None if shown is None else _number(low, "point")
    if decimal is not None and shown not in (None, "open", decimal):
        return None
    return _number(low, "comma" if (decimal or shown) == "comma" else "point")


def price_in_words(amounts: Iterable[float], currency: str | None) -> str:
    """A price as people read it: "49.90 EUR", "10.99–20.99 USD"; "" without a number."""
    shown = [f"{amount:,.2f}".removesuffix(".00") for amount in sorted(amounts)]
    return f"{'–'.join(shown)} {currency or ''}".strip() if shown else ""


def _style(
    parts: Sequence[tuple[str | None, str | None]], decimal: Decimal | None, money: bool
) -> tuple[Decimal, set[int], list[tuple[int, str]]]:
    """The style of a column, the rows of another one where somebody has said which, and what he has to say."""
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
        message = (
            f"{first}: two ways to write a number in one column; say which with decimal=comma or decimal=point (cells "
            "of the other then count as no number)"
        )
        return "point", set(), [(seen[style][0][0], message) for style in seen]
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
    misfits = set() if decimal is None else {row for other in seen if other != decimal for row, _ in seen[other]}
    return style, misfits, faults


@lru_cache(1 << 14)  # shops like a few prices
def _parts(cell: str) -> tuple[str, str | None, str | None] | None:
    """The number of a cell, the other end of a range, and the code of the currency; None for other text."""
    text = cell.strip()
    match = _CELL.fullmatch(text)
    if match is None:
        return (text, None, None) if _OF_PROGRAMS.fullmatch(text) else None
    mark = match["before"] or match["after"]
    if match["sign"] and match["low"][0] in "+−-":
        return None
    low = f"{match['sign'] or ''}{match['low']}"
    return low, match["high"], None if mark is None else _UPPER.get(mark.upper(), mark.upper())


@lru_cache(1 << 14)
def _shown_style(text: str) -> Decimal | Literal["open"] | None:
    """What a number shows of its style: None nothing ("12"), "open" for "1.299" and "1,299"."""
    text = _NO_CENTS.sub("", text)
    if "e" in text or "E" in text:
        return "point" if "." in text else None
    points, commas = text.count("."), text.count(",")
    if points and commas:
        return "comma" if text.rfind(",") > text.rfind(".") else "point"
    if points > 1 or commas > 1:
        return "comma" if points > 1 else "point"
    if points + commas == 0:
        return None
    sign = "." if points else ","
    whole, _, fraction = text.lstrip("+−-").partition(sign)
    if len(fraction) == 3 and 1 <= len(whole) <= 3 and whole != "0":
        return "open"
    return "point" if points else "comma"


@lru_cache(1 << 14)
def _numbers(low: str, high: str | None, style: Decimal) -> tuple[float, ...]:
    numbers = (_number(text, style) for text in (low, high) if text)
    return tuple(dict.fromkeys(number for number in numbers if number is not None))


def _number(text: str, style: Decimal) -> float | None:
    text = _BETWEEN_DIGITS.sub("", _NO_CENTS.sub("", text)).replace("−", "-")
    text = text.replace(",", "") if style == "point" else text.replace(".", "").replace(",", ".")
    try:
        number = float(text)
    except ValueError:
        return None
    return number if isfinite(number) else None


# Moments: dates alone, and times with every usual form of offset.

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MONTHS = {name: number for number, name in enumerate(
    ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"), 1)}  # fmt: skip
_CLOCK = (
    r"(?P<hour>\d\d?):?(?P<minute>\d\d)(?::?(?P<second>\d\d)(?:[.,](?P<fraction>\d{1,9}))?)?"
    r"\s*(?P<half>[AaPp]\.?[Mm]\.?)?"
)
_OFFSET = r"(?P<zero>Z|z|UTC|GMT)?\s*(?P<offset>(?P<way>[+−-])(?P<hours>\d\d?)(?::?(?P<minutes>\d\d))?)?"
_MOMENTS = (
    re.compile(
        rf"(?P<year>\d{{4}})(?P<between>[-/.]?)(?P<month>\d\d?)(?P=between)(?P<day>\d\d?)(?:(?:\s*T\s*|\s+){_CLOCK})?\s*"
        rf"{_OFFSET}"
    ),
    # Web servers write their logs so: [11/Mar/2024:11:06:40 +0000].
    re.compile(rf"\[?(?P<day>\d\d?)/(?P<name>[A-Za-z]{{3}})/(?P<year>\d{{4}})[: ]{_CLOCK}\s*{_OFFSET}\]?"),
    # With points the day stands first; a month that is named can stand anywhere.
    re.compile(rf"(?P<day>\d\d?)\.(?P<month>\d\d?)\.(?P<year>\d{{4}})(?:,?\s+{_CLOCK})?\s*{_OFFSET}"),
    re.compile(
        rf"(?:[A-Za-z]{{3,9}},?\s+)?(?P<name>[A-Za-z]{{3,9}})\.?\s+(?P<day>\d\d?),?\s+(?P<year>\d{{4}})"
        rf"(?:,?\s+{_CLOCK})?\s*{_OFFSET}(?:\s*\([^()]*\))?"
    ),
    re.compile(rf"(?P<day>\d\d?)[ -](?P<name>[A-Za-z]{{3,9}})\.?[ -](?P<year>\d{{4}})(?:,?\s+{_CLOCK})?\s*{_OFFSET}"),
)


@lru_cache(1 << 14)
def moment_of(text: str) -> tuple[int, bool] | None:
    """Microseconds since 1970 of a time that is written out, and whether it says its offset; None for other text."""
    # Without an offset it is read as UTC. Days and months that are both numbers stand year first: "03/04/2024" has two
    # readings, which is none.
    text = text.strip()
    match = next((match for form in _MOMENTS if (match := form.fullmatch(text))), None)
    try:
        if match is None:  # of mails and HTTP: Mon, 11 Mar 2024 11:06:40 GMT
            moment = parsedate_to_datetime(text) if text[:1].isalpha() and "," in text else None
            is_known = moment is not None and moment.tzinfo is not None
            return None if moment is None else (_microseconds(moment), is_known)
        parts = match.groupdict()
        if parts.get("between") == "" and len(parts["month"] + parts["day"]) != 4:
            return None
        month = _MONTHS.get(parts["name"][:3].lower(), 0) if parts.get("name") else int(parts["month"])
        day = datetime.combine(date(int(parts["year"]), month, int(parts["day"])), time())
        clock = timedelta(0)
        if parts["hour"]:
            hour = _hour(int(parts["hour"]), parts["half"])
            fraction = int(f"{parts['fraction'] or '':0<6}"[:6])
            clock = timedelta(0, int(parts["second"] or 0), fraction, 0, int(parts["minute"]), hour)
            if hour > 24 or int(parts["minute"]) > 59 or int(parts["second"] or 0) > 60 or clock > timedelta(1):
                return None
        offset = timedelta(0)
        if parts["offset"]:
            offset = timedelta(hours=int(parts["hours"]), minutes=int(parts["minutes"] or 0))
            offset = timezone(offset if parts["way"] == "+" else -offset).utcoffset(None)
        return _microseconds((day + clock - offset).replace(tzinfo=UTC)), bool(parts["zero"] or parts["offset"])
    except (ValueError, OverflowError, TypeError):
        return None


def _hour(hour: int, half: str | None) -> int:
    if half is None:
        return hour
    if not 1 <= hour <= 12:
        raise ValueError(hour)
    return hour % 12 + (12 if half[0] in "Pp" else 0)


def _microseconds(moment: datetime) -> int:
    return (moment.replace(tzinfo=moment.tzinfo or UTC) - _EPOCH) // timedelta(microseconds=1)


# What a table holds that people should know: counted, with the first few named.

SHOWN = 3


@dataclass
class Counts:
    """How often something was met, and the first few examples."""

    counts: dict[str, int] = field(default_factory=dict)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def count(self, what: str, example: str, number: int = 1, longest: int = 120) -> None:
        """Count something."""
        self.counts[what] = self.counts.get(what, 0) + number
        shown = self.examples.setdefault(what, [])
        if len(shown) < SHOWN:
            shown.append(example if len(example) <= longest else f"{example[: longest - 1]}…")

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.counts | other.counts, self.examples | other.examples)

    def lines(self, form: str, between: str) -> list[str]:
        """A line for each, in the form of "{what}: {count:,} ({shown})", with something between the examples."""
        return [
            form.format(what=what, count=count, shown=between.join([*shown, *(["…"] if count > SHOWN else [])]))
            for (what, count), shown in zip(self.counts.items(), self.examples.values(), strict=True)
        ]
