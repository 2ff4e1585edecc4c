"""One study: what its table claims, at which scales it can be run, and the verdicts so far."""

from __future__ import annotations

from visir.papers.reports.papers import scale_fold
from visir.papers.status import StudyStatus
from visir.reports.page import Block, Fold, Paragraph
from visir.reports.table import Cell, Column, Table
from visir.reports.views.parts import facts


def blocks(status: StudyStatus) -> list[Block]:
    """The claim, the scales, the verdicts; the results of each scale folded."""
    study = status.study
    shown: list[Block] = [facts(f"{study.paper}: {study.title}", status.state), Paragraph(study.claims)]
    if study.not_built:
        return [*shown, Paragraph(study.not_built, "missing")]
    available = status.available_cells
    rows: list[list[Cell]] = [
        [name, study.scale(name).description, f"{ready} of {total}", study.scale(name).hours]
        for name, (ready, total) in available.items()
    ]
    columns = [Column("scale"), Column("what it does"), Column("cells with data here"), Column("hours", 2)]
    shown.append(Table.of(columns, rows))
    if status.comparisons:
        verdicts = [[verdict.question, verdict.answer, verdict.reason] for verdict in status.verdicts]
        shown.append(Fold("Verdicts", [Table.of([Column("question"), Column("answer"), Column("why")], verdicts)]))
    return [*shown, *(scale_fold(comparison, is_open=False) for comparison in status.comparisons)]
