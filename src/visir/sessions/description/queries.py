"""Table 6.5: how many queries sessions with and without a purchase submit, by device."""

from __future__ import annotations

from visir.sessions.description.intervals import Moments, dominated_note, mean, share
from visir.sessions.description.outcome_shares import OUTCOMES
from visir.sessions.description.session_log import SessionLog, moments
from visir.sessions.description.statistic import Statistic, StatisticCell, StatisticRow

ALL = "All devices"
_NONE = Moments(0, 0, 0, 0, 0, 0)


def queries(log: SessionLog) -> Statistic:
    """Queries per session, and on which devices queries are submitted."""
    # Queries per session are over *all* sessions of that device and outcome, those without a query included: the row
    # "Avg" of Table 6.5 is all queries over all sessions (its rows weighted by the sessions of Table 6.4 give 3.10 and
    # 0.06 where it prints 3.16 and 0.06; their plain means would be 2.0 and 0.03). The percentages are of all queries
    # of the outcome: columns add up to 100 %.
    name = ("table-6-5", "How often sessions search", "Table 6.5")
    for column, reason in (("device", "names no device"), ("query", "records no search")):
        if not log.known_counts[column]:
            return Statistic.without(*name, f"the log {reason}")
    has_device = "device IS NOT NULL"
    outcome = "CASE WHEN purchase THEN 'y' ELSE 'n' END"
    means = {
        **log.means(f"{outcome} || device", "queries", where=has_device),
        **log.means(outcome, "queries", where=has_device),  # no device has an empty name
    }
    shares = log.shares("purchase", "device", where=f"{has_device} AND queries > 0", weight="queries")
    with_one = {
        (bool(purchase), device): int(count)
        for purchase, device, count in log.rows(
            f"SELECT purchase, device, count(*) FROM {log.sessions} WHERE {has_device} AND queries > 0 GROUP BY 1, 2"
        )
    }
    cells: list[StatisticRow] = []
    for device in log.devices:
        row: list[StatisticCell] = []
        for bought in OUTCOMES:
            support = with_one.get((bought, device), 0)
            share_of_device = share(moments(shares, bought, device))
            row.append(mean(means.get(("y" if bought else "n") + device, _NONE), support=support))
            row.append(StatisticCell(share_of_device.value, share_of_device.low, share_of_device.high, support=support))
        cells.append(tuple(row))
    named = {
        f"{device}, {word.lower()}": means[key + device]
        for device in log.devices
        for key, word in (("y", OUTCOMES[True]), ("n", OUTCOMES[False]))
        if key + device in means
    }
    few = dominated_note(named)
    last: list[StatisticCell] = []
    for bought in OUTCOMES:
        support = sum(count for (outcome, _), count in with_one.items() if outcome == bought)
        last += [mean(means.get("y" if bought else "n", _NONE), support=support)]
        last += [StatisticCell(100.0 if support else None)]
    return Statistic(
        *name,
        corner="device",
        rows=(*log.devices, ALL),
        columns=tuple(
            f"{outcome}: {quantity}" for outcome in OUTCOMES.values() for quantity in ("queries per session", "share")
        ),
        units=("", "%", "", "%"),
        cells=(*cells, tuple(last)),
        of="of all queries submitted in sessions with a purchase, and in those without",
        notes=("Sessions without a query count. Intervals (95 %) hold sessions of one visitor together.", *few),
        linked=True,
    )
