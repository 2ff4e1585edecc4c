"""`visir search LIBRARY`: a library searched in the terminal, with thumbnails where it can show them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import typer

from visir.cli import output
from visir.cli.answers import ShownAnswer, show_answers
from visir.library.query import DEEPEST
from visir.library.results import count_in_words
from visir.terminal import one_line

if TYPE_CHECKING:
    from visir.library.check import Item
    from visir.library.cli.search import GraphicsProtocol
    from visir.library.query import Query
    from visir.library.results import ResultPage
    from visir.library.searcher import Searcher


def search_library(folder: Path, options: Mapping[str, Any]) -> None:
    """Search, and show the answer: lines, pictures with their captions, or the service's JSON.

    Args:
        folder: The library.
        options: Those of `visir search` by name. The fields of a query have the names of `Query`, None for those that
            are not given; `image` is a path, and `like` any name of a picture of the library.
    """
    import os
    import sys

    from visir.collections.readers.names import gc_paused
    from visir.library.cli.search import graphics_protocol
    from visir.library.query import Query
    from visir.library.searcher import Searcher

    with gc_paused(), _system_memory(), Searcher.open(folder, device=options["device"], once=True) as searcher:
        fields = {name: options[name] for name in Query.model_fields if options[name] is not None}
        page = searcher.find(**fields)
        items = searcher.library.items([hit.id for hit in page.hits])
        places = _places(searcher, items)
        if output.wants_json():
            output.answer(_as_json(searcher, page, places))
            return
        query = Query(**fields)
        terms = _terms(searcher, query, page)
        protocol = graphics_protocol(os.environ, sys.stdout.isatty()) if options["thumbnails"] else None
        title = f"{searcher.library.name}: {_title(options, page)}"
        answers = [
            ShownAnswer(
                hit.rank,
                hit.score,
                item.product or (item.id if places[item.id] is None else item.files[0].path),
                str(places[item.id] or item.files[0].path),
                places[item.id],
                _caption(item),
                terms.get(hit.id, ""),
            )
            for hit, item in zip(page.hits, items, strict=True)
        ]
        if protocol is None:
            show_answers(title, "images", answers, unit="" if page.by == "filters" else "fit")
        else:
            _print_pictures(title, searcher, answers, [hit.id for hit in page.hits], protocol)
        filtered = bool(query.where or query.category or page.read)
        output.note(_footer(page, searcher.library.card.unit, query.offset, filtered=filtered))


@contextlib.contextmanager
def _system_memory() -> Iterator[None]:
    """Arrow's memory by the system: its other pools set memory aside, which one answer does not use."""
    import pyarrow as pa

    before = pa.default_memory_pool()
    pa.set_memory_pool(pa.system_memory_pool())
    try:
        yield
    finally:
        pa.set_memory_pool(before)


def _caption(item: Item) -> str:
    """What stands below an answer: its first caption; of a product its title, price and id."""
    if item.product is None:
        return item.captions[0][1] if item.captions else ""
    return ", ".join(filter(None, [item.name, item.price, f"product {item.product}"]))


def _terms(searcher: Searcher, query: Query, page: ResultPage) -> dict[str, str]:
    """From item to the words that matched, where words had a part in the answer."""
    from visir.sparse.top_terms import in_words

    if page.system in (None, "dense"):
        return {}
    matches = searcher.terms(query, [hit.id for hit in page.hits])
    return {item: in_words(terms) for item, terms in matches.items()}


def _title(options: Mapping[str, Any], page: ResultPage) -> str:
    parts = [f"“{page.text}”"] if page.text else []
    parts += [f"where {condition}" for condition in options["where"] or () if page.by == "filters"]
    parts += [f"like {example}" for example in (options["image"], options["like"]) if example is not None]
    parts += [f"in {options['category']}"] if options["category"] else []
    parts += [f"with “{read.words}” as {' and '.join(map(str, read.where))}" for read in page.read]
    parts = [" ".join([*parts, f"({page.label})"]), *page.changes]
    return "; ".join(parts)


def _footer(page: ResultPage, unit: str, offset: int, *, filtered: bool) -> str:
    count = count_in_words(
        page.total, page.matched, by=page.by, system=page.system, label=page.label, unit=unit, filtered=filtered
    )
    if not page.hits:
        if page.total:
            return f"nothing behind --offset {offset}: {count}"
        return "nothing found" + (f": no {unit[:-1]} passes the filters and the search" if filtered else "")
    end = page.hits[-1].rank
    more = f"; the next: --offset {page.next_offset}" if page.next_offset is not None else ""
    if page.next_offset is None and end < page.total and end >= DEEPEST:
        more = f"; an answer ends with rank {DEEPEST:,}"
    return f"{page.hits[0].rank}–{end} of {count}{more}"


def _as_json(searcher: Searcher, page: ResultPage, places: Mapping[str, Path | None]) -> dict[str, Any]:
    """What the service would answer, and for each picture the path of its file."""
    from visir.library.service.responses import ItemCards, library_path, results_json

    cards = ItemCards(searcher.library, library_path(searcher.library.name))
    answer: dict[str, Any] = orjson.loads(results_json(page, cards.of(hit.id for hit in page.hits)))
    for hit in answer["hits"]:
        hit["path"] = places.get(hit["id"])
    return answer


def _places(searcher: Searcher, items: Sequence[Item]) -> dict[str, Path | None]:
    """From item to its file, absolute; None where it lies in an archive, or elsewhere."""
    root = searcher.library.card.root
    is_here = bool(root) and "://" not in str(root)
    files = {item.id: next((file for file in item.files if file.content), item.files[0]) for item in items}
    places = {
        item: Path(root, (file.place if file.content else None) or file.path).absolute() if is_here else None
        for item, file in files.items()
    }
    return {item: path if path is not None and path.is_file() else None for item, path in places.items()}


def _print_pictures(
    title: str, searcher: Searcher, answers: Sequence[ShownAnswer], ids: Sequence[str], protocol: GraphicsProtocol
) -> None:
    import sys

    from visir.collections.images import decode
    from visir.library.cli.search import draw_image
    from visir.terminal import trusted

    typer.echo(one_line(title))
    for answer, id in zip(answers, ids, strict=True):
        typer.echo(f"\n{answer.rank:>3}  {answer.score:.4f}  {one_line(answer.place)}")
        for line in filter(None, (answer.caption, answer.terms)):
            typer.echo(f"     {one_line(line)}")
        thumbnail = searcher.library.thumbnail(id)
        if thumbnail is not None:
            sequences = draw_image(decode(thumbnail, f"the thumbnail of {id}"), protocol)
            typer.echo(sequences, file=trusted(sys.stdout), nl=False, color=True)
