"""An explanation: the sentence, and the readings with their distance."""

from __future__ import annotations

from dataclasses import replace

from visir.evaluation.explaining import Explanation
from visir.reports.page import Block, Fold, Paragraph
from visir.reports.table import Column, Table
from visir.reports.tables import explain_table


def blocks(explanation: Explanation) -> list[Block]:
    """The answer, the nearest readings, and those that could not be computed."""
    readings = explain_table(explanation)
    shown: list[Block] = [Paragraph(explanation.sentence), replace(readings, caption="", notes=readings.notes[1:])]
    if explanation.not_computable:
        reasons = Table.of([Column("reading"), Column("why not")], explanation.not_computable)
        shown.append(Fold("Readings that could not be computed", [reasons]))
    return shown


def table(explanation: Explanation) -> Table:
    """All readings, the nearest first."""
    return explain_table(explanation, limit=len(explanation.fits))
