"""The page of what distinguishes sessions that buy: every table and figure of thesis sections 6.3 and 6.4."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from visir.reports.figures import Figure
from visir.reports.formats import to_csv, to_html, to_latex, to_markdown
from visir.reports.page import write_page
from visir.reports.svg import themed
from visir.reports.table import Table
from visir.sessions.describe import Characterisation, Statistic
from visir.sessions.describe.outcome_shares import BUYING, OTHER, RATE
from visir.sessions.reports.findings import findings
from visir.sessions.reports.plots import lying_bars, outcome_bars, survival, transition_diagram, transition_map
from visir.sessions.reports.tables import card_rows, rejected_table, statistic_table, tidy_statistic, unavailable_table
from visir.storage import FolderChange

_OUTCOMES = ("sessions with a purchase", "sessions without")
_PLACES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("log", "The log", ("table-6-1",)),
    ("length", "Session length", ("figure-6-2", "figure-6-2-percentiles")),
    ("time", "Days and hours", ("figure-6-3", "figure-6-4")),
    ("channels", "Channels", ("table-6-2",)),
    ("devices", "Devices", ("table-6-4", "table-6-3")),
    ("switches", "Device switches", ("figure-6-5", "figure-6-5-journey", "figure-6-5-all")),
    ("queries", "Queries", ("table-6-5", "table-6-6")),
)
"""Sections of the page: anchor, heading, statistics."""


@dataclass(frozen=True)
class ReportedStatistic:
    """One statistic on the page, with its figures and its table."""

    statistic: Statistic
    figures: tuple[Figure, ...]
    table: str
    folded: bool


def write_sessions_report(
    path: str | Path, characterisation: Characterisation, *, command: str = "", beside: Mapping[str, str] | None = None
) -> Path:
    """Write the page as a single HTML file: no network, no script, no other file.

    The same characterisation gives the same bytes. Everything that came from the log is escaped.

    Args:
        path: The file.
        characterisation: What to show.
        command: The command line that makes the page again.
        beside: File name → what it holds, of the files beside the page.

    Returns:
        The path.
    """
    sentences = findings(characterisation)
    sections = [
        (anchor, heading, sentences.get(anchor, ()), tuple(_part(characterisation.statistic(name)) for name in names))
        for anchor, heading, names in _PLACES
    ]
    missing = [statistic for statistic in characterisation.statistics if statistic.unavailable]
    return write_page(
        path,
        "sessions.html.j2",
        room="visir.sessions.reports",
        title=characterisation.name,
        characterisation=characterisation,
        cards=_cards(characterisation),
        sections=sections,
        missing=to_html(replace(unavailable_table(characterisation), caption="")) if missing else "",
        rejected=to_html(rejected_table(characterisation.counts)),
        card=card_rows(characterisation),
        command=command,
        beside=sorted((beside or {}).items()),
    )


def write_sessions_tables(change: FolderChange, folder: str, characterisation: Characterisation) -> dict[str, str]:
    """Write every statistic as Markdown and LaTeX (as printed) and as CSV (one row per value) into a subfolder.

    Args:
        change: The folder that is written.
        folder: The name of the subfolder.
        characterisation: What to write.

    Returns:
        File → what it is.
    """
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


def _cards(characterisation: Characterisation) -> list[tuple[str, str, str]]:
    """The big numbers: name, value, what it means."""
    counts = characterisation.counts
    sessions, purchases = int(counts["sessions"]), int(counts["purchases"])
    cards = [
        ("sessions", f"{sessions:,}", f"of {int(counts['visitors']):,} visitors"),
        ("with a purchase", f"{100 * purchases / sessions:.2f} %", f"{purchases:,} sessions"),
    ]
    identified = int(counts["identified"])
    if identified:
        cards.append(("identified", f"{100 * identified / sessions:.1f} %", f"{identified:,} sessions"))
    return cards


def _part(statistic: Statistic) -> ReportedStatistic:
    if statistic.unavailable:
        return ReportedStatistic(statistic, (), "", folded=False)
    folded = statistic.name.startswith("figure-") and statistic.name != "figure-6-2-percentiles"
    table = replace(statistic_table(statistic, intervals=statistic.name != "figure-6-2"), caption="")
    return ReportedStatistic(statistic, tuple(_figures(statistic)), to_html(table), folded=folded)


def _figures(statistic: Statistic) -> list[Figure]:
    """The plots of one statistic; the words for those who cannot see them are its table's."""
    label = f"{statistic.title}; the numbers are in the table"
    pair = (BUYING, OTHER)
    name = statistic.name

    def drawn(svg: str, caption: str, title: str = "") -> Figure:
        return Figure(themed(svg, f"{name}{'-round' if title == 'As a diagram' else ''}", label), title, caption)

    if name == "figure-6-2":
        caption = (
            "Share of sessions longer than x actions, both axes logarithmic. Where a curve crosses the dotted lines, "
            "half of its sessions (P50), or one in ten (P90), are longer."
        )
        return [drawn(survival(statistic), caption)]
    if name in ("figure-6-3", "figure-6-4"):
        axis = "day on which the session begins" if name == "figure-6-3" else statistic.corner
        svg = outcome_bars(statistic, pair, labels=_OUTCOMES, axis=axis)
        caption = "Bars of one colour add up to 100 %. Thin lines: 95 % intervals."
        return [drawn(svg, caption)]
    if name in ("table-6-2", "table-6-4"):
        thing = statistic.corner
        svg = lying_bars(statistic, pair, labels=_OUTCOMES, axis="% of their sessions", rates=RATE)
        caption = (
            f"Left: through which {thing}s sessions came; bars of one colour add up to 100 %. Right: the share of each "
            f"{thing}'s sessions that end in a purchase; dashed, the mean over {thing}s, from which standardised rates "
            "are counted. Thin lines: 95 % intervals."
        )
        if name == "table-6-4":
            caption = caption.replace("through which devices sessions came", "on which devices sessions happen")
        return [drawn(svg, caption)]
    if name == "table-6-3":
        columns = ("Purchasers", "Non-purchasers")
        svg = lying_bars(
            statistic, columns, labels=("customers who bought", "customers who did not"), axis="% of these customers"
        )
        return [drawn(svg, "Thin lines: 95 % intervals.")]
    if name == "figure-6-5":
        caption = "Each row adds up to 100 %. A dash: nobody left from there."
        figures = [drawn(transition_map(statistic), caption, "In numbers")]
        if 2 <= len(statistic.rows) <= 6:
            diagram_caption = (
                "In each circle the chance of staying. Arrows are as thick as the step is likely, in the colour of the "
                "device left; steps below 0.5 % are not drawn, the weakest drawn is dashed."
            )
            figures.append(drawn(transition_diagram(statistic), diagram_caption, "As a diagram"))
        return figures
    if name == "table-6-5":
        columns = ("Purchase: queries per session", "Non-purchase: queries per session")
        svg = lying_bars(statistic, columns, labels=_OUTCOMES, axis="queries per session")
        return [drawn(svg, "Thin lines: 95 % intervals.")]
    if name == "table-6-6":
        columns = ("Purchase: texts", "Non-purchase: texts")
        svg = lying_bars(statistic, columns, labels=_OUTCOMES, axis="different queries", skip=("Total",))
        return [drawn(svg, "Counts of this log.")]
    return []
