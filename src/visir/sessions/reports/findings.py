"""What a characterisation says, in sentences: the questions of sections 6.4.1 to 6.4.5, answered from the log."""

from __future__ import annotations

from visir.sessions.describe import Characterisation, Statistic, StatisticCell
from visir.sessions.describe.outcome_shares import BUYING, OTHER, RATE
from visir.sessions.describe.queries import ALL

_SPACE = "\N{NO-BREAK SPACE}"


def findings(found: Characterisation) -> dict[str, tuple[str, ...]]:
    """{section: sentences}; of what is missing or hidden nothing is said."""
    statistic = found.statistic
    made = {
        "length": _lengths(statistic("figure-6-2-percentiles")),
        "time": (*_busiest(statistic("figure-6-3"), "on"), *_busiest(statistic("figure-6-4"), "at")),
        "channels": _rates(statistic("table-6-2")),
        "devices": (*_rates(statistic("table-6-4")), *_customers(statistic("table-6-3"))),
        "switches": _stays(statistic("figure-6-5")),
        "queries": _queries(statistic("table-6-5")),
    }
    return {section: said for section, said in made.items() if said}


def _lengths(one: Statistic) -> tuple[str, ...]:
    said = []
    for device in one.rows:
        bought, left = (one.value(device, f"{outcome}: P50") for outcome in ("Purchase", "Non-purchase"))
        if _number(bought) and _number(left):
            said.append(f"{device} {_with(bought, '')} against {_with(left, '')}")
    if not said:
        return ()
    return (f"Median length in actions, sessions with a purchase against those without: {'; '.join(said)}.",)


def _busiest(one: Statistic, when: str) -> tuple[str, ...]:
    if one.cannot:
        return ()
    most = []
    for column in (BUYING, OTHER):
        known = [(float(cell.value), row) for row in one.rows if _number(cell := one.value(row, column))]  # type: ignore[arg-type]
        if len(known) < 2:
            return ()
        share, row = max(known, key=lambda pair: pair[0])
        most.append(f"{row}{'' if when == 'on' else f'{_SPACE}h'} ({share:.1f}{_SPACE}%)")
    return (f"Most sessions with a purchase begin {when} {most[0]}, most of those without {when} {most[1]}.",)


def _rates(one: Statistic) -> tuple[str, ...]:
    known = [(one.value(row, RATE), row) for row in one.rows if _number(one.value(row, RATE))]
    if len(known) < 2:
        return ()
    ordered = sorted(known, key=lambda pair: float(pair[0].value or 0))
    (low, worst), (high, best) = ordered[0], ordered[-1]
    sure = low.high is not None and high.low is not None and low.high < high.low
    hedge = "" if sure else "; their intervals overlap"
    return (f"{best} converts best ({_with(high)}), {worst} worst ({_with(low)}){hedge}.",)


def _customers(one: Statistic) -> tuple[str, ...]:
    if one.cannot:
        return ()
    bought, left = (one.value("> 1 device", column) for column in ("Purchasers", "Non-purchasers"))
    if not (_number(bought) and _number(left)):
        return ()
    return (f"{_with(bought)} of purchasers use several device types, and {_with(left)} of non-purchasers.",)


def _stays(one: Statistic) -> tuple[str, ...]:
    said = [f"{row} {_with(one.value(row, row))}" for row in one.rows if _number(one.value(row, row))]
    return (f"How many steps before a purchase stay on the device: {'; '.join(said)}.",) if said else ()


def _queries(one: Statistic) -> tuple[str, ...]:
    if one.cannot:
        return ()
    bought, left = (one.value(ALL, f"{outcome}: queries per session") for outcome in ("Purchase", "Non-purchase"))
    if not (_number(bought) and _number(left)):
        return ()
    return (f"Queries per session: {_with(bought, '')} with a purchase, {_with(left, '')} without.",)


def _number(one: StatisticCell) -> bool:
    return isinstance(one.value, (int, float))


def _with(one: StatisticCell, unit: str = f"{_SPACE}%") -> str:
    """A number with its interval, in as many digits as tell something."""
    whole = isinstance(one.value, int)
    digits = 0 if whole else 2 if float(one.value or 0) < 10 else 1
    told = f"{float(one.value or 0):,.{digits}f}{unit}"
    if one.low is None or one.high is None:
        return told
    return f"{told} [{one.low:,.{digits}f}{_SPACE}…{_SPACE}{one.high:,.{digits}f}]"
