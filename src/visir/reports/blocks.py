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
    """What can stand in a section: the classes here and in `visir.reports.gallery`, and `visir.reports.table.Table`.

    Attributes:
        macro: The macro of `templates/blocks.html.j2` that lays it out.
    """

    macro: ClassVar[str]


def inline(text: str, *values: object) -> Markup:
    """A text with emphasis: `text` is HTML of visir's own, in which each `{}` stands for a value that is escaped.

    Example:
        >>> inline("system <b>{}</b>", "<CLIP>")
        Markup('system <b>&lt;CLIP&gt;</b>')
    """
    return Markup(text).format(*values)


@dataclass(frozen=True)
class Paragraph:
    """A paragraph.

    Attributes:
        text: What it says.
        style: How it looks: an introduction ("lead"), a large number in a sentence ("total"), a remark below or above
            what it is about ("note", "above"), small print ("soft"), what could not be computed ("missing"), or plain.
    """

    macro: ClassVar[str] = "paragraph"
    text: Inline
    style: Literal["", "lead", "total", "note", "above", "soft", "missing"] = ""


@dataclass(frozen=True)
class Notice:
    """A box of sentences that a reader must not miss.

    Attributes:
        items: The sentences.
        title: Its heading.
    """

    macro: ClassVar[str] = "notice"
    items: Sequence[Inline]
    title: str = "Before you quote these numbers"


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
    """A plot.

    Attributes:
        svg: The plot, as `visir.reports.svg.themed` makes it.
        title: Its heading; none where the section's heading says it.
        caption: A sentence on how to read it.
    """

    macro: ClassVar[str] = "figure"
    svg: str
    title: str
    caption: Inline

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
    """A box: a picture, a heading, large numbers and what is said of them; each may be left out.

    Attributes:
        title: Its heading.
        values: Large numbers, (name, value).
        blocks: What stands below them.
        picture: A picture at the top, with its alternative text.
    """

    title: str = ""
    values: Sequence[tuple[str, str]] = ()
    blocks: Sequence[Block] = ()
    picture: Thumbnail | None = None
    alt: str = ""


@dataclass(frozen=True)
class Cards:
    """Boxes side by side.

    Attributes:
        cards: The boxes.
        width: How wide a box is at least, in rem.
        is_pixelated: Whether each pixel of a picture is shown as a square.
    """

    macro: ClassVar[str] = "cards"
    cards: Sequence[Card]
    width: float = 20
    is_pixelated: bool = False


@dataclass(frozen=True)
class CloudWord:
    """A word of a cloud.

    Attributes:
        text: The word.
        size: The size of its letters, in rem.
        hint: What is shown when one points at it: its weight.
        style: "own" words are coloured, "other" ones are not.
        is_piece: Whether it is the end of a word.
    """

    text: str
    size: float
    hint: str
    style: Literal["own", "other"] = "own"
    is_piece: bool = False


@dataclass(frozen=True)
class WordCloud:
    """Words, the heavier the larger."""

    macro: ClassVar[str] = "cloud"
    words: Sequence[CloudWord]


@dataclass(frozen=True)
class Branch:
    """A node of a tree.

    Attributes:
        name: What it is called.
        cells: What stands behind the name, one text for each of the tree's heads.
        children: The nodes under it.
        hint: What is shown when one points at the name.
        tag: A small label behind the name.
        share: The length of a bar, from 0 to 1; None for no bar.
        is_open: Whether its children are shown at first.
    """

    name: str
    cells: Sequence[Inline] = ()
    children: Sequence[Branch] = ()
    hint: str = ""
    tag: str = ""
    share: float | None = None
    is_open: bool = False


@dataclass(frozen=True)
class Tree:
    """A tree whose nodes can be folded.

    Attributes:
        branches: Its roots.
        heads: Headings: of the names, of the bars (may be ""), and of each cell; none at all where it is empty.
    """

    macro: ClassVar[str] = "tree"
    branches: Sequence[Branch]
    heads: Sequence[str] = ()


@dataclass(frozen=True)
class Fold:
    """Blocks that are shown when their summary is clicked.

    Attributes:
        summary: What is seen of it.
        blocks: What is folded away.
        words: What stands behind a summary that is a heading; a summary without it is none.
        is_open: Whether it is open at first.
    """

    macro: ClassVar[str] = "fold"
    summary: str
    blocks: Sequence[Block]
    words: str = ""
    is_open: bool = False


@dataclass(frozen=True)
class Group:
    """Blocks under a heading of their own, inside a section.

    Attributes:
        title: The heading.
        blocks: What stands below it.
        anchor: Its id, for links.
    """

    macro: ClassVar[str] = "group"
    title: Inline
    blocks: Sequence[Block]
    anchor: str = ""


def production(command: str, files: Mapping[str, str] | Sequence[tuple[str, str]] | None = None) -> list[Block]:
    """How a page was made: the command that makes it again, and the files beside it, in the order of their names.

    Args:
        command: The command line; "" for none.
        files: What each file in the page's folder holds, by its name; pairs keep their order.
    """
    entries = sorted(files.items()) if isinstance(files, Mapping) else list(files or ())
    blocks: list[Block] = []
    if command:
        blocks.append(Group("The command", [Code(command)]))
    if entries:
        blocks.append(Group("Files beside this page", [Files(entries)]))
    return blocks
