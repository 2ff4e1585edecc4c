"""`visir search LIBRARY`: a library asked in the terminal, with thumbnails where it can show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from visir.terminal import one_line

if TYPE_CHECKING:
    from PIL.Image import Image

    from visir.library import Item
    from visir.library.cli.terminal_pictures import Way
    from visir.library.query import Query
    from visir.library.results import ResultPage
    from visir.library.searcher import Searcher


@dataclass(frozen=True)
class SearchOptions:
    """The options of `visir search` that a library takes, as they were given; None for what was not."""

    text: str | None
    image: Path | None
    like: str | None
    share: float | None
    system: str | None
    fusion: str | None
    weight: float | None
    where: Sequence[str]
    category: str | None
    k: int
    offset: int
    rerank: int
    device: str | None
    as_json: bool
    pictures: bool

    def only_here(self) -> list[str]:
        """The options given that a collection does not take."""
        given = {
            "--like": self.like, "--share": self.share, "--system": self.system, "--fusion": self.fusion,
            "--weight": self.weight, "--where": list(self.where) or None, "--category": self.category,
            "--offset": self.offset or None, "--rerank": self.rerank or None, "--json": self.as_json or None,
        }  # fmt: skip
        return [name for name, value in given.items() if value is not None]


def search_library(folder: Path, asked: SearchOptions) -> None:
    """Ask, and show the answer: a table, pictures with their captions, or the service's JSON."""
    import os
    import sys

    from visir.library.cli.terminal_pictures import way_for
    from visir.library.searcher import Searcher

    with Searcher.open(folder, device=asked.device) as searcher:
        query = _query(searcher, asked)
        [answer] = searcher.search([query])
        if asked.as_json:
            _print_json(searcher, answer)
            return
        items = searcher.library.items([hit.item for hit in answer.hits])
        terms = _terms(searcher, query, answer)
        way = way_for(os.environ, sys.stdout.isatty()) if asked.pictures else None
        title = f"{searcher.library.name}: {_title(asked, answer)}"
        if way is None:
            _print_table(title, answer, items, terms)
        else:
            _print_pictures(title, searcher, answer, items, terms, way)
        typer.echo(_foot(answer, asked))


def _query(searcher: Searcher, asked: SearchOptions) -> Query:
    from visir.library.filters import parse
    from visir.library.query import Query

    given = {
        "share": asked.share, "system": asked.system, "fusion": asked.fusion, "weight": asked.weight
    }  # fmt: skip
    return Query(
        text=asked.text,
        image=None if asked.image is None else _opened(asked.image),
        item=None if asked.like is None else _item(searcher, asked.like),
        conditions=tuple(parse(one) for one in asked.where),
        category=asked.category,
        k=asked.k,
        offset=asked.offset,
        rerank=asked.rerank,
        **{name: value for name, value in given.items() if value is not None},  # type: ignore[arg-type]
    )


def _opened(path: Path) -> Image:
    from visir.collections.images import decode
    from visir.files import open_binary

    with open_binary(path) as stream:
        return decode(stream.read(), str(path))


def _terms(searcher: Searcher, query: Query, answer: ResultPage) -> dict[str, str]:
    """{item: the words that matched}, where words had a part in the answer."""
    from visir.search.sparse.matched import in_words

    if answer.system == "dense":
        return {}
    found = searcher.terms(query, [hit.item for hit in answer.hits])
    return {item: in_words(some) for item, some in found.items()}


def _item(searcher: Searcher, like: str) -> str:
    """An item's id from itself, from the beginning of one, or from the path or name of a file of it."""
    from visir.library.layout import LibraryError

    rows = searcher.library.database.rows
    named = rows("SELECT DISTINCT item FROM files WHERE path = ? OR name = ?", (like, like))
    found = named or rows("SELECT id FROM items WHERE substr(id, 1, ?) = ?", (len(like), like)) if like else []
    if len(found) != 1:
        what = "no picture is called so" if not found else f"{len(found)} pictures are"
        raise LibraryError(
            f"--like {like}: {what}.", hint="give the path of a file as visir search shows it, or more of the item's id"
        )
    return str(found[0][0])


def _title(asked: SearchOptions, answer: ResultPage) -> str:
    parts = [f"“{answer.text}”"] if answer.text else []
    parts += [f"like {one}" for one in (asked.image, asked.like) if one is not None]
    parts += [f"in {asked.category}"] if asked.category else []
    return " ".join([*parts, f"({answer.system})"])


def _foot(answer: ResultPage, asked: SearchOptions) -> str:
    of = f"of {answer.total:,} pictures" + (" that pass the filters" if asked.where or asked.category else "")
    if not answer.hits:
        return f"nothing found {of}"
    more = f"; the next: --offset {answer.next_offset}" if answer.next_offset is not None else ""
    return f"{answer.hits[0].rank}–{answer.hits[-1].rank} {of}{more}"


def _print_json(searcher: Searcher, answer: ResultPage) -> None:
    from visir.library.service.responses import ItemCards, address, results

    cards = ItemCards(searcher.library, address(searcher.library.name))
    typer.echo(results(answer, cards.of(hit.item for hit in answer.hits)).decode())


def _print_table(title: str, answer: ResultPage, items: Sequence[Item], terms: dict[str, str]) -> None:
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
    for hit, item in zip(answer.hits, items, strict=True):
        caption = item.captions[0][1] if item.captions else ""
        row = [str(hit.rank), f"{hit.score:.4f}", item.files[0].path, caption]
        row += [terms.get(hit.item, "")] if any(terms.values()) else []
        table.add_row(*(escape(one_line(cell)) for cell in row))
    Console().print(table)


def _print_pictures(
    title: str, searcher: Searcher, answer: ResultPage, items: Sequence[Item], terms: dict[str, str], way: Way
) -> None:
    import io
    import sys

    from PIL import Image

    from visir.library.cli.terminal_pictures import drawn
    from visir.terminal import trusted

    typer.echo(one_line(title))
    for hit, item in zip(answer.hits, items, strict=True):
        typer.echo(f"\n{hit.rank:>3}  {hit.score:.4f}  {one_line(item.files[0].path)}")
        for line in (item.captions[0][1] if item.captions else "", terms.get(hit.item, "")):
            if line:
                typer.echo(f"     {one_line(line)}")
        thumbnail = searcher.library.thumbnail(hit.item)
        if thumbnail is not None:
            sequences = drawn(Image.open(io.BytesIO(thumbnail)).convert("RGB"), way)
            typer.echo(sequences, file=trusted(sys.stdout), nl=False, color=True)
