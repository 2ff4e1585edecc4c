"""What a check of a source found: a table of findings, the errors first."""

from __future__ import annotations

from visir.collections.check import Report
from visir.reports.page import Block, Paragraph
from visir.reports.table import Column, Table
from visir.reports.views.parts import facts

_LEVELS = ("error", "warning", "note")


def blocks(report: Report) -> list[Block]:
    """The verdict, how much there is, and the findings."""
    counts = [f"{count:,} {name}" for name, count in report.counts.items()]
    parts: list[Block] = [facts(report.name, *counts), Paragraph(report.verdict)]
    return [*parts, table(report)] if report.findings else parts


def table(report: Report) -> Table:
    """One row for each finding."""
    columns = [Column("level"), Column("finding"), Column("count", 0), Column("examples")]
    ordered = sorted(report.findings, key=lambda finding: _LEVELS.index(finding.level))
    return Table.of(columns, [(each.level, each.kind, each.count, "; ".join(each.examples)) for each in ordered])
