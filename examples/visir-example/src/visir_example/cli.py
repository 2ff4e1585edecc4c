"""`visir colours`: which colours the captions of a collection name."""

from __future__ import annotations

from typing import Annotated

import typer


def colours(collection: Annotated[str, typer.Argument(metavar="COLLECTION", show_default=False)]) -> None:
    """Count the captions that name a colour."""
    import visir  # inside, because `visir --help` imports this file
    from visir_example.encoder import COLOURS

    texts = [text.lower().split() for text in visir.open(collection).captions["text"].to_pylist()]
    for colour in COLOURS:
        typer.echo(f"{colour}: {sum(colour in words for words in texts)} of {len(texts)}")
