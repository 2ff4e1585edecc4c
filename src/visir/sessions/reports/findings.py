"""A characterisation in sentences: the questions of sections 6.4.1 to 6.4.5, answered from the log."""

from __future__ import annotations

from collections.abc import Sequence

from visir.sessions.description import Characterisation, Statistic, StatisticCell
from visir.sessions.description.differences import COUNTS_BELOW, GroupDifference, Kind

_SPACE = "\N{NO-BREAK SPACE}"


def findings(characterisation: Characterisation) -> dict[str, tuple[str, ...]]:
    """The sentences of each section; nothing of what is missing or hidden."""
    sentences = {"length": list(_lengths(characterisation.statistic("figure-6-2-percentiles")))}
    for difference in characterisation.differences:
        if difference.difference is not None:
            sentences.setdefault(difference.section, []).append(_sentence(difference))
    for section, few in _few(characterisation.differences).items():
        sentences.setdefault(section, []).append(few)
    return {section: tuple(of_section) for section, of_section in sentences.items() if of_section}


def _few(differences: Sequence[GroupDifference]) -> dict[str, str]:
    """What was too small to be compared, in one sentence for each section."""
    few: dict[str, dict[str, str]] = {}
    tested = {name for each in differences if each.p is not None for name in (each.first, each.second)}
    for difference in differences:
        if difference.difference is None:
            for name, (y, n) in zip((difference.first, difference.second), difference.cases, strict=True):
                if name not in tested:
                    few.setdefault(difference.section, {})[name] = f"{name} ({y:,} of {n:,})"
    return {section: f"Too few to compare: {', '.join(names.values())}." for section, names in few.items()}


def _lengths(statistic: Statistic) -> tuple[str, ...]:
    parts = []
    for device in statistic.rows:
        bought, left = (statistic.value(device, f"{outcome}: P50") for outcome in ("Purchase", "Non-purchase"))
        if _number(bought) and _number(left) and min(bought.support or 0, left.support or 0) >= COUNTS_BELOW:
            parts.append(f"{device} {_with(bought, '')} against {_with(left, '')}")
    if not parts:
        return ()
    return (f"Median length in actions [95 % interval], with a purchase against without: {'; '.join(parts)}.",)


def _sentence(difference: GroupDifference) -> str:
    """One comparison in words: both values with their counts, the difference, and whether it is real."""
    pairs = zip(difference.values, difference.cases, strict=True)
    first, second = (value_words(difference.kind, value, cases) for value, cases in pairs)
    low, high = (_signed(end, difference.kind) for end in (difference.low, difference.high))
    points = f"{_SPACE}points" if difference.kind == "share" else ""
    sized = f"{_signed(difference.difference, difference.kind)}{points} (95{_SPACE}% interval {low} to {high})"
    head, tail = WORDS[difference.verdict]
    compared = f"{difference.what}: {difference.first} {first}; {difference.second} {second}"
    return f"{head}, {compared}. The difference is {sized}{tail}."


WORDS = {
    "real": ("Real difference", ""),
    "by chance?": ("May be chance", "; one such difference among so many comparisons can be chance"),
    "not shown": ("No difference shown", "; the log also fits no difference"),
    "too few": ("Too few to compare", ""),
}
"""A verdict in words, and what a sentence adds."""


def value_words(kind: Kind, value: float | None, cases: tuple[int, int]) -> str:
    """A value with what it was counted from; of few sessions the counts alone."""
    y, n = cases
    if kind == "mean":
        return f"{value:.3g} ({y:,} in {n:,})" if value is not None else "none"
    if value is None or n < COUNTS_BELOW:
        return f"{y:,} of {n:,}"
    return f"{value:.{2 if value < 10 else 1}f}{_SPACE}% ({y:,} of {n:,})"


def _signed(value: float | None, kind: str) -> str:
    digits = 2 if kind == "mean" or abs(value or 0) < 10 else 1
    return f"{value or 0:+.{digits}f}".replace("-", "−")


def _number(cell: StatisticCell) -> bool:
    return isinstance(cell.value, (int, float))


def _with(cell: StatisticCell, unit: str = f"{_SPACE}%") -> str:
    """A number with its interval, in as many digits as say something."""
    whole = isinstance(cell.value, int)
    digits = 0 if whole else 2 if float(cell.value or 0) < 10 else 1
    number = f"{float(cell.value or 0):,.{digits}f}{unit}"
    if cell.low is None or cell.high is None:
        return number
    return f"{number} [{cell.low:,.{digits}f}{_SPACE}…{_SPACE}{cell.high:,.{digits}f}]"
