"""Agreement with published values: to the printed digits, within a relative tolerance, and in the order of systems.

The thesis (section 2.5.3, after Petrov & Macdonald 2022) calls a score reproduced when it equals the reported one
within a relative tolerance of ±5 %, and (section 2.6, after Voorhees 2002) calls a *relative* result reproduced when
the systems have the reported order. This module checks both, and a stricter criterion: equal printed digits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal

from visir.evaluation.measures import MEASURES, Named, read_measure
from visir.evaluation.published.record import Published, PublishedRow

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
