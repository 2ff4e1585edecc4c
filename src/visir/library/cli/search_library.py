"""`visir search LIBRARY`: a library searched in the terminal, with thumbnails where it can show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from visir.terminal import one_line

if TYPE_CHECKING:
    from visir.library.cli.terminal_pictures import GraphicsProtocol
    from visir.library.item import Item
    from visir.library.query import Query
    from visir.library.results import ResultPage
    from visir.library.searcher import Searcher


def search_library(folder: Path, options: Mapping[str, Any]) -> None:
    """Search, and show the answer: a table, pictures with their captions, or the service's JSON.

    Args:
        folder: The library.
        options: Those of `visir search` by name. The fields of a query have the names of `Query`, None for those that
            are not given; `image` is a path, and `like` any name of a picture of the library.
    """
    import os
    import sys

    from visir.library.cli.terminal_pictures import graphics_protocol
    from visir.library.query import Query
    from visir.library.searcher import Searcher

    with Searcher.open(folder, device=options["device"]) as searcher:
        fields = {name: options[name] for name in Query.model_fields if options[name] is not None}
        page = searcher.find(**fields)
        if options["as_json"]:
            _print_json(searcher, page)
            return
        query = Query(**fields)
        items = searcher.library.items([hit.id for hit in page.hits])
        terms = _terms(searcher, query, page)
        protocol = graphics_protocol(os.environ, sys.stdout.isatty()) if options["pictures"] else None
        title = f"{searcher.library.name}: {_title(options, page)}"
        if protocol is None:
            _print_table(title, page, items, terms)
        else:
            _print_pictures(title, searcher, page, items, terms, protocol)
        typer.echo(_footer(page, filtered=bool(query.where or query.category)))


def _terms(searcher: Searcher, query: Query, page: ResultPage) -> dict[str, str]:
    """From item to the words that matched, where words had a part in the answer."""
    from visir.sparse.matched import in_words

    if page.system == "dense":
        return {}
    matches = searcher.terms(query, [hit.id for hit in page.hits])
    return {item: in_words(terms) for item, terms in matches.items()}


def _title(options: Mapping[str, Any], page: ResultPage) -> str:
    parts = [f"“{page.text}”"] if page.text else []
    parts += [f"like {example}" for example in (options["image"], options["like"]) if example is not None]
    parts += [f"in {options['category']}"] if options["category"] else []
    return " ".join([*parts, f"({page.system})"])


def _footer(page: ResultPage, *, filtered: bool) -> str:
    of = f"of {page.total:,} pictures" + (" that pass the filters" if filtered else "")
    if not page.hits:
        return f"nothing found {of}"
    more = f"; the next: --offset {page.next_offset}" if page.next_offset is not None else ""
    return f"{page.hits[0].rank}–{page.hits[-1].rank} {of}{more}"


def _print_json(searcher: Searcher, page: ResultPage) -> None:
    from visir.library.service.responses import ItemCards, library_path, results_json

    cards = ItemCards(searcher.library, library_path(searcher.library.name))
    typer.echo(results_json(page, cards.of(hit.id for hit in page.hits)).decode())


def _print_table(title: str, page: ResultPage, items: Sequence[Item], terms: dict[str, str]) -> None:
    from rich.markup import escape
    from rich.table import Table

    from visir.console import Console

    table = Table(title=escape(title), title_justify="left", box=None)
    table.add_column("rank", justify="right")
    table.add_column("score", justify="right")
    table.add_column("picture", overflow="fold")
    table.add_column("first caption", overflow="fold")
    if any(terms.values()):
        table.add_column("matched terms", overflow="fold")
    for hit, item in zip(page.hits, items, strict=True):
        caption = item.captions[0][1] if item.captions else ""
        row = [str(hit.rank), f"{hit.score:.4f}", item.files[0].path, caption]
        row += [terms.get(hit.id, "")] if any(terms.values()) else []
        table.add_row(*(escape(one_line(cell)) for cell in row))
    Console().print(table)


def _print_pictures(
    title: str,
    searcher: Searcher,
    page: ResultPage,
    items: Sequence[Item],
    terms: dict[str, str],
    protocol: GraphicsProtocol,
) -> None:
    import io
    import sys

    from PIL import Image

    from visir.library.cli.terminal_pictures import draw_image
    from visir.terminal import trusted

    typer.echo(one_line(title))
    for hit, item in zip(page.hits, items, strict=True):
        typer.echo(f"\n{hit.rank:>3}  {hit.score:.4f}  {one_line(item.files[0].path)}")
        for line in (item.captions[0][1] if item.captions else "", terms.get(hit.id, "")):
            if line:
                typer.echo(f"     {one_line(line)}")
        thumbnail = searcher.library.thumbnail(hit.id)
        if thumbnail is not None:
            sequences = draw_image(Image.open(io.BytesIO(thumbnail)).convert("RGB"), protocol)
            typer.echo(sequences, file=trusted(sys.stdout), nl=False, color=True)
