"""Measures of items of several queries: an item is right when all of its queries are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from visir.evaluation.clusters import name_codes
from visir.evaluation.measures import parse
from visir.records import GROUP


def join_queries(
    per_query: Mapping[str, pa.Table], labels: Mapping[str, pa.Table], names: Sequence[str]
) -> dict[str, pa.Table]:
    """Put the value of the item in place of the value of each query, for measures of items."""
    joined = dict(per_query)
    items = {task: item_names(labels.get(task), len(table)) for task, table in per_query.items()}
    for named in parse(names) if names else []:
        scope = named.measure.joined
        if not scope:
            continue
        present = [task for task in joined if named.name in joined[task].column_names]
        for tasks in [present] if scope == "all" else [[task] for task in present]:
            codes = name_codes(pa.concat_arrays([items[task].cast(pa.string()) for task in tasks]))
            sizes = [len(items[task]) for task in tasks]
            values = np.concatenate([joined[task][named.name].to_numpy() for task in tasks])
            lowest = np.full(int(codes.max(initial=-1)) + 1, np.inf)
            np.minimum.at(lowest, codes, values)
            for task, part in zip(tasks, np.split(lowest[codes], np.cumsum(sizes)[:-1]), strict=True):
                place = joined[task].column_names.index(named.name)
                joined[task] = joined[task].set_column(place, named.name, pa.array(part))
    return joined


def item_names(labels: pa.Table | None, queries: int) -> pa.Array:
    """(n,) the item of each query; null for a query that is an item of its own."""
    if labels is None or GROUP not in labels.column_names:
        return pa.nulls(queries, pa.string())
    return labels[GROUP].combine_chunks()
