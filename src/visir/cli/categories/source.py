"""The catalogue on the command line: where it is and how it is read, the same for every verb."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from visir.records.catalogue import Catalogue

WIDTH = 130
"""Of tables that go into a file or a pipe, where names should not be broken."""

Source = Annotated[
    str,
    typer.Argument(
        metavar="CATALOGUE", help="A file or folder in any known layout, or generated:2000.", show_default=False
    ),
]
FormatName = Annotated[str | None, typer.Option("--format", "-f", help="The layout, when it cannot be told.")]
Images = Annotated[
    list[str] | None,
    typer.Option("--images", "-i", help="Where the pictures are: a folder, zip or tar (repeatable); 'none' for none."),
]
Options = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="NAME=VALUE", help="An option of the layout (repeatable)."),
]


def opened(source: str, format: str | None, images: list[str] | None, options: list[str] | None) -> Catalogue:
    """The catalogue that was named."""
    from visir.products.open import open_catalogue

    given: dict[str, Any] = {}
    for pair in options or []:
        name, equals, value = pair.partition("=")
        if not equals:
            raise typer.BadParameter(f"{pair!r}: expected NAME=VALUE", param_hint="--option")
        given[name.replace("-", "_")] = value
    pictures = images[0] if images and len(images) == 1 else images or None
    return open_catalogue(source, format=format, images=pictures, **given)
