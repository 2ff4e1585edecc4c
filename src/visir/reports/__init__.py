"""Reports: tables for terminal, Markdown, LaTeX, CSV and HTML; plots; the one-file HTML report.

Names are imported when first used; matplotlib, Jinja and Rich when something is drawn.
"""

from typing import TYPE_CHECKING

from visir.lazy import lazy

if TYPE_CHECKING:
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

__getattr__, __dir__ = lazy(
    __name__,
    {
        **dict.fromkeys(__all__, "visir.reports.tables"),
        **dict.fromkeys(("queries_table", "write_report"), "visir.reports.evaluation"),
        **dict.fromkeys(("Column", "Table"), "visir.reports.table"),
        **dict.fromkeys((name for name in __all__ if name.startswith(("to_", "TEXT_"))), "visir.reports.formats"),
    },
)
