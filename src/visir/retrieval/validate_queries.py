"""The check of queries before every search of an index, and their order."""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc

from visir.errors import RunError
from visir.retrieval.depth import check_depth
from visir.retrieval.index import Vectors
from visir.retrieval.parts import Form
from visir.retrieval.rows import check_fits_index


def in_order(form: Form[Vectors], queries: Vectors, held: Vectors, documents: int, k: int) -> Vectors:
    """Return the queries in order of their ids."""
    check_fits_index(form, queries, held)
    check_depth(k)
    if len(queries) == 0:
        raise RunError("there is no query.", hint="is the split, or the filter, right?", code="no-query")
    if documents == 0:
        raise RunError(
            "the index is empty: every document was deleted.", hint="add some first", code="every-document-deleted"
        )
    if len(queries) == 1:  # in order already; to find that out would take as long as many a search
        return queries
    order = pc.sort_indices(queries.ids)
    if bool((np.diff(order.to_numpy().astype(np.int64)) == 1).all()):
        return queries
    return queries.select(queries.ids.take(order))
