"""One picture of a library in a notebook."""

from __future__ import annotations

from visir.library.ranking import LibraryPicture
from visir.library.reports.tiles import tile
from visir.reports.page import Block, Strip


def blocks(picture: LibraryPicture) -> list[Block]:
    """The picture at the size of its thumbnail."""
    return [Strip([tile(picture, side=320)], is_ranked=False)]
