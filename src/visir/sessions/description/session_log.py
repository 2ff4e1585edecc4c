"""A folder of sessions, opened for counting: the engine adds up, Python sees only sums.

Sessions are hashed into buckets by visitor (and by customer, for what is about customers), so that everything of a
visitor is in one bucket: sums over visitors are sums over buckets, and memory follows a bucket, not the log.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from visir.errors import ConfigurationError, raise_faults
from visir.sessions.definition import zone_fault
from visir.sessions.source import duckdb_engine
from visir.sessions.sql import SESSIONS, local_sql, parts_of, path_literal, table_of, weekday_sql
from visir.stats import Moments
from visir.storage import Scratch, read_written_json

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SESSIONS_PER_BUCKET = 5_000_000
"""Sessions of the log per bucket."""

By = Literal["visitors", "customers"]


@dataclass(frozen=True)
class SessionLog:
    """The sessions of a folder that `sessionise` wrote.

    What belongs together when intervals are computed is a *unit*: a visitor (browser), or all browsers of one customer.
    A browser with several customers is with the first of them by the alphabet.

    Args:
        folder: The folder.
        parts: Its files of sessions, each with the file of their events.
        scratch: Where buckets are written.
        db: The engine.
        counts: The counts of `counts.json`.
        declared: The declarations of `counts.json`.
        engine: The engine that found the sessions, of `counts.json`.
        zone: The time zone of hours, weekdays and days.
    """

    folder: Path
    parts: list[tuple[Path, Path]]
    scratch: Scratch
    db: DuckDBPyConnection = field(repr=False)
    counts: dict[str, Any]
    declared: dict[str, Any]
    engine: str
    zone: str

    @property
    def clock(self) -> str:
        """SQL of the wall clock of the zone at which a session began."""
        return local_sql("began", self.zone)

    @property
    def sessions(self) -> str:
        """The table expression of all sessions."""
        return table_of(*(sessions for sessions, _ in self.parts))

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """The rows of an answer of the engine, for answers that are small."""
        rows: list[tuple[Any, ...]] = self.db.execute(query).fetchall()
        return rows

    def value(self, query: str) -> Any:
        """The single value of an answer of the engine."""
        return self.rows(query)[0][0]

    @cached_property
    def known_counts(self) -> dict[str, int]:
        """How many sessions have a known customer, device and channel, and how many hold a query."""
        counts = self.rows(
            "SELECT count(customer), count(device), count(channel), count(*) FILTER (WHERE queries > 0) "
            f"FROM {self.sessions}"
        )[0]
        return dict(zip(("customer", "device", "channel", "query"), map(int, counts), strict=True))

    @cached_property
    def devices(self) -> tuple[str, ...]:
        """The device types, the most common first."""
        return self.names("device")

    def names(self, column: str) -> tuple[str, ...]:
        """The values of a column of text, those of most sessions first, equal ones by the alphabet."""
        query = (
            f"SELECT {column}, count(*) FROM {self.sessions} WHERE {column} IS NOT NULL GROUP BY 1 ORDER BY 2 DESC, 1"
        )
        return tuple(str(name) for name, _ in self.rows(query))

    def buckets(self, by: By) -> Iterator[None]:
        """For each bucket in turn the view `bucket`, whose column `unit` is the visitor or the customer."""
        for folder in sorted(self._buckets(by).glob("part=*")):
            files = table_of(*sorted(folder.glob("*.parquet")))
            self.db.execute(f"CREATE OR REPLACE TEMP VIEW bucket AS SELECT * FROM {files}")
            yield

    def shares(
        self,
        base: str,
        cell: str,
        *,
        source: str = "bucket",
        where: str = "true",
        weight: str = "1",
        by: By = "visitors",
    ) -> dict[Any, dict[Any, Moments]]:
        """How many of the sessions of each `base` are of each `cell`.

        Args:
            base: SQL over `source`; never null.
            cell: SQL over `source`; never null.
            source: SQL over the view `bucket`, with a column `unit`.
            where: SQL over `source`: which sessions count.
            weight: SQL over `source`: what one session counts.
            by: What the units are.

        Returns:
            base → cell → moments, in no order.
        """
        y: dict[Any, dict[Any, list[int]]] = defaultdict(lambda: _sums(3))
        n = _sums(3)
        for _ in self.buckets(by):
            self.db.execute(
                f"CREATE OR REPLACE TEMP TABLE counted AS SELECT *, sum(y) OVER (PARTITION BY unit, base) AS n FROM ("
                f"SELECT unit, {base} AS base, {cell} AS cell, sum({weight}) AS y FROM {source} WHERE {where} "
                "GROUP BY 1, 2, 3)"
            )
            for base_value, cell_value, *sums in self.rows(
                "SELECT base, cell, sum(y), sum(y * y), sum(y * n) FROM counted GROUP BY 1, 2"
            ):
                _add(y[base_value][cell_value], sums)
            # Every unit and base once: n is spread over its cells, Σy = n.
            for base_value, *sums in self.rows(
                "SELECT base, sum(n), sum(n * n), count(*) FROM "
                "(SELECT base, unit, any_value(n) AS n FROM counted GROUP BY 1, 2) GROUP BY 1"
            ):
                _add(n[base_value], sums)
        return {
            base_value: {cell_value: Moments(*sums, *n[base_value]) for cell_value, sums in cells.items()}
            for base_value, cells in y.items()
        }

    def means(self, base: str, counted: str, *, where: str = "true") -> dict[Any, Moments]:
        """The sum of a quantity over the sessions of each `base`.

        Args:
            base: SQL over sessions; never null.
            counted: SQL over sessions: the quantity.
            where: SQL over sessions: which of them count.

        Returns:
            base → moments whose y / n is the mean per session.
        """
        total = _sums(6)
        for _ in self.buckets("visitors"):
            for base_value, *sums in self.rows(
                "SELECT base, sum(y), sum(y * y), sum(y * n), sum(n), sum(n * n), count(*) FROM ("
                f"SELECT unit, {base} AS base, sum({counted}) AS y, count(*) AS n FROM bucket WHERE {where} "
                "GROUP BY 1, 2) GROUP BY 1"
            ):
                _add(total[base_value], sums)
        return {base_value: Moments(*sums) for base_value, sums in total.items()}

    @cached_property
    def lengths(self) -> dict[tuple[str, bool], LengthCounts]:
        """The lengths of the sessions of each device and outcome; memory follows the number of different lengths."""
        added, visits = _sums(3), _sums(3)
        unit = "unit, device, purchase"
        for _ in self.buckets("visitors"):
            self.db.execute(
                "CREATE OR REPLACE TEMP TABLE counted AS SELECT *, sum(y) OVER w AS c, sum(y) OVER (PARTITION BY "
                f"{unit}) AS n FROM (SELECT {unit}, length, count(*) AS y FROM bucket WHERE device IS NOT NULL "
                f"GROUP BY {unit}, length) WINDOW w AS (PARTITION BY {unit} ORDER BY length DESC)"
            )
            for device, bought, length, *sums in self.rows(
                "SELECT device, purchase, length, sum(y), sum(c * c - (c - y) * (c - y)), sum(y * n) FROM counted "
                "GROUP BY 1, 2, 3"
            ):
                _add(added[str(device), bool(bought), int(length)], sums)
            for device, bought, *sums in self.rows(
                "SELECT device, purchase, sum(n), sum(n * n), count(*) FROM "
                f"(SELECT {unit}, any_value(n) AS n FROM counted GROUP BY {unit}) GROUP BY 1, 2"
            ):
                _add(visits[str(device), bool(bought)], sums)
        lengths: dict[tuple[str, bool], list[list[int]]] = defaultdict(list)
        for (device, bought, length), sums in sorted(added.items()):
            lengths[device, bought].append([length, *sums])
        return {key: LengthCounts.of(of_key, visits[key]) for key, of_key in lengths.items()}

    def _buckets(self, by: By) -> Path:
        """The sessions, hashed by unit; written on the first call."""
        if (self.scratch.path / by).exists():
            return self.scratch.path / by
        target = self.scratch.folder(by, "part=*/*.parquet")
        count = max(1, -(-int(self.counts["sessions"]) // SESSIONS_PER_BUCKET))
        clock = f"CAST(hour({self.clock}) AS TINYINT) AS hour, CAST({weekday_sql(self.clock)} AS TINYINT) AS weekday"
        columns = f"visitor, session, began, length, queries, {clock}, purchase, device, channel"
        if by == "customers":
            query = f"SELECT customer AS unit, {columns} FROM {self.sessions} WHERE customer IS NOT NULL"
            self._write(query, target, count, "all")
            return target
        for number, (sessions, _) in enumerate(self.parts):
            unit = "coalesce('c' || min(customer) OVER (PARTITION BY visitor), 'v' || visitor)"
            query = f"SELECT {unit} AS unit, {columns} FROM {table_of(sessions)}"
            self._write(query, target, count, f"from{number}_")
        return target

    def _write(self, query: str, target: Path, count: int, name: str) -> None:
        self.db.execute(
            f"COPY (SELECT *, hash(unit) % {count} AS part FROM ({query})) TO {path_literal(target)} (FORMAT parquet, "
            f"PARTITION_BY (part), COMPRESSION lz4, OVERWRITE_OR_IGNORE, FILENAME_PATTERN '{name}{{i}}')"
        )


def moments(moments_by_base: dict[Any, dict[Any, Moments]], base: Any, cell: Any) -> Moments:
    """The moments of one base and cell in an answer of `SessionLog.shares`, also where nothing was counted."""
    cells = moments_by_base.get(base, {})
    if cell in cells or not cells:
        return cells.get(cell, Moments(0, 0, 0, 0, 0, 0))
    other_cell = next(iter(cells.values()))
    return Moments(0, 0, 0, other_cell.n, other_cell.nn, other_cell.units)


@contextmanager
def open_log(
    folder: str | Path,
    *,
    threads: int | None = None,
    memory: str | None = None,
    zone: str | None = None,
    left_out: tuple[int, int] | None = None,
) -> Iterator[SessionLog]:
    """Open a folder of sessions. Scratch files are in the system's temporary folder and are removed at the end.

    Args:
        folder: A folder that `sessionise` wrote.
        threads: Default: one per core.
        memory: What the engine may hold ("2GB").
        zone: The time zone of hours, weekdays and days; by default the one declared when the sessions were made.
        left_out: (group, groups): the units are hashed into so many groups, and those of this one are not there.

    Raises:
        VisirError: It is not such a folder, or there is no such zone.
    """
    folder = Path(folder)
    parts = parts_of(folder)
    document = read_written_json(folder / "counts.json")
    with SESSIONS.reading(folder, "counts.json"):
        declared = document["declared"] | ({"zone": zone} if zone is not None else {})
        counts, made_by, named = {**document["counts"]}, str(document["engine"]), str(declared["zone"])
    raise_faults(ConfigurationError, "describing sessions", [zone_fault(zone)] if zone and zone_fault(zone) else [])
    any_order = {"preserve_insertion_order": False}
    with (
        Scratch.temporary("sessions") as scratch,
        duckdb_engine(
            folder, "Describing sessions", scratch=scratch, threads=threads, memory=memory, **any_order
        ) as engine,
    ):
        if left_out is not None:
            parts = _without(parts, scratch, engine, *left_out)
        yield SessionLog(folder, parts, scratch, engine, counts, declared, made_by, named)


def _without(
    parts: list[tuple[Path, Path]], scratch: Scratch, engine: DuckDBPyConnection, group: int, groups: int
) -> list[tuple[Path, Path]]:
    """Copies of the files without the units of one group: a visitor goes with the first of its customers."""
    copies = []
    folder = scratch.folder("left out", "*.parquet")
    for number, part in enumerate(parts):
        remaining = (
            "SELECT visitor FROM (SELECT visitor, coalesce('c' || min(customer), 'v' || visitor) AS unit "
            f"FROM {table_of(part[0])} GROUP BY visitor) WHERE hash(unit) % {groups} != {group}"
        )
        targets = [folder / f"{kind}{number}.parquet" for kind in ("sessions", "events")]
        for source, target in zip(part, targets, strict=True):
            engine.execute(
                f"COPY (SELECT * FROM {table_of(source)} WHERE visitor IN ({remaining})) TO {path_literal(target)} "
                "(FORMAT parquet)"
            )
        copies.append((targets[0], targets[1]))
    return copies


def _sums(size: int) -> defaultdict[Any, list[int]]:
    return defaultdict(lambda: [0] * size)


def _add(sums: list[int], more: Sequence[Any]) -> None:
    for position, value in enumerate(more):
        sums[position] += int(value)


@dataclass(frozen=True)
class LengthCounts:
    """Sessions of one device and outcome."""

    lengths: list[int]  # the lengths that occur, ascending
    longer_moments: list[Moments]  # of the share longer than each of them; the last is of none
    every: Moments  # of all sessions, as the share longer than nothing

    @classmethod
    def of(cls, added: Sequence[Sequence[int]], visits: Sequence[int]) -> LengthCounts:
        """The counts of lengths, and of what each of them adds to sums over visitors."""
        # A visitor with c sessions of at least this length and b longer ones adds c² − b² to Σ y² at this length. So
        # the moments at every length are sums from the longest down.
        sums, longer = [0, 0, 0], []
        for _, *more in reversed(added):
            longer.append(Moments(*sums, *visits))
            _add(sums, more)
        return cls([length for length, *_ in added], longer[::-1], Moments(*sums, *visits))

    @property
    def n(self) -> int:
        """How many sessions there are."""
        return int(self.every.n)

    def longer(self, length: int) -> Moments:
        """Sessions longer than `length` actions, among all."""
        position = bisect_right(self.lengths, length)
        return self.longer_moments[position - 1] if position else self.every

    def percentile(self, fraction: float) -> int:
        """The smallest length that at least this fraction of the sessions does not exceed."""
        most = self.n - fraction * self.n + 1e-9
        # Fewer and fewer sessions are longer: the first length that few enough exceed.
        position = bisect_left(self.longer_moments, -most, key=lambda moments: -moments.y)
        return self.lengths[min(position, len(self.lengths) - 1)]
