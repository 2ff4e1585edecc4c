"""Figure 6.5: from which device to which customers go, session by session, before they buy."""

from __future__ import annotations

from typing import Literal

from visir.sessions.describe.intervals import share
from visir.sessions.describe.log import Log, moments
from visir.sessions.describe.statistic import Row, Statistic, Value

Reading = Literal["journey", "last", "all"]
READINGS: dict[Reading, tuple[str, str, str]] = {
    "journey": (
        "figure-6-5",
        "Device transitions before a purchase",
        "every step of a journey that ends in a purchase",
    ),
    "last": (
        "figure-6-5-last",
        "Device transitions into the purchase session",
        "the last step of a journey only: into the session with the purchase",
    ),
    "all": (
        "figure-6-5-all",
        "Device transitions of all customers",
        "every two consecutive sessions of a customer, whether or not a purchase follows",
    ),
}
"""Which steps count: name of the statistic, title, and what is meant."""
_WHERE: dict[Reading, str] = {
    "journey": "bought AND NOT after_purchase",
    "last": "purchase AND NOT after_purchase",
    "all": "true",
}
_STEPS = """(
  SELECT *, bool_or(purchase) OVER (PARTITION BY unit, journey) AS bought FROM (
    SELECT unit, device, purchase, lag(device) OVER w AS before,
      coalesce(lag(purchase) OVER w, false) AS after_purchase,
      coalesce(sum(CAST(purchase AS INTEGER)) OVER (w ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS journey
    FROM bucket WINDOW w AS (PARTITION BY unit ORDER BY began, visitor, session)
  )
)"""


def switches(log: Log, reading: Reading = "journey") -> Statistic:
    """The probability of each next device, given the device of the session before; self-transitions included.

    Rows are the devices left, columns those gone to, and rows add up to 100 %: from TV, the thesis has 43.75 % to PC
    and 6.25 % each to tablet and game console, which are 7 and 1 of 16 transitions *from TV*.

    Sessions are a customer's in the order in which they began. A *journey* is all of them after a purchase session (or
    from the log's beginning) up to and including the next purchase session. A log does not tell what a customer is
    after, so the thesis's two interleaved journeys (a fridge, a present; Figure 6.1) are one here. "Before a purchase
    session" is read as: steps of journeys that end in one. The other readings count only the step into the purchase
    session ("last"), or all consecutive sessions ("all"), which alone is not tilted by which device one buys on.
    """
    name, title, said = READINGS[reading]
    names = log.devices
    for known, what in (("customer", "customer, and a visitor is one browser"), ("device", "device")):
        if not log.known[known]:
            return Statistic.without(name, title, "Figure 6.5", f"the log names no {what}")
    told = "before IS NOT NULL AND device IS NOT NULL"
    found = log.shares("before", "device", source=_STEPS, where=f"{told} AND {_WHERE[reading]}", by="customers")
    if not found:
        return Statistic.without(name, title, "Figure 6.5", "no customer has two sessions in a row that count")
    cells: list[Row] = []
    for left in names:
        row = [moments(found, left, to) for to in names]
        cells.append((*map(share, row), Value(int(row[0].n), support=int(row[0].n))))
    return Statistic(
        name,
        title,
        "Figure 6.5",
        corner="from",
        rows=names,
        columns=(*names, "Transitions"),
        units=(*("%" for _ in names), ""),
        cells=tuple(cells),
        of="of all transitions from the device of the row",
        notes=(f"Counted: {said}.", "Intervals (95 %) hold transitions of one customer together."),
        sums="rows",
    )
