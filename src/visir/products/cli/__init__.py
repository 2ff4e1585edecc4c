"""`visir products`: names of categories answered with products. One file per verb."""

from __future__ import annotations

from visir.cli.verbs import group
from visir.products.cli.evaluate import evaluate, judgements, landing
from visir.products.cli.train import infer, search, train

app = group(
    "products",
    "Categories to products: train, evaluate, search, infer, landing, judgements.",
    {
        "train": train,
        "evaluate": evaluate,
        "search": search,
        "infer": infer,
        "landing": landing,
        "judgements": judgements,
    },
)
