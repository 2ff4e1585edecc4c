"""`visir shortcuts`: synthetic shortcuts, looked at."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    name="shortcuts",
    help="Synthetic shortcuts: a number that an image and its captions share (thesis, chapter 4).",
    no_args_is_help=True,
)


@app.callback()
def _root() -> None:
    """Synthetic shortcuts: a number that an image and its captions share (thesis, chapter 4)."""


@app.command("preview")
def preview_command(
    collection: Annotated[
        str,
        typer.Argument(
            metavar="COLLECTION",
            help="A file or folder in any known format, FORMAT:PATH, or scenes:2000.",
            show_default=False,
        ),
    ],
    shortcuts: Annotated[
        str,
        typer.Option(
            metavar="SPEC",
            help="unique, bits:3, 'unique?on=images&per=caption&digits=sklearn&placement=packed&seed=1'.",
        ),
    ] = "unique",
    split: Annotated[str | None, typer.Option(help="One split only ('train+val' for several).")] = None,
    images: Annotated[
        list[str] | None, typer.Option("--images", "-i", help="Where the pictures are: folder, zip, tar (repeatable).")
    ] = None,
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="How many pairs.")] = 12,
    size: Annotated[int, typer.Option(min=32, help="The model's input, in pixels.")] = 224,
    out: Annotated[Path, typer.Option("--out", "-o", help="The sheet: a name in .html or .png.")] = Path(
        "shortcuts.html"
    ),
) -> None:
    """Write a sheet of pictures and captions with their shortcuts, as a model sees them at evaluation.

    Nothing else is written: shortcuts are put on when a model looks at a picture or a caption, not into the collection.
    """
    from visir.collections import open_collection
    from visir.reports.shortcut_sheet import check_suffix, write_sheet
    from visir.shortcuts import inject
    from visir.shortcuts.preview import preview

    check_suffix(out)
    # Injected first and split afterwards, so that numbers are those of the whole collection.
    view = inject(open_collection(collection, images=images), shortcuts).split(split)
    pairs = preview(view, count, size)
    write_sheet(out, pairs, view)
    typer.echo(f"{view.injected}")
    typer.echo(f"{out}: {len(pairs)} pairs")
