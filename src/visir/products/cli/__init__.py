"""`visir products`: names of categories answered with products. One file per verb."""

from __future__ import annotations

from visir.cli.verbs import group
from visir.products.cli.evaluate import evaluate
from visir.products.cli.infer import infer
from visir.products.cli.judgements import judgements
from visir.products.cli.landing import landing
from visir.products.cli.search import search
from visir.products.cli.train import train

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
