"""Labels of queries: what is known about a query beside its judgements, such as its category or its language."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from visir.errors import CollectionError
from visir.records.columns import strings
from visir.records.items import Items

GROUP = "group"
"""The label of queries that are one item together: the two images of an example of Winoground."""
IMAGE = "image"
"""The label that names the image of a query: queries of one image are not independent."""
HOLDS = "holds"
"""The label of what a query holds, where queries hold different things: "text", "image", "text+image"."""
_QUERY = "query_id"


def query_labels(labels: pa.Table | Mapping[str, object], ids: pa.StringArray, where: str) -> pa.Table:
    """Return labels as a table of strings, in the order of some queries.

    Args:
        labels: A column `query_id` and one column for each label, in any order; a null is no label.
        ids: (n,) the ids of the queries.
        where: What the labels are of, for error messages.

    Returns:
        n rows: `query_id` and the labels; null for a query that has no row.

    Raises:
        CollectionError: There is no column `query_id` or no other column, a query is unknown, or it stands twice.

    Example:
        >>> labels = {"query_id": ["b"], "category": ["colour"]}
        >>> query_labels(labels, pa.array(["a", "b"]), "toy")["category"].to_pylist()
        [None, 'colour']
    """
    table = labels if isinstance(labels, pa.Table) else pa.table(dict(labels))
    if _QUERY not in table.column_names or len(table.column_names) < 2:
        raise CollectionError(
            f"{where}: labels have the columns {', '.join(table.column_names) or 'none'}.",
            hint="a column query_id, and one for each label: category, language, …",
        )
    named = strings(table[_QUERY])
    if pc.count_distinct(named).as_py() != len(named) or named.null_count:
        raise CollectionError(f"{where}: labels: a query stands twice, or has no id.", hint="one row for each query")
    unknown = named.filter(pc.invert(pc.is_in(named, ids)))
    if len(unknown):
        raise CollectionError(f"{where}: labels name the query {unknown[0].as_py()!r}, which is not in the task.")
    return labels_of(table, ids)


def labels_of(labels: pa.Table, ids: pa.StringArray) -> pa.Table:
    """Return the labels of some queries, in their order; queries that are not named there have none.

    Args:
        labels: A column `query_id` and one column for each label.
        ids: (n,) the ids of the queries.
    """
    rows = pc.index_in(strings(ids), strings(labels[_QUERY]))
    names = [name for name in labels.column_names if name != _QUERY]
    return pa.table({_QUERY: strings(ids), **{name: strings(labels[name]).take(rows) for name in names}})


def label_kinds(items: Items, labels: pa.Table | None) -> pa.Table | None:
    """Return the labels of queries with one more, `HOLDS`, where some hold texts, some images, some both.

    Args:
        items: The queries.
        labels: Their labels, in their order, or None.
    """
    if not items.is_mixed or (labels is not None and HOLDS in labels.column_names):
        return labels
    held = np.full(len(items), None, object)
    for kind, rows in items.kinds.items():
        held[rows] = kind
    table = pa.table({_QUERY: items.ids}) if labels is None else labels
    return table.append_column(HOLDS, pa.array(held, pa.string()))


def join_labels(ids: pa.Array | pa.ChunkedArray, *tables: pa.Table | None) -> pa.Table | None:
    """Return the labels of some queries from several tables; None where there are none.

    Args:
        ids: (n,) the ids of the queries.
        *tables: Labels as `labels_of` takes them; the first that has a label says it.
    """
    given = [labels_of(table, strings(ids)) for table in tables if table is not None]
    columns = {name: table[name] for table in reversed(given) for name in table.column_names}
    return pa.table({_QUERY: strings(ids), **columns}) if given else None
