"""Figure 6.2: how long sessions are, by device and outcome."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass

from visir.sessions.description.intervals import Moments, dominated_note, quantile
from visir.sessions.description.outcome_shares import OUTCOMES
from visir.sessions.description.session_log import SessionLog
from visir.sessions.description.statistic import Statistic, StatisticCell, StatisticRow
from visir.wilson import wilson

PERCENTILES = (50, 90)
_SHORT, _PER_DECADE = 20, 16


@dataclass(frozen=True)
class LengthCounts:
    """Sessions of one device and outcome.

    Args:
        lengths: The lengths that occur, ascending.
        cumulative: How many sessions are no longer than each.
        moments: Of the share longer than the median, for the design effect.
    """

    lengths: list[int]
    cumulative: list[int]
    moments: Moments

    @property
    def n(self) -> int:
        """How many sessions there are."""
        return self.cumulative[-1]

    def longer(self, length: int) -> int:
        """How many sessions are longer than `length` actions."""
        position = bisect_left(self.lengths, length + 1)
        return self.n - (self.cumulative[position - 1] if position else 0)

    def percentile(self, share: float) -> int:
        """The smallest length that at least this share of the sessions does not exceed."""
        return self.lengths[min(bisect_left(self.cumulative, share * self.n - 1e-9), len(self.lengths) - 1)]


def lengths(log: SessionLog) -> tuple[Statistic, Statistic]:
    """The share of sessions longer than each length (the figure), and P50 and P90 (a table).

    Length is the number of actions: pages opened, queries, items put into or taken out of the basket (section 6.2); an
    order does not make a session longer. The CCDF at x is the share *longer* than x, so it starts below 100 % where
    sessions without an action exist (an order alone, say), and crosses 50 % at P50; "at least x" would be the curve one
    action further right. P50 is the smallest length that half of the sessions do not exceed.

    Sessions of one visitor are held together by the design effect of their median, used for the whole curve; intervals
    of percentiles are those of the shares, turned around (Woodruff 1952).
    """
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
        {f"{device}, {OUTCOMES[bought].lower()}": groups[device, bought].moments for device, bought in groups}
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
    counted: dict[tuple[str, bool], list[tuple[int, int]]] = defaultdict(list)
    for device, bought, length, count in log.rows(
        f"SELECT device, purchase, length, count(*) FROM {log.sessions} WHERE device IS NOT NULL "
        "GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"
    ):
        counted[str(device), bool(bought)].append((int(length), int(count)))
    groups: dict[tuple[str, bool], LengthCounts] = {}
    medians = []
    for key, length_counts in counted.items():
        cumulative, total = [], 0
        for _, count in length_counts:
            total += count
            cumulative.append(total)
        group = LengthCounts([length for length, _ in length_counts], cumulative, Moments(0, 0, 0, 0, 0, 0))
        groups[key] = group
        medians.append(group.percentile(0.5))
    log.db.execute(
        "CREATE OR REPLACE TEMP TABLE medians (device VARCHAR, purchase BOOLEAN, median BIGINT, number INTEGER)"
    )
    values = [[*key, median, number] for number, (key, median) in enumerate(zip(groups, medians, strict=True))]
    log.db.executemany("INSERT INTO medians VALUES (?, ?, ?, ?)", values)
    shares = log.shares("number", "length > median", source="bucket JOIN medians USING (device, purchase)")
    for number, key in enumerate(groups):
        either = shares[number][
            min(shares[number])
        ]  # the design effect of a share is that of the rest, but for rounding
        groups[key] = LengthCounts(groups[key].lengths, groups[key].cumulative, either)
    return groups


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
    count = group.longer(x)
    low, high = wilson(count / group.n, group.moments.effective, quantile(group.moments))
    return StatisticCell(100 * count / group.n, 100 * low, 100 * high, support=count)


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
    """A percentile with the interval of the share below it, turned around (Woodruff 1952).

    Args:
        group: The sessions.
        percentile: 50 for the median.
    """
    low, high = wilson(percentile / 100, group.moments.effective, quantile(group.moments))
    ends = (group.percentile(low), group.percentile(high))
    return StatisticCell(group.percentile(percentile / 100), *ends, support=group.n)
