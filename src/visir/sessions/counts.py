"""What is counted while a log becomes sessions, whatever engine does it."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from visir.display import Displayed
from visir.sessions.definition import FLAGS, REASONS
from visir.sessions.mapping import LogMapping

EVENT_COUNTS = (
    "count(*) AS accepted, count(*) FILTER (WHERE late) AS late, "
    "count(*) FILTER (WHERE repeated_order) AS repeated_order, count(unknown_action) AS unknown_action, "
    "count(*) FILTER (WHERE ambiguous_time) AS ambiguous_time, count(*) FILTER (WHERE no_offset) AS no_offset"
)
"""SQL of what is counted among accepted events."""

SESSION_COUNTS = (
    "count(*) AS sessions, count(*) FILTER (WHERE session = 1) AS visitors, count(customer) AS identified, "
    "count(*) FILTER (WHERE purchase) AS purchases, count(customer) FILTER (WHERE purchase) AS purchases_identified"
)
"""SQL of what is counted among sessions."""


@dataclass(frozen=True, slots=True, repr=False)
class LogCounts(Displayed):
    """What became of a log's rows.

    `read` is `accepted` plus the sum of `rejected`. Lines that are `malformed` are not rows and come on top.

    Args:
        read: Rows of the log.
        malformed: Lines of CSV and JSON files that are not rows.
        accepted: Rows that became events of sessions.
        rejected: Rows that did not, by reason (`definition.REASONS`).
        flags: What is remarkable among the accepted rows (`definition.FLAGS`).
        visitors: Visitors with a session.
        sessions: Sessions.
        identified: Sessions with a known customer.
        purchases: Sessions with an order.
        purchases_identified: Sessions with both.
        passed_over: Names of files in the log's folders whose format is another.
    """

    read: int
    malformed: int
    accepted: int
    rejected: dict[str, int]
    flags: dict[str, int]
    visitors: int
    sessions: int
    identified: int
    purchases: int
    purchases_identified: int
    passed_over: tuple[str, ...] = ()

    @classmethod
    def of(cls, total: Counter[str], *, malformed: int = 0, passed_over: tuple[str, ...] = ()) -> LogCounts:
        """Make the counts from all numbers by name: those of the fields, of the reasons and of the flags."""
        names = cls.__dataclass_fields__.keys() - {"rejected", "flags", "malformed", "passed_over"}
        return cls(
            rejected={reason: total[reason] for reason in REASONS},
            flags={flag: total[flag] for flag in FLAGS},
            malformed=malformed,
            passed_over=passed_over,
            **{name: total[name] for name in names},
        )


def counts_document(counts: LogCounts, mapping: LogMapping, idle_minutes: float, engine: str) -> dict[str, Any]:
    """The content of `counts.json`: the counts, and the declarations they depend on."""
    declared = {"mapping": mapping.name, "zone": mapping.zone, "idle_minutes": idle_minutes, "about": mapping.about}
    declared |= {bound: str(getattr(mapping, bound)) for bound in ("since", "until") if getattr(mapping, bound)}
    return {"counts": asdict(counts), "declared": declared, "engine": engine}
