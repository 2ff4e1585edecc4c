"""`visir products`: names of categories answered with products. One file per verb."""

from __future__ import annotations

import typer

from visir.products.cli.evaluate import evaluate
from visir.products.cli.search import search
from visir.products.cli.train import train

app = typer.Typer(
    name="products",
    help="Categories to products: train, measure and search with models of a catalogue (thesis chapter 7).",
    no_args_is_help=True,
)


@app.callback()
def _root() -> None:
    """Categories to products: train, measure and search with models of a catalogue (thesis chapter 7)."""


# In the order of the work: this is the order of `visir products --help`.
for verb in (train, evaluate, search):
    app.command()(verb)
