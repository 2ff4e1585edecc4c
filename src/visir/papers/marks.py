"""What rows of numbers betray of how they came about: the printed ones, and beside them ours."""

from __future__ import annotations

from collections.abc import Sequence

from visir.evaluation.published import Published
from visir.evaluation.signatures import ends_early, remarks
from visir.papers.cells import Cell
from visir.papers.study import Study

NO_STAGE = "without a second stage"


def marks(study: Study, cells: Sequence[Cell]) -> tuple[tuple[str, str], ...]:
    """(row, sentence) for every row whose printed or measured ranking ends early (R@10 is R@5), naming the cause.

    Of a row that is printed so and was run, what ours are and how many candidates were re-ranked is said too: whether
    the mark comes out under the protocol that is thought to leave it.
    """
    table = study.table()
    printed = table.rows if isinstance(table, Published) else ()
    done: dict[tuple[str, str], list[Cell]] = {}
    for one in cells:
        if one.state == "done":
            done.setdefault((one.system, one.collection), []).append(one)
    found: list[tuple[str, str]] = []
    for row in printed:
        named = f"{row.system}, {row.collection}" if row.collection else row.system
        said = [one.partition(": ")[2] for one in remarks(row)]
        for cell in done.get((row.system, row.collection), [])[:1]:
            ours = _ours(cell)
            if said or any(map(ends_early, ours.values())):
                said.append(_measured(cell, ours))
        found += [(named, " ".join(said))] if said else []
    return tuple(found)


def _ours(cell: Cell) -> dict[str, dict[str, float]]:
    """task → label → value."""
    values: dict[str, dict[str, float]] = {}
    for label, value in cell.measured.values.items():
        task, _, name = label.partition(" ")
        values.setdefault(task, {})[name] = value
    return {one: part for one, part in values.items() if {"R@5", "R@10"} <= set(part)}


def _measured(cell: Cell, ours: dict[str, dict[str, float]]) -> str:
    early = [one for one, part in ours.items() if ends_early(part)]
    word = "so too" if len(early) == len(ours) else "not so" if not early else f"so in {', '.join(early)} only"
    shown = ", ".join(f"{one} {part['R@5']:.2f} and {part['R@10']:.2f}" for one, part in ours.items())
    stage = cell.measured.protocol.get("rerank")
    return f"Here it is {word} ({shown}), {f're-ranked: {stage}' if stage else NO_STAGE}."
