"""`visir library serve`: libraries over HTTP, with a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from visir.cli import output
from visir.cli.classify import Days, Folder, Name, make_token, token_group
from visir.cli.options import COMPUTE, argument, option
from visir.cli.verbs import examples, serves, streams, worded
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
    libraries: Annotated[list[Path], argument("LIBRARY...")],
    front: dict[str, Any],
    docs: bool = False,
    log_queries: bool = False,
    max_pixels: Annotated[float, option(min=0.01)] = 32.0,
    queue: Annotated[int, option(min=1)] = 512,
    batch: Annotated[int, option("--searches", min=1)] = 64,
    threads: int = 0,
    reload: Annotated[float, option(min=0)] = 1.0,
    stale: Annotated[float, option(min=0)] = 10.0,
    device: str | None = None,
    deterministic: Annotated[bool, option(panel=COMPUTE)] = False,
) -> None:
    """Serve libraries as a search page and an HTTP API.

    Serve libraries: a search page, and an HTTP API (see /v1/openapi.json).

    On this machine alone it needs no tokens. On any other address it wants --tokens FOLDER (visir library token new)
    or --no-tokens.

    Args:
        libraries: Folders made by visir library make.
        docs: Offer /docs, which loads scripts from elsewhere.
        log_queries: Write what is looked for into the log.
        max_pixels: Megapixels of a photo to search with.
        queue: Requests that may wait, of each library.
        batch: Searches that are answered together.
        threads: Threads. 0: one per core.
        reload: Seconds between looks for a changed library; 0: never.
        stale: Seconds a library is served that cannot be compared with the disk.
        deterministic: The same scores to the last bit, whatever else is searched at the time. Texts cost up to twice as
            much.
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


def new(folder: Folder, name: Name, scope: list[str] | None = None, days: Days = None) -> None:
    """Make a token and show it, this once; the folder holds its hash only. Default scope: search.

    Args:
        scope: What is allowed: search or admin. Repeatable. Default: search.
    """
    make_token(folder, name, scope or ["search"], days)


app = token_group("visir library serve", "who may search, and who may change", new)


# `visir library duplicates`: the same file, or the same picture, more than once.


@examples("visir library duplicates photos.visir")
def duplicates(library: LibraryFolder, near: Annotated[int | None, option(min=0, max=128)] = None) -> None:
    """List copies, and pictures that nearly look the same.

    List files of equal content, and pictures that nearly look the same (resized, recompressed).

    Args:
        near: Bits of 256 in which near duplicates may differ.
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


@worded(QUERY_HELP)
@examples(
    "visir library facets shop.visir",
    "visir library facets shop.visir --where 'price < 50' --field brand",
    "visir library facets shop.visir 'red dress under 50'",
)
def facets(
    library: LibraryFolder,
    text: str | None = None,
    where: Annotated[list[str] | None, option(metavar="CONDITION")] = None,
    category: str | None = None,
    field: Annotated[list[str] | None, option(metavar="FIELD")] = None,
) -> None:
    """Count how many items have each brand, lie in each category, cost how much.

    A field is counted without the conditions on itself, so that other choices can be compared; it says so.

    Args:
        text: Count what these words find. Default: everything.
        where: A condition: "price < 50" … Repeatable.
        field: Only this field. Repeatable. Default: those that group.
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
