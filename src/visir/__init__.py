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
    from visir import papers, products, sessions, shortcuts
    from visir.collections import open
    from visir.encoders import Encoder, encode, load
    from visir.evaluation import Comparison, Evaluation, compare, evaluate, explain
    from visir.evaluation.granularity import granularity
    from visir.evaluation.measures.listing import measures
    from visir.evaluation.probes import probe
    from visir.evaluation.stress.stress import stress
    from visir.library import Library, index
    from visir.library.query import Query
    from visir.retrieval import read_run
    from visir.retrieval.searching import search
    from visir.robustness.perturb import perturb
    from visir.sparse import sparsify
    from visir.training import recipes, train
    from visir.version import __version__

__getattr__, __dir__ = lazy(
    __name__,
    {
        "open": "visir.collections",
        "__version__": "visir.version",
        "Encoder": "visir.encoders",
        "load": "visir.encoders",
        "encode": "visir.encoders",
        "recipes": "visir.training",
        "train": "visir.training",
        "Query": "visir.library.query",
        "read_run": "visir.retrieval",
        "search": "visir.retrieval.searching",
        "sparsify": "visir.sparse",
        "evaluate": "visir.evaluation",
        "compare": "visir.evaluation",
        "explain": "visir.evaluation",
        "measures": "visir.evaluation.measures.listing",
        "Comparison": "visir.evaluation",
        "Evaluation": "visir.evaluation",
        "stress": "visir.evaluation.stress.stress",
        "probe": "visir.evaluation.probes",
        "perturb": "visir.robustness.perturb",
        "granularity": "visir.evaluation.granularity",
        "index": "visir.library",
        "Library": "visir.library",
        "papers": "visir.papers",
        "products": "visir.products",
        "sessions": "visir.sessions",
        "shortcuts": "visir.shortcuts",
    },
)

__all__ = [
    "Comparison",
    "Encoder",
    "Evaluation",
    "Library",
    "Query",
    "__version__",
    "compare",
    "encode",
    "evaluate",
    "explain",
    "granularity",
    "index",
    "load",
    "measures",
    "open",
    "papers",
    "perturb",
    "probe",
    "products",
    "read_run",
    "recipes",
    "search",
    "sessions",
    "shortcuts",
    "sparsify",
    "stress",
    "train",
]
