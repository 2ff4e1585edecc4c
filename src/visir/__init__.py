"""visir: image–text retrieval whose numbers can be trusted.

    import visir

    collection = visir.open_collection("scenes:500")
    result = visir.evaluate(collection, visir.load("path/to/checkpoint"), split="test").result

Names are imported when first used, so that `import visir` stays instant.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from visir.collections import open_collection
    from visir.encoders import encode, load
    from visir.evaluation import compare, evaluate, explain
    from visir.training import train_heads

_WHERE = {
    "open_collection": "visir.collections",
    "load": "visir.encoders",
    "encode": "visir.encoders",
    "train_heads": "visir.training",
    "evaluate": "visir.evaluation",
    "compare": "visir.evaluation",
    "explain": "visir.evaluation",
}

__all__ = [
    "__version__",
    "compare",
    "encode",
    "evaluate",
    "explain",
    "load",
    "open_collection",
    "train_heads",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'visir' has no attribute {name!r}")
    return getattr(import_module(_WHERE[name]), name)
