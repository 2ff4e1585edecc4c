"""Everything of thesis sections 6.3 and 6.4 from one folder of sessions."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from visir.display import Plotted, brief, counted, listed
from visir.errors import VisirError
from visir.sessions.description.differences import GroupDifference, compare_all
from visir.sessions.description.journeys import READINGS, channels, pages, sizes, switches
from visir.sessions.description.outcomes import (
    PERCENTILES_TITLE,
    devices_per_customer,
    hours,
    lengths,
    percentiles,
    prices,
    queries,
    shares_and_rates,
    texts,
    totals,
    weekdays,
)
from visir.sessions.description.session_log import SessionLog, open_log
from visir.sessions.description.statistic import Statistic, StatisticEntry, suppressed

_Entry = StatisticEntry
STATISTICS: tuple[StatisticEntry, ...] = (
    _Entry("table-6-1", "What the log holds", "Table 6.1", "", totals),
    _Entry("figure-6-2", "How long sessions are", "Figure 6.2", "longer than (actions)", lengths, ("device",)),
    _Entry("figure-6-2-percentiles", PERCENTILES_TITLE, "Figure 6.2", "device", percentiles, ("device",)),
    _Entry("figure-6-3", "On which days sessions begin", "Figure 6.3", "day", weekdays),
    _Entry("figure-6-4", "At which hours sessions begin", "Figure 6.4", "hour", hours),
    _Entry("table-6-2", "Channels, and how well they convert", "Table 6.2", "channel", shares_and_rates, ("channel",)),
    _Entry(
        "table-6-3",
        "How many device types customers use",
        "Table 6.3",
        "device types",
        devices_per_customer,
        ("customer", "device"),
    ),
    _Entry("table-6-4", "Devices, and how well they convert", "Table 6.4", "device", shares_and_rates, ("device",)),
    *(
        _Entry(
            name, title, "Figure 6.5", "from", partial(switches, where=where, meaning=meaning), ("browsers", "device")
        )
        for name, title, where, meaning in READINGS
    ),
    _Entry("table-6-5", "How often sessions search", "Table 6.5", "device", queries, ("device", "query")),
    _Entry("table-6-6", "How many different queries there are", "Table 6.6", "device", texts, ("device", "query")),
    _Entry("journeys", "How many sessions lead to a purchase", "Figure 6.1", "sessions", sizes),
    _Entry("journeys-channels", "Through which channels journeys go", "Figure 6.1", "path", channels, ("channel",)),
    _Entry("journeys-pages", "Which page types come before an order", "Figure 6.1", "path", pages),
    _Entry("prices", "Which prices sessions see and pay", "Section 6.3", "", prices),
)
"""Everything that is described, in the order of the thesis."""


@dataclass(frozen=True, repr=False)
class Characterisation(Plotted):
    """What distinguishes the sessions that buy.

    Args:
        name: Of the folder.
        counts: The counts of `counts.json`.
        declared: The declarations of `counts.json`.
        engine: The engine of `counts.json`.
        statistics: In the order of the thesis, also those that cannot be computed from this log.
        suppress: Cells of fewer sessions than this are hidden; 0 for none.
        differences: What was compared, with tests; one family (`comparisons`).
    """

    name: str
    counts: dict[str, Any]
    declared: dict[str, Any]
    engine: str
    statistics: tuple[Statistic, ...]
    suppress: int
    differences: tuple[GroupDifference, ...] = ()

    def __repr__(self) -> str:
        counts = self.counts
        share = f"{counts['purchases'] / counts['sessions']:.1%}".replace("%", " %")
        there = [statistic.name for statistic in self.statistics if not statistic.unavailable]
        return brief(
            self,
            f"{self.name}: {counted(counts['sessions'], 'sessions')}, {share} with a purchase",
            f"{len(there)} of {counted(len(self.statistics), 'statistics')}: {listed(there, len(there), limit=4)}",
        )

    def statistic(self, name: str) -> Statistic:
        """A statistic by its name.

        Raises:
            KeyError: There is none of this name; the names are listed.
        """
        for statistic in self.statistics:
            if statistic.name == name:
                return statistic
        raise KeyError(f"{name}: one of {', '.join(statistic.name for statistic in self.statistics)}")

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "name": self.name,
            "counts": self.counts,
            "declared": self.declared,
            "engine": self.engine,
            "suppress": self.suppress,
            "differences": [{**asdict(each), "verdict": each.verdict} for each in self.differences],
            "statistics": [statistic.to_dict() for statistic in self.statistics],
        }


def describe(
    folder: str | Path,
    *,
    zone: str | None = None,
    suppress: int = 0,
    threads: int | None = None,
    memory: str | None = None,
) -> Characterisation:
    """Tables 6.1 to 6.6 and Figures 6.2 to 6.5 of a folder that `sessionise` wrote.

    Shares and rates have 95 % intervals (`intervals`). What cannot be computed from the log says why in
    `Statistic.unavailable`. The same folder gives the same numbers, whatever the threads.

    Args:
        folder: A folder of sessions.
        zone: Time zone of hours, weekdays and days. Default: the one of the sessions.
        suppress: Hide cells of fewer sessions than this, and what would reveal them. See `suppressed`; 0 for none.
        threads: Default: one per core.
        memory: What the engine may hold ("2GB").

    Raises:
        VisirError: The folder is no folder of sessions, or holds none.

    Example:
        >>> import pyarrow as pa, pyarrow.parquet as pq
        >>> from visir.sessions import preset, sessionise
        >>> log = pa.table({"visitor": ["ann", "bob"], "time": [0, 0], "action": ["order", "page"]})
        >>> pq.write_table(log, "log.parquet")
        >>> _ = sessionise("log.parquet", preset("events"), "out")
        >>> describe("out").statistic("table-6-1").value("Purchase sessions", "Total").value
        1
    """
    if suppress < 0:
        raise VisirError(
            f"cells of fewer than {suppress} sessions: there are none.", hint="0 hides nothing", code="there-are-none"
        )
    with open_log(folder, threads=threads, memory=memory, zone=zone) as log:
        if not log.counts["sessions"]:
            raise VisirError(
                f"{folder} holds no sessions.",
                hint="its counts.json says what was rejected, and why",
                code="holds-no-sessions",
            )
        statistics = statistics_of(log)
        differences = compare_all(log, suppress)
        counts, declared, engine = log.counts, log.declared, log.engine
    name = Path(folder).resolve().name
    shown = tuple(suppressed(statistic, suppress) for statistic in statistics)
    return Characterisation(name, counts, declared, engine, shown, suppress, differences)


def statistics_of(log: SessionLog) -> tuple[Statistic, ...]:
    """Every statistic of an opened log."""
    return tuple(entry.of(log) for entry in STATISTICS)
