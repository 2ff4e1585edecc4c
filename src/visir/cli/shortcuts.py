"""`visir shortcuts`: synthetic shortcuts, looked at, and what a training loses to them."""

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
            help="unique, or bits:3 for 2^3 numbers; behind it ?on=images (or captions), ?per=caption, "
            "?digits=sklearn, ?placement=packed, ?seed=1, several joined by &.",
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
    replace: Annotated[bool, typer.Option("--replace", help="Replace a file that is there.")] = False,
) -> None:
    """Write a sheet of pictures and captions with their shortcuts, as a model sees them at evaluation.

    Nothing else is written: shortcuts are put on when a model looks at a picture or a caption, not into the collection.
    """
    from visir.collections import open_collection
    from visir.reports.page import is_unchanged_page
    from visir.reports.shortcut_sheet import check_suffix, write_sheet
    from visir.shortcuts import inject
    from visir.shortcuts.previewing import preview_pairs
    from visir.storage import check_new_file

    check_suffix(out)
    if not is_unchanged_page(out):
        check_new_file(out, replace=replace)
    # Injected first and split afterwards, so that numbers are those of the whole collection.
    view = inject(open_collection(collection, images=images), shortcuts).split(split)
    pairs = preview_pairs(view, count, size)
    write_sheet(out, pairs, view, replace=replace)
    typer.echo(f"{view.injected}")
    typer.echo(f"{out}: {len(pairs)} pairs")


@app.command("audit")
def audit_command(
    recipe: Annotated[
        str, typer.Argument(help="A recipe: a TOML file, or the name of one that comes with visir.", show_default=False)
    ],
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change one key: --set objective.name=ifm. May be repeated."),
    ] = None,
    bits: Annotated[
        list[int] | None, typer.Option("--bits", help="Bits of shortcut to train with (repeatable); 0 is one of them.")
    ] = None,
    seeds: Annotated[list[int] | None, typer.Option("--seed", help="Seeds (repeatable). Default: 0.")] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Trainings side by side, one thread each. Default: one per core.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Where all is kept. Default: runs/audit-NAME.")] = None,
) -> None:
    """Train a recipe with more and more bits of shortcut and say how much retrieval it loses per bit.

    Killed, the same command goes on. A pretrained model is audited by fine-tuning it: a recipe with tower =
    "pretrained", or --set image.encoder=MODEL --set text.encoder=MODEL over one that has it.
    """
    import sys

    from visir.console import Console
    from visir.errors import require
    from visir.reports.formats import to_terminal
    from visir.reports.shortcut_audit import audit_table, write_audit_report
    from visir.studies.shortcut_audit import BITS, audit
    from visir.training.recipe import read_recipe
    from visir.training.shipped import find_recipe

    require("torch", "safetensors", extra="torch", purpose="training")
    settings = read_recipe(find_recipe(recipe), changes or ())
    folder = out or Path("runs") / f"audit-{settings.name}"
    outcome = audit(settings, out=folder, bits=tuple(bits or BITS), seeds=tuple(seeds or (0,)), jobs=jobs)
    page = write_audit_report(folder / "audit.html", outcome, ["visir", *sys.argv[1:]])
    Console().print(to_terminal(audit_table(outcome)))
    typer.echo(f"page: {page}")
