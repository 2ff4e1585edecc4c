"""Agreement with published values: to the printed digits, within a relative tolerance, and in the order of systems.

The thesis (section 2.5.3, after Petrov & Macdonald 2022) calls a score reproduced when it equals the reported one
within a relative tolerance of ±5 %, and (section 2.6, after Voorhees 2002) calls a *relative* result reproduced when
the systems have the reported order. This module checks both, and a stricter criterion: equal printed digits.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

from visir.display import cut
from visir.errors import ConfigurationError, VisirError, nearest, raise_faults
from visir.evaluation.measures import MEASURES, Named, read_measure
from visir.evaluation.published.record import (
    PAPERS,
    TASKS,
    CellDoubt,
    PlainTable,
    Published,
    PublishedRow,
    files_of_tables,
    load,
    plain_tables,
    read_plain,
    shipped,
)

TOLERANCE = 0.05
LABEL = re.compile(r"(?:R|Recall)@(\d+)")
"""The labels whose recall a paper may mean in several ways."""
_OF_ONE = {"R-P": 2}
"""Labels that are printed as fractions of 1 in tables of percentages, and their number of decimals."""
Digits = Literal["rounded", "truncated", "summed", "bounded", "off"]


@dataclass(frozen=True)
class Judgement:
    """One value of ours and one published value, both in the units of the paper.

    Attributes:
        task: The task.
        label: The published label.
        measure: The measure computed for the label ("R@5" may be `hit@5` or `capped_recall@5`).
        ours: Our value.
        published: The published value.
        relative: (ours − published) / published.
        within: Whether |relative| ≤ tolerance.
        digits: "rounded" if our value, rounded to the printed decimals, is the printed number; "truncated" if only
            cutting off the further digits gives it (papers do print 1.705 as 1.70); "summed" for an rsum that is the
            sum of the *rounded* recalls rather than the rounded sum; "off" if none of these.
    """

    task: str
    label: str
    measure: str
    ours: float
    published: float
    relative: float
    within: bool
    digits: Digits


@dataclass(frozen=True)
class Order:
    """Whether one measure gives the systems the published order.

    Attributes:
        task: The task.
        label: The published label.
        published: The systems in the published order.
        ours: The systems in our order.
        swapped: The pairs (published better, published worse) whose order is not strictly the same in our values.
            Systems with equal published values may have either order.
    """

    task: str
    label: str
    published: tuple[str, ...]
    ours: tuple[str, ...]
    swapped: tuple[tuple[str, str], ...]

    @property
    def is_kept(self) -> bool:
        """Whether no pair is swapped."""
        return not self.swapped


def measure_of(label: str, recall: str = "hit") -> str:
    """The measure that a paper's label means."""
    match = re.fullmatch(r"(?:R|Recall)@(\d+)", label)
    if match:
        return f"{recall}@{match[1]}"
    if label in ("DCG", "rsum"):
        return {"DCG": "dcg_cm@10"}.get(label, label)
    named = read_measure(label)
    return named.name if isinstance(named, Named) else label


def decimals_of(label: str, decimals: int) -> int:
    """The printed decimals of a label."""
    return _OF_ONE.get(label, decimals)


def printed_value(measure: str, value: float, label: str = "") -> float:
    """A measure's value as papers print it: fractions as percentages; rsum, DCG and ranks as they are.

    Args:
        measure: The name of the measure.
        value: Its value.
        label: The published label; "R-P" is printed as a fraction of 1 (LTD, Table 1).

    Returns:
        The value in the units of the paper.

    Example:
        >>> printed_value("hit@5", 0.5), printed_value("rsum", 250.0)
        (50.0, 250.0)
    """
    if label in _OF_ONE:
        return value
    base = measure.partition("@")[0]
    return 100 * value if base in MEASURES and MEASURES.get(base).unit == "fraction" else value


def digits_of(ours: float, published: float, decimals: int) -> Digits:
    """How the printed digits follow from our value."""
    unit = 10.0**-decimals
    if abs(ours - published) <= unit / 2 + 1e-9:
        return "rounded"
    # A whole unit above is off, although 0.6184 × 100 is 61.839999… in binary and a program that cuts prints 61.83.
    return "truncated" if -1e-9 <= ours - published < unit - 1e-9 else "off"


def judge(
    ours: Mapping[str, Mapping[str, float]],
    row: PublishedRow,
    *,
    recall: str = "hit",
    decimals: int = 2,
    tolerance: float = TOLERANCE,
) -> tuple[Judgement, ...]:
    """Judge our aggregates against one published row, for every value that we have.

    Args:
        ours: {task: {measure: aggregate}} as in a `Result` (fractions; rsum in points).
        row: The published row.
        recall: The reading of R@k.
        decimals: How many decimals are printed.
        tolerance: The relative tolerance.

    Returns:
        One judgement for each value.

    Example:
        >>> row = PublishedRow("CLIP", {"t2i": {"R@1": 58.06}})
        >>> judge({"t2i": {"hit@1": 0.5806}}, row)[0].digits
        'rounded'
    """
    judged = []
    for task, values in row.values.items():
        for label, published in values.items():
            measure = measure_of(label, recall)
            if measure not in ours.get(task, {}):
                continue
            value = printed_value(measure, ours[task][measure], label)
            judged.append(judge_one(task, label, measure, value, published, decimals, tolerance))
    return sums_of_rounded(judged, decimals)


def judge_one(
    task: str,
    label: str,
    measure: str,
    ours: float,
    published: float,
    decimals: int = 2,
    tolerance: float = TOLERANCE,
) -> Judgement:
    """Judge one value of ours against one published value."""
    relative = (ours - published) / published if published else (0.0 if ours == published else float("inf"))
    digits = digits_of(ours, published, decimals_of(label, decimals))
    return Judgement(task, label, measure, ours, published, relative, abs(relative) <= tolerance, digits)


def sums_of_rounded(judged: Sequence[Judgement], decimals: int = 2) -> tuple[Judgement, ...]:
    """Mark each rsum that is off but equals the sum of our rounded recalls as "summed"."""
    rounded = {(value.task, value.label): round(value.ours, decimals) for value in judged}
    result = []
    for value in judged:
        parts = [rounded.get((value.task, f"R@{k}")) for k in (1, 5, 10)]
        recalls = [part for part in parts if part is not None]
        sums_up = len(recalls) == 3 and abs(sum(recalls) - value.published) < 10.0**-decimals / 2
        is_sum = value.label == "rsum" and value.digits == "off" and sums_up
        result.append(replace(value, digits="summed") if is_sum else value)
    return tuple(result)


def orders(
    ours: Mapping[str, Mapping[str, Mapping[str, float]]],
    published: Published,
    *,
    collection: str | None = None,
    recall: str = "hit",
) -> tuple[Order, ...]:
    """Check the order of the systems, for each published value that two or more of our systems have.

    Args:
        ours: {system: {task: {measure: aggregate}}}; systems are matched to the table's by name.
        published: The table.
        collection: The collection in the table.
        recall: The reading of R@k.

    Returns:
        One check for each task and label. Lower ranks are better; of other measures higher values are better.
    """
    rows = {system: published.row(system, collection) for system in ours}
    order_checks = []
    labels = dict.fromkeys(
        (task, label) for row in rows.values() for task, part in row.values.items() for label in part
    )
    for task, label in labels:
        measure = measure_of(label, recall)
        sign = -1.0 if measure in MEASURES and MEASURES.get(measure).best == "low" else 1.0
        pairs = {
            system: (sign * row.values[task][label], sign * ours[system][task][measure])
            for system, row in rows.items()
            if label in row.values.get(task, {}) and measure in ours[system].get(task, {})
        }
        if len(pairs) < 2:
            continue
        swapped = []
        for first, second in combinations(pairs, 2):
            better, worse = (first, second) if pairs[first][0] > pairs[second][0] else (second, first)
            if pairs[better][0] > pairs[worse][0] and pairs[better][1] <= pairs[worse][1]:
                swapped.append((better, worse))
        order_checks.append(
            Order(
                task,
                label,
                tuple(sorted(pairs, key=lambda system: -pairs[system][0])),
                tuple(sorted(pairs, key=lambda system: -pairs[system][1])),
                tuple(swapped),
            )
        )
    return tuple(order_checks)


# Every numbered table of the three documents: list them, open one, and show one as rows and columns.


_GRANULARITY = "brittleness-table-1"


def every_table() -> tuple[str, ...]:
    """The names of all published tables.

    Returns:
        The names, by document and number: "thesis-table-6-2", "ltd-table-1".
    """
    return tuple(sorted({*shipped(), *plain_tables(), _GRANULARITY}, key=_by_number))


def open_table(name: str) -> Published | PlainTable:
    """Open a published table.

    Args:
        name: A name of `every_table`.

    Returns:
        Retrieval results as `Published`, any other table as `PlainTable`.

    Raises:
        VisirError: There is no table of this name.

    Example:
        >>> table = open_table("brittleness-table-3")
        >>> table.row("CLIP", "Flickr30k").values["t2i"]["R@1"]
        19.3
    """
    if name == _GRANULARITY:
        return _granularity()
    if name in plain_tables():
        return read_plain(files_of_tables("plain")[name])
    if name in shipped():
        return load(name)
    raise VisirError(
        f"{name}: no published table of that name.",
        hint=nearest(name, every_table()) if shipped() else PAPERS,
        code="no-published-table-name",
    )


def as_plain(table: Published | PlainTable) -> PlainTable:
    """Show any published table as rows and columns of text.

    Retrieval results get a column for each task and label, and rows named by system and collection. Numbers have the
    decimals of the table ("R-P" two), and `value ± spread` where there is one; "–" where nothing is printed.

    Args:
        table: A table of either kind.

    Returns:
        The table; a `PlainTable` is returned as it is.
    """
    if isinstance(table, PlainTable):
        return table
    columns = dict.fromkeys((task, label) for row in table.rows for task, part in row.values.items() for label in part)
    rows: dict[str, tuple[str, ...]] = {}
    doubtful = []
    for row in table.rows:
        name = f"{row.system}, {row.collection}" if row.collection else row.system
        cells = []
        for task, label in columns:
            value = row.values.get(task, {}).get(label)
            spread = row.spread.get(task, {}).get(label)
            decimals = decimals_of(label, table.decimals)
            shown = "–" if value is None else f"{value:.{decimals}f}"
            cells.append(shown if spread is None else f"{shown} ± {spread:.{decimals}f}")
            reason = "" if value is None else table.doubt(row, task, label)
            doubtful += [CellDoubt(reason, name, f"{task} {label}")] if reason else []
        rows[name] = tuple(cells)
    return PlainTable(
        table.name,
        table.title,
        table.source,
        tuple(f"{task} {label}" for task, label in columns),
        rows,
        conditions=table.protocol,
        notes=table.notes,
        doubtful=tuple(doubtful),
    )


def _granularity() -> PlainTable:
    """Table 1 of the brittleness paper. Its file is with the features, in a package that does not import evaluation."""
    from visir.robustness.granularity.features import table_1  # with the taggers of captions; no evaluation needs them

    table = table_1()
    collections = tuple(table.values)
    features = dict.fromkeys(feature for values in table.values.values() for feature in values)
    rows = {
        feature: tuple(str(table.values[collection][feature]) for collection in collections) for feature in features
    }
    return PlainTable(_GRANULARITY, table.title, table.source, collections, rows)


def _by_number(name: str) -> tuple[str, list[int]]:
    return name.partition("-")[0], [int(number) for number in re.findall(r"\d+", name)]


# Published values as people have them at hand: a dictionary, a row, a table by name or file.


_DECIMAL_COMMA = re.compile(r"^(\d+),(\d{1,2})$")
"""Three digits after a comma would be thousands: "1,234"."""
_SPREAD = (
    ": a mean of several runs has the digits of no single one; write the mean alone, with the digits that are certain"
)
EXAMPLE = 'visir.explain(result, {"t2i R@1": 30.4, "t2i R@5": 56.0})'


def published_rows(
    published: Any, *, system: str | None = None, collection: str | None = None
) -> tuple[str, tuple[PublishedRow, ...], int | None]:
    """All rows of published values."""
    # Returns: (what was given, its rows, the number of printed decimals where text shows it).
    if isinstance(published, (str, Path)):
        published = values_or_table(published)
    if isinstance(published, Published):
        rows = published.rows_of(system, collection)
        return published.title if len(published.title) < 60 else published.name, rows, None
    row, decimals, _ = published_row(published, ("",), system=system, collection=collection)
    if not isinstance(published, Mapping):
        return "printed values", (row,), None
    return "printed values", (replace(row, system=system or ""),), decimals


def values_or_table(written: str | Path) -> Mapping[str, Any] | Published:
    """The values that a text states, "t2i R@1=37.82,R@5=82.36; i2t R@1=…", or the table that it names."""
    if isinstance(written, Path) or "=" not in written or Path(written).is_file():
        return load(written)
    values: dict[str, str] = {}
    faults = []
    for part in written.split(";"):
        task = ""
        for stated in filter(None, (entry.strip() for entry in part.split(","))):
            first, _, rest = stated.partition(" ")
            if first in TASKS:  # of the values behind it too
                task, stated = first, rest.strip()
            label, sign, number = (entry.strip() for entry in stated.partition("="))
            if not (label and sign and number):
                faults.append(f"{stated!r}: write LABEL=VALUE, with a point in the value")
            values[f"{task} {label}".strip()] = number
    raise_faults(ConfigurationError, "published values", faults, hint='--published "t2i R@1=37.82,R@5=82.36"')
    return values


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
    if isinstance(published, (str, Path)):
        published = values_or_table(published)
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
