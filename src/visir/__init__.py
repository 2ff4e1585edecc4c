"""visir: image–text retrieval whose numbers can be trusted.

    import visir

    collection = visir.open("scenes:500")
    result = visir.evaluate(collection, visir.load("path/to/checkpoint"), split="test").result

Names are imported when first used, so that `import visir` stays instant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from visir.lazy import lazy
from visir.version import __version__

if TYPE_CHECKING:
    from visir.collections import open
    from visir.encoders import encode, load
    from visir.evaluation import compare, evaluate, explain
    from visir.sparse import sparsify
    from visir.training import train

__getattr__, __dir__ = lazy(
    __name__,
    {
        "open": "visir.collections",
        "load": "visir.encoders",
        "encode": "visir.encoders",
        "train": "visir.training",
        "sparsify": "visir.sparse",
        "evaluate": "visir.evaluation",
        "compare": "visir.evaluation",
        "explain": "visir.evaluation",
    },
)

__all__ = [
    "__version__",
    "compare",
    "encode",
    "evaluate",
    "explain",
    "load",
    "open",
    "sparsify",
    "train",
]
