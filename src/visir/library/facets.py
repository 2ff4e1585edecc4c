"""Facets: how many items of a library have each brand, lie in each category, cost how much, under given conditions.

With a query they count what its words find; where vectors rank everything, everything. The counts of a field are taken
under all conditions but those on this field, so that another choice can be compared with the one that was made. Ranges
of numbers have round ends, and about as many items each.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from visir.display import Displayed, brief
from visir.errors import VisirError, nearest, raise_faults
from visir.library.database import CATEGORIES, FieldColumn, FieldColumns, Mask, RowReader

if TYPE_CHECKING:
    from visir.library.database import Mask
    from visir.library.snapshot import LibrarySnapshot


# Conditions on the fields of a picture: "width >= 800", "taken >= 2024-05", "camera contains canon".

Op = Literal["=", "!=", "<", "<=", ">", ">=", "contains", "in"]
OPS: tuple[str, ...] = get_args(Op)
FieldType = Literal["number", "text", "date"]
Value: TypeAlias = "str | int | float | tuple[str | int | float, ...]"

MOST_LISTED_VALUES = 1000
"""Values of one `in`."""
LONGEST = 16_000
"""Characters of a condition in text."""
_SHOWN = 24


class FilterError(VisirError):
    """A condition names a field that the library does not have, or compares it with what it cannot be compared with."""


@dataclass(frozen=True)
class FieldCondition:
    """One condition on a field of a picture."""

    field: str  # its name
    op: Op  # one of `OPS`
    value: Value  # what it is compared with; for "in" a tuple of values

    @classmethod
    def of(cls, record: object, where: str = "condition") -> FieldCondition:
        """From {"field", "op", "value"} as JSON has it. Raises `FilterError` naming the place, `where`."""
        if not isinstance(record, Mapping):
            raise FilterError(f"{where}: {_short(record)} is no condition.", hint=_EXAMPLE, code="no-condition")
        faults = [f"{where}: {name} is missing" for name in ("field", "op", "value") if name not in record]
        faults += [f"{where}: unknown {nearest(str(name), ('field', 'op', 'value'))}" for name in record if name not in
                   ("field", "op", "value")]  # fmt: skip
        raise_faults(FilterError, "conditions", faults, hint=_EXAMPLE)
        value = record["value"]
        return cls(record["field"], record["op"], tuple(value) if isinstance(value, list | tuple) else value)

    def __str__(self) -> str:
        value = ", ".join(map(str, self.value)) if isinstance(self.value, tuple) else self.value
        return f"{self.field} {self.op} {value}"


@dataclass(frozen=True)
class Field:
    """A field of a library."""

    name: str  # what a condition calls it
    type: FieldType  # "number", "text" or "date"
    values: tuple[str, ...] = ()  # its values, where it has few of them
    flag: bool = False  # whether it is true or false (1 or 0)
    items: int = 0  # how many items have it


@dataclass(frozen=True)
class _Place:
    """A column of a table; its rows belong to items by `key`."""

    type: FieldType
    table: str
    column: str
    key: str = "item"


_OWN = {
    "width": _Place("number", "items", "width", "id"),
    "height": _Place("number", "items", "height", "id"),
    "bytes": _Place("number", "items", "bytes", "id"),
    "format": _Place("text", "items", "format", "id"),
    "camera": _Place("text", "items", "camera", "id"),
    "taken": _Place("date", "items", "taken", "id"),
    "name": _Place("text", "files", "name"),
    "path": _Place("text", "files", "path"),
    "category": _Place("text", f"({CATEGORIES})", "category"),
    "caption": _Place("text", "captions", "text"),
}
"""What every library knows of a picture. A field of the source under one of these names is out of reach."""

_ALLOWED: dict[FieldType, tuple[str, ...]] = {
    "number": ("=", "!=", "<", "<=", ">", ">=", "in"),
    "date": ("=", "!=", "<", "<=", ">", ">=", "in"),
    "text": ("=", "!=", "contains", "in"),
}
_DATE = re.compile(r"\d{4}(-\d\d(-\d\d(T\d\d(:\d\d(:\d\d)?)?)?)?)?")
_DAY = "[0-9][0-9][0-9][0-9]-[0-1][0-9]-[0-3][0-9]"
_IS_DATE = (
    f"typeof(value) = 'text' AND (value GLOB '{_DAY}' OR (value GLOB '{_DAY}[T ][0-2][0-9]:[0-5][0-9]*' "
    "AND substr(value, 17) NOT GLOB '*[^0-9:.+Z-]*'))"
)
"""Whether a value of a field is a date or a moment, from the day on: a year alone may be any number."""
_EXAMPLE = 'conditions: "width >= 800", "taken >= 2024-05", "camera contains canon", "format in JPEG, PNG"'
_OPERATION = re.compile(r"!=|<=|>=|==|=|<|>|(?<=\s)(?:contains|in)(?=\s)")


def parse(text: str) -> FieldCondition:
    """A condition from text: a field, an operation, a value.

    Quotes around a value (or around one of `in`) are taken off.

    Raises:
        FilterError: The text has no operation, or is too long.

    Example:
        >>> parse("format in JPEG, PNG")
        FieldCondition(field='format', op='in', value=('JPEG', 'PNG'))
        >>> str(parse('camera contains "canon"'))
        'camera contains canon'
    """
    if len(text) > LONGEST:
        raise FilterError(
            f"{_short(text)} is a condition of {len(text):,} characters; {LONGEST:,} are read.",
            hint=_EXAMPLE,
            code="condition-characters",
        )
    text = text.strip()
    operation = _OPERATION.search(text, 1)  # behind the field, which has a character at least
    value = text[operation.end() :].strip() if operation else ""
    if operation is None or not value:
        raise FilterError(
            f"{_short(text)} is no condition: a field, one of {' '.join(OPS)}, and a value.",
            hint=_EXAMPLE,
            code="field-one-value",
        )
    field, op = text[: operation.start()].rstrip(), "=" if operation[0] == "==" else operation[0]
    if op != "in":
        return FieldCondition(field, op, _bare(value))  # type: ignore[arg-type]
    return FieldCondition(field, "in", tuple(_bare(value) for value in _cut(value.strip("[]()"))))


def read_condition(condition: object) -> FieldCondition:
    """A condition from its text, from its record, or as it is."""
    if isinstance(condition, FieldCondition):
        return condition
    return parse(condition) if isinstance(condition, str) else FieldCondition.of(condition)


def fields_of(rows: RowReader) -> dict[str, Field]:
    """Every field that conditions can name: those of every library, then the source's own."""
    # A field of the source is a number where all its values are numbers, a date where all are dates or moments of ISO
    # 8601, from the day on ("2024-05-31", "2024-05-31T18:00"), and text otherwise.
    fields = {}
    for name, place in _OWN.items():
        values: tuple[str, ...] = ()
        if name in ("format", "camera", "category"):
            values = _few(rows(f"SELECT DISTINCT {place.column} FROM {place.table} WHERE {place.column} IS NOT NULL "
                               f"AND {place.column} <> '' ORDER BY 1 LIMIT {_SHOWN + 1}", ()))  # fmt: skip
        having = f"SELECT count(DISTINCT {place.key}) FROM {place.table} WHERE {place.column} IS NOT NULL"
        fields[name] = Field(name, place.type, values, items=rows(having, ())[0][0])
    rows_of_fields = rows(
        "SELECT name, sum(typeof(value) NOT IN ('integer', 'real')), count(DISTINCT value), min(value IN (0, 1)), "
        f"min({_IS_DATE}), count(DISTINCT item) FROM fields GROUP BY name ORDER BY name",
        (),
    )
    for name, texts, distinct, flag, dates, items in rows_of_fields:
        if name not in fields:
            kind: FieldType = "date" if dates else "text" if texts else "number"
            few = kind == "text" and distinct <= _SHOWN
            listed = rows("SELECT DISTINCT value FROM fields WHERE name = ? ORDER BY 1", (name,)) if few else []
            fields[name] = Field(name, kind, _few(listed), flag=bool(flag), items=items)
    return fields


def satisfying(
    columns: FieldColumns,
    conditions: Sequence[FieldCondition],
    fields: Mapping[str, Field],
    *,
    category: str | None = None,
) -> Mask:
    """Which items satisfy all conditions (all do without any), and lie in `category` or below it."""
    # - A picture satisfies a condition when one of its files, captions or values does; `!=` holds when none of them is
    #   equal, and so for a picture that has no such field at all (a photo without a camera is not by Canon).
    # - Text is compared without regard to case or to how accents are written; `contains` finds any part of it.
    # - Dates are compared as far as the condition's own is written: "taken = 2024-05" is all of May, "taken <= 2024-05"
    #   goes to its end, "taken > 2024-05" begins in June. They are in UTC where the camera knew its zone, and as the
    #   camera's clock showed them otherwise.
    # - `category`, also in a condition ("category = holidays"), takes a whole subtree: "holidays" has "holidays/2024"
    #   in it, and not "holidays-old". A slash at its end, as shells complete it, says nothing more.
    # Raises `FilterError` that lists every fault: unknown fields (with the nearest), operations and values of the wrong
    # type.
    raise_faults(
        FilterError,
        "conditions",
        [fault for condition in conditions for fault in _faults(condition, fields)],
        hint=_EXAMPLE,
    )
    masks = [_mask(columns, condition, fields[condition.field]) for condition in conditions]
    if category and category.rstrip("/"):
        masks.append(_below(columns.column(CATEGORIES), [category]))
    return np.logical_and.reduce(masks) if masks else np.ones(len(columns.ids), np.bool_)


def select(
    columns: FieldColumns,
    conditions: Sequence[FieldCondition],
    fields: Mapping[str, Field],
    *,
    category: str | None = None,
) -> pa.Array:
    """The ids of the same, ascending."""
    return columns.ids.filter(pa.array(satisfying(columns, conditions, fields, category=category)))


def fold(text: object) -> str | None:
    """Text without differences of case and of how accents are written (composed or not: macOS stores names apart)."""
    if text is None:
        return None
    string = str(text)
    return (
        string.lower()
        if string.isascii()
        else unicodedata.normalize("NFC", unicodedata.normalize("NFD", string).casefold())
    )


def _below(column: FieldColumn, categories: Sequence[str]) -> Mask:
    """Which items lie in one of these categories, or below it."""
    names = [category.rstrip("/") for category in categories]
    return column.compared("=", names) | column.compared("=", [f"{name}/" for name in names], prefix=True)


def _mask(columns: FieldColumns, condition: FieldCondition, field: Field) -> Mask:
    """Which items satisfy a condition that has no faults."""
    place = _OWN.get(field.name) or _Place(field.type, "fields", "value")
    name, named = place.column, (field.name,) if place.table == "fields" else ()
    condition_on_name = "name = ? AND " if named else ""
    column = columns.column(
        f"SELECT {place.key}, {name} FROM {place.table} WHERE {condition_on_name}{name} IS NOT NULL",
        named,
        {"text": fold, "date": _moment, "number": None}[field.type],
    )
    read = {"number": _number, "date": _date, "text": fold}[field.type]
    values = [
        read(_counted(value, field))
        for value in (condition.value if isinstance(condition.value, tuple) else (condition.value,))
    ]
    if condition.op == "contains":
        return column.containing(str(values[0]))
    op = "=" if condition.op in ("in", "!=") else condition.op
    if field.name == "category" and place.table != "fields" and op == "=":
        mask = _below(column, [str(value) for value in values])
    else:
        mask = column.compared(op, values, prefix=field.type == "date")
    return ~mask if condition.op == "!=" else mask


def _faults(condition: FieldCondition, fields: Mapping[str, Field]) -> list[str]:
    if not isinstance(condition.field, str) or condition.field not in fields:
        return [f"unknown field {_short(condition.field)} ({nearest(str(condition.field)[:100], fields)})"]
    field = fields[condition.field]
    if condition.op not in OPS:
        return [f"{field.name}: unknown operation {_short(condition.op)} (known: {' '.join(OPS)})"]
    if condition.op not in _ALLOWED[field.type]:
        fits = " ".join(_ALLOWED[field.type])
        return [f"{field.name}: is {_A[field.type]}, which {condition.op!r} does not fit (try {fits})"]
    several = isinstance(condition.value, tuple)
    if several != (condition.op == "in"):
        return [f"{field.name}: {condition.op!r} takes {'several values' if condition.op == 'in' else 'one value'}"]
    values = condition.value if isinstance(condition.value, tuple) else (condition.value,)
    if not 1 <= len(values) <= MOST_LISTED_VALUES:
        return [f"{field.name}: 'in' takes 1 to {MOST_LISTED_VALUES} values, not {len(values)}"]
    read = {"number": _number, "date": _date, "text": _text}[field.type]
    return [f"{field.name}: {_short(value)} is no {_WANTED[field.type]}" for value in values
            if read(_counted(value, field)) is None]  # fmt: skip


_A = {"number": "a number", "text": "text", "date": "a date"}
_WANTED = {
    "number": "number",
    "text": "text (or it is empty)",
    "date": "date (write 2024, 2024-05, 2024-05-31 or 2024-05-31T18:00)",
}


def _counted(value: object, field: Field) -> object:
    """True and false as a library keeps them, where a field is so: 1 and 0."""
    return {"true": 1, "false": 0}.get(str(value).strip().lower(), value) if field.flag else value


def _moment(value: object) -> str:
    """A date as it is compared: the source may write a space between day and time."""
    return str(value).replace(" ", "T", 1)


def _number(value: object) -> float | int | None:
    if isinstance(value, str):
        try:
            value = float(value) if not re.fullmatch(r"[+-]?\d{1,18}", value.strip()) else int(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 2**63:
        return None  # not a number is below nothing
    return value


def _date(value: object) -> str | None:
    text = str(value).strip().replace(" ", "T").removesuffix("Z")
    if isinstance(value, bool) or not isinstance(value, str | int) or not _DATE.fullmatch(text):
        return None
    month, day = text[5:7] or "01", text[8:10] or "01"
    return text if "01" <= month <= "12" and "01" <= day <= "31" else None


def _text(value: object) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float) or "\0" in str(value):
        return None
    try:
        str(value).encode()
    except UnicodeEncodeError:  # half of a surrogate pair, as JSON can carry it
        return None
    return str(value) or None


def _few(rows: list[tuple[Any, ...]]) -> tuple[str, ...]:
    return tuple(str(value) for (value,) in rows) if len(rows) <= _SHOWN else ()


def _bare(text: str) -> str:
    text = text.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def _cut(text: str) -> list[str]:
    return [part for part in re.findall(r"\s*(\"[^\"]*\"|'[^']*'|[^,]+)\s*(?:,|$)", text) if part.strip()]


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "…"


CountedOf: TypeAlias = Literal["all", "found", "ranked"]
CATEGORY, PRICE, BRAND = "category", "price", "brand"
MOST_VALUES, MOST_FIELDS, RANGES = 20, 3, 5
_FEWEST = 0.05
"""Of all items so many have a field that is shown without being asked for."""
_DISTINCT = 60
"""A field of more different texts is shown only when it is asked for: a title names no group."""
_LONGEST = 100
"""A field with a text of more characters is shown only when it is asked for: a description names no group."""


@dataclass(frozen=True)
class FacetValue:
    """A value of a field, or a range of numbers, and how many items have it."""

    label: str  # what people read: "Acme", "20 – 50"
    count: int  # how many items
    where: tuple[FieldCondition, ...] = ()  # the conditions that it stands for; of a category none
    category: str | None = None  # the path of the category; None for other fields


@dataclass(frozen=True)
class Facet:
    """The values of one field."""

    field: str  # its name
    type: str  # "category", "text" or "number"
    values: tuple[FacetValue, ...]  # the most frequent first; ranges and categories in their own order
    more: int = 0  # how many further values there are
    # The conditions on this very field, which its counts leave out; all others hold.
    left_out: tuple[FieldCondition, ...] = ()


@dataclass(frozen=True, repr=False)
class Facets(Displayed):
    """The facets of a library under some conditions; `facets["brand"]` is that of a field."""

    total: int  # how many items satisfy the conditions, and are of those that are counted
    facets: tuple[Facet, ...]  # category, price and brand first, then further fields
    # Which items are counted: "all", those that the words of a query "found", or all that vectors "ranked".
    of: CountedOf = "all"

    def __getitem__(self, field: str) -> Facet:
        by_name = {facet.field: facet for facet in self.facets}
        if field not in by_name:
            raise KeyError(f"no facet {field!r} ({nearest(field, by_name)})")
        return by_name[field]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "total": self.total,
            "of": self.of,
            "facets": [
                {
                    "field": facet.field,
                    "type": facet.type,
                    "more": facet.more,
                    "left_out": [vars(condition) for condition in facet.left_out],
                    "values": [
                        {
                            "label": value.label,
                            "count": value.count,
                            "where": [vars(condition) for condition in value.where],
                            "category": value.category,
                        }
                        for value in facet.values
                    ],
                }
                for facet in self.facets
            ],
        }

    def __repr__(self) -> str:
        lines = [
            f"{facet.field}: {', '.join(f'{value.label} {value.count:,}' for value in facet.values[:4])}"
            for facet in self.facets[:5]
        ]
        return brief(self, f"{self.total:,} items", *lines)


def facets_of(
    library: LibrarySnapshot,
    where: Sequence[FieldCondition] = (),
    *,
    category: str | None = None,
    fields: Sequence[str] | None = None,
    within: Mask | None = None,
    of: CountedOf = "all",
) -> Facets:
    """The facets of a library; `Searcher.facets` counts what a query finds."""
    # within: (items,) those that may be counted; None for all.
    counting = _Counting(library, tuple(where), category, within)
    known = library.fields
    if fields is not None:
        unknown = [f"unknown field {name!r} ({nearest(name, known)})" for name in fields if name not in known]
        if unknown:
            raise FilterError(f"facets: {'; '.join(unknown)}.", hint="visir library info lists the fields")
    names = _names(library) if fields is None else list(fields)
    facets = [facet for name in names if (facet := counting.facet(known[name])) is not None]
    total = int(counting.mask(None).sum())
    return Facets(total, tuple(facets if fields is not None else facets[: MOST_FIELDS + 3]), of)


def _names(library: LibrarySnapshot) -> list[str]:
    """The fields that are shown without being asked for: category, price, brand, then those that most items have."""

    def read() -> list[str]:
        own = library.database.rows(
            "SELECT name, count(DISTINCT value), count(DISTINCT item), max(length(value)) FROM fields GROUP BY name", ()
        )
        items = max(1, len(library))
        others = [
            (-having, name)
            for name, distinct, having, longest in own
            if distinct > 1
            and having >= _FEWEST * items
            and (name in (PRICE, BRAND) or (distinct <= _DISTINCT and longest <= _LONGEST))
        ]
        known = library.fields
        usable = [name for _, name in sorted(others) if name in known and known[name].type in ("text", "number")]
        first = [CATEGORY, *(name for name in (PRICE, BRAND) if name in usable)]
        return [*first, *(name for name in usable if name not in first)]

    names: list[str] = library.columns.once("facet names", read)
    return names


class _Counting:
    """Counts under conditions; a field is counted without those on itself."""

    def __init__(
        self,
        library: LibrarySnapshot,
        where: tuple[FieldCondition, ...],
        category: str | None,
        within: Mask | None,
    ) -> None:
        self.library, self.where, self.category, self.within = library, where, category, within
        self._masks: dict[str | None, Mask] = {}

    def mask(self, without: str | None) -> Mask:
        """(items,) which items satisfy all conditions but those on a field."""
        applied = tuple(condition for condition in self.where if condition.field != without)
        key = without if len(applied) < len(self.where) else None
        if key not in self._masks:
            mask = satisfying(self.library.columns, applied, self.library.fields, category=self.category)
            self._masks[key] = mask if self.within is None else mask & self.within
        return self._masks[key]

    def facet(self, field: Field) -> Facet | None:
        """The facet of a field; None where no item has it."""
        if field.name == CATEGORY:
            return self._categories()
        facet = self._ranges(field) if field.type == "number" and not field.flag else self._values(field)
        left_out = tuple(condition for condition in self.where if condition.field == field.name)
        return None if facet is None else replace(facet, left_out=left_out)

    def _values(self, field: Field) -> Facet | None:
        column = self.library.columns.column(*_shown(field))
        by_text: dict[str, list[tuple[int, str]]] = defaultdict(list)
        for value, count in column.counts(self.mask(field.name)):
            by_text[fold(value) or ""].append((count, str(value)))
        merged = sorted(
            ((sum(count for count, _ in each), max(each)[1]) for each in by_text.values()),
            key=lambda pair: (-pair[0], pair[1]),
        )
        values = [
            FacetValue(label, count, (FieldCondition(field.name, "=", label),)) for count, label in merged if count
        ]
        if not values:
            return None
        return Facet(field.name, "text", tuple(values[:MOST_VALUES]), max(0, len(values) - MOST_VALUES))

    def _ranges(self, field: Field) -> Facet | None:
        column = self.library.columns.column(*_shown(field))
        mask = self.mask(field.name)
        counted = [(float(value), count) for value, count in column.counts(mask) if count]
        if not counted:
            return None
        amounts = np.repeat([value for value, _ in counted], [count for _, count in counted])
        ends = round_ends(amounts)
        if not ends:
            return None
        values = []
        for low, high in zip([None, *ends], [*ends, None], strict=True):
            conditions = [FieldCondition(field.name, ">=", low)] if low is not None else []
            conditions += [FieldCondition(field.name, "<", high)] if high is not None else []
            within = mask & np.logical_and.reduce([column.compared(c.op, [c.value]) for c in conditions] or [mask])
            label = f"under {high:,}" if low is None else f"{low:,} and over" if high is None else f"{low:,} – {high:,}"
            if conditions and (count := int(within.sum())):
                values.append(FacetValue(label, count, tuple(conditions)))
        return Facet(field.name, "number", tuple(values)) if len(values) > 1 else None

    def _categories(self) -> Facet | None:
        """The categories directly below the one that was chosen, or the most general ones."""
        above = (self.category or "").rstrip("/")
        column = self.library.columns.column(CATEGORIES)
        mask = self.mask(None)
        prefix = f"{above}/" if above else ""
        names = dict.fromkeys(
            str(value)[len(prefix) :].partition("/")[0]
            for value, count in column.counts(mask)
            if count and str(value).startswith(prefix)
        )
        values = []
        for name in names:
            path = prefix + name
            below = column.compared("=", [path]) | column.compared("=", [f"{path}/"], prefix=True)
            if count := int((mask & below).sum()):
                values.append(FacetValue(name, count, (), path))
        values.sort(key=lambda value: (-value.count, value.label))
        if not values:
            return None
        return Facet(CATEGORY, "category", tuple(values[:MOST_VALUES]), max(0, len(values) - MOST_VALUES))


def _shown(field: Field) -> tuple[str, tuple[str, ...]]:
    """The query for the values of a field as they are written; conditions compare them without case."""
    if field.name in ("format", "camera"):
        return f"SELECT id, {field.name} AS shown FROM items WHERE {field.name} IS NOT NULL", ()
    if field.name in ("width", "height", "bytes"):
        return f"SELECT id, {field.name} FROM items WHERE {field.name} IS NOT NULL", ()
    return "SELECT item, value AS shown FROM fields WHERE name = ?", (field.name,)


def round_ends(amounts: NDArray[np.float64], ranges: int = RANGES) -> list[int | float]:
    """The inner ends of ranges of numbers: near quantiles, and round."""
    # amounts: (n,) the numbers.
    quantiles = np.quantile(amounts, np.linspace(0, 1, ranges + 1)[1:-1])
    ends = sorted({_rounded(float(quantile)) for quantile in quantiles})
    low, high = float(amounts.min()), float(amounts.max())
    return [end for end in ends if low < end <= high]


def _rounded(amount: float) -> int | float:
    """The nearest of …, 1, 2, 5, 10, 20, 50, …."""
    if amount == 0:
        return 0
    size = 10.0 ** math.floor(math.log10(abs(amount)))
    steps: Iterable[float] = (size, 2 * size, 5 * size, 10 * size)
    nearest_step = math.copysign(min(steps, key=lambda step: abs(math.log(step / abs(amount)))), amount)
    return int(nearest_step) if nearest_step == int(nearest_step) else round(nearest_step, 6)
