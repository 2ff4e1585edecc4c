"""The rows of the printed tables, and the words of logs for them: which device is a "PC", which channel "Paid".

Only words that mean what the thesis says are put into a row of its tables. Other words (a referral, an affiliate, a
group that a sample was anonymised with) keep their own name and have no printed value beside them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visir.display import Displayed, counted
from visir.sessions.definition import FLAGS, REASONS, LogMapping

# What a prediction is made from: sessions with their first pages, and the customer's sessions that were over by then.

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Texts = NDArray[np.object_]

STEPS = 10
"""The last step. A step is the number of pages opened so far (thesis section 6.5.1)."""

NEVER = np.iinfo(np.int64).max
"""The step of what never becomes known."""


@dataclass(frozen=True, eq=False)
class CodedTexts:
    """Texts as numbers."""

    names: tuple[str, ...]  # the different texts
    codes: Ints  # positions in `names`, of any shape; -1 for no text

    @classmethod
    def of(cls, texts: Sequence[str | None] | Texts) -> CodedTexts:
        """Code texts. Names are sorted, so the same texts get the same codes in whatever order they come."""
        array = np.asarray(texts, dtype=object)
        names = sorted({text for text in array.flat if text is not None})
        place: dict[str | None, int] = {name: code for code, name in enumerate(names)}
        place[None] = -1
        codes = np.fromiter((place[text] for text in array.flat), np.int64, array.size)
        return cls(tuple(names), codes.reshape(array.shape))

    def used_names(self, rows: Bools | None = None) -> list[str]:
        """The names that occur, in their order; with `rows` (a mask), those that occur there."""
        codes = self.codes if rows is None else self.codes[rows]
        return [self.names[code] for code in np.unique(codes[codes >= 0])]

    def codes_in(self, names: Sequence[str], missing: int, unseen: int) -> Ints:
        """The codes as positions in another list of names."""
        place = {name: code for code, name in enumerate(names)}
        table = np.array([*(place.get(name, unseen) for name in self.names), missing], np.int64)
        return table[self.codes]  # -1 is the last entry


@dataclass(frozen=True, eq=False)
class EarlierSessions:
    """Earlier sessions of n examples."""

    offsets: Ints  # (n + 1,) example i has rows `offsets[i]:offsets[i + 1]`, in the order in which the sessions ended
    device: CodedTexts  # the device of each session
    orders: Ints  # how many orders each session holds
    ended: Ints  # when each session ended, µs since 1970 (UTC)

    @cached_property
    def counts(self) -> Ints:
        """(n,) how many earlier sessions each example has."""
        return np.diff(self.offsets)

    @cached_property
    def owner(self) -> Ints:
        """The example of each row."""
        return np.repeat(np.arange(len(self.counts)), self.counts)


@dataclass(frozen=True, eq=False)
class SessionExamples:
    """n sessions of which a purchase is to be predicted, with everything about them, known early or late."""

    visitor: Texts  # the visitor's id
    session: Ints  # the number of the session among those of the visitor, from 1
    customer: Texts  # the customer's id; None where nobody logs in
    began: Ints  # first request, µs since 1970 (UTC)
    ended: Ints  # last request, µs since 1970 (UTC)
    hour: Ints  # hour of the first request in the log's time zone, 0–23
    weekday: Ints  # weekday of the first request in the log's time zone, 1 (Monday) – 7
    purchase: Bools  # whether the session holds an order: what is to be predicted
    pages: CodedTexts  # (n, STEPS) types of the first pages
    # (n, STEPS + 1) when they and the next one were opened, µs since 1970 (UTC); -1 where there was no such page.
    opened: Ints
    device: CodedTexts  # the first device that the session's events name
    device_step: Ints  # the step at which it is known: 0 where the first request names it, `NEVER` where none does
    channel: CodedTexts  # the first channel that the session's events name
    channel_step: Ints  # the step at which it is known, as for the device
    customer_step: Ints  # the step at which the customer is known, as for the device
    reached: Ints  # pages opened before the first order; -1 where the first request is the order
    visits: Ints  # earlier sessions of the visitor, since the visitor was last away for `examples.VISITOR_DAYS`
    added: Ints  # (n, STEPS + 1) items put into the basket before the k-th page opened; at step 0 by the first request
    queried: Ints  # (n, STEPS + 1) searches before the k-th page opened, likewise
    earlier: EarlierSessions  # sessions of the same customer that were over (idle time included) before this one began
    # Whether step k is when the k-th page has been left, so that its dwell time is known.
    current_page_left: bool = False

    def __len__(self) -> int:
        return len(self.began)

    def known_device(self, step: int) -> CodedTexts:
        """The device of each session, as far as it is known at a step."""
        return _known(self.device, self.device_step, step)

    def known_channel(self, step: int) -> CodedTexts:
        """The channel of each session, as far as it is known at a step."""
        return _known(self.channel, self.channel_step, step)

    def is_known(self, step: int) -> Bools:
        """Whether the customer of each session is known at a step; the others have no history then."""
        return self.customer_step <= step


def _known(words: CodedTexts, since: Ints, step: int) -> CodedTexts:
    return CodedTexts(words.names, np.where(since <= step, words.codes, -1))


DEVICES = {
    "Smartphone": ("smartphone", "mobile", "phone"),
    "PC": ("pc", "desktop", "laptop", "computer"),
    "Tablet": ("tablet",),
    "Game Console": ("game console", "console"),
    "TV": ("tv", "smart tv", "connected tv"),
}
"""Row of Tables 6.4 to 6.6 → words. Google Analytics and the hotel log do not count tablets as "mobile"."""
CHANNELS = {
    "Direct": ("direct", "(direct)", "(none)"),
    "Paid": ("paid", "paid search", "cpc", "ppc"),
    "Organic": ("organic", "organic search"),
    "Other": ("other", "(other)"),
}
"""Row of Table 6.2 → words; paid and organic are of search engines (section 6.4.3), "(none)" is Google's direct."""
TOTALS = {
    "Anonymous": ("anonymous sessions",),
    "Logged-in or recognized": ("identified sessions",),
    "Logged-in or recognized customers": ("identified customers",),
}
OTHERS = {"Avg": ("all devices",)}
_ROWS = {
    word: row
    for rows in (DEVICES, CHANNELS, TOTALS, OTHERS)
    for row, words in rows.items()
    for word in (row.lower(), *words)
}


def table_label(word: str) -> str:
    """The row of the printed tables that a word of a log belongs to; the word itself where there is none."""
    return _ROWS.get(word.lower(), word)


# What is counted while a log becomes sessions, whatever engine does it.

EVENT_COUNTS = (
    "count(*) AS accepted, count(*) FILTER (WHERE late) AS late, "
    "count(*) FILTER (WHERE repeated_order) AS repeated_order, count(unknown_action) AS unknown_action, "
    "count(*) FILTER (WHERE ambiguous_time) AS ambiguous_time, count(*) FILTER (WHERE no_offset) AS no_offset, "
    "count(written_price) FILTER (WHERE price IS NULL) AS no_price, "
    "count(written_price) FILTER (WHERE price IS NOT NULL) AS open_price, count(written_id) AS no_id"
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
