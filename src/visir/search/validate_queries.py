"""What every index looks at before it answers: whether the queries fit, and in which order they come."""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc

from visir.errors import RunError
from visir.search.depth import check_depth
from visir.search.index import Vectors
from visir.search.parts import Form
from visir.search.rows import check_fits_index


def in_order(form: Form[Vectors], queries: Vectors, held: Vectors, documents: int, k: int) -> Vectors:
    """The queries in order of their ids.

    Raises `EmbeddingError` for queries of another encoder or space than `held`, and `RunError` for a `k`
    that is no number of answers, no query, or no document.
    """
    check_fits_index(form, queries, held)
    check_depth(k)
    if len(queries) == 0:
        raise RunError("there is no query.", hint="is the split, or the filter, right?")
    if documents == 0:
        raise RunError("the index is empty: every document was deleted.", hint="add some first")
    order = pc.sort_indices(queries.ids)
    # A single query is in order, and selecting it would take as long as answering it.
    if bool((np.diff(order.to_numpy().astype(np.int64)) == 1).all()):
        return queries
    return queries.select(queries.ids.take(order))
