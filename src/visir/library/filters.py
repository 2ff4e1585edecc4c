"""Conditions on the fields of a picture: "width >= 800", "taken >= 2024-05", "camera contains canon"."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import pyarrow as pa

from visir.errors import VisirError, nearest, raise_faults
from visir.library.database import CATEGORIES, FieldColumn, FieldColumns, Mask, RowReader

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
    """A condition from text: a field, an operation, a value, without quotes around it. Raises `FilterError`."""
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
