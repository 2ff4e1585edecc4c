"""Figure 6.2: how long sessions are, by device and outcome."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from visir.sessions.description.intervals import Moments, dominated_note, quantile, share
from visir.sessions.description.outcome_shares import OUTCOMES
from visir.sessions.description.session_log import SessionLog
from visir.sessions.description.statistic import Statistic, StatisticCell, StatisticRow
from visir.wilson import wilson

PERCENTILES = (50, 90)
_SHORT, _PER_DECADE = 20, 16


@dataclass(frozen=True)
class LengthCounts:
    """Sessions of one device and outcome."""

    lengths: list[int]  # the lengths that occur, ascending
    longer_moments: list[Moments]  # of the share longer than each of them; the last is of none
    every: Moments  # of all sessions, as the share longer than nothing

    @classmethod
    def of(cls, added: Sequence[tuple[int, int, int, int]], visits: tuple[int, int, int]) -> LengthCounts:
        """The counts of lengths, and of what each of them adds to sums over visitors."""
        # A visitor with c sessions of at least this length and b longer ones adds c² − b² to Σ y² at this length. So
        # the moments at every length are sums from the longest down.
        sums, longer = (0, 0, 0), []
        for _, *more in reversed(added):
            longer.append(Moments(*sums, *visits))
            sums = (sums[0] + more[0], sums[1] + more[1], sums[2] + more[2])
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


def lengths(log: SessionLog) -> tuple[Statistic, Statistic]:
    """The share of sessions longer than each length (the figure), and P50 and P90 (a table)."""
    # Length is the number of actions: pages opened, queries, items put into or taken out of the basket (section 6.2);
    # an order does not make a session longer. The CCDF at x is the share *longer* than x, so it starts below 100 %
    # where sessions without an action exist (an order alone, say), and crosses 50 % at P50; "at least x" would be the
    # curve one action further right. P50 is the smallest length that half of the sessions do not exceed.
    # Sessions of one visitor are held together at each length for itself: long sessions may be those of a few visitors
    # where short ones are everybody's. Intervals of percentiles are those of the shares, turned around (Woodruff 1952).
    about = ("figure-6-2", "How long sessions are", "Figure 6.2")
    if not log.known_counts["device"]:
        why = "the log names no device"
        return Statistic.without(*about, why), Statistic.without("figure-6-2-percentiles", *about[1:], why)
    groups = _groups(log)
    keys = [(device, bought) for bought in OUTCOMES for device in log.devices]
    longest = max(group.lengths[-1] for group in groups.values())
    points = _points(longest)
    curves = [tuple(_longer(groups.get(key), x) for key in keys) for x in points]
    left = log.counts["sessions"] - log.known_counts["device"]
    notes = [f"{left:,} sessions without a known device are left out."] if left else []
    notes += dominated_note(
        {f"{device}, {OUTCOMES[bought].lower()}": groups[device, bought].every for device, bought in groups}
    )
    figure = Statistic(
        *about,
        corner="longer than (actions)",
        rows=tuple(f"{x:,}" for x in points),
        columns=tuple(f"{device}, {OUTCOMES[bought].lower()}" for device, bought in keys),
        units=("%",) * len(keys),
        cells=tuple(curves),
        of="of all sessions of that device and outcome",
        notes=tuple(notes),
        sums="",
    )
    rows: list[StatisticRow] = [_percentiles(groups, device) for device in log.devices]
    table = Statistic(
        "figure-6-2-percentiles",
        "Half of the sessions (P50), and nine in ten (P90), are no longer than",
        "Figure 6.2",
        corner="device",
        rows=log.devices,
        columns=tuple(
            f"{outcome}: {quantity}" for outcome in OUTCOMES.values() for quantity in ("sessions", "P50", "P90")
        ),
        units=("", "actions", "actions") * 2,
        cells=tuple(rows),
        notes=(*notes, "Actions: pages, queries, items put into and taken out of the basket."),
    )
    return figure, table


def _groups(log: SessionLog) -> dict[tuple[str, bool], LengthCounts]:
    """The lengths of every group, counted; memory follows the number of different lengths."""
    added: dict[tuple[str, bool], dict[int, tuple[int, ...]]] = defaultdict(dict)
    visits: dict[tuple[str, bool], tuple[int, ...]] = {}
    unit = "unit, device, purchase"
    for _ in log.buckets("visitors"):
        log.db.execute(
            "CREATE OR REPLACE TEMP TABLE counted AS SELECT *, sum(y) OVER w AS c, sum(y) OVER (PARTITION BY "
            f"{unit}) AS n FROM (SELECT {unit}, length, count(*) AS y FROM bucket WHERE device IS NOT NULL "
            f"GROUP BY {unit}, length) WINDOW w AS (PARTITION BY {unit} ORDER BY length DESC)"
        )
        for device, bought, length, *sums in log.rows(
            "SELECT device, purchase, length, sum(y), sum(c * c - (c - y) * (c - y)), sum(y * n) FROM counted "
            "GROUP BY 1, 2, 3"
        ):
            of_group = added[str(device), bool(bought)]
            of_group[int(length)] = _sum(of_group.get(int(length)), sums)
        for device, bought, *sums in log.rows(
            "SELECT device, purchase, sum(n), sum(n * n), count(*) FROM "
            f"(SELECT {unit}, any_value(n) AS n FROM counted GROUP BY {unit}) GROUP BY 1, 2"
        ):
            visits[str(device), bool(bought)] = _sum(visits.get((str(device), bool(bought))), sums)
    return {
        key: LengthCounts.of([(length, y, yy, yn) for length, (y, yy, yn) in sorted(lengths.items())], (n, nn, units))
        for key, lengths in sorted(added.items())
        for n, nn, units in [visits[key]]
    }


def _sum(before: tuple[int, ...] | None, more: Sequence[Any]) -> tuple[int, ...]:
    return tuple(int(value) + (before[place] if before else 0) for place, value in enumerate(more))


def _points(longest: int) -> list[int]:
    """Every short length, then ever fewer, evenly on a logarithmic axis, up to the longest."""
    points = list(range(min(_SHORT, longest) + 1))
    step = 1
    while points[-1] < longest:
        point = round(_SHORT * 10 ** (step / _PER_DECADE))
        points.append(min(point, longest))
        step += 1
    return points


def _longer(group: LengthCounts | None, x: int) -> StatisticCell:
    if group is None:
        return StatisticCell(None, support=0)
    return share(group.longer(x))


def _percentiles(groups: dict[tuple[str, bool], LengthCounts], device: str) -> StatisticRow:
    row: list[StatisticCell] = []
    for bought in OUTCOMES:
        group = groups.get((device, bought))
        if group is None:
            row += [StatisticCell(0, support=0), *(StatisticCell(None, support=0) for _ in PERCENTILES)]
            continue
        row.append(StatisticCell(group.n, support=group.n))
        row += [percentile_cell(group, percentile) for percentile in PERCENTILES]
    return tuple(row)


def percentile_cell(group: LengthCounts, percentile: float) -> StatisticCell:
    """A percentile with the interval of the share below it, turned around (Woodruff 1952)."""
    value = group.percentile(percentile / 100)
    moments = group.longer(value)
    low, high = wilson(percentile / 100, moments.effective, quantile(moments))
    return StatisticCell(value, group.percentile(low), group.percentile(high), support=group.n)
