"""A study beside its published table: values, orders, trends, and where everything comes from."""

from __future__ import annotations

from visir.papers.reports.papers import scale_blocks
from visir.papers.reports.tables import values_table
from visir.papers.verdicts import StudyComparison
from visir.reports.page import Block
from visir.reports.table import Table
from visir.reports.views.parts import facts


def blocks(comparison: StudyComparison) -> list[Block]:
    """The headline, then what the report of all studies has."""
    study = comparison.study
    done = f"{comparison.states['done']} of {len(comparison.cells)} cells done"
    return [facts(f"{study.paper}: {study.title}", f"scale {comparison.scale}", done), *scale_blocks(comparison)]


def table(comparison: StudyComparison) -> Table:
    """Every value that was run: measured, published, difference, verdict."""
    return values_table(comparison)
