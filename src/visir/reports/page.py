"""A page: one HTML file made of sections, which fetches nothing and runs nothing.

A report is a function that lists the sections of its page. The looks are in `templates/page.html.j2`, which has one
macro per kind of block, and in `templates/page.css`.
"""

from __future__ import annotations

import base64
import hashlib
import io
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeVar

from markupsafe import Markup
from PIL import Image

from visir.errors import ImageError, VisirError
from visir.reports.formats import to_html
from visir.storage import check_new_file, write_new

if TYPE_CHECKING:
    import jinja2

# Small pictures inside the page: JPEG data URIs within a byte budget.

Key = TypeVar("Key", bound=Hashable)

_LADDER = ((168, 78), (144, 72), (120, 66), (96, 58), (72, 50))
"""(longest side in pixels, JPEG quality), tried in order until all pictures together fit the budget."""


@dataclass(frozen=True)
class Thumbnail:
    """One small picture as a data URI, with its size in pixels; or, when `uri` is empty, why there is none."""

    uri: str
    width: int = 0
    height: int = 0
    reason: str = ""


def thumbnails(keys: Sequence[Key], open_image: Callable[[Key], Image.Image], *, budget: int) -> dict[Key, Thumbnail]:
    """A thumbnail of each picture, all of one size and quality."""
    # A picture that cannot be had (not downloaded, broken) does not stop the report: its thumbnail carries the reason.
    # The same pictures always give the same bytes (one Pillow version provided).
    # budget: How many bytes of text they may take together, where that is possible.
    missing: dict[Key, Thumbnail] = {}
    shrunk: dict[Key, Image.Image] = {}
    for key in dict.fromkeys(keys):
        try:
            picture = open_image(key)
        except ImageError as fault:
            missing[key] = Thumbnail("", reason=fault.message)
            continue
        picture.thumbnail((_LADDER[0][0], _LADDER[0][0]), Image.Resampling.LANCZOS)
        shrunk[key] = picture
    for side, quality in _LADDER:
        encoded = {key: _encode(picture, side, quality) for key, picture in shrunk.items()}
        if sum(len(thumbnail.uri) for thumbnail in encoded.values()) <= budget:
            break
    return missing | encoded


def _encode(picture: Image.Image, side: int, quality: int) -> Thumbnail:
    small = picture.copy()
    small.thumbnail((side, side), Image.Resampling.LANCZOS)
    return embedded(small, "JPEG", quality=quality)


def embedded(picture: Image.Image, kind: Literal["JPEG", "PNG"], **options: Any) -> Thumbnail:
    """A picture as it is, as a data URI."""
    stream = io.BytesIO()
    picture.save(stream, kind, optimize=True, **options)
    uri = f"data:image/{kind.lower()};base64,{base64.b64encode(stream.getvalue()).decode('ascii')}"
    return Thumbnail(uri, picture.width, picture.height)


# The blocks that sections of a page are made of: texts, numbers, tables, figures, lists.

Inline = str | Markup
"""A text, which the page escapes; or a text with emphasis, made by `inline`."""


class Block(Protocol):
    """What can stand in a section: the classes here and in `visir.reports.page`, and `visir.reports.table.Table`."""

    macro: ClassVar[str]  # the macro of `templates/blocks.html.j2` that lays it out


def inline(text: str, *values: object) -> Markup:
    """A text with emphasis: `text` is HTML of visir's own, in which each `{}` stands for a value that is escaped."""
    return Markup(text).format(*values)


@dataclass(frozen=True)
class Paragraph:
    """A paragraph."""

    macro: ClassVar[str] = "paragraph"
    text: Inline  # what it says
    # How it looks: an introduction ("lead"), a large number in a sentence ("total"), a remark below or above what it is
    # about ("note", "above"), small print ("soft"), what could not be computed ("missing"), or plain.
    style: Literal["", "lead", "total", "note", "above", "soft", "missing"] = ""


@dataclass(frozen=True)
class Notice:
    """A box of sentences that a reader must not miss."""

    macro: ClassVar[str] = "notice"
    items: Sequence[Inline]  # the sentences
    title: str = "Before you quote these numbers"  # its heading


@dataclass(frozen=True)
class Definitions:
    """Terms, each with what it means or what its value is."""

    macro: ClassVar[str] = "definitions"
    entries: Sequence[tuple[Inline, Inline]]


@dataclass(frozen=True)
class Code:
    """A command or a file, shown as it is."""

    macro: ClassVar[str] = "code"
    text: str


@dataclass(frozen=True)
class Bullets:
    """A list of sentences."""

    macro: ClassVar[str] = "bullets"
    items: Sequence[Inline]


@dataclass(frozen=True)
class Files:
    """Links to files in the folder of the page: (name, what it holds)."""

    macro: ClassVar[str] = "files"
    entries: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Figure:
    """A plot."""

    macro: ClassVar[str] = "figure"
    svg: str  # the plot, as `visir.reports.plots.themed` makes it
    title: str  # its heading; none where the section's heading says it
    caption: Inline  # a sentence on how to read it

    @property
    def drawing(self) -> Markup:
        """The plot as HTML; `themed` has escaped every text in it."""
        return Markup(self.svg)

    @property
    def width(self) -> float:
        """How wide its box is at most, in rem: as wide as the plot."""
        widest = re.search(r"max-width: (\d+)px", self.svg)
        return 2.7 + float(widest[1]) / 16 if widest else 48.0


@dataclass(frozen=True)
class Figures:
    """Several plots, side by side where there is room."""

    macro: ClassVar[str] = "figures"
    figures: Sequence[Block]


@dataclass(frozen=True)
class Card:
    """A box: a picture, a heading, large numbers and what is said of them; each may be left out."""

    title: str = ""  # its heading
    values: Sequence[tuple[str, str]] = ()  # large numbers, (name, value)
    blocks: Sequence[Block] = ()  # what stands below them
    picture: Thumbnail | None = None  # a picture at the top, with its alternative text
    alt: str = ""


@dataclass(frozen=True)
class Cards:
    """Boxes side by side."""

    macro: ClassVar[str] = "cards"
    cards: Sequence[Card]  # the boxes
    width: float = 20  # how wide a box is at least, in rem
    is_pixelated: bool = False  # whether each pixel of a picture is shown as a square


@dataclass(frozen=True)
class CloudWord:
    """A word of a cloud."""

    text: str  # the word
    size: float  # the size of its letters, in rem
    hint: str  # what is shown when one points at it: its weight
    style: Literal["own", "other"] = "own"  # "own" words are coloured, "other" ones are not
    is_piece: bool = False  # whether it is the end of a word


@dataclass(frozen=True)
class WordCloud:
    """Words, the heavier the larger."""

    macro: ClassVar[str] = "cloud"
    words: Sequence[CloudWord]


@dataclass(frozen=True)
class Branch:
    """A node of a tree."""

    name: str  # what it is called
    cells: Sequence[Inline] = ()  # what stands behind the name, one text for each of the tree's heads
    children: Sequence[Branch] = ()  # the nodes under it
    hint: str = ""  # what is shown when one points at the name
    tag: str = ""  # a small label behind the name
    share: float | None = None  # the length of a bar, from 0 to 1; None for no bar
    is_open: bool = False  # whether its children are shown at first


@dataclass(frozen=True)
class Tree:
    """A tree whose nodes can be folded."""

    macro: ClassVar[str] = "tree"
    branches: Sequence[Branch]  # its roots
    # Headings: of the names, of the bars (may be ""), and of each cell; none at all where it is empty.
    heads: Sequence[str] = ()


@dataclass(frozen=True)
class Fold:
    """Blocks that are shown when their summary is clicked."""

    macro: ClassVar[str] = "fold"
    summary: str  # what is seen of it
    blocks: Sequence[Block]  # what is folded away
    words: str = ""  # what stands behind a summary that is a heading; a summary without it is none
    is_open: bool = False  # whether it is open at first


@dataclass(frozen=True)
class Group:
    """Blocks under a heading of their own, inside a section."""

    macro: ClassVar[str] = "group"
    title: Inline  # the heading
    blocks: Sequence[Block]  # what stands below it
    anchor: str = ""  # its id, for links


def production(command: str, files: Mapping[str, str] | Sequence[tuple[str, str]] | None = None) -> list[Block]:
    """How a page was made: the command that makes it again, and the files beside it, in the order of their names."""
    entries = sorted(files.items()) if isinstance(files, Mapping) else list(files or ())
    blocks: list[Block] = []
    if command:
        blocks.append(Group("The command", [Code(command)]))
    if entries:
        blocks.append(Group("Files beside this page", [Files(entries)]))
    return blocks


# Galleries: queries with their answers, each a text, a picture, or both.


@dataclass(frozen=True)
class Tile:
    """One thing that is shown: a text, a picture, or both."""

    text: str = ""  # the text; "" for a picture alone
    # The picture; one without a URI is replaced by `alt` and the reason why it is missing.
    picture: Thumbnail | None = None
    alt: str = ""  # what the picture shows, for those who cannot see it
    note: Inline = ""  # what is said of it: its rank and score
    right: bool | None = None  # whether it is a right answer; None where that is not said
    hint: str = ""  # what is shown when one points at it: its id
    lines: Sequence[str] = ()  # further lines below it, in small print
    anchor: str = ""  # its id on the page, for links

    @property
    def mark(self) -> str:
        """The class of its frame: "right", "wrong", or none."""
        return {True: "right", False: "wrong", None: ""}[self.right]


@dataclass(frozen=True)
class Strip:
    """Tiles side by side; of texts alone, one below another."""

    macro: ClassVar[str] = "strip"
    tiles: Sequence[Tile]  # what is shown
    title: Inline = ""  # the heading
    more: int = 0  # how many more there are that are not shown
    is_ranked: bool = True  # whether the order says which is better
    is_large: bool = False  # whether the tiles fill the page instead of one row

    @property
    def has_pictures(self) -> bool:
        """Whether any of the tiles is a picture."""
        return any(tile.picture is not None for tile in self.tiles)


@dataclass(frozen=True)
class GalleryEntry:
    """A query with its answers."""

    title: Inline  # what is asked, in words; "" for a picture alone
    verdict: Inline  # how well it was answered
    strips: Sequence[Strip]  # the answers
    pictures: Sequence[Tile] = ()  # the picture that is asked, and others beside it
    label: Inline = ""  # what stands above it: how the query was made
    hint: str = ""  # the id of the query
    remark: str = ""  # what stands below the title: what the query was before


@dataclass(frozen=True)
class QueryGallery:
    """Queries with their answers, one below another."""

    macro: ClassVar[str] = "gallery"
    entries: Sequence[GalleryEntry]


_SEAL = b"<!-- written by visir, "
_END = b" -->\n"


@dataclass(frozen=True)
class Section:
    """A part of a page under a heading."""

    anchor: str  # its id, to which the navigation links
    title: str  # the heading
    blocks: Sequence[Block]  # what stands in it
    short: str = ""  # what the navigation calls it; the heading by default
    in_notebooks: bool = True  # whether a notebook shows its tables too, folded


@dataclass(frozen=True)
class Page:
    """A page of sections."""

    kind: str  # what kind of page it is, in a word or two ("evaluation report")
    title: str  # the heading of the page
    sections: Sequence[Section]  # its sections, in order
    facts: Sequence[Inline] = ()  # what stands below the heading, side by side


def write_page(path: str | Path, page: Page, *, replace: bool = False) -> Path:
    """Write a page as a single HTML file that needs no network, no script and no other file."""
    # The file follows the reader's light or dark theme. The same page gives the same bytes. Every text is escaped. The
    # file ends in a seal over its content, so that a page of visir's that nobody has changed since can be written
    # again.
    write_new(path, page_bytes(page), replace=replace or is_unchanged_page(Path(path)))
    return Path(path)


def page_bytes(page: Page) -> bytes:
    """The page as bytes, with its seal."""
    data = environment().get_template("page.html.j2").render(page=page).encode("utf-8")
    data = data if data.endswith(b"\n") else data + b"\n"
    return data + _seal(data)


@cache
def environment() -> jinja2.Environment:
    """The templates of blocks, pages and notebooks; they escape every text."""
    import jinja2

    made = jinja2.Environment(
        loader=jinja2.PackageLoader("visir.reports", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    made.filters["html_table"] = lambda table: Markup(to_html(table))
    return made


def check_page(path: Path, says: str, *suffixes: str, replace: bool = True) -> None:
    """Raise `VisirError` for a name that is none of a page, or of another form (`suffixes`); and, unless it may be
    replaced, for a file of somebody else."""
    if path.suffix.lower() not in (".html", *suffixes):
        raise VisirError(f"{path}: {says}.", hint=f"for example {path.with_suffix('.html')}", code="sheet-not")
    if not replace and not is_unchanged_page(path):
        check_new_file(path)


def is_unchanged_page(path: Path) -> bool:
    """Whether a file is a page that visir wrote and nobody has changed since."""
    if not path.is_file() or path.is_symlink():
        return False
    data = path.read_bytes()
    content, seal, _ = data.rpartition(_SEAL)
    return bool(seal) and data == content + _seal(content)


def _seal(data: bytes) -> bytes:
    return _SEAL + hashlib.blake2b(data, digest_size=16).hexdigest().encode() + _END
