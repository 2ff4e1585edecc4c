"""What a table prints, and what was measured, by the same keys: labels with their task, in the table's units."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from visir.evaluation.measures import RSUM_CUTOFFS, recalls_of
from visir.evaluation.published import PlainTable, Published, PublishedRow, judge, printed_value
from visir.evaluation.published.judge import measure_of
from visir.evaluation.results import Evaluation
from visir.records import Result
from visir_papers.draws import Draws, finite, unit_sums
from visir_papers.experiment import ExperimentContext, Measurement
from visir_papers.figures import Figure, plotted

ValueKey = tuple[str, str, str]
"""(system, collection, label)."""
SystemAxis = Literal["columns", "rows"]
"""Whether the systems of a plain table are its columns or its rows."""

TICK, DASH = "✓", "–"
STANDS_FOR = " · "
"""Between a published name and what stands for it: data ("All categories · Flipkart"), or another reading of a system
("BM25 · plurals taken off")."""
USUAL_MEASURES = {
    **{(task, f"R@{k}"): f"hit@{k}" for task in ("i2t", "t2i") for k in RSUM_CUTOFFS},
    **{(task, "rsum"): "rsum" for task in ("i2t", "t2i", "both")},
}
"""(task, label) → measure, for experiments that fill no published row."""


def row_of(name: str) -> str:
    """The published system or collection that a cell's system or collection stands for."""
    return name.partition(STANDS_FOR)[0]


def values_of(aggregates: Mapping[str, Mapping[str, float]], row: PublishedRow | None) -> dict[str, float]:
    """The values that a published row prints, as an evaluation has them."""
    # R@k is read as hit@k, its usual meaning in image–text retrieval; `nearest_reading` finds what the table may have
    # meant instead.
    return {
        f"{task} {label}": printed_value(measure, aggregates[task][measure], label)
        for (task, label), measure in measures_of(row).items()
        if measure in aggregates.get(task, {})
    }


def measures_of(row: PublishedRow | None) -> dict[tuple[str, str], str]:
    """(task, label) → measure, of every value that a published row prints; without a row `USUAL_MEASURES`."""
    if row is None:
        return USUAL_MEASURES
    return {(task, label): measure_of(label) for task, part in row.values.items() for label in part}


def nearest_reading(evaluation: Evaluation, context: ExperimentContext) -> str:
    """The reading of the protocol that comes nearest to the published row, and what this protocol cannot give."""
    from visir.errors import VisirError
    from visir.evaluation.explaining import explain
    from visir.evaluation.published.denominators import of_queries

    row, decimals = context.row, context.decimals
    if row is None or not context.judged:
        return ""
    if all(judgement.within for judgement in judge(evaluation.result.aggregates, row, decimals=decimals)):
        return " ".join(of_queries(row, evaluation.result.protocol))
    try:
        explanation = explain(evaluation, row, decimals=decimals)
    except VisirError as fault:
        return f"not explained: {fault.message}"
    return " ".join((explanation.sentence, *explanation.remarks))


def measured(evaluation: Evaluation, context: ExperimentContext, system: str, **provenance: str) -> Measurement:
    """What a cell takes from an evaluation: the values of its row with their draws, and where they come from."""
    result, protocol = evaluation.result, evaluation.result.protocol
    origin = {"system": system, "collection": protocol.collection, **provenance}
    return Measurement(
        values_of(result.aggregates, context.row),
        {**origin, "fingerprint": protocol.collection_fingerprint[:12]},
        dict(protocol.card()),
        nearest_reading(evaluation, context),
        tuple(note for note in result.notes if not note.startswith("re-ranking: ")),  # which is a time
        draws=query_draws(result, context.row),
    )


def published_numbers(table: Published | PlainTable | None, systems: SystemAxis = "columns") -> dict[ValueKey, float]:
    """Every published number by (system, collection, label)."""
    # Labels of retrieval results are "i2t R@1", "both rsum". In a plain table the systems are the columns (Table 1 of
    # the brittleness paper: sets of captions) or the rows (thesis Table 3.6: indexes), and the labels the other of the
    # two; its collection is "".
    if table is None:
        return {}
    if isinstance(table, PlainTable):
        numbers = {key: _number(table, *position) for key, position in _positions(table, systems).items()}
        return {key: number for key, number in numbers.items() if number is not None}
    return {
        (row.system, row.collection, f"{task} {label}"): value
        for row in table.rows
        for task, part in row.values.items()
        for label, value in part.items()
    }


def _number(table: PlainTable, row: str, column: str) -> float | None:
    """A cell as a number: 1 for a tick and 0 for a dash in a column that has nothing else (thesis Table 6.7)."""
    if {table.cell(name, column) for name in table.rows} == {TICK, DASH}:
        return float(table.cell(row, column) == TICK)
    return table.number(row, column)


def plotted_numbers(figure: Figure | None) -> dict[ValueKey, float]:
    """The values behind a plotted figure; empty where its file is not on this machine."""
    from visir.errors import VisirError

    try:
        values = plotted(figure) if figure is not None else {}
    except VisirError:
        return {}
    return {(*key, label): value for key, part in values.items() for label, value in part.items()}


def published_words(
    table: Published | PlainTable | None, systems: SystemAxis = "columns"
) -> dict[tuple[str, str], str]:
    """(system, label) → what the table prints in words; empty where it has only numbers and dashes."""
    if not isinstance(table, PlainTable):
        return {}
    cells = {(key[0], key[2]): table.cell(*position) for key, position in _positions(table, systems).items()}
    return {key: text for key, text in cells.items() if any(map(str.isalpha, text))}


def systems_of(table: Published | PlainTable, systems: SystemAxis = "columns") -> set[tuple[str, str]]:
    """(system, collection) of all rows."""
    if isinstance(table, PlainTable):
        return {(key[0], key[1]) for key in _positions(table, systems)}
    return {(row.system, row.collection) for row in table.rows}


def doubts_of(table: Published | PlainTable | None, systems: SystemAxis = "columns") -> dict[ValueKey, str]:
    """Why some published numbers cannot be right, by key."""
    if table is None:
        return {}
    if isinstance(table, PlainTable):
        doubts = {key: table.doubt(*position) for key, position in _positions(table, systems).items()}
    else:
        doubts = {
            (row.system, row.collection, f"{task} {label}"): table.doubt(row, task, label)
            for row in table.rows
            for task, part in row.values.items()
            for label in part
        }
    return {key: doubt for key, doubt in doubts.items() if doubt}


def _positions(table: PlainTable, systems: SystemAxis) -> dict[ValueKey, tuple[str, str]]:
    """Key → (row, column)."""
    return {
        (column, "", row) if systems == "columns" else (row, "", column): (row, column)
        for row in table.rows
        for column in table.columns
    }


# Draws of what an evaluation measured: images are drawn with all their captions, in all tasks together.

_RSUM, _BOTH = "rsum", "both"


def query_draws(result: Result, row: PublishedRow | None) -> dict[str, Draws]:
    """Draws of the values of `published_values.values_of`, in the same units; medians have none."""
    # A caption belongs to its image, so the unit of both tasks is the image: a draw of "both rsum" is of one set of
    # images.
    names = {
        task: [name for name in table.column_names if name != "query_id"] for task, table in result.per_query.items()
    }
    columns = [(task, name) for task in names for name in ("", *names[task])]  # "" counts the queries
    units: list[str] = []
    blocks: list[NDArray[np.float64]] = []
    for task, table in result.per_query.items():
        ids = table["query_id"].to_pylist()
        block = np.zeros((len(ids), len(columns)))
        for position, (of_task, name) in enumerate(columns):
            if of_task == task:
                block[:, position] = result.values(task, name) if name else 1.0
        units += _images(result, task, ids)
        blocks.append(block)
    sums = dict(zip(columns, unit_sums(units, np.concatenate(blocks)).T, strict=True))
    means: dict[tuple[str, str], Draws] = {}
    with np.errstate(invalid="ignore", divide="ignore"):
        for task, measures in names.items():
            means |= {(task, name): sums[task, name] / sums[task, ""] for name in measures}
            recalls = recalls_of(result.protocol.recall)
            if set(recalls) <= set(measures):
                means[task, _RSUM] = np.sum([100 * means[task, name] for name in recalls], axis=0)
    summed = [means[task, _RSUM] for task in names if (task, _RSUM) in means]
    if len(summed) == len(names) > 1:
        means[_BOTH, _RSUM] = np.sum(summed, axis=0)
    return finite(
        {
            f"{task} {label}": printed_value(measure, 1.0, label) * means[task, measure]
            for (task, label), measure in measures_of(row).items()
            if (task, measure) in means and not measure.startswith("median")
        }
    )


def _images(result: Result, task: str, ids: list[str]) -> list[str]:
    """The image of each query: itself, or that of the caption; a query of another kind is on its own."""
    if task != "t2i" or result.captions is None:
        return ids
    captions = result.captions
    owner = dict(zip(captions["id"].to_pylist(), captions["image_id"].to_pylist(), strict=True))
    return [owner.get(query, query) for query in ids]
