"""Sentences on rows whose numbers show how they came about: published rows, and ours beside them."""

from __future__ import annotations

from collections.abc import Sequence

from visir.evaluation.published import Published
from visir.evaluation.signatures import ends_early, remarks
from visir.papers.cells import TableCell
from visir.papers.study import Study

NO_SECOND_STAGE = "without a second stage"


def row_annotations(study: Study, cells: Sequence[TableCell]) -> tuple[tuple[str, str], ...]:
    """(row, sentence) for every row whose ranking ends early (R@10 equals R@5), in print or here, with the cause."""
    # For a row that was run, the sentence also says what our values are and how many candidates were re-ranked: it
    # shows whether the protocol that is thought to be the cause has this effect.
    table = study.table()
    rows = table.rows if isinstance(table, Published) else ()
    cells_of_row: dict[tuple[str, str], list[TableCell]] = {}
    for cell in cells:
        if cell.state == "done":
            cells_of_row.setdefault((cell.system, cell.collection), []).append(cell)
    annotated: list[tuple[str, str]] = []
    for row in rows:
        name = f"{row.system}, {row.collection}" if row.collection else row.system
        sentences = [remark.partition(": ")[2] for remark in remarks(row)]
        for cell in cells_of_row.get((row.system, row.collection), [])[:1]:
            ours = _recalls(cell)
            if sentences or any(map(ends_early, ours.values())):
                sentences.append(_our_values(cell, ours))
        annotated += [(name, " ".join(sentences))] if sentences else []
    return tuple(annotated)


def _recalls(cell: TableCell) -> dict[str, dict[str, float]]:
    """task → label → value, of directions that have both R@5 and R@10."""
    values: dict[str, dict[str, float]] = {}
    for label, value in cell.measured.values.items():
        task, _, name = label.partition(" ")
        values.setdefault(task, {})[name] = value
    return {task: part for task, part in values.items() if {"R@5", "R@10"} <= set(part)}


def _our_values(cell: TableCell, ours: dict[str, dict[str, float]]) -> str:
    early = [task for task, part in ours.items() if ends_early(part)]
    word = "so too" if len(early) == len(ours) else "not so" if not early else f"so in {', '.join(early)} only"
    values = ", ".join(f"{task} {part['R@5']:.2f} and {part['R@10']:.2f}" for task, part in ours.items())
    stage = cell.measured.protocol.get("rerank")
    return f"Here it is {word} ({values}), {f're-ranked: {stage}' if stage else NO_SECOND_STAGE}."
