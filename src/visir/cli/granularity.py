"""`visir granularity`: how detailed the captions of a collection are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from visir.evaluation.granularity import GranularityStudy

_JSON, _PAGE = "granularity.json", "granularity.html"


def granularity(
    collection: Annotated[
        str,
        typer.Argument(
            metavar="COLLECTION", help="A file or folder in any known format, FORMAT:PATH.", show_default=False
        ),
    ],
    against: Annotated[
        str | None,
        typer.Option(
            help="Other captions of the same images; differences are COLLECTION minus these.", metavar="OTHER"
        ),
    ] = None,
    profile: Annotated[
        str,
        typer.Option(help="paper (nearest to Table 1), strict (what the names say), per-noun; both: the first two."),
    ] = "both",
    split: Annotated[str | None, typer.Option(help="The split, or several: train+val. Default: everything.")] = None,
    captions: Annotated[
        str, typer.Option(help="Captions of each image that take part: all, first, 'first 5', 'random(seed=0)'.")
    ] = "all",
    correction: Annotated[str, typer.Option(help="holm, bonferroni or none, over the features.")] = "holm",
    seed: Annotated[int, typer.Option(min=0, help="Of the bootstrap.")] = 0,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for JSON, CSV, the values of every caption, and a page.")
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace a report that is there already.")] = False,
) -> None:
    """Say how detailed captions are: adjectives, determiners, depth of concepts, words and more, with intervals.

    With --against, also which differences from other captions of the same images are more than chance.
    """
    from visir.collections import open_collection
    from visir.errors import ConfigurationError, VisirError, nearest
    from visir.evaluation.granularity import BOTH
    from visir.evaluation.granularity import granularity as study
    from visir.robustness.granularity import PROFILES

    if out is not None and (out / _JSON).is_file() and not replace:
        raise VisirError(f"{out} holds a report already.", hint="name a new folder, or replace it with --replace")
    if profile not in (*PROFILES, "both"):
        raise ConfigurationError(f"unknown profile {profile!r}", hint=nearest(profile, (*PROFILES, "both")))
    opened = [open_collection(path) for path in (collection, against) if path is not None]
    outcome = study(
        *opened,
        profiles=BOTH if profile == "both" else (profile,),  # type: ignore[arg-type]
        split=split,
        captions=captions,
        correction=correction,  # type: ignore[arg-type]
        seed=seed,
    )
    _show(outcome, out)


def _show(outcome: GranularityStudy, out: Path | None) -> None:
    from visir.console import Console
    from visir.reports import to_terminal
    from visir.reports.granularity import changes_table, means_table, protocol_table

    if out is not None:
        _write(outcome, out)
    console = Console()
    for position in range(len(outcome.counted)):
        console.print(to_terminal(means_table(outcome, position)))
    for profile in outcome.comparisons:
        console.print(to_terminal(changes_table(outcome, profile)))
    console.print(to_terminal(protocol_table(outcome)))
    if out is not None:
        console.print(f"report: {out / _PAGE}", soft_wrap=True, highlight=False)


def _write(outcome: GranularityStudy, out: Path) -> None:
    from visir.cli.options import command_line
    from visir.reports.saving import save_granularity

    save_granularity(outcome, out, command=command_line())
