"""How a value is printed: its unit, and whether further digits are rounded or cut."""

from __future__ import annotations

from dataclasses import replace

from visir.evaluation.explaining.reading import Reading
from visir.evaluation.explaining.values import Interval
from visir.evaluation.measures import MEASURES
from visir.evaluation.published.judge import Digits, Judgement, decimals_of, judge_one, measure_of, sums_of_rounded

WIDEST = 1.0
"""In percentage points: a value that is known less well than this says nothing."""
_SLACK = 1e-9


def printed(label: str, value: Interval, reading: Reading) -> Interval:
    """A value in the unit of the reading."""
    unit = reading["unit"]
    if unit is None or not _is_share(label):
        return value
    if unit == "fraction":
        return value[0] / 100, value[1] / 100
    return (value[0], value[1]) if label == "rsum" else (100 - value[1], 100 - value[0])


def _is_share(label: str) -> bool:
    base = measure_of(label).partition("@")[0]
    return label == "rsum" or (label != "R-P" and base in MEASURES and MEASURES.get(base).unit == "fraction")


def judged(
    task: str, label: str, value: Interval, published: float, decimals: int, reading: Reading, recall: str
) -> Judgement:
    """Compare a value with a printed one."""
    low, high = value
    name = measure_of(label, reading["recall"] or recall)
    judgement = judge_one(task, label, name, (low + high) / 2, published, decimals)
    if high - low > _SLACK:
        half = 10.0 ** -decimals_of(label, decimals) / 2
        inside = low - half - _SLACK <= published <= high + half + _SLACK
        narrow = high - low <= WIDEST * (0.01 if reading["unit"] == "fraction" else 1.0)
        return replace(judgement, digits="bounded" if inside and narrow else "off")
    unit = 10.0 ** -decimals_of(label, decimals)
    if reading["digits"] == "cut" and abs(low - unit - published) < _SLACK:
        # In binary, 0.57 × 100 is 56.99…: a program that cuts digits prints 56.9 for it.
        return replace(judgement, digits="truncated")
    if reading["digits"] == "up":
        is_up = -_SLACK <= published - low < unit - _SLACK
        return replace(judgement, digits="rounded" if is_up else "off")
    return judgement


def fits(judgements: tuple[Judgement, ...], reading: Reading) -> bool:
    """Whether all printed digits follow from the values under the reading's way of dropping digits."""
    # A half may be rounded either way. "mixed" accepts values that only cutting gives beside rounded ones.
    ways = [value.digits for value in judgements]
    accepted: dict[str | None, set[Digits]] = {
        None: {"rounded", "summed", "bounded"},
        "up": {"rounded", "bounded"},
        "mixed": {"rounded", "summed", "bounded", "truncated"},
    }
    if reading["digits"] == "cut":
        cut = all(_is_cut(value) for value in judgements)
        return cut and any(way == "truncated" for way in ways)
    return all(way in accepted[reading["digits"]] for way in ways)


def _is_cut(value: Judgement) -> bool:
    """Whether cutting gives the printed value: ours is not below it, and not a unit of its last digit above."""
    return value.digits in ("truncated", "summed", "bounded") or (
        value.digits == "rounded" and value.ours >= value.published - _SLACK
    )


def summed(judgements: list[Judgement], decimals: int) -> tuple[Judgement, ...]:
    """Mark each rsum that is the sum of the rounded recalls."""
    return sums_of_rounded(judgements, decimals)
