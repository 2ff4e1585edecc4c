"""`visir library serve`: libraries over HTTP, with a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from visir.cli import output
from visir.cli.classify import Days, Folder, Name, make_token, token_group
from visir.cli.options import COMPUTE, DeviceOption
from visir.cli.verbs import examples, serves, streams
from visir.display import counted, cut
from visir.library.cli.make import LibraryFolder
from visir.library.query_help import QUERY_HELP


@examples(
    "visir library serve photos.visir",
    "visir library serve photos.visir --port 9000 --host 0.0.0.0 --tokens tokens",
)
@streams
@serves(port=8765)
def serve(
    libraries: Annotated[
        list[Path], typer.Argument(metavar="LIBRARY...", help="Folders made by visir library make.", show_default=False)
    ],
    front: dict[str, Any],
    docs: Annotated[bool, typer.Option("--docs", help="Offer /docs, which loads scripts from elsewhere.")] = False,
    log_queries: Annotated[bool, typer.Option("--log-queries", help="Write what is looked for into the log.")] = False,
    max_pixels: Annotated[float, typer.Option(min=0.01, help="Megapixels of a photo to search with.")] = 32.0,
    queue: Annotated[int, typer.Option(min=1, help="Requests that may wait, of each library.")] = 512,
    batch: Annotated[int, typer.Option("--searches", min=1, help="Searches that are answered together.")] = 64,
    threads: Annotated[
        int, typer.Option(min=0, metavar="N", help="Threads. 0: one per core.", rich_help_panel=COMPUTE)
    ] = 0,
    reload: Annotated[float, typer.Option(min=0, help="Seconds between looks for a changed library; 0: never.")] = 1.0,
    stale: Annotated[
        float, typer.Option(min=0, help="Seconds a library is served that cannot be compared with the disk.")
    ] = 10.0,
    device: DeviceOption = None,
    deterministic: Annotated[
        bool,
        typer.Option(
            "--deterministic",
            help="The same scores to the last bit, whatever else is searched at the time. Texts cost up to twice as "
            "much.",
            rich_help_panel=COMPUTE,
        ),
    ] = False,
) -> None:
    """Serve libraries as a search page and an HTTP API.

    Serve libraries: a search page, and an HTTP API (see /v1/openapi.json).

    On this machine alone it needs no tokens. On any other address it wants --tokens FOLDER (visir library token new)
    or --no-tokens.
    """
    import time

    from visir.library.service.settings import settings_of_host
    from visir.serving.logs import log_of

    began = time.monotonic()
    port, log_form = front.pop("port"), front.pop("log_form")
    host = front.pop("host")
    settings = settings_of_host(
        host,
        tuple(libraries),
        docs=docs,
        log_queries=log_queries,
        device=device,
        deterministic=deterministic,
        pixels=int(max_pixels * 1e6),
        queue=queue,
        batch=batch,
        threads=threads,
        reload=reload,
        stale=stale,
        **front,
    )
    log = log_of(log_form, queries=log_queries)
    names = ", ".join(str(folder) for folder in libraries)
    log.write("info", "start", message=f"starting; the page follows when {names} can be searched")
    from visir.library.service.running import serve
    from visir.serving.server import require_packages

    require_packages("visir library serve")

    def ready(address: str) -> None:
        seconds = time.monotonic() - began
        typer.echo(f"visir serves {names} at {address} (ready after {seconds:.0f} s; Ctrl+C stops it)")

    serve(settings, host, port, ready, log=log, callback=lambda message: log.write("info", "start", message=message))


# `visir library token`: who may search, and who may change.


def new(
    folder: Folder,
    name: Name,
    scope: Annotated[
        list[str] | None, typer.Option("--scope", help="What is allowed: search or admin. Repeatable. Default: search.")
    ] = None,
    days: Days = None,
) -> None:
    """Make a token and show it, this once; the folder holds its hash only. Default scope: search."""
    make_token(folder, name, scope or ["search"], days)


app = token_group("visir library serve", "who may search, and who may change", new)


# `visir library duplicates`: the same file, or the same picture, more than once.


@examples(
    "visir library duplicates photos.visir",
)
def duplicates(
    library: LibraryFolder,
    near: Annotated[
        int | None, typer.Option(min=0, max=128, help="Bits of 256 in which near duplicates may differ.")
    ] = None,
) -> None:
    """List copies, and pictures that nearly look the same.

    List files of equal content, and pictures that nearly look the same (resized, recompressed).
    """
    from visir.library.duplicates import NEAR, duplicates
    from visir.library.snapshot import LibrarySnapshot

    most = NEAR if near is None else near
    with LibrarySnapshot.open(library) as opened:
        groups = duplicates(opened.database, near=most)
        near_groups = [[item.files[0].path for item in opened.items(items)] for items in groups.near]
        output.answer({"exact": groups.exact, "near": near_groups, "bits": most})
        output.line(f"exact: {counted(len(groups.exact), 'groups')} of files with the same content")
        for group in groups.exact:
            output.line("  " + "\n  ".join(group) + "\n")
        output.line(
            f"near: {counted(len(groups.near), 'groups')} of pictures that differ in at most {most} of 256 bits"
        )
        for paths in near_groups:
            output.line("  " + "\n  ".join(paths) + "\n")


# `visir library facets`: how many items have each brand, lie in each category, cost how much.

_WIDEST = 80
"""Longer values are cut in the table that is printed; `--json` has them whole."""


@examples(
    "visir library facets shop.visir",
    "visir library facets shop.visir --where 'price < 50' --field brand",
    "visir library facets shop.visir 'red dress under 50'",
)
def facets(
    library: LibraryFolder,
    text: Annotated[
        str | None, typer.Argument(metavar="[TEXT]", help="Count what these words find. Default: everything.")
    ] = None,
    where: Annotated[
        list[str] | None, typer.Option(metavar="CONDITION", help='A condition: "price < 50" … Repeatable.')
    ] = None,
    category: Annotated[str | None, typer.Option(help=QUERY_HELP["category"])] = None,
    field: Annotated[
        list[str] | None, typer.Option(metavar="FIELD", help="Only this field. Repeatable. Default: those that group.")
    ] = None,
) -> None:
    """Count how many items have each brand, lie in each category, cost how much.

    A field is counted without the conditions on itself, so that other choices can be compared; it says so.
    """
    from visir.library.layout import check_first_update_done
    from visir.library.searcher import Searcher
    from visir.reports.table import Column, Table

    check_first_update_done(library)
    with Searcher.open(library, once=True) as searcher:
        opened = searcher.library
        counted = searcher.facets({"text": text, "where": where or (), "category": category}, field)
        output.answer({"library": opened.name, **counted.to_dict()})
        rows: list[tuple[str, str, int | None]] = []
        for facet in counted.facets:
            names = ["" if place else facet.field for place in range(len(facet.values))]
            values = [(cut(value.label, _WIDEST), value.count) for value in facet.values]
            rows += [(name, *value) for name, value in zip(names, values, strict=True)]
            if facet.left_out:
                rows.append(("", f"(without {' and '.join(map(str, facet.left_out))})", None))
            if facet.more:
                rows.append(("", f"and {facet.more:,} more", None))
        output.table(Table.of([Column("field"), Column("value"), Column("items", 0)], rows))
        means = {"all": "", "found": " found", "ranked": " ranked"}[counted.of]
        output.note(f"{counted.total:,} of {len(opened):,} {opened.card.unit}{means}")
