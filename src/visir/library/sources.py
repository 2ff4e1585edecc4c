"""What a library can be made of: photos and collections, or a shop's table of products."""

from __future__ import annotations

from collections.abc import Sequence

from visir.collections.readers.products import FORMAT
from visir.library.product_source import ShopTable
from visir.library.source import PhotoSource


def is_table_of_products(source: str) -> bool:
    """Whether a source, as `visir.library.source.absolute` wrote it down, is a table of products."""
    return source.startswith(f"{FORMAT.name}:")  # as `LibraryCard.unit`


def open_source(source: str, *, images: Sequence[str] = (), split: str | None = None) -> PhotoSource:
    """Open the source of a library. Raises `CollectionError` where it cannot be, `LibraryError` where it is empty."""
    kind = ShopTable if is_table_of_products(source) else PhotoSource
    return kind.open(source, images=images, split=split)
