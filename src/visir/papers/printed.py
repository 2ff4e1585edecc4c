"""What a table prints, and what was measured in the same words: labels with their task, the table's units."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from visir.evaluation.evaluate import Evaluation
from visir.evaluation.measures.measure import RSUM_CUTOFFS
from visir.evaluation.published import PlainTable, Published, PublishedRow, judge, printed_value
from visir.evaluation.published.figures import Figure, plotted
from visir.evaluation.published.judge import measure_of
from visir.studies.experiment import Work

Key = tuple[str, str, str]
"""(system, collection, label)."""
Systems = Literal["columns", "rows"]
"""What of a plain table its systems are."""

TICK, DASH = "✓", "–"
INSTEAD = " · "
"""Between a printed collection and the data in its place, where several take it ("All categories · Flipkart")."""
USUAL = {
    **{(task, f"R@{k}"): f"hit@{k}" for task in ("i2t", "t2i") for k in RSUM_CUTOFFS},
    **{(task, "rsum"): "rsum" for task in ("i2t", "t2i", "both")},
}
"""What is said of an evaluation where no published row says what it wants: (task, label) → measure."""


def row_of(collection: str) -> str:
    """The printed collection that a cell's collection stands for: itself, or what is said before `INSTEAD`."""
    return collection.partition(INSTEAD)[0]


def values_of(aggregates: Mapping[str, Mapping[str, float]], row: PublishedRow | None) -> dict[str, float]:
    """The values that a published row prints, or `USUAL` without one, by "task label", as far as they are there.

    `aggregates[task][measure]`: as of a `Result`, fractions; what comes out is in the table's units (percentages,
    rsum in points). R@k is read as hit@k, its usual meaning in image–text retrieval, whatever the table meant; what the
    table may have meant is for `explain` to say.
    """
    wanted = (
        {(task, label): measure_of(label) for task, part in row.values.items() for label in part}
        if row is not None
        else USUAL
    )
    return {
        f"{task} {label}": printed_value(measure, aggregates[task][measure], label)
        for (task, label), measure in wanted.items()
        if measure in aggregates.get(task, {})
    }


def nearest_reading(evaluation: Evaluation, work: Work) -> str:
    """The reading that comes nearest to the published row, in a sentence; "" when all is well or nothing is judged."""
    from visir.errors import VisirError
    from visir.evaluation.explain import explain

    row, decimals = work.row, work.decimals
    if row is None or not work.judged:
        return ""
    if all(one.within for one in judge(evaluation.result.aggregates, row, decimals=decimals)):
        return ""
    try:
        found = explain(evaluation, row, decimals=decimals)
    except VisirError as fault:
        return f"not explained: {fault.message}"
    return " ".join((found.sentence, *found.remarks))


def numbers_of(table: Published | PlainTable | None, systems: Systems = "columns") -> dict[Key, float]:
    """Every printed number, by (system, collection, label); nothing for None, a figure.

    Of retrieval results labels are "i2t R@1", "both rsum". Of a plain table, its `systems` are its columns (the
    brittleness paper's Table 1: sets of captions) or its rows (thesis Table 3.6: indexes), and what they are compared
    in the other, without a collection.
    """
    if table is None:
        return {}
    if isinstance(table, PlainTable):
        found = {key: _number(table, *cell) for key, cell in _cells(table, systems).items()}
        return {key: value for key, value in found.items() if value is not None}
    return {
        (row.system, row.collection, f"{task} {label}"): value
        for row in table.rows
        for task, part in row.values.items()
        for label, value in part.items()
    }


def _number(table: PlainTable, row: str, column: str) -> float | None:
    """A cell as a number: 1 for a tick and 0 for a dash in a column that has nothing else (thesis Table 6.7)."""
    if {table.cell(one, column) for one in table.rows} == {TICK, DASH}:
        return float(table.cell(row, column) == TICK)
    return table.number(row, column)


def plotted_in(figure: Figure | None) -> dict[Key, float]:
    """The values behind a plotted figure, where they are at hand; nothing otherwise."""
    from visir.errors import VisirError

    try:
        values = plotted(figure) if figure is not None else {}
    except VisirError:
        return {}
    return {(*key, label): value for key, part in values.items() for label, value in part.items()}


def words_of(table: Published | PlainTable | None, systems: Systems = "columns") -> dict[tuple[str, str], str]:
    """(system, label) → what is printed there in words; nothing where a table has only numbers and dashes."""
    if not isinstance(table, PlainTable):
        return {}
    found = {(key[0], key[2]): table.cell(*cell) for key, cell in _cells(table, systems).items()}
    return {key: text for key, text in found.items() if any(one.isalpha() for one in text)}


def systems_of(table: Published | PlainTable, systems: Systems = "columns") -> set[tuple[str, str]]:
    """(system, collection) of all rows."""
    if isinstance(table, PlainTable):
        return {(key[0], key[1]) for key in _cells(table, systems)}
    return {(row.system, row.collection) for row in table.rows}


def doubts_of(table: Published | PlainTable | None, systems: Systems = "columns") -> dict[Key, str]:
    """Why some of those numbers are not to be trusted."""
    if table is None:
        return {}
    if isinstance(table, PlainTable):
        said = {key: table.doubt(*cell) for key, cell in _cells(table, systems).items()}
    else:
        said = {
            (row.system, row.collection, f"{task} {label}"): table.doubt(row, task, label)
            for row in table.rows
            for task, part in row.values.items()
            for label in part
        }
    return {key: reason for key, reason in said.items() if reason}


def _cells(table: PlainTable, systems: Systems) -> dict[Key, tuple[str, str]]:
    """Key → (row, column)."""
    places = [(row, column) for row in table.rows for column in table.columns]
    return {((at[1], "", at[0]) if systems == "columns" else (at[0], "", at[1])): at for at in places}
