"""Everything of thesis sections 6.3 and 6.4 from one folder of sessions."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from visir.display import Plotted, brief, counted, listed
from visir.errors import VisirError
from visir.sessions.description.channels import channels
from visir.sessions.description.comparisons import compare_all
from visir.sessions.description.customers import devices_per_customer
from visir.sessions.description.devices import devices
from visir.sessions.description.differences import GroupDifference
from visir.sessions.description.hours import hours
from visir.sessions.description.journeys import journeys
from visir.sessions.description.lengths import lengths
from visir.sessions.description.prices import prices
from visir.sessions.description.queries import queries
from visir.sessions.description.session_log import SessionLog, open_log
from visir.sessions.description.statistic import Statistic, suppressed
from visir.sessions.description.switches import READINGS, switches
from visir.sessions.description.totals import totals
from visir.sessions.description.unique_queries import unique_queries
from visir.sessions.description.weekdays import weekdays


@dataclass(frozen=True, repr=False)
class Characterisation(Plotted, view="visir.sessions.reports.characterisation_view"):
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
        zone: The time zone of all hours, weekdays and days; by default the one declared when the sessions were made.
        suppress: Hide cells of fewer sessions than this (see `suppressed`); 0 for none.
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
    """Every statistic of an opened log, in the order of the thesis."""
    return (
        totals(log),
        *lengths(log),
        weekdays(log),
        hours(log),
        channels(log),
        devices_per_customer(log),
        devices(log),
        *(switches(log, reading) for reading in READINGS),
        queries(log),
        unique_queries(log),
        *journeys(log),
        prices(log),
    )
