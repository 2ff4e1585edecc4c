"""The catalogue on the command line: where it is and how it is read, the same for every verb."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from visir.cli.options import options_of, single_or_all

if TYPE_CHECKING:
    from visir.records.catalogue import Catalogue

Source = Annotated[
    str,
    typer.Argument(
        metavar="CATALOGUE", help="A file or folder in any known layout, or generated:2000.", show_default=False
    ),
]


def opened(source: str, format: str | None, images: list[str] | None, options: list[str] | None) -> Catalogue:
    """The catalogue that was named."""
    from visir.products.opening import open_catalogue

    return open_catalogue(source, format=format, images=single_or_all(images), **options_of(options))
