"""What is counted while a log becomes sessions, whatever engine does it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from visir.display import Displayed, counted
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
    "count(*) FILTER (WHERE purchase) AS purchases, count(customer) FILTER (WHERE purchase) AS purchases_identified, "
    "count(*) FILTER (WHERE purchase AND pages = 0) AS purchases_without_page"
)
"""SQL of what is counted among sessions."""

A_LINK = "a link"
"""Why a member of an archive is passed over, behind its name."""
A_FORK = "what macOS keeps of a file"
"""The same of a file whose name begins with "._", in a folder too."""


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
        purchases_without_page: Sessions with an order and no page: a model has nothing to learn from in them. None in a
            folder of an earlier visir, which did not count them.
        passed_over: Names of files in the log's folders and archives that are not read: of another format, or links in
            an archive, "b.csv (a link)".
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
    purchases_without_page: int | None = None

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


def counts_document(
    counts: LogCounts, mapping: LogMapping, idle_minutes: float, engine: str, advice: Sequence[str]
) -> dict[str, Any]:
    """The content of `counts.json`: the counts, the declarations they depend on, and what to look at."""
    declared = {"mapping": mapping.name, "zone": mapping.zone, "idle_minutes": idle_minutes, "about": mapping.about}
    declared |= {bound: str(getattr(mapping, bound)) for bound in ("since", "until") if getattr(mapping, bound)}
    return {"counts": asdict(counts), "declared": declared, "engine": engine, "advice": list(advice)}


def remarks_of(counts: Mapping[str, Any]) -> list[str]:
    """What became of rows that are not plain events, in sentences; empty where there are none."""
    remarks = [
        f"{counted(count, 'rows')} {kind} ({name}): {meaning[name]}."
        for kind, numbers, meaning in (("rejected", counts["rejected"], REASONS), ("accepted", counts["flags"], FLAGS))
        for name, count in numbers.items()
        if count
    ]
    if counts["malformed"]:
        lines = counted(counts["malformed"], "lines")
        remarks.append(f"{lines} rejected (malformed): no row; listed in malformed.parquet.")
    names = counts.get("passed_over", ())
    if names:
        kind, _, listed = passed_over_words(names).partition(": ")
        remarks.append(f"{counted(len(names), 'files')} {kind} passed over: {listed}.")
    return remarks


def passed_over_words(names: Sequence[str]) -> str:
    """Why files were not read, and the first of their names."""
    kind = "of another format" + (
        ", or links in archives" if any(name.endswith(f"({A_LINK})") for name in names) else ""
    )
    return f"{kind}: {', '.join(names[:5])}{', …' if len(names) > 5 else ''}"
