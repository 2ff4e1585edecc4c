"""Galleries: queries with their answers, each a text, a picture, or both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from visir.reports.blocks import Inline
from visir.reports.thumbnails import Thumbnail


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
