"""Figure 6.5: from which device to which customers go, session by session, before they buy."""

from __future__ import annotations

from typing import Literal

from visir.sessions.description.intervals import dominated_note, share
from visir.sessions.description.session_log import SessionLog, moments
from visir.sessions.description.statistic import Statistic, StatisticCell, StatisticRow

Reading = Literal["last", "journey", "all"]
READINGS: dict[Reading, tuple[str, str, str]] = {
    "last": (
        "figure-6-5",
        "Device transitions before a purchase session",
        "from the customer's session before a purchase session to that session",
    ),
    "journey": (
        "figure-6-5-journey",
        "Device transitions on the way to a purchase",
        "every two consecutive sessions up to a purchase, beginning after the purchase before",
    ),
    "all": (
        "figure-6-5-all",
        "Device transitions of all customers",
        "every two consecutive sessions of a customer, whether or not a purchase follows",
    ),
}
"""Which steps count: name of the statistic, title, and what is meant."""
_WHERE: dict[Reading, str] = {"last": "purchase", "journey": "bought AND NOT after_purchase", "all": "true"}
STEPS = """(
  SELECT *, bool_or(purchase) OVER (PARTITION BY unit, journey) AS bought FROM (
    SELECT unit, device, purchase, lag(device) OVER w AS before,
      coalesce(lag(purchase) OVER w, false) AS after_purchase,
      coalesce(sum(CAST(purchase AS INTEGER)) OVER (w ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS journey
    FROM bucket WINDOW w AS (PARTITION BY unit ORDER BY began, visitor, session)
  )
)"""


def switches(log: SessionLog, reading: Reading = "last") -> Statistic:
    """The probability of each next device, given the device of the session before; self-transitions included."""
    # Rows are the devices left, columns those gone to, and rows add up to 100 %: from TV, the thesis has 43.75 % to PC
    # and 6.25 % each to tablet and game console, which are 7 and 1 of 16 transitions *from TV*.
    # Sessions are a customer's in the order in which they began. "Before a purchase session" is read as the one step
    # from the session before to the purchase session: the thesis explains that TV is hardly ever gone to by how
    # difficult it is *to purchase* on it, and has only 16 transitions from TV (or a multiple).
    # The thesis's *journey* is of one wish (a fridge, a present; Figure 6.1), and journeys of a customer interleave. A
    # log does not contain wishes, so there are two readings: all steps that come after one purchase and lead to the
    # next ("journey"), or all consecutive sessions of a customer ("all"). Only the latter is not biased towards the
    # devices that people buy on.
    name, title, meaning = READINGS[reading]
    names = log.devices
    for column, reason in (("customer", "customer, and a visitor is one browser"), ("device", "device")):
        if not log.known_counts[column]:
            return Statistic.without(name, title, "Figure 6.5", f"the log names no {reason}")
    both_known = "before IS NOT NULL AND device IS NOT NULL"
    transitions = log.shares(
        "before", "device", source=STEPS, where=f"{both_known} AND {_WHERE[reading]}", by="customers"
    )
    if not transitions:
        return Statistic.without(name, title, "Figure 6.5", "no customer has two sessions in a row that count")
    few = dominated_note(
        {f"from {left}": moments(transitions, left, names[0]) for left in names}, "customers", "transitions"
    )
    cells: list[StatisticRow] = []
    for left in names:
        row = [moments(transitions, left, to) for to in names]
        cells.append((*map(share, row), StatisticCell(int(row[0].n), support=int(row[0].n))))
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
        notes=(f"Counted: {meaning}.", "Intervals (95 %) hold transitions of one customer together.", *few),
        sums="rows",
    )
