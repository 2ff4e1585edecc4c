"""Table 6.3: how many devices customers use who buy, and who do not."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from visir.sessions.description.intervals import Moments, share
from visir.sessions.description.session_log import SessionLog
from visir.sessions.description.statistic import Statistic, StatisticCell


def devices_per_customer(log: SessionLog) -> Statistic:
    """Shares of purchasers and of non-purchasers by the number of device types of their sessions."""
    # A purchaser is a customer with at least one purchase session; a non-purchaser one who was identified and never
    # bought (section 6.2). Anonymous sessions are nobody's. The percentages of Table 6.3 are of customers, its caption
    # ("per session") notwithstanding: 2 to 5 devices add up to "> 1 device", and that and "1 device" to 100 %.
    # Customers are independent and count once each.
    name = ("table-6-3", "How many device types customers use", "Table 6.3")
    if not log.known_counts["customer"]:
        return Statistic.without(*name, "the log names no customer")
    if not log.known_counts["device"]:
        return Statistic.without(*name, "the log names no device")
    counts: Counter[tuple[bool, int]] = Counter()
    for _ in log.buckets("customers"):
        for buys, devices, customers in log.rows(
            "SELECT buys, devices, count(*) FROM (SELECT unit, bool_or(purchase) AS buys, "
            "count(DISTINCT device) AS devices FROM bucket GROUP BY 1) GROUP BY 1, 2"
        ):
            counts[buys, devices] += customers
    unknown = sum(count for (_, devices), count in counts.items() if not devices)
    most = max(devices for _, devices in counts)
    groups = {"> 1 device": range(2, most + 1), "1 device": range(1, 2)}
    groups |= {f"{count} devices": range(count, count + 1) for count in range(2, max(most, 2) + 1)}
    whole = {
        buys: sum(n for (bought, devices), n in counts.items() if bought == buys and devices) for buys in (True, False)
    }
    several, *rest = (
        tuple(
            _share(sum(counts[buys, device_count] for device_count in devices), whole[buys]) for buys in (True, False)
        )
        for devices in groups.values()
    )
    several = tuple(replace(cell, support=None) for cell in several)  # a part of no sum: it is 100 % less "1 device"
    notes = [f"{whole[True]:,} purchasers and {whole[False]:,} non-purchasers, all of them identified."]
    if unknown:
        notes.append(f"{unknown:,} customers without a known device are left out.")
    return Statistic(
        *name,
        corner="device types",
        rows=tuple(groups),
        columns=("Purchasers", "Non-purchasers"),
        units=("%", "%"),
        cells=(several, *rest),
        of="of all purchasers, and of all non-purchasers (customers, not sessions)",
        notes=tuple(notes),
        rest=("> 1 device", "1 device"),
    )


def _share(count: int, whole: int) -> StatisticCell:
    return share(Moments(count, count, count, whole, whole, whole))
