"""Reports: tables for terminal, Markdown, LaTeX, CSV and HTML; plots; the one-file HTML report.

Matplotlib, Jinja and Rich are imported when something is drawn, not before.
"""

from visir.reports.evaluation import queries_table, write_report
from visir.reports.formats import TEXT_FORMATS, to_csv, to_html, to_latex, to_markdown, to_terminal
from visir.reports.table import Column, Table
from visir.reports.tables import (
    card_table,
    comparison_table,
    explain_table,
    measures_table,
    published_table,
    result_table,
    systems_table,
)

__all__ = [
    "TEXT_FORMATS",
    "Column",
    "Table",
    "card_table",
    "comparison_table",
    "explain_table",
    "measures_table",
    "published_table",
    "queries_table",
    "result_table",
    "systems_table",
    "to_csv",
    "to_html",
    "to_latex",
    "to_markdown",
    "to_terminal",
    "write_report",
]
