"""What the verbs of `visir library` share: options, one round of an update, and how it is reported."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from visir.cli import output
from visir.cli.options import name_option
from visir.collections.budget import LIMIT_VARIABLE
from visir.display import counted, named

if TYPE_CHECKING:
    from visir.library import UpdateReport
    from visir.library.layout import IndexPlace

LibraryFolder = Annotated[Path, typer.Argument(metavar="LIBRARY", help="The library's folder.", show_default=False)]
NameOption = Annotated[str | None, name_option("what the library is called. Default: the folder's name")]
VerifyOption = Annotated[
    bool, typer.Option("--verify", help="Read every file, also those whose size and time are as they were.")
]
LanguageOption = Annotated[
    str | None,
    typer.Option(
        help="How words are compared: plural (English plurals; the default), none, german, french, … Of products.",
        show_default=False,
    ),
]
SynonymsOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="A file of synonyms: lines a, b, c and a => b; the library copies it. Of products.",
        show_default=False,
    ),
]
SettleOption = Annotated[float, typer.Option(min=0.05, help="Seconds of quiet before a watch updates.")]


_ENOUGH = re.compile(rf"{LIMIT_VARIABLE}=(\d+)")


def update_once(folder: Path, source: str | None, **options: Any) -> None:
    """Make the library, or bring it up to date, and print what happened."""
    from visir.library.layout import places_of
    from visir.library.updating import update

    before = places_of(folder)
    _announce_other_model(folder, options.get("model"))
    report = update(source, folder, **options)
    after = places_of(folder)
    indexes = {system: str(place) for system, place in after.items()}
    output.facts(library=folder.absolute(), **output.plain(report), indexes=indexes)
    print_update(folder, report)
    _print_places(folder, before, after)


def _announce_other_model(folder: Path, model: str | None) -> None:
    """Say before the work that a library goes over to another model, or goes on with that."""
    from visir.encoders.places import absolute_name
    from visir.library.layout import LibraryCard, is_library

    card = LibraryCard.read(folder) if is_library(folder) else None
    wanted = card.next.get("model") if card is not None and model is None else model and absolute_name(model)
    if card is not None and card.model and wanted and wanted != card.model:
        output.note(
            f"{folder}: from model {card.model} to {wanted}: unless it is the same one, everything is encoded anew. "
            "The library answers with the old one until that is done; stopped, any update goes on"
        )


def _print_places(folder: Path, before: Mapping[str, IndexPlace], after: Mapping[str, IndexPlace]) -> None:
    """Print where the indexes lie, where a server is left or gone to, and what is needed there."""
    from visir.library.layout import kinds_here, removals
    from visir.retrieval.remote.addresses import needed_later

    if before != after and any(place.on_server for place in (*before.values(), *after.values())):
        for system, place in after.items():
            output.line(f"  {system} index: {place}")
    if kinds := kinds_here(before, after):
        options = " ".join(f"--kind {kind}" for kind in kinds)
        output.line(
            f"  what is still on the server comes here by: visir library update {shlex.quote(str(folder))} {options}"
        )
    for removal in removals(before, after):
        output.line(f"  no longer used, and left there; unless a copy of this library uses it: {removal}")
    for line in needed_later(place.settings for place in after.values()):
        output.note(f"  {line}")


def watch_on(folder: Path, settle: float, **options: Any) -> None:
    """Update whenever something changes where the pictures lie, until Ctrl-C."""
    from visir.library.updating import update
    from visir.library.watch import watch

    def changed() -> None:
        report = update(None, folder, **options)
        if not report.same:
            print_update(folder, report)

    output.line(f"watching {folder}; Ctrl-C ends it")
    sys.stdout.flush()
    callback: Callable[[str], object] = lambda message: typer.echo(message, err=True)  # noqa: E731
    watch(folder, changed, settle=settle, callback=callback)


def print_update(folder: Path, report: UpdateReport) -> None:
    """Print what an update did."""
    parts = {name: getattr(report, name) for name in ("added", "changed", "moved", "deleted", "unchanged")}
    parts["with other captions or fields"] = report.rewritten
    counts = ", ".join(f"{count:,} {name}" for name, count in parts.items() if count)
    files = "files: " if report.unit == "pictures" else ""
    output.line(f"{folder}: {counted(report.items, report.unit)}; {files}{counts or 'none'} ({report.seconds:,.1f} s)")
    for remark in report.remarks:
        output.line(f"  {remark}")
    if report.duplicates and report.unit == "pictures":
        output.line(
            f"  {counted(report.duplicates, 'files')} with the content of another: visir library duplicates "
            f"{shlex.quote(str(folder))}"
        )
    for place, reason in list(report.unavailable.items())[:10]:
        output.line(f"  unavailable: {named(place, reason)}; what the library has of it is kept")
    if len(report.unavailable) > 10:
        output.line(f"  … and {len(report.unavailable) - 10:,} more that are away")
    if report.left_out:
        output.line(f"  {report.left_out}")
    for path, reason in list(report.broken.items())[:10]:
        output.line(f"  set aside: {named(path, reason)}")
    if len(report.broken) > 10:
        output.line(f"  … and {len(report.broken) - 10:,} more that cannot be read")
    wanted = [int(match[1]) for reason in report.broken.values() if (match := _ENOUGH.search(reason))]
    if len(wanted) > 1:
        line = f"{LIMIT_VARIABLE}={max(wanted)} visir library update {shlex.quote(str(folder))}"
        output.line(f"  {len(wanted):,} of them have too many pixels; enough for all: {line}")
