"""One page for all studies, and every table in Markdown, LaTeX and CSV."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from visir.papers.reports.figures import figures_of
from visir.papers.reports.tables import provenance_rows, summary_table, tables_of, values_table, words_table
from visir.papers.run import STUDIES
from visir.papers.status import STATES, StudyStatus
from visir.reports.formats import to_csv, to_html, to_latex, to_markdown
from visir.reports.page import page_bytes
from visir.storage import put

FORMS = {"md": to_markdown, "tex": to_latex, "csv": to_csv}
"""The forms that every table is written in, by their suffix."""


def write_papers_report(out: Path, statuses: Sequence[StudyStatus]) -> Path:
    """Write `report.html` for all studies, and under `tables/` every table in Markdown, LaTeX and CSV.

    The same cells give the same bytes: times are not part of it.

    Args:
        out: The folder of all studies.
        statuses: The studies.

    Returns:
        The path of the page.
    """
    files: dict[str, str] = {}
    contents: dict[str, bytes] = {}
    for status in statuses:
        for comparison in status.comparisons:
            stem = f"tables/{status.name}-{comparison.scale}"
            for name, table in ((stem, values_table(comparison)), (f"{stem}-words", words_table(comparison))):
                if table is not None:
                    for suffix, form in FORMS.items():
                        contents[f"{name}.{suffix}"] = form(table).encode()
                    files[f"{name}.csv"] = f"{status.study.paper}, {comparison.scale}; beside it .md and .tex"
    summary = summary_table(statuses)
    for suffix, form in FORMS.items():
        contents[f"tables/summary.{suffix}"] = form(summary).encode()
    sections = [
        {
            "status": status,
            "parts": [
                {
                    "comparison": comparison,
                    "figures": figures_of(comparison),
                    "tables": [to_html(table) for table in tables_of(comparison)],
                    "provenance": provenance_rows(comparison),
                    "scale": comparison.study.scale(comparison.scale),
                }
                for comparison in status.comparisons
            ],
        }
        for status in statuses
        if status.comparisons
    ]
    counted = Counter(status.state for status in statuses)
    contents["report.html"] = page_bytes(
        "papers.html.j2",
        room="visir.papers.reports",
        summary=to_html(summary),
        counts=[(state, counted[state]) for state in STATES],
        sections=sections,
        files=sorted(files.items()),
    )
    put(out, STUDIES, contents)
    return out / "report.html"
