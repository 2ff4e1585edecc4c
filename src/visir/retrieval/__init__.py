"""Search: by text and picture, exact or in indexes; ranks of the positives; runs in and out of other tools' formats.

    run = visir.search("photos/", model, "a dog on a beach")    # `searching.py`
    index = build_index(vectors, "hnsw", "photos.index")

Names are imported when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from visir.lazy import lazy

if TYPE_CHECKING:
    from visir.retrieval.formats import qrels_to_dict as qrels_to_dict
    from visir.retrieval.formats import read_run as read_run
    from visir.retrieval.formats import to_ir_measures as to_ir_measures
    from visir.retrieval.formats import to_ranx as to_ranx
    from visir.retrieval.formats import write_qrels as write_qrels
    from visir.retrieval.formats import write_run as write_run
    from visir.retrieval.fusion import merge_shards as merge_shards
    from visir.retrieval.index import Index as Index
    from visir.retrieval.kinds import add_parts as add_parts
    from visir.retrieval.kinds import build_index as build_index
    from visir.retrieval.kinds import index_kinds as index_kinds
    from visir.retrieval.kinds import open_index as open_index
    from visir.retrieval.multi_vector.maxsim import alignment as alignment
    from visir.retrieval.multi_vector.maxsim import pool_tokens as pool_tokens

__getattr__, __dir__, __all__ = lazy(__name__)
