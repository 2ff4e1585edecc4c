"""`visir shortcuts`: synthetic shortcuts, looked at, and what a training loses to them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from visir.cli import output
from visir.cli.options import (
    ExamplesOption,
    ImagesOption,
    JobsOption,
    ReplaceOption,
    SetOption,
    ShortcutsSpec,
    SplitOption,
    out_option,
)
from visir.cli.verbs import group
from visir.display import counted


def preview_command(
    collection: Annotated[
        str,
        typer.Argument(
            metavar="COLLECTION",
            help="A file or folder in any known format, FORMAT:PATH, or scenes:2000.",
            show_default=False,
        ),
    ],
    shortcuts: ShortcutsSpec = "unique",
    split: SplitOption = None,
    images: ImagesOption = None,
    count: ExamplesOption = 12,
    size: Annotated[int, typer.Option(min=32, help="The model's input, in pixels.")] = 224,
    out: Annotated[Path, out_option("a sheet, named .html or .png")] = Path("shortcuts.html"),
    replace: ReplaceOption = False,
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
    output.facts(sheet=out.absolute(), pairs=len(pairs), shortcuts=str(view.injected))
    output.line(f"{view.injected}")
    output.line(f"{out}: {counted(len(pairs), 'pairs')}")


def audit_command(
    recipe: Annotated[
        str, typer.Argument(help="A recipe: a TOML file, or the name of one that comes with visir.", show_default=False)
    ],
    changes: SetOption = None,
    bits: Annotated[
        list[int] | None, typer.Option("--bits", help="Bits of shortcut to train with (repeatable); 0 is one of them.")
    ] = None,
    seeds: Annotated[
        list[int] | None, typer.Option("--seed", min=0, help="Another seed draws anew. Repeatable. Default: 0.")
    ] = None,
    jobs: JobsOption = None,
    out: Annotated[Path | None, out_option("a folder for everything. Default: runs/audit-NAME")] = None,
) -> None:
    """Train a recipe with more and more bits of shortcut and say how much retrieval it loses per bit.

    Killed, the same command goes on. A pretrained model is audited by fine-tuning it: a recipe with tower =
    "pretrained", or --set image.encoder=MODEL --set text.encoder=MODEL over one that has it.
    """
    import sys

    from visir.errors import require
    from visir.reports.shortcut_audit import audit_table, write_audit_report
    from visir.studies.shortcut_audit import BITS, audit
    from visir.training.recipe import read_recipe
    from visir.training.shipped import find_recipe

    require("torch", "safetensors", extra="torch", purpose="training")
    settings = read_recipe(find_recipe(recipe), changes or ())
    folder = out or Path("runs") / f"audit-{settings.name}"
    outcome = audit(settings, out=folder, bits=tuple(bits or BITS), seeds=tuple(seeds or (0,)), jobs=jobs)
    page = write_audit_report(folder / "audit.html", outcome, ["visir", *sys.argv[1:]])
    output.table(audit_table(outcome))
    output.facts(page=page)
    output.note(f"page: {page}")


app = group(
    "shortcuts",
    "Synthetic shortcuts: look at them, audit a training.",
    {"preview": preview_command, "audit": audit_command},
)
