"""The page of what distinguishes sessions that buy: every table and figure of thesis sections 6.3 and 6.4."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from visir.reports import page
from visir.reports.page import Block, Fold, Group, Paragraph, Section, inline
from visir.reports.report import StudyReport
from visir.reports.table import Cell, Column, Table
from visir.reports.views.parts import facts
from visir.sessions.description import Characterisation, Statistic, StatisticCell
from visir.sessions.description.differences import COUNTS_BELOW, GroupDifference
from visir.sessions.reports.made_sessions import rejected_table
from visir.sessions.reports.statistic import plot as statistic_plot
from visir.sessions.reports.statistic import plots_of, statistic_table, tidy_statistic
from visir.stats.moments import LEAST_CASES, Counted
from visir.storage import FolderKind

if TYPE_CHECKING:
    from visir.reports.plot import Plot


# What distinguishes sessions that buy, as tables: the printed form, and the tidy one for further computing.


def difference_tables(characterisation: Characterisation) -> dict[str, Table]:
    """Every comparison: whether it is real, both values with their counts, the difference. What is compared → table."""
    columns = [Column("result"), Column("group"), Column("other group"), Column("difference", 2, signed=True)]
    columns += [Column("95 %"), Column("p (Holm)", 3, positive=True)]
    rows: dict[str, list[list[Cell]]] = {}
    for each in characterisation.differences:
        groups = zip((each.first, each.second), each.values, each.cases, strict=True)
        first, second = (f"{name}: {value_words(each.kind, value, cases)}" for name, value, cases in groups)
        ends = None if each.low is None else f"{columns[3].text(each.low)} … {columns[3].text(each.high)}"
        cells: list[Cell] = [WORDS[each.verdict][0], first, second, each.difference, ends, each.corrected]
        rows.setdefault(each.what, []).append(cells)
    return {what: Table.of(columns, rows_of_what) for what, rows_of_what in rows.items()}


def difference_notes(characterisation: Characterisation) -> list[str]:
    """How to read the tables of differences."""
    tested = sum(each.p is not None for each in characterisation.differences)
    return [
        "Differences of shares are in percentage points. Interval and test are of the difference itself, and hold all "
        "sessions of a visitor (or customer) together.",
        f"p is corrected for all {tested} comparisons of this page (Holm). Real difference: p below 0.05. May be "
        "chance: the interval leaves 0 out, but among so many comparisons that can happen by chance.",
        f"Too few to compare: were both groups alike, one of them would have fewer than {LEAST_CASES} cases. Of fewer "
        f"than {COUNTS_BELOW} sessions counts are given, and no percentages.",
        "A real difference is no cause: visitors of two groups differ in more than the group.",
    ]


def unavailable_table(characterisation: Characterisation) -> Table:
    """The statistics that cannot be computed from the log, with the reasons."""
    rows = [
        [statistic.source, statistic.title, statistic.unavailable]
        for statistic in characterisation.statistics
        if statistic.unavailable
    ]
    return Table.of([Column("thesis"), Column("what"), Column("why not")], rows, caption="What this log cannot tell")


def card_rows(characterisation: Characterisation) -> list[tuple[str, str]]:
    """The log's protocol card: everything beside the events that the numbers depend on, (label, value)."""
    declared = characterisation.declared
    rows = [
        ("folder", characterisation.name),
        ("mapping", str(declared["mapping"])),
        ("about the log", str(declared.get("about") or "")),
        ("hours, weekdays and days in", str(declared["zone"])),
        ("a session ends after", f"{declared['idle_minutes']:g} minutes without a request"),
        ("events before this left out", str(declared.get("since") or "")),
        ("events from this on left out", str(declared.get("until") or "")),
        ("a session's length", "pages opened, queries, items put into or taken out of the basket; not orders"),
        ("a session's device and channel", "the first that its events name"),
        (
            "hidden",
            f"cells of fewer than {characterisation.suppress:,} sessions"
            if characterisation.suppress > 1
            else "nothing",
        ),
        ("intervals", "95 %, sessions of one visitor (or customer) held together"),
        ("engine", characterisation.engine),
    ]
    return [(label, value) for label, value in rows if value]


_SPACE = "\N{NO-BREAK SPACE}"


def findings(characterisation: Characterisation) -> dict[str, tuple[str, ...]]:
    """The sentences of each section; nothing of what is missing or hidden."""
    sentences = {"length": list(_lengths(characterisation.statistic("figure-6-2-percentiles")))}
    for difference in characterisation.differences:
        if difference.difference is not None:
            sentences.setdefault(difference.section, []).append(_sentence(difference))
    for section, few in _few(characterisation.differences).items():
        sentences.setdefault(section, []).append(few)
    return {section: tuple(of_section) for section, of_section in sentences.items() if of_section}


def _few(differences: Sequence[GroupDifference]) -> dict[str, str]:
    """What was too small to be compared, in one sentence for each section."""
    few: dict[str, dict[str, str]] = {}
    tested = {name for each in differences if each.p is not None for name in (each.first, each.second)}
    for difference in differences:
        if difference.difference is None:
            for name, (y, n) in zip((difference.first, difference.second), difference.cases, strict=True):
                if name not in tested:
                    few.setdefault(difference.section, {})[name] = f"{name} ({y:,} of {n:,})"
    return {section: f"Too few to compare: {', '.join(names.values())}." for section, names in few.items()}


def _lengths(statistic: Statistic) -> tuple[str, ...]:
    parts = []
    for device in statistic.rows:
        bought, left = (statistic.value(device, f"{outcome}: P50") for outcome in ("Purchase", "Non-purchase"))
        if _number(bought) and _number(left) and min(bought.support or 0, left.support or 0) >= COUNTS_BELOW:
            parts.append(f"{device} {_with(bought, '')} against {_with(left, '')}")
    if not parts:
        return ()
    return (f"Median length in actions [95 % interval], with a purchase against without: {'; '.join(parts)}.",)


def _sentence(difference: GroupDifference) -> str:
    """One comparison in words: both values with their counts, the difference, and whether it is real."""
    pairs = zip(difference.values, difference.cases, strict=True)
    first, second = (value_words(difference.kind, value, cases) for value, cases in pairs)
    low, high = (_signed(end, difference.kind) for end in (difference.low, difference.high))
    points = f"{_SPACE}points" if difference.kind == "share" else ""
    sized = f"{_signed(difference.difference, difference.kind)}{points} (95{_SPACE}% interval {low} to {high})"
    head, tail = WORDS[difference.verdict]
    compared = f"{difference.what}: {difference.first} {first}; {difference.second} {second}"
    return f"{head}, {compared}. The difference is {sized}{tail}."


WORDS = {
    "real": ("Real difference", ""),
    "by chance?": ("May be chance", "; one such difference among so many comparisons can be chance"),
    "not shown": ("No difference shown", "; the log also fits no difference"),
    "too few": ("Too few to compare", ""),
}
"""A verdict in words, and what a sentence adds."""


def value_words(kind: Counted, value: float | None, cases: tuple[int, int]) -> str:
    """A value with what it was counted from; of few sessions the counts alone."""
    y, n = cases
    if kind == "mean":
        return f"{value:.3g} ({y:,} in {n:,})" if value is not None else "none"
    if value is None or n < COUNTS_BELOW:
        return f"{y:,} of {n:,}"
    return f"{value:.{2 if value < 10 else 1}f}{_SPACE}% ({y:,} of {n:,})"


def _signed(value: float | None, kind: str) -> str:
    digits = 2 if kind == "mean" or abs(value or 0) < 10 else 1
    return f"{value or 0:+.{digits}f}".replace("-", "−")


def _number(cell: StatisticCell) -> bool:
    return isinstance(cell.value, (int, float))


def _with(cell: StatisticCell, unit: str = f"{_SPACE}%") -> str:
    """A number with its interval, in as many digits as say something."""
    whole = isinstance(cell.value, int)
    digits = 0 if whole else 2 if float(cell.value or 0) < 10 else 1
    number = f"{float(cell.value or 0):,.{digits}f}{unit}"
    if cell.low is None or cell.high is None:
        return number
    return f"{number} [{cell.low:,.{digits}f}{_SPACE}…{_SPACE}{cell.high:,.{digits}f}]"


_SECTIONS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("log", "The log", ("table-6-1",)),
    ("length", "Session length", ("figure-6-2", "figure-6-2-percentiles")),
    ("time", "Days and hours", ("figure-6-3", "figure-6-4")),
    ("channels", "Channels", ("table-6-2",)),
    ("devices", "Devices", ("table-6-4", "table-6-3")),
    ("switches", "Device switches", ("figure-6-5", "figure-6-5-journey", "figure-6-5-all")),
    ("queries", "Queries", ("table-6-5", "table-6-6")),
    ("journeys", "Journeys", ("journeys", "journeys-channels", "journeys-pages")),
    ("prices", "Prices", ("prices",)),
)
"""Sections of the page: anchor, heading, statistics."""


DESCRIPTION = FolderKind("description", "a description of sessions")


def sessions_report(characterisation: Characterisation) -> StudyReport:
    """What distinguishes sessions that buy, with every statistic as Markdown, LaTeX and CSV beside it."""
    sentences = findings(characterisation)
    sections: list[Section] = []
    for anchor, heading, names in _SECTIONS:
        blocks: list[Block] = [Paragraph(sentence) for sentence in sentences.get(anchor, ())]
        blocks += [_statistic(characterisation.statistic(name)) for name in names]
        sections.append(Section(anchor, heading, blocks if sections else [*_overview(characterisation), *blocks]))
    if characterisation.differences:
        tables = difference_tables(characterisation)
        blocks = [Group(f"{what[:1].upper()}{what[1:]}", [table]) for what, table in tables.items()]
        notes = [Paragraph(note, "soft") for note in difference_notes(characterisation)]
        title = "What differs, and is it real?"
        sections.insert(1, Section("differences", title, [*blocks, *notes], short="What differs"))
    missing = unavailable_table(characterisation)
    card = Group("Protocol card", [Table.pairs(card_rows(characterisation))])
    sections += [
        Section(
            *("unavailable", "What this log cannot tell"),
            [replace(missing, caption="")] if missing.rows else [],
            short="What it cannot tell",
        ),
        Section("rejected", "What was rejected, and why", [rejected_table(characterisation.counts)], short="Rejected"),
        Section("made", "How it was made", [card]),
    ]
    hidden = inline("cells of fewer than <b>{}</b> sessions hidden", f"{characterisation.suppress:,}")
    facts = [
        inline("mapping <b>{}</b>", characterisation.declared["mapping"]),
        inline("hours in <b>{}</b>", characterisation.declared["zone"]),
        *([hidden] if characterisation.suppress > 1 else []),
    ]
    printed: list[Table | str] = [statistic_table(characterisation.statistic("table-6-1"))]
    printed += [sentence for of_section in sentences.values() for sentence in of_section]
    return StudyReport(
        *("sessions that buy", characterisation.name, sections, facts),
        printed=[*printed, *([missing] if missing.rows else [])],
        files={"describe.json": (characterisation.to_dict, "everything on this page, with the ends of all intervals")}
        | table_files(characterisation),
        folder=DESCRIPTION,
    )


def _overview(characterisation: Characterisation) -> list[Block]:
    """The big numbers of the log, and what the mapping says of it."""
    counts, about = characterisation.counts, characterisation.declared["about"]
    sessions, purchases, identified = (int(counts[name]) for name in ("sessions", "purchases", "identified"))
    numbers = [
        ("sessions", f"{sessions:,}", f"of {int(counts['visitors']):,} visitors"),
        ("with a purchase", f"{100 * purchases / sessions:.2f} %", f"{purchases:,} sessions"),
        *([("identified", f"{100 * identified / sessions:.1f} %", f"{identified:,} sessions")] if identified else []),
    ]
    cards = [page.Card("", [(name, value)], [Paragraph(words, "soft")]) for name, value, words in numbers]
    return [page.Cards(cards, width=12), *([page.Notice([about])] if about else [])]


def _statistic(statistic: Statistic) -> Group:
    """One statistic: why it cannot be computed, or its figures and its table."""
    title = inline('{} <span class="id">{}</span>', statistic.title, statistic.source)
    if statistic.unavailable:
        return Group(title, [Paragraph(statistic.unavailable, "missing")], statistic.name)
    drawn = plots_of(statistic)
    table = replace(statistic_table(statistic, intervals=statistic.name != "figure-6-2"), caption="")
    blocks: list[Block] = [page.Figures(drawn)] if drawn else []
    if statistic.name.startswith("figure-") and statistic.name != "figure-6-2-percentiles":
        if not drawn:
            blocks.append(Paragraph(statistic.notes[0], "above"))
        blocks.append(Fold("The numbers", [table]))
    else:
        blocks.append(table)
    return Group(title, blocks, statistic.name)


def table_files(characterisation: Characterisation) -> dict[str, tuple[Table, str]]:
    """Every statistic as Markdown and LaTeX (as printed) and as CSV (one row per value)."""
    files: dict[str, tuple[Table, str]] = {}
    for statistic in characterisation.statistics:
        if not statistic.unavailable:
            name, printed = f"tables/{statistic.name}", statistic_table(statistic)
            says = f"{statistic.title} ({statistic.source}); beside it .md and .tex"
            files |= {f"{name}.md": (printed, ""), f"{name}.tex": (printed, "")}
            files[f"{name}.csv"] = (tidy_statistic(statistic), says)
    return files


# What distinguishes sessions that buy, in a notebook: the findings in sentences, and every statistic folded.


def blocks(characterisation: Characterisation) -> list[Block]:
    """The counts, the findings, and the statistics."""
    counts = characterisation.counts
    share = f"{100 * counts['purchases'] / counts['sessions']:.1f} % with a purchase"
    shown: list[Block] = [facts(characterisation.name, (counts["sessions"], "sessions"), share)]
    sentences = [sentence for section in findings(characterisation).values() for sentence in section]
    shown += [page.Bullets(sentences)] if sentences else []
    for statistic in characterisation.statistics:
        if not statistic.unavailable:
            numbers = replace(statistic_table(statistic), caption="")
            shown.append(Fold(f"{statistic.title} ({statistic.name})", [numbers]))
    missing = unavailable_table(characterisation)
    return [*shown, Fold("What this log cannot tell", [missing])] if missing.rows else shown


def plot(characterisation: Characterisation, statistic: str = "table-6-4") -> Plot:
    """The plot of one statistic; by default devices."""
    return statistic_plot(characterisation.statistic(statistic))
