"""A shortcut audit: its table, and rsum over bits."""

from __future__ import annotations

from visir.reports.page import Block
from visir.reports.shortcut_audit import audit_plot as plot
from visir.reports.shortcut_audit import audit_table as table
from visir.studies.shortcut_audit import Audit

__all__ = ["blocks", "plot", "table"]


def blocks(audit: Audit) -> list[Block]:
    """The table."""
    return [table(audit)]
