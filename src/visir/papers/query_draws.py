"""Draws of what an evaluation measured: images are drawn with all their captions, in all tasks together."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from visir.evaluation.measures.measure import recalls_of
from visir.evaluation.published import PublishedRow, printed_value
from visir.papers.published_values import measures_of
from visir.records import Result
from visir.studies.draws import Draws, finite, unit_sums

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
