"""What is counted while sessions are found, whatever engine finds them."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from visir.sessions.definition import FLAGS, REASONS
from visir.sessions.mapping import LogMapping

EVENT_COUNTS = (
    "count(*) AS kept, count(*) FILTER (WHERE late) AS late, count(unknown_action) AS unknown_action, "
    "count(*) FILTER (WHERE ambiguous_time) AS ambiguous_time"
)
"""SQL of what is counted among kept events."""

SESSION_COUNTS = (
    "count(*) AS sessions, count(*) FILTER (WHERE session = 1) AS visitors, count(customer) AS identified, "
    "count(*) FILTER (WHERE purchase) AS purchases, count(customer) FILTER (WHERE purchase) AS purchases_identified"
)
"""SQL of what is counted among sessions."""


@dataclass(frozen=True, slots=True)
class LogCounts:
    """What became of a log's rows. `read` = `kept` + the sum of `aside`; `malformed` lines are no rows and come on top.

    `aside` counts per reason (`definition.REASONS`), `flags` what is remarkable among the kept (`definition.FLAGS`);
    `passed_over` names files that lie in the log's folders and have another ending than its format.
    """

    read: int
    malformed: int
    kept: int
    aside: dict[str, int]
    flags: dict[str, int]
    visitors: int
    sessions: int
    identified: int
    purchases: int
    purchases_identified: int
    passed_over: tuple[str, ...] = ()

    @classmethod
    def of(cls, total: Counter[str], *, malformed: int = 0, passed_over: tuple[str, ...] = ()) -> LogCounts:
        """From all numbers by name: those of the fields, of the reasons and of the flags."""
        names = cls.__dataclass_fields__.keys() - {"aside", "flags", "malformed", "passed_over"}
        return cls(
            aside={reason: total[reason] for reason in REASONS},
            flags={flag: total[flag] for flag in FLAGS},
            malformed=malformed,
            passed_over=passed_over,
            **{name: total[name] for name in names},
        )


def counts_document(counts: LogCounts, mapping: LogMapping, idle_minutes: float, engine: str) -> dict[str, Any]:
    """What `counts.json` holds: the counts, and the declarations they depend on."""
    declared = {"mapping": mapping.name, "zone": mapping.zone, "idle_minutes": idle_minutes, "about": mapping.about}
    declared |= {bound: str(getattr(mapping, bound)) for bound in ("since", "until") if getattr(mapping, bound)}
    return {"counts": asdict(counts), "declared": declared, "engine": engine}
