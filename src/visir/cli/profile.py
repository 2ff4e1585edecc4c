"""`visir profile`: what a model can do, on one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from visir.cli import output
from visir.cli.completion import complete_model
from visir.cli.options import (
    DATA,
    BatchSizeOption,
    DeviceOption,
    DtypeOption,
    ReplaceOption,
    WorkersOption,
    command_line,
    out_option,
)
from visir.cli.verbs import examples


@examples(
    "visir profile openai/clip-vit-base-patch32 --out clip.html",
    "visir profile runs/mine --data photos.csv --reference openai/clip-vit-base-patch32",
    "visir profile pixels --tasks classification,robustness",
)
def profile(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A model: a hub name, a checkpoint folder, st:…, openclip:…, pixels (visir models).",
            autocompletion=complete_model,
            show_default=False,
        ),
    ],
    data: Annotated[
        list[str] | None,
        typer.Option(
            "--data",
            metavar="SOURCE",
            help="A collection, a task, or a folder with a folder for each class: your own data. Repeatable.",
            rich_help_panel=DATA,
            show_default=False,
        ),
    ] = None,
    reference: Annotated[
        str,
        typer.Option(help="A model that stands beside: colours knows colour words alone; none.", metavar="MODEL"),
    ] = "colours",
    tasks: Annotated[
        list[str] | None,
        typer.Option(
            "--tasks",
            metavar="NAMES",
            help="Some tasks only: an ability (retrieval, composition, language, classification, robustness), a source "
            "(scenes), scenes/typos; by commas, repeatable. Default: all.",
            show_default=False,
        ),
    ] = None,
    scenes: Annotated[
        int,
        typer.Option(min=0, help="How many generated pictures a task has; 0 for none.", rich_help_panel=DATA),
    ] = 200,
    at_hand: Annotated[
        bool,
        typer.Option("--at-hand/--no-at-hand", help="Known data sets under VISIR_DATA too.", rich_help_panel=DATA),
    ] = True,
    blind: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="A language model that chooses without looking, beside choices of known data sets and your own: a "
            "collection of captions to learn from, or gpt2. Default: captions under VISIR_DATA.",
            show_default=False,
            rich_help_panel=DATA,
        ),
    ] = None,
    device: DeviceOption = None,
    dtype: DtypeOption = "float32",
    batch_size: BatchSizeOption = None,
    workers: WorkersOption = None,
    out: Annotated[Path | None, out_option("a page, FILE.html")] = None,
    replace: ReplaceOption = False,
) -> None:
    """Say what a model can do.

    Measure every task that data is at hand for: generated scenes (no download), data sets under VISIR_DATA, and your
    own. One row for each task, by strength, with chance and a reference model beside it; --out writes one page.

    Strength is where a score stands between chance (0) and perfect (100 %). What the model cannot take is listed with
    the reason. Stopped, the same command goes on: vectors are kept.
    """
    from visir.studies.profile.profile import profile as measured

    _check_out(out, replace)
    result = measured(
        model,
        data,
        reference=reference,
        tasks=tasks,
        scenes=scenes,
        at_hand=at_hand,
        blind=blind,
        device=device,
        dtype=dtype,
        batch_size=batch_size,
        workers=workers,
    )
    from visir.reports.profile import left_out_table, profile_table, write_profile

    if out is not None:
        write_profile(out, result, command=command_line(), replace=replace)
    output.answer(result.to_dict())
    output.table(profile_table(result))
    if result.left_out:
        output.table(left_out_table(result))
    if out is not None:
        output.note(f"page: {out}")


def _check_out(out: Path | None, replace: bool) -> None:
    """Refuse a place that is taken before anything is measured."""
    from visir.errors import VisirError
    from visir.reports.page import is_unchanged_page
    from visir.storage import check_new_file

    if out is None:
        return
    if out.suffix.lower() not in (".html", ".htm"):
        raise VisirError(f"{out}: a profile is one page.", hint=f"--out {out.with_suffix('.html')}")
    if not is_unchanged_page(out):
        check_new_file(out, replace=replace)
