"""How the sessions of each outcome spread over days, hours, channels or devices, and which of these convert best.

Every percentage here is of *all purchase sessions*, or of all non-purchase sessions: columns add up to 100 %. So do
those of Tables 6.2 (99.90 and 99.10 %) and 6.4 (100.02 and 100.01 %), and section 6.4.2's 48.55 + 51.45 % and 58.55 +
41.44 % over the days of the week. The other reading, which share of a device's sessions are purchases, is the
conversion rate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from visir.sessions.description.intervals import SMALL, Moments, dominated_note, share, standardised
from visir.sessions.description.session_log import SessionLog, moments
from visir.sessions.description.statistic import Statistic, StatisticCell, StatisticRow

OUTCOMES = {True: "Purchase", False: "Non-purchase"}
BUYING, OTHER = "Purchase sessions", "Non-purchase sessions"
OUTCOME_LABELS = ("sessions with a purchase", "sessions without")
RATE, STANDARD = "Conversion rate", "Standardised rate"
_ALIKE = "Intervals (95 %) hold sessions of one visitor together."


@dataclass(frozen=True)
class StatisticHeading:
    """Name, title, source and corner of a `Statistic`."""

    name: str
    title: str
    source: str
    corner: str


def shares_by_outcome(
    log: SessionLog, about: StatisticHeading, column: str, keys: Sequence[int], label: Callable[[int], str]
) -> Statistic:
    """The share of purchase and of non-purchase sessions with each value of a column that is always known."""
    shares = log.shares("purchase", column)
    cells = tuple(tuple(share(moments(shares, outcome, key)) for outcome in OUTCOMES) for key in keys)
    return Statistic(
        about.name,
        about.title,
        about.source,
        about.corner,
        rows=tuple(label(key) for key in keys),
        columns=(BUYING, OTHER),
        units=("%", "%"),
        cells=cells,
        of="of all sessions with a purchase, and of all without",
        notes=(*_empty(shares), _ALIKE + " They do not say how another week would differ.", *_of_few(shares)),
    )


def shares_and_rates(log: SessionLog, about: StatisticHeading, column: str) -> Statistic:
    """Shares of each outcome over the values of a column, conversion rates, and these standardised over the values."""
    # Sessions without a value are left out, and counted in a note.
    names = log.names(column)
    if not names:
        return Statistic.without(about.name, about.title, about.source, f"the log names no {column}")
    where = f"{column} IS NOT NULL"
    shares = log.shares("purchase", column, where=where)
    rates = log.shares(column, "purchase", where=where)
    moments_of_names = [moments(rates, name, True) for name in names]
    standard = standardised(moments_of_names)
    cells: list[StatisticRow] = []
    for name, rate, z in zip(names, moments_of_names, standard, strict=True):
        support = int(min(rate.y, rate.n - rate.y))  # who knows the rate and the sessions knows both outcomes
        rate_cell = share(rate)
        cells.append(
            (
                *(share(moments(shares, outcome, name)) for outcome in OUTCOMES),
                StatisticCell(rate_cell.value, rate_cell.low, rate_cell.high, support=support),
                StatisticCell(z.value, z.low, z.high, support=support),
            )
        )
    left = log.counts["sessions"] - log.known_counts[column]
    notes = [
        *_empty(shares),
        _ALIKE,
        *_of_few(shares),
        *dominated_note(dict(zip(names, moments_of_names, strict=True))),
    ]
    small = [name for name, rate in zip(names, moments_of_names, strict=True) if rate.is_small]
    if small:
        notes.append(
            f"Not standardised, because its rate is worth fewer than {SMALL:g} sessions with or without a purchase: "
            f"{', '.join(small)}. The other rates are standardised over each other."
        )
    if left:
        notes.insert(0, f"{left:,} sessions without a known {column} are left out.")
    if len(names) == 1:
        notes.append(f"There is one {column} only, so nothing to standardise over.")
    return Statistic(
        about.name,
        about.title,
        about.source,
        about.corner,
        rows=names,
        columns=(BUYING, OTHER, RATE, STANDARD),
        units=("%", "%", "%", "σ"),
        cells=tuple(cells),
        of=f"of all sessions with a purchase, and of all without; the conversion rate of the {column}'s sessions",
        notes=tuple(notes),
        linked=True,
        together=(STANDARD,),
    )


def _of_few(shares: dict[Any, dict[Any, Moments]]) -> list[str]:
    """The warning of shares whose outcome is that of a few visitors."""
    return dominated_note(
        {name.lower(): next(iter(shares[outcome].values())) for outcome, name in OUTCOMES.items() if outcome in shares}
    )


def _empty(shares: dict[Any, Any]) -> list[str]:
    return [f"The log has no {name.lower()} session." for outcome, name in OUTCOMES.items() if outcome not in shares]
