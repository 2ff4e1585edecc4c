"""Reports: tables for terminal, Markdown, LaTeX, CSV and HTML; plots; the one-file HTML report.

Names are imported when first used; matplotlib, Jinja and Rich when something is drawn.
"""

from typing import TYPE_CHECKING

from visir.lazy import lazy

if TYPE_CHECKING:
    from visir.reports.evaluation import evaluation_report as evaluation_report
    from visir.reports.evaluation import queries_table as queries_table
    from visir.reports.formats import TEXT_FORMATS as TEXT_FORMATS
    from visir.reports.formats import to_csv as to_csv
    from visir.reports.formats import to_html as to_html
    from visir.reports.formats import to_latex as to_latex
    from visir.reports.formats import to_markdown as to_markdown
    from visir.reports.formats import to_terminal as to_terminal
    from visir.reports.page import Section as Section
    from visir.reports.plots import drawing as drawing
    from visir.reports.report import Chart as Chart
    from visir.reports.report import StudyReport as StudyReport
    from visir.reports.table import Column as Column
    from visir.reports.table import Table as Table
    from visir.reports.table import at as at
    from visir.reports.tables import card_table as card_table
    from visir.reports.tables import compared_systems_table as compared_systems_table
    from visir.reports.tables import comparison_table as comparison_table
    from visir.reports.tables import explain_table as explain_table
    from visir.reports.tables import measures_table as measures_table
    from visir.reports.tables import published_table as published_table
    from visir.reports.tables import result_table as result_table
    from visir.reports.tables import systems_table as systems_table

__getattr__, __dir__, __all__ = lazy(__name__)
