"""A prediction study: F1 over the steps of a session, and all measures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from visir.reports.page import Block, Fold
from visir.reports.table import Table
from visir.reports.views.plot import blocks as plot_blocks
from visir.sessions.prediction.study import Summary
from visir.sessions.reports.intent import f1_table, measures_table
from visir.sessions.reports.intent_plots import f1_over_steps, settings_of

if TYPE_CHECKING:
    from visir.reports.plot import Plot


def blocks(summary: Summary) -> list[Block]:
    """The plot, and tables of each setting folded."""
    grouped = [row for row in summary.rows if row.scheme == "grouped"]
    shown: list[Block] = [*plot_blocks(plot(summary))] if grouped else []
    steps = sorted({row.step for row in grouped})
    for setting in settings_of(summary):
        shown.append(Fold(f"F1 by step, {setting}", [f1_table(summary, setting)]))
        shown += [
            Fold(f"All measures, {setting}, step {step}", [measures_table(summary, setting, step)])
            for step in dict.fromkeys([*steps[:1], *steps[-1:]])
        ]
    return shown


def table(summary: Summary) -> Table:
    """F1 in percent by step, of the first setting."""
    return f1_table(summary, settings_of(summary)[0])


def arrow(summary: Summary) -> pa.Table:
    """One row per setting, scheme, model, feature set and step, with every measure."""
    rows = [
        {
            "setting": row.setting,
            "scheme": row.scheme,
            "model": row.model,
            "features": row.feature_set,
            "step": row.step,
            "folds": row.folds,
            **row.means,
        }
        for row in summary.rows
    ]
    return pa.Table.from_pylist(rows)


def plot(summary: Summary, *, scheme: str = "grouped") -> Plot:
    """F1 over the steps of a session."""
    return f1_over_steps(summary, scheme)
