"""Galleries: queries with their answers, each a text, a picture, or both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from visir.reports.blocks import Inline
from visir.reports.thumbnails import Thumbnail


@dataclass(frozen=True)
class Tile:
    """One thing that is shown: a text, a picture, or both.

    Attributes:
        text: The text; "" for a picture alone.
        picture: The picture; one without a URI is replaced by `alt` and the reason why it is missing.
        alt: What the picture shows, for those who cannot see it.
        note: What is said of it: its rank and score.
        right: Whether it is a right answer; None where that is not said.
        hint: What is shown when one points at it: its id.
        lines: Further lines below it, in small print.
        anchor: Its id on the page, for links.
    """

    text: str = ""
    picture: Thumbnail | None = None
    alt: str = ""
    note: Inline = ""
    right: bool | None = None
    hint: str = ""
    lines: Sequence[str] = ()
    anchor: str = ""

    @property
    def mark(self) -> str:
        """The class of its frame: "right", "wrong", or none."""
        return {True: "right", False: "wrong", None: ""}[self.right]


@dataclass(frozen=True)
class Strip:
    """Tiles side by side; of texts alone, one below another.

    Attributes:
        tiles: What is shown.
        title: The heading.
        more: How many more there are that are not shown.
        is_ranked: Whether the order says which is better.
        is_large: Whether the tiles fill the page instead of one row.
    """

    macro: ClassVar[str] = "strip"
    tiles: Sequence[Tile]
    title: Inline = ""
    more: int = 0
    is_ranked: bool = True
    is_large: bool = False

    @property
    def has_pictures(self) -> bool:
        """Whether any of the tiles is a picture."""
        return any(tile.picture is not None for tile in self.tiles)


@dataclass(frozen=True)
class GalleryEntry:
    """A query with its answers.

    Attributes:
        title: What is asked, in words; "" for a picture alone.
        verdict: How well it was answered.
        strips: The answers.
        pictures: The picture that is asked, and others beside it.
        label: What stands above it: how the query was made.
        hint: The id of the query.
        remark: What stands below the title: what the query was before.
    """

    title: Inline
    verdict: Inline
    strips: Sequence[Strip]
    pictures: Sequence[Tile] = ()
    label: Inline = ""
    hint: str = ""
    remark: str = ""


@dataclass(frozen=True)
class QueryGallery:
    """Queries with their answers, one below another."""

    macro: ClassVar[str] = "gallery"
    entries: Sequence[GalleryEntry]
