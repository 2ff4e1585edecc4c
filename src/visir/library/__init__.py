"""Libraries: a folder of photos, or a collection, made searchable and kept true while it changes.

    update("Photos", "Photos.visir", model="openai/clip-vit-base-patch32")  # make it, or bring it up to date
    library = LibrarySnapshot.open("Photos.visir")
    library.indexes["dense"], library.item(id), library.thumbnail(id)

`update` and what it needs write; `LibrarySnapshot` reads. Names are imported when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from visir.lazy import lazy

if TYPE_CHECKING:
    from visir.library.item import Item, ItemFile
    from visir.library.layout import LibraryError
    from visir.library.updating import UpdateReport, update

__getattr__, __dir__ = lazy(
    __name__,
    {
        "ItemFile": "visir.library.item",
        "Item": "visir.library.item",
        "LibraryError": "visir.library.layout",
        "UpdateReport": "visir.library.updating",
        "update": "visir.library.updating",
    },
)

__all__ = ["Item", "ItemFile", "LibraryError", "UpdateReport", "update"]
