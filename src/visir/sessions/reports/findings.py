"""A characterisation in sentences: the questions of sections 6.4.1 to 6.4.5, answered from the log."""

from __future__ import annotations

from visir.sessions.description import Characterisation, Statistic, StatisticCell
from visir.sessions.description.outcome_shares import BUYING, OTHER, RATE
from visir.sessions.description.queries import ALL

_SPACE = "\N{NO-BREAK SPACE}"


def findings(characterisation: Characterisation) -> dict[str, tuple[str, ...]]:
    """The sentences of each section; nothing of what is missing or hidden.

    Args:
        characterisation: Of a log.

    Returns:
        Section → sentences.
    """
    statistic = characterisation.statistic
    sections = {
        "length": _lengths(statistic("figure-6-2-percentiles")),
        "time": (*_busiest(statistic("figure-6-3"), "on"), *_busiest(statistic("figure-6-4"), "at")),
        "channels": _rates(statistic("table-6-2")),
        "devices": (*_rates(statistic("table-6-4")), *_customers(statistic("table-6-3"))),
        "switches": _stays(statistic("figure-6-5")),
        "queries": _queries(statistic("table-6-5")),
    }
    return {section: sentences for section, sentences in sections.items() if sentences}


def _lengths(statistic: Statistic) -> tuple[str, ...]:
    parts = []
    for device in statistic.rows:
        bought, left = (statistic.value(device, f"{outcome}: P50") for outcome in ("Purchase", "Non-purchase"))
        if _number(bought) and _number(left):
            parts.append(f"{device} {_with(bought, '')} against {_with(left, '')}")
    if not parts:
        return ()
    return (f"Median length in actions, sessions with a purchase against those without: {'; '.join(parts)}.",)


def _busiest(statistic: Statistic, when: str) -> tuple[str, ...]:
    if statistic.unavailable:
        return ()
    most = []
    for column in (BUYING, OTHER):
        shares = [(float(cell.value), row) for row in statistic.rows if _number(cell := statistic.value(row, column))]  # type: ignore[arg-type]
        if len(shares) < 2:
            return ()
        share, row = max(shares, key=lambda pair: pair[0])
        most.append(f"{row}{'' if when == 'on' else f'{_SPACE}h'} ({share:.1f}{_SPACE}%)")
    return (f"Most sessions with a purchase begin {when} {most[0]}, most of those without {when} {most[1]}.",)


def _rates(statistic: Statistic) -> tuple[str, ...]:
    rates = [(statistic.value(row, RATE), row) for row in statistic.rows if _number(statistic.value(row, RATE))]
    if len(rates) < 2:
        return ()
    ordered = sorted(rates, key=lambda pair: float(pair[0].value or 0))
    (low, worst), (high, best) = ordered[0], ordered[-1]
    sure = low.high is not None and high.low is not None and low.high < high.low
    hedge = "" if sure else "; their intervals overlap"
    return (f"{best} converts best ({_with(high)}), {worst} worst ({_with(low)}){hedge}.",)


def _customers(statistic: Statistic) -> tuple[str, ...]:
    if statistic.unavailable:
        return ()
    bought, left = (statistic.value("> 1 device", column) for column in ("Purchasers", "Non-purchasers"))
    if not (_number(bought) and _number(left)):
        return ()
    return (f"{_with(bought)} of purchasers use several device types, and {_with(left)} of non-purchasers.",)


def _stays(statistic: Statistic) -> tuple[str, ...]:
    parts = [
        f"{row} {_with(statistic.value(row, row))}" for row in statistic.rows if _number(statistic.value(row, row))
    ]
    return (f"How many steps before a purchase stay on the device: {'; '.join(parts)}.",) if parts else ()


def _queries(statistic: Statistic) -> tuple[str, ...]:
    if statistic.unavailable:
        return ()
    bought, left = (statistic.value(ALL, f"{outcome}: queries per session") for outcome in ("Purchase", "Non-purchase"))
    if not (_number(bought) and _number(left)):
        return ()
    return (f"Queries per session: {_with(bought, '')} with a purchase, {_with(left, '')} without.",)


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
