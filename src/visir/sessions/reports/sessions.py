"""The page of what distinguishes sessions that buy: every table and figure of thesis sections 6.3 and 6.4."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from visir.reports.formats import to_csv, to_latex, to_markdown
from visir.reports.page import (
    Block,
    Card,
    Cards,
    Figure,
    Figures,
    Fold,
    Group,
    Notice,
    Page,
    Paragraph,
    Section,
    inline,
    production,
    write_page,
)
from visir.reports.plots import themed
from visir.reports.table import Column, Table
from visir.sessions.description import Characterisation, Statistic
from visir.sessions.reports.intent import findings
from visir.sessions.reports.statistic_plots import plots_of
from visir.sessions.reports.tables import (
    card_rows,
    difference_notes,
    difference_tables,
    rejected_table,
    statistic_table,
    tidy_statistic,
    unavailable_table,
)
from visir.storage import FolderChange

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


def write_sessions_report(
    path: str | Path, characterisation: Characterisation, *, command: str = "", beside: Mapping[str, str] | None = None
) -> Path:
    """Write the page of what distinguishes sessions that buy, and return its path."""
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
    if any(statistic.unavailable for statistic in characterisation.statistics):
        table = replace(unavailable_table(characterisation), caption="")
        sections.append(Section("unavailable", "What this log cannot tell", [table], short="What it cannot tell"))
    card = Table.of([Column("field"), Column("value")], card_rows(characterisation))
    sections += [
        Section("rejected", "What was rejected, and why", [rejected_table(characterisation.counts)], short="Rejected"),
        Section("made", "How it was made", [Group("Protocol card", [card]), *production(command, beside)]),
    ]
    hidden = inline("cells of fewer than <b>{}</b> sessions hidden", f"{characterisation.suppress:,}")
    facts = [
        inline("mapping <b>{}</b>", characterisation.declared["mapping"]),
        inline("hours in <b>{}</b>", characterisation.declared["zone"]),
        *([hidden] if characterisation.suppress > 1 else []),
    ]
    return write_page(path, Page("sessions that buy", characterisation.name, sections, facts))


def _overview(characterisation: Characterisation) -> list[Block]:
    """The big numbers of the log, and what the mapping says of it."""
    cards = [Card("", [(name, value)], [Paragraph(words, "soft")]) for name, value, words in _numbers(characterisation)]
    blocks: list[Block] = [Cards(cards, width=12)]
    return [*blocks, Notice([characterisation.declared["about"]])] if characterisation.declared["about"] else blocks


def _numbers(characterisation: Characterisation) -> list[tuple[str, str, str]]:
    """The big numbers: name, value, what it means."""
    counts = characterisation.counts
    sessions, purchases = int(counts["sessions"]), int(counts["purchases"])
    numbers = [
        ("sessions", f"{sessions:,}", f"of {int(counts['visitors']):,} visitors"),
        ("with a purchase", f"{100 * purchases / sessions:.2f} %", f"{purchases:,} sessions"),
    ]
    identified = int(counts["identified"])
    if identified:
        numbers.append(("identified", f"{100 * identified / sessions:.1f} %", f"{identified:,} sessions"))
    return numbers


def _statistic(statistic: Statistic) -> Group:
    """One statistic: why it cannot be computed, or its figures and its table."""
    title = inline('{} <span class="id">{}</span>', statistic.title, statistic.source)
    if statistic.unavailable:
        return Group(title, [Paragraph(statistic.unavailable, "missing")], statistic.name)
    label = f"{statistic.title}; the numbers are in the table"
    drawn = [
        Figure(themed(plot, f"{statistic.name}{'-round' if title == 'As a diagram' else ''}", label), title, caption)
        for plot, caption, title in plots_of(statistic)
    ]
    table = replace(statistic_table(statistic, intervals=statistic.name != "figure-6-2"), caption="")
    blocks: list[Block] = [Figures(drawn)] if drawn else []
    if statistic.name.startswith("figure-") and statistic.name != "figure-6-2-percentiles":
        if not drawn:
            blocks.append(Paragraph(statistic.notes[0], "above"))
        blocks.append(Fold("The numbers", [table]))
    else:
        blocks.append(table)
    return Group(title, blocks, statistic.name)


def write_sessions_tables(change: FolderChange, folder: str, characterisation: Characterisation) -> dict[str, str]:
    """Write every statistic as Markdown and LaTeX (as printed) and as CSV (one row per value) into a subfolder."""
    files: dict[str, str] = {}
    forms: tuple[tuple[str, Callable[[Table], str], Callable[[Statistic], Table]], ...] = (
        ("md", to_markdown, statistic_table),
        ("tex", to_latex, statistic_table),
        ("csv", to_csv, tidy_statistic),
    )
    for statistic in characterisation.statistics:
        if statistic.unavailable:
            continue
        for suffix, form, table in forms:
            change.write(f"{folder}/{statistic.name}.{suffix}", form(table(statistic)).encode())
        files[f"{folder}/{statistic.name}.csv"] = f"{statistic.title} ({statistic.source}); beside it .md and .tex"
    return files
