"""`visir index PLACE`: a folder of photos, or a collection, made searchable and kept up to date."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from visir.cli.options import name_value_pairs

if TYPE_CHECKING:
    from visir.library.updating import UpdateReport

LibraryFolder = Annotated[Path, typer.Argument(metavar="LIBRARY", help="The library's folder.", show_default=False)]


def library_command(
    place: Annotated[
        str,
        typer.Argument(
            metavar="PLACE",
            help="A folder of photos, or a collection in any known format; or a library, to bring it up to date.",
            show_default=False,
        ),
    ],
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", help="A model, or a checkpoint folder. A library keeps its model."),
    ] = None,
    sparse: Annotated[
        str | None, typer.Option(help="A sparse head over it (visir sparsify): search by weighted words too.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The library's folder. Default: PLACE's name + .visir, here.")
    ] = None,
    kind: Annotated[
        list[str] | None, typer.Option(help="A kind of index (visir index kinds). Default: exact, and inverted.")
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A setting of the indexes (visir index kinds; repeatable)."),
    ] = None,
    name: Annotated[str | None, typer.Option(help="What to call the library. Default: the folder's name.")] = None,
    split: Annotated[str | None, typer.Option(help="One split only ('train+val' for several).")] = None,
    images: Annotated[
        list[str] | None, typer.Option("--images", "-i", help="Where the pictures are: folder, zip, tar (repeatable).")
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Read every file, also those whose size and time are as they were.")
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Go on: update whenever something changes there.")] = False,
    settle: Annotated[float, typer.Option(min=0.05, help="Seconds of quiet before --watch updates.")] = 2.0,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, mps, … Default: the best there is.")] = None,
) -> None:
    """Make a folder of photos (or a collection) searchable; repeated, bring it up to date.

    Only what is new is encoded; moved files cost nothing. Broken photos are listed, and tried again when they change.
    Killed at any moment, it goes on from there when it is run again.
    """
    from visir.errors import ConfigurationError
    from visir.library.index_migration import collections_of
    from visir.library.layout import is_library
    from visir.library.updating import update
    from visir.library.watch import require_watching
    from visir.library.watch import watch as changes

    if watch:
        require_watching()
    if is_library(place) and out is None:
        source, folder = None, Path(place)
    else:
        source, folder = place, out or default_folder(place)
    if model is None and not is_library(folder):
        raise ConfigurationError(
            f"{folder}: there is no library yet; with which model?",
            hint=f"visir index {place} --model MODEL{_meant(place)}",
        )
    loaded: dict[str, Any] = {}
    settings = name_value_pairs(setting)
    before = collections_of(folder)

    def once(again: bool = False) -> None:
        report = update(
            None if again else source,
            folder,
            model=None if again else model,
            head=None if again else sparse,
            kind=None if again else kind,
            settings=None if again else settings,
            name=name,
            split=split,
            images=images or (),
            verify=verify and not again,
            device=device,
            loaded=loaded,
        )
        if not (again and report.same):
            _report(folder, report)

    once()
    for url, collection in before.keys() - collections_of(folder).keys():
        typer.echo(f"  no longer used, and left there: curl -X DELETE {url.rstrip('/')}/collections/{collection}")
    if watch:
        typer.echo("watching; Ctrl-C ends it")
        sys.stdout.flush()
        changes(folder, lambda: once(again=True), settle=settle, callback=lambda message: typer.echo(message, err=True))


def duplicates_command(
    library: LibraryFolder,
    near: Annotated[
        int | None, typer.Option(min=0, max=128, help="Bits of 256 in which near duplicates may differ.")
    ] = None,
) -> None:
    """List files of equal content, and pictures that nearly look the same (resized, recompressed)."""
    from visir.library.duplicates import duplicates
    from visir.library.perceptual_hash import NEAR
    from visir.library.snapshot import LibrarySnapshot

    most = NEAR if near is None else near
    with LibrarySnapshot.open(library) as opened:
        groups = duplicates(opened.database, near=most)
        typer.echo(f"exact: {len(groups.exact):,} groups of files with the same content")
        for group in groups.exact:
            typer.echo("  " + "\n  ".join(group) + "\n")
        typer.echo(f"near: {len(groups.near):,} groups of pictures that differ in at most {most} of 256 bits")
        for items in groups.near:
            typer.echo("  " + "\n  ".join(item.files[0].path for item in opened.items(items)) + "\n")


def check_command(library: LibraryFolder) -> None:
    """Read every byte of a library and compare it with its checksums."""
    from visir.library.check import check
    from visir.library.layout import LibraryError

    faults = check(library)
    if faults:
        listed = "\n".join(f"  - {fault}" for fault in faults)
        raise LibraryError(
            f"{library}: {len(faults):,} faults:\n{listed}", hint="docs/background/libraries.md says what to do"
        )
    typer.echo(f"{library}: everything is as it was written")


def print_library(folder: Path) -> None:
    """Print a library for `visir index info`."""
    from rich.table import Table

    from visir.console import Console
    from visir.library.snapshot import LibrarySnapshot

    with LibrarySnapshot.open(folder) as library:
        card = library.card
        count = library.database.value
        table = Table("library", library.name, show_edge=False)
        rows = {
            "source": card.source + (f", split {card.split}" if card.split else ""),
            "pictures": f"{len(library):,}",
            "files": f"{count('SELECT count(*) FROM files'):,}",
            "captions": f"{count('SELECT count(*) FROM captions'):,}",
            "broken": f"{count('SELECT count(*) FROM broken'):,}",
            "taken out": f"{count('SELECT count(*) FROM removed'):,}",
            "model": library.model,
            "sparse head": library.head or "none",
            "generation": str(library.generation),
        }
        captions = {} if library.captions is None else {"captions": library.captions}
        for system, index in {**library.indexes, **captions}.items():
            info = index.info()
            rows[f"{system} index"] = (
                f"{info.kind}, {info.documents:,} × {info.dimension:,}, {info.bytes / 1e6:,.1f} MB, "
                f"{info.details.get('parts', 1)} parts, {info.deleted:,} deleted rows"
            )
        for title, value in rows.items():
            table.add_row(title, value)
        Console().print(table, markup=False)


def default_folder(place: str) -> Path:
    """The default folder of a library of this place: `Photos.visir` in the current folder."""
    path = Path(place)
    if path.exists():
        stem = path.absolute().name.split(".")[0] or path.absolute().name
    else:
        stem = re.sub(r"[^\w-]+", "-", Path(place.partition("?")[0]).name.split(".")[0]).strip("-")
    return Path(f"{stem or 'library'}.visir")


def _meant(place: str) -> str:
    """For a mistyped verb: the one that was probably meant."""
    import difflib

    verbs = ("build", "add", "delete", "info", "search", "export", "kinds", "duplicates", "check")
    close = difflib.get_close_matches(place, verbs, n=1)
    return f"; or did you mean: visir index {close[0]}" if close and not Path(place).exists() else ""


def _report(folder: Path, report: UpdateReport) -> None:
    parts = {name: getattr(report, name) for name in ("added", "changed", "moved", "deleted", "unchanged")}
    counts = ", ".join(f"{count:,} {name}" for name, count in parts.items() if count)
    typer.echo(f"{folder}: {report.items:,} pictures; files: {counts or 'none'} ({report.seconds:,.1f} s)")
    if report.duplicates:
        typer.echo(f"  {report.duplicates:,} files are copies of others: visir index duplicates {folder}")
    for place, reason in list(report.unavailable.items())[:10]:
        typer.echo(f"  unavailable: {place}: {reason}; its pictures are kept")
    for path, reason in list(report.broken.items())[:10]:
        typer.echo(f"  set aside: {path}: {reason}")
    if len(report.broken) > 10:
        typer.echo(f"  … and {len(report.broken) - 10:,} more that cannot be read")
