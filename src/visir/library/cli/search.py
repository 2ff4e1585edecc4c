"""`visir search`: a folder, a collection or a library is asked with words or a picture."""

from __future__ import annotations

import base64
import contextlib
import io
import os
import shlex
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import orjson
import typer

from visir.cli import output
from visir.cli.index import search_collection
from visir.cli.options import argument, of, option
from visir.cli.output import ShownAnswer, show_answers
from visir.cli.verbs import examples, worded
from visir.library.query_help import QUERY_HELP
from visir.terminal import one_line

if TYPE_CHECKING:
    from PIL.Image import Image

    from visir.library.check import Item
    from visir.library.query import Query
    from visir.library.results import ResultPage
    from visir.library.searcher import Searcher


_FILTERS, _SYSTEMS = "In a library: filters", "In a library: how it is searched"
_EVERYWHERE = {"collection", "text", "image", "k", "device", "skip_broken", "as_json", "quiet"}
_OF_COLLECTIONS = {"model", "to", "index", "split", "images"}
"""Options that a library does not take; all others are for libraries alone."""


@worded(QUERY_HELP)
@examples(
    "visir search ~/Photos 'a dog on a beach' --model openai/clip-vit-base-patch32",
    "visir search photos.visir 'a dog on a beach'",
    "visir search photos.visir 'at night' --image beach.jpg",
    "visir search photos.visir 'a dog' --where 'width >= 800' --where 'taken >= 2024-05'",
    "visir search scenes:100 --image photo.jpg --model pixels",
)
def search(
    context: typer.Context,
    collection: Annotated[str, argument("SOURCE")],
    text: str | None = None,
    model: str | None = None,
    image: Path | None = None,
    k: int = 10,
    to: Annotated[str | None, option(metavar="SIDE", autocompletion=of("images", "captions"))] = None,
    index: Annotated[Path | None, option(metavar="FOLDER")] = None,
    split: str | None = None,
    images: list[str] | None = None,
    skip_broken: Annotated[bool, option("--skip-broken", hidden=True)] = True,
    like: Annotated[str | None, option(metavar="PICTURE", panel=_FILTERS)] = None,
    where: Annotated[list[str] | None, option(metavar="CONDITION", panel=_FILTERS)] = None,
    category: Annotated[str | None, option(panel=_FILTERS)] = None,
    read_prices: Annotated[bool | None, option("--read-prices/--no-read-prices", panel=_FILTERS)] = None,
    offset: Annotated[int | None, option(metavar="N", min=0, panel=_FILTERS)] = None,
    by: Annotated[
        str | None, option("--search-by", autocompletion=of("words", "vectors", "both"), panel=_SYSTEMS)
    ] = None,
    system: Annotated[str | None, option(autocompletion=of("dense", "sparse", "hybrid"), panel=_SYSTEMS)] = None,
    text_weight: Annotated[float | None, option(metavar="SHARE", panel=_SYSTEMS)] = None,
    fusion: Annotated[str | None, option(autocompletion=of("rrf", "weighted"), panel=_SYSTEMS)] = None,
    weight: Annotated[float | None, option(metavar="SHARE", panel=_SYSTEMS)] = None,
    rerank: Annotated[int | None, option("--rerank-top", metavar="N", min=0, panel=_SYSTEMS)] = None,
    thumbnails: Annotated[bool, option("--thumbnails/--no-thumbnails", panel=_SYSTEMS)] = True,
    device: str | None = None,
) -> None:
    """Search photos or a collection with words or a picture.

    A folder or a collection is encoded first; the vectors are kept, so that the next search is fast. Pictures that
    cannot be read are set aside, and named. A library is searched at once, by its own model, with words, a picture or
    both, among all pictures or those that pass filters. With a model of weighted words (visir sparsify) the terms that
    matched are shown. `visir index search` has the options of an index.

    Args:
        collection: A folder of photos, a library (visir library make), or a collection in any known format.
        text: What to look for.
        image: Look for what fits this picture, instead of a text; in a library also beside one.
        to: What is found: images or captions. Default: images for a text, both for a picture.
        index: Ask this index of the collection (visir index build), by its own model.
        skip_broken: Set pictures aside that cannot be read: always so, here.
        thumbnails: Show pictures where the terminal can.
        where: A condition: "width >= 800", "taken >= 2024-05", "camera contains canon" … Repeatable.
    """
    options = dict(locals())
    from visir.errors import ConfigurationError, raise_faults
    from visir.library.layout import check_first_update_done, is_library

    check_first_update_done(Path(collection))
    if is_library(collection):
        given = _given(context, _OF_COLLECTIONS)
        faults = [f"{flag}: {collection} is a library, which has its own model and pictures" for flag in given]
        raise_faults(ConfigurationError, "search", faults, hint="leave it out; visir search --help lists what it takes")
        search_library(Path(collection), options)
        return
    if "://" not in collection:
        from visir.collections.opening import COLLECTIONS
        from visir.collections.sources import find_source

        find_source(collection, COLLECTIONS)  # a place that does not exist is the first thing to say
    else:
        from visir.collections.own_folders import check_no_own_folder

        check_no_own_folder(collection)
    given = _given(context, {item.name for item in context.command.params} - _EVERYWHERE - _OF_COLLECTIONS)
    faults = [f"{flag}: for libraries; {collection} is none" for flag in given]
    raise_faults(
        ConfigurationError, "search", faults, hint=f"make it one: visir library make {shlex.quote(collection)}"
    )
    search_collection(
        collection, text=text, model=model, image=image, k=k, to=to, index=index, split=split, images=images,
        device=device,
    )  # fmt: skip


def _given(context: typer.Context, names: Collection[str | None]) -> list[str]:
    """Those of some options that stand on the command line, as they are written: "--split"."""
    sources = {item: context.get_parameter_source(str(item.name)) for item in context.command.params}
    return [
        max(item.opts, key=len)
        for item, source in sources.items()
        if item.name in names and source is not None and source.name == "COMMANDLINE"
    ]


# A library searched in the terminal, with thumbnails where it can show them.


def search_library(folder: Path, options: Mapping[str, Any]) -> None:
    """Search, and show the answer: lines, pictures with their captions, or the service's JSON."""
    # options: Those of `visir search` by name. The fields of a query have the names of `Query`, None for those that are
    # not given; `image` is a path, and `like` any name of a picture of the library.
    from visir.collections.readers.names import gc_paused
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
    from visir.library.search import WORDS
    from visir.sparse.top_terms import in_words

    words, text = searcher.library.words, page.text
    if words is not None and not words.of_products and page.by in ("words", "both") and text:
        plan = words.plan(text)
        reasons = {hit.id: words.index.found_words(plan, hit.id) for hit in page.hits if WORDS in hit.parts}
        return {
            item: "; ".join(f"{', '.join(each.words)} ({', '.join(each.fields)})" for each in matches)
            for item, matches in reasons.items()
        }
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
    from visir.library.query import DEEPEST
    from visir.library.results import count_in_words

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
    from visir.collections.images import decode
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


# Pictures in a terminal: by its own graphics where it has some, as half blocks in 24-bit colour otherwise.

GraphicsProtocol = Literal["kitty", "iterm2", "sixel", "blocks"]

_KITTY = ("xterm-kitty", "xterm-ghostty")
_SIXEL = ("foot", "mlterm", "yaft")
_CHUNK = 4096
"""Characters of one kitty escape sequence, at most."""
_CELL = (10, 20)
"""Pixels of a character cell, about: sixels are drawn pixel by pixel, and the real size is seldom known."""
_COLOURS = 255


def graphics_protocol(environment: Mapping[str, str], is_terminal: bool) -> GraphicsProtocol | None:
    """How pictures can be shown, from the environment alone; None without a terminal, or with a dumb one.

    The terminal is not queried: it would answer on standard input, which may belong to another program. Within tmux and
    screen, which let no graphics through, half blocks are drawn; these need colours, so `NO_COLOR` means no pictures
    there.
    """
    term, program = environment.get("TERM", ""), environment.get("TERM_PROGRAM", "")
    if not is_terminal or term in ("", "dumb"):
        return None
    if not ("TMUX" in environment or term.startswith(("screen", "tmux"))):
        if term in _KITTY or "KITTY_WINDOW_ID" in environment or program in ("ghostty", "WezTerm"):
            return "kitty"
        if program == "iTerm.app" or environment.get("LC_TERMINAL") == "iTerm2":
            return "iterm2"
        if term.split("-")[0] in _SIXEL:
            return "sixel"
    return None if environment.get("NO_COLOR") else "blocks"


def draw_image(picture: Image, protocol: GraphicsProtocol, columns: int = 32, rows: int = 12) -> str:
    """What shows an RGB picture within so many character cells, about twice as high as wide; ends with a line end."""
    width, height = _fitting(picture, columns, rows)
    if protocol == "blocks":
        return blocks(picture, width, height)
    if protocol == "sixel":
        return sixel(picture.resize((width * _CELL[0], height * _CELL[1]))) + "\n"
    stream = io.BytesIO()
    picture.save(stream, "PNG")
    return (kitty if protocol == "kitty" else iterm2)(stream.getvalue(), width, height) + "\n"


def kitty(png: bytes, columns: int, rows: int) -> str:
    """Kitty's graphics protocol: PNG in chunks of base64, shown at once over so many cells; no answer is wanted."""
    data = base64.b64encode(png).decode()
    chunks = [data[start : start + _CHUNK] for start in range(0, len(data), _CHUNK)]
    first = f"a=T,f=100,c={columns},r={rows},q=2,"
    sequences = []
    for position, chunk in enumerate(chunks):
        more = int(position < len(chunks) - 1)
        sequences.append(f"\x1b_G{first if position == 0 else ''}m={more};{chunk}\x1b\\")
    return "".join(sequences)


def iterm2(png: bytes, columns: int, rows: int) -> str:
    """iTerm2's inline images."""
    data = base64.b64encode(png).decode()
    return f"\x1b]1337;File=inline=1;size={len(png)};width={columns};height={rows};preserveAspectRatio=1:{data}\x07"


def sixel(picture: Image) -> str:
    """Sixels: up to 255 colours, in bands of six rows of pixels, each colour of a band in one line over the other."""
    import numpy as np
    from PIL import Image as Pictures

    reduced = picture.quantize(_COLOURS, method=Pictures.Quantize.MEDIANCUT, dither=Pictures.Dither.NONE)
    places = np.asarray(reduced)
    palette = reduced.getpalette() or []
    used = np.unique(places).tolist()
    colours = ""
    for colour in used:
        percent = (str(round(value * 100 / 255)) for value in palette[3 * colour : 3 * colour + 3])
        colours += f"#{colour};2;{';'.join(percent)}"
    bands = []
    for top in range(0, len(places), 6):
        band = places[top : top + 6]
        lines = []
        for colour in np.unique(band).tolist():
            bits = ((band == colour) << np.arange(len(band))[:, None]).sum(axis=0) + 63
            lines.append(f"#{colour}" + _runs(bits.tolist()))
        bands.append("$".join(lines))
    return f'\x1bPq"1;1;{picture.width};{picture.height}{colours}' + "-".join(bands) + "\x1b\\"


def blocks(picture: Image, columns: int, rows: int) -> str:
    """Two pixels in each cell: "▀" in the colour of the upper one on a ground of the lower one."""
    from PIL import Image as Pictures

    small = picture.resize((columns, 2 * rows), Pictures.Resampling.BOX, reducing_gap=None)
    pixels = list(small.convert("RGB").getdata())
    lines = []
    for row in range(rows):
        cells, before = [], None
        for column in range(columns):
            upper, lower = pixels[2 * row * columns + column], pixels[(2 * row + 1) * columns + column]
            if (upper, lower) != before:  # colours stay until others are set
                cells.append("\x1b[38;2;{};{};{};48;2;{};{};{}m".format(*upper, *lower))
            cells.append("▀")
            before = (upper, lower)
        lines.append("".join(cells) + "\x1b[0m\n")
    return "".join(lines)


def _fitting(picture: Image, columns: int, rows: int) -> tuple[int, int]:
    """Cells that keep the picture's shape, a cell being twice as high as wide."""
    scale = min(columns / picture.width, 2 * rows / picture.height)
    return max(1, round(picture.width * scale)), max(1, round(picture.height * scale / 2))


def _runs(codes: list[int]) -> str:
    """Sixel characters, runs of four and more shortened: "!5~"."""
    parts, start = [], 0
    for position in range(1, len(codes) + 1):
        if position == len(codes) or codes[position] != codes[start]:
            length, character = position - start, chr(codes[start])
            parts.append(f"!{length}{character}" if length > 3 else character * length)
            start = position
    return "".join(parts)
