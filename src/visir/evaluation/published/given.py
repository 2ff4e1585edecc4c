"""Published values as people have them at hand: a dictionary, a row, a table by name or file."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from visir.display import cut
from visir.errors import ConfigurationError, raise_faults
from visir.evaluation.published.judge import LABEL
from visir.evaluation.published.record import TASKS, Published, PublishedRow, load

_DECIMAL_COMMA = re.compile(r"^(\d+),(\d{1,2})$")
"""Three digits after a comma would be thousands: "1,234"."""
_SPREAD = (
    ": a mean of several runs has the digits of no single one; write the mean alone, with the digits that are certain"
)
EXAMPLE = 'visir.explain(result, {"t2i R@1": 30.4, "t2i R@5": 56.0})'


def published_row(
    published: Any,
    tasks: Sequence[str],
    *,
    system: str | None = None,
    collection: str | None = None,
    of: tuple[str, str] = ("", ""),
) -> tuple[PublishedRow, int, Published | None]:
    """Make a row of published values."""
    # Returns: (the row, the number of printed decimals, the table that it is of).
    if isinstance(published, PublishedRow):
        return published, 2, None
    if isinstance(published, Mapping):
        values, decimals = _values(published, tasks)
        given = [
            value for part in published.values() for value in (part.values() if isinstance(part, Mapping) else [part])
        ]
        in_percent = any(str(value).strip().endswith("%") for value in given)
        row = PublishedRow(system or "the published system", values, collection or "", in_percent=in_percent)
        return row, decimals, None
    if isinstance(published, (str, Path)):
        published = load(published)
    if not isinstance(published, Published):
        what = "nothing" if published is None else f"a {type(published).__name__}"
        raise ConfigurationError(f"published values are given as {what}.", hint=EXAMPLE)
    row = published.row(
        system or (of[0] if len(published.systems) > 1 else None),
        collection or (of[1] if len(published.collections) > 1 else None),
    )
    return row, published.decimals, published


def _values(given: Mapping[str, Any], tasks: Sequence[str]) -> tuple[dict[str, dict[str, float]], int]:
    values: dict[str, dict[str, float]] = {}
    faults, decimals = [], 0
    for key, value in given.items():
        labels = value if isinstance(value, Mapping) else {None: value}
        for label, number in labels.items():
            task, _, rest = (str(key), "", label) if label is not None else str(key).partition(" ")
            if label is None and not rest and len(tasks) == 1:
                task, rest = tasks[0], str(key)
            if not rest or task not in (*TASKS, *tasks):
                written = " or ".join(repr(f"{name} {rest or key}") for name in tasks)
                faults.append(f"{key!r}: of which task? Write {written}")
                continue
            value_of = _number(number)
            if not math.isfinite(value_of):
                faults.append(f"{task} {rest}: {_shown(number)} is no number{_SPREAD if _has_spread(number) else ''}")
                continue
            if LABEL.fullmatch(rest.strip()) and not 0 <= value_of <= 100:
                faults.append(
                    f"{task} {rest}: {_shown(number)} is not between 0 and 100; divide a count by the queries"
                )
                continue
            values.setdefault(task, {})[rest.strip()] = value_of
            decimals = max(decimals, _printed_decimals(number))
    if not given:
        faults.append("no value is given")
    raise_faults(ConfigurationError, "published values", faults, hint=EXAMPLE)
    return values, decimals


def _number(number: Any) -> float:
    """A printed value; NaN for what is none. A percent sign may follow it, and the decimal sign may be a comma."""
    if isinstance(number, bool):
        return math.nan
    try:
        return float(_text(number))
    except ValueError:
        return math.nan


def _shown(number: Any) -> str:
    return cut(repr(number), 40)


def _text(number: Any) -> str:
    text = str(number).strip().removesuffix("%").strip()
    return _DECIMAL_COMMA.sub(r"\1.\2", text)


def _has_spread(number: Any) -> bool:
    return any(sign in str(number) for sign in ("±", "+-", "+/-"))


def _printed_decimals(number: Any) -> int:
    """How many decimals a value is printed with: those of a text as it stands, those of a number as Python shows it."""
    after = _text(number).partition(".")[2]
    return 0 if isinstance(number, float) and number.is_integer() else len(after)
