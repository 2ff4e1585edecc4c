"""Search: by text and picture, exact or in indexes; ranks of the positives; runs in and out of other tools' formats.

    run = visir.search("photos/", model, "a dog on a beach")    # `searching.py`
    index = build_index(vectors, "hnsw", "photos.index")

Names are imported when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from visir.lazy import lazy

if TYPE_CHECKING:
    from visir.retrieval.formats import read_run, write_run
    from visir.retrieval.index import Index
    from visir.retrieval.kinds import build_index, index_kinds, open_index
    from visir.retrieval.multi_vector.flat import alignment, pool_tokens
    from visir.retrieval.shard_runs import merge_shards
    from visir.retrieval.stored import add_parts

__getattr__, __dir__ = lazy(
    __name__,
    {
        "Index": "visir.retrieval.index",
        "add_parts": "visir.retrieval.stored",
        "alignment": "visir.retrieval.multi_vector.flat",
        "build_index": "visir.retrieval.kinds",
        "index_kinds": "visir.retrieval.kinds",
        "merge_shards": "visir.retrieval.shard_runs",
        "open_index": "visir.retrieval.kinds",
        "pool_tokens": "visir.retrieval.multi_vector.flat",
        "read_run": "visir.retrieval.formats",
        "write_run": "visir.retrieval.formats",
    },
)

__all__ = [
    "Index",
    "add_parts",
    "alignment",
    "build_index",
    "index_kinds",
    "merge_shards",
    "open_index",
    "pool_tokens",
    "read_run",
    "write_run",
]
