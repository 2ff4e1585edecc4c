"""`visir library make`: a folder of photos, or a collection, made searchable."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from visir.cli import output
from visir.cli.index import place_in_words
from visir.cli.options import argument, name_value_pairs, option
from visir.cli.verbs import Call, calls, examples, streams
from visir.collections.budget import LIMIT_VARIABLE
from visir.display import counted, named

if TYPE_CHECKING:
    from visir.library import UpdateReport
    from visir.library.layout import IndexPlace

LibraryFolder = Annotated[Path, argument("LIBRARY", about="The library's folder.")]
SettleOption = Annotated[float, option(about="Seconds of quiet before a watch updates.", min=0.05)]
_UPDATE: Any = {
    "kind": option(kind=list[str]),
    "settings": option(to="setting"),
    "synonyms": option(kind=Path, metavar="FILE"),
}
"""What `make` and `update` ask for in the same way."""


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
    from visir.encoders.devices import absolute_name
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
    from visir.retrieval.remote.engine import needed_later

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


# `visir library info`: what a library holds.


@examples("visir library info photos.visir")
def info(library: LibraryFolder) -> None:
    """Say what a library holds.

    Say what a library holds: pictures, captions, models, indexes.
    """
    from rich.table import Table

    from visir.library.layout import check_first_update_done
    from visir.library.models import NO_MODEL
    from visir.library.snapshot import LibrarySnapshot

    check_first_update_done(library)
    with LibrarySnapshot.open(library) as opened:
        card = opened.card
        count = opened.database.value
        table = Table("library", opened.name, show_edge=False)
        rows = {
            "source": card.source + (f", split {card.split}" if card.split else ""),
            card.unit: f"{len(opened):,}",
            "files": f"{count('SELECT count(*) FROM files'):,}",
            "captions": f"{count('SELECT count(*) FROM captions'):,}",
            "broken": f"{count('SELECT count(*) FROM broken'):,}",
            "taken out": f"{count('SELECT count(*) FROM removed'):,}",
            "model": opened.model or NO_MODEL,
            "sparse head": opened.head or "none",
            "generation": str(opened.generation),
        }
        captions = {} if opened.captions is None else {"captions": opened.captions}
        for system, index in {**opened.indexes, **captions}.items():
            about = index.info()
            shown = f"{about.kind}, {about.documents:,} × {about.dimension:,}, {place_in_words(about)}"
            rows[f"{opened.label(system)} index"] = shown + (
                "" if about.place else f", {about.details.get('parts', 1)} parts, {about.deleted:,} deleted rows"
            )
        if opened.words is not None:
            words = opened.words.index
            rows["words"] = f"{len(words.terms):,} in {', '.join(words.fields)}; language {words.language.name}"
            rows["synonyms"] = f"{len(card.words.get('synonyms', ())):,} rules"
        elif card.unit == "products":
            rows["words"] = f"none; visir library update {shlex.quote(str(library))} adds them"
        output.answer({"library": opened.name, **rows})
        for title, value in rows.items():
            table.add_row(title, value)
        output.rich_table(table)


@calls(
    "visir.library.updating:update",
    source=argument("PLACE", to="place", kind=str),
    model=option(kind=str),
    head=option(to="sparse", kind=str),
    images=option(default=None),
    leave="folder loaded callback",
    **_UPDATE,
)
@examples(
    "visir library make ~/Photos --model openai/clip-vit-base-patch32",
    "visir library make ~/Photos --model runs/mine --out photos.visir --watch",
)
def make(call: Call, out: Path | None = None, watch: bool = False, settle: SettleOption = 2.0) -> None:
    """Make a folder of photos searchable.

    Killed at any moment, the same command goes on. Run again, it brings the library up to date: only what is new is
    encoded, moved files cost nothing. Broken photos are listed, and tried again when they change.

    Args:
        place: A folder of photos, or a collection in any known format.
        sparse: A sparse head over the model (visir sparsify): search by weighted words too.
        out: Where to write: the library's folder. Default: PLACE's name + .visir, here.
        watch: Then go on: update whenever something changes.
    """
    from visir.errors import ConfigurationError
    from visir.library.layout import default_folder, is_library
    from visir.library.models import default_model
    from visir.library.watch import require_watching

    given = dict(call.given)
    place = given.pop("source")
    given |= {"settings": name_value_pairs(given["settings"]), "images": given["images"] or ()}
    if watch:
        require_watching()
    if is_library(place) and out is None:
        raise ConfigurationError(
            f"{place} is a library already.", hint=f"visir library update {shlex.quote(str(place))}"
        )
    folder = out or default_folder(place)
    if given["model"] is None and not is_library(folder):
        default = default_model(place, given["images"], given["split"])
        given["model"] = default.name
        typer.echo(f"model {default.name}: {default.reason} (--model takes another)", err=True)
    loaded: dict[str, Any] = {}
    update_once(folder, place, **given, loaded=loaded)
    if watch:
        watch_on(folder, settle, device=given["device"], loaded=loaded)


# `visir library update` and `watch`: a library follows its photos.


@calls(
    "visir.library.updating:update",
    model=option(kind=str),
    head=option(to="sparse", kind=str),
    leave="source folder split images loaded callback",
    **_UPDATE,
)
@examples("visir library update photos.visir")
def update(library: LibraryFolder, call: Call) -> None:
    """Bring a library up to date with its photos.

    Bring a library up to date with its photos: new, changed, moved and deleted files.

    Only what is new is encoded, by the library's own model. Another --model encodes everything anew; the library
    answers with the old one until that is done, and what was stopped goes on with any update. With another --kind or
    --set its indexes are made anew from the vectors that they hold.

    Args:
        model: A model: another, or a first one (everything is encoded anew), or the new place of its own.
        sparse: A sparse head over the model: another, or a first one, or the new place of the library's own.
    """
    from visir.library.layout import check_first_update_done

    check_first_update_done(library)
    update_once(library, None, **{**call.given, "settings": name_value_pairs(call.given["settings"])}, loaded={})


@streams
def watch(library: LibraryFolder, settle: SettleOption = 2.0, device: str | None = None) -> None:
    """Update a library whenever its photos change, until Ctrl-C."""
    from visir.library.watch import require_watching

    require_watching()
    loaded: dict[str, Any] = {}
    update_once(library, None, device=device, loaded=loaded)
    watch_on(library, settle, device=device, loaded=loaded)


# `visir library check`: is every byte as it was written?


@examples("visir library check photos.visir")
def check(library: LibraryFolder) -> None:
    """Read every byte of a library, and check it.

    Read every byte of a library and compare it with its checksums.
    """
    from visir.errors import docs_page
    from visir.library.check import check
    from visir.library.layout import LibraryError

    faults = check(library)
    output.answer({"library": library.absolute(), "faults": [str(fault) for fault in faults]})
    if faults:
        listed = "\n".join(f"  - {fault}" for fault in faults)
        raise LibraryError(
            f"{library}: {counted(len(faults), 'faults')}:\n{listed}",
            hint=f"{docs_page('background/libraries')} says what to do",
        )
    output.line(f"{library}: everything is as it was written")
