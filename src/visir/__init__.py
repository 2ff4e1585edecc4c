"""visir: image–text retrieval whose numbers can be trusted.

    import visir

    collection = visir.open("scenes:500")
    result = visir.evaluate(collection, visir.load("path/to/checkpoint"), split="test").result

Names are imported when first used, so that `import visir` stays instant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from visir.lazy import lazy

if TYPE_CHECKING:
    from visir import papers, shortcuts
    from visir.collections import open
    from visir.encoders import encode, load
    from visir.evaluation import compare, evaluate, explain
    from visir.library import Library, index
    from visir.retrieval import read_run
    from visir.sparse import sparsify, words
    from visir.training import recipes, train
    from visir.training import train
    from visir.version import __version__

__getattr__, __dir__ = lazy(
    __name__,
    {
        "open": "visir.collections",
        "__version__": "visir.version",
        "load": "visir.encoders",
        "encode": "visir.encoders",
        "recipes": "visir.training",
        "train": "visir.training",
        "read_run": "visir.retrieval",
        "sparsify": "visir.sparse",
        "words": "visir.sparse",
        "evaluate": "visir.evaluation",
        "compare": "visir.evaluation",
        "explain": "visir.evaluation",
        "index": "visir.library",
        "Library": "visir.library",
        "papers": "visir.papers",
        "shortcuts": "visir.shortcuts",
    },
)

__all__ = [
    "Library",
    "__version__",
    "compare",
    "encode",
    "evaluate",
    "explain",
    "index",
    "load",
    "open",
    "papers",
    "read_run",
    "recipes",
    "shortcuts",
    "sparsify",
    "train",
    "words",
]
