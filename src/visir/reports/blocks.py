"""The blocks that sections of a page are made of: texts, numbers, tables, figures, lists.

Galleries of queries with their answers are in `visir.reports.gallery`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Protocol

from markupsafe import Markup

from visir.reports.thumbnails import Thumbnail

Inline = str | Markup
"""A text, which the page escapes; or a text with emphasis, made by `inline`."""


class Block(Protocol):
    """What can stand in a section: the classes here and in `visir.reports.gallery`, and `visir.reports.table.Table`."""

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
    svg: str  # the plot, as `visir.reports.svg.themed` makes it
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

    def untitled(self) -> Figure:
        """The same figure, to stand under a heading that says its title."""
        return replace(self, title="")


@dataclass(frozen=True)
class Figures:
    """Several plots, side by side where there is room."""

    macro: ClassVar[str] = "figures"
    figures: Sequence[Figure]


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
