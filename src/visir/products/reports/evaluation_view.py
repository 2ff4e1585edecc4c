"""An evaluation of category search in a notebook: a table for each setting, and the plot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from visir.products.evaluation import TABLE, CategoryEvaluation
from visir.products.reports.tables import (
    HEADS,
    SETTING_WORDS,
    setting_dots,
    setting_head,
    systems_in_setting,
    words_notes,
)
from visir.reports.page import Block, Paragraph
from visir.reports.table import Cell, Column, Table

if TYPE_CHECKING:
    from visir.reports.plot import Plot


def blocks(evaluation: CategoryEvaluation) -> list[Block]:
    """A table for each setting."""
    names = _names(evaluation)
    columns = [Column("system"), *(Column(HEADS.get(name, name), 1, "max") for name in names)]
    tables: list[Block] = []
    for setting in evaluation.settings:
        rows: list[list[Cell]] = [
            [system, *(100 * evaluation.spread(system, setting, name).mean for name in names)]
            for system in systems_in_setting(evaluation, setting)
        ]
        tables.append(Table.of(columns, rows, caption=setting_head(evaluation, setting)))
    return [*tables, Paragraph(" ".join(["In percent; means over the folds.", *words_notes(evaluation)]), "soft")]


def table(evaluation: CategoryEvaluation) -> Table:
    """All settings and systems in one table: means over the folds, in percent."""
    names = _names(evaluation)
    rows: list[list[Cell]] = [
        [SETTING_WORDS[setting], system, *(100 * evaluation.spread(system, setting, name).mean for name in names)]
        for setting in evaluation.settings
        for system in systems_in_setting(evaluation, setting)
    ]
    columns = [Column("categories"), Column("system"), *(Column(HEADS.get(name, name), 1) for name in names)]
    return Table.of(columns, rows, notes=["In percent; means over the folds.", *words_notes(evaluation)])


def arrow(evaluation: CategoryEvaluation) -> pa.Table:
    """One row per setting, system and measure: mean and standard deviation over the folds, as fractions."""
    rows = []
    for system, setting in evaluation.trials:
        for name in evaluation.measures:
            mean = evaluation.spread(system, setting, name)
            rows.append({"setting": setting, "system": system, "measure": name, "mean": mean.mean, "sd": mean.sd})
    return pa.Table.from_pylist(rows)


def plot(evaluation: CategoryEvaluation) -> Plot:
    """A line per system: its mean R-precision in each setting, with the standard deviation of the folds."""
    return setting_dots(evaluation)


def _names(evaluation: CategoryEvaluation) -> list[str]:
    """The measures of Table 7.1, or those that were measured instead."""
    return [name for name in TABLE if name in evaluation.measures] or evaluation.measures
