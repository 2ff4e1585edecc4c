"""`visir granularity`: how detailed the captions of a collection are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from visir.cli import output
from visir.cli.options import (
    CaptionsOption,
    CorrectionOption,
    ReplaceOption,
    SplitOption,
    out_option,
)
from visir.cli.verbs import examples

if TYPE_CHECKING:
    from visir.evaluation.granularity import GranularityStudy

_JSON, _PAGE = "granularity.json", "granularity.html"


@examples(
    "visir granularity captions.csv",
    "visir granularity long.csv --against short.csv --out report",
)
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
        typer.Option(
            help="Rules: paper (nearest to Table 1), strict (what the names say), per-noun; both: the first two."
        ),
    ] = "both",
    split: SplitOption = None,
    captions: CaptionsOption = "all",
    correction: CorrectionOption = "holm",
    out: Annotated[Path | None, out_option("a folder for JSON, CSV, the values of every caption, and a page")] = None,
    replace: ReplaceOption = False,
) -> None:
    """Say how detailed captions are.

    Say how detailed captions are: adjectives, determiners, depth of concepts, words and more, with intervals.

    With --against, also which differences from other captions of the same images are more than chance.
    """
    from visir.collections import open_collection
    from visir.errors import ConfigurationError, VisirError, nearest
    from visir.evaluation.granularity import BOTH
    from visir.evaluation.granularity import granularity as study
    from visir.robustness.granularity import PROFILES
    from visir.storage.locks import check_local

    if out is not None:
        check_local(out)
    if out is not None and (out / _JSON).is_file() and not replace:
        raise VisirError(f"{out} holds a report already.", hint="name a new folder, or replace it with --replace")
    if profile not in (*PROFILES, "both"):
        raise ConfigurationError(
            f"unknown profile {profile!r}", hint=nearest(profile, (*PROFILES, "both")), code="unknown-profile"
        )
    opened = [open_collection(path) for path in (collection, against) if path is not None]
    outcome = study(
        *opened,
        profiles=BOTH if profile == "both" else (profile,),  # type: ignore[arg-type]
        split=split,
        captions=captions,
        correction=correction,  # type: ignore[arg-type]
    )
    _show(outcome, out)


def _show(outcome: GranularityStudy, out: Path | None) -> None:
    from visir.reports.granularity import changes_table, means_table, protocol_table

    if out is not None:
        _write(outcome, out)
    output.answer(outcome.to_dict())
    for position in range(len(outcome.counted)):
        output.table(means_table(outcome, position))
    for profile in outcome.comparisons:
        output.table(changes_table(outcome, profile))
    output.table(protocol_table(outcome))
    if out is not None:
        output.note(f"report: {out / _PAGE}")


def _write(outcome: GranularityStudy, out: Path) -> None:
    from visir.cli.options import command_line
    from visir.reports.saving import save_granularity

    save_granularity(outcome, out, command=command_line())
