"""What is searched: image–caption collections and tasks from elsewhere, one file per published format.

Names are imported when first used: the readers are not needed to render a scene or to decode a picture.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from visir.lazy import lazy

if TYPE_CHECKING:
    from visir.collections.opening import attach_judgements, open, open_collection, open_source
    from visir.collections.qrels_reading import read_qrels

__all__ = ["attach_judgements", "open", "open_collection", "open_source", "read_qrels"]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "attach_judgements": "visir.collections.opening",
        "open": "visir.collections.opening",
        "open_collection": "visir.collections.opening",
        "open_source": "visir.collections.opening",
        "read_qrels": "visir.collections.qrels_reading",
    },
)
