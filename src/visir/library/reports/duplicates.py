"""The duplicates of a library in a notebook: near ones as pictures side by side."""

from __future__ import annotations

from visir.library.duplicates import DuplicatePictures
from visir.library.reports.tiles import tile
from visir.reports.page import Block, Bullets, Paragraph, Strip

_GROUPS = 8


def blocks(duplicates: DuplicatePictures) -> list[Block]:
    """How many groups there are, and the first few."""
    exact, near = duplicates.exact, duplicates.near
    heading = Paragraph(f"{len(exact):,} groups of equal files, {len(near):,} groups of pictures that look alike")
    equal = [Bullets([", ".join(map(str, group)) for group in exact[:_GROUPS]])] if exact else []
    strips = [Strip([tile(picture) for picture in group[:6]], is_ranked=False) for group in near[:_GROUPS]]
    return [heading, *equal, *strips]
