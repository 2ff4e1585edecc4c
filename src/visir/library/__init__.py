"""Libraries: a folder of photos, or a collection, made searchable and kept true while it changes.

    library = visir.index("photos")  # makes photos.visir, or brings it up to date
    library.search("a red car", k=5, where="width >= 800")
    library.update(), library.watch(), library.check(), library.duplicates(), library.serve()

Names are imported when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from visir.lazy import lazy

if TYPE_CHECKING:
    from visir.library.check import Item, ItemFile
    from visir.library.filters import FilterError
    from visir.library.layout import LibraryError, UnknownItemError
    from visir.library.library import Library, index
    from visir.library.query import Query, QueryError
    from visir.library.results import DuplicatePictures, LibraryHit, LibraryPicture, LibraryResults
    from visir.library.service.running import RunningService, openapi
    from visir.library.snapshot import LibrarySnapshot
    from visir.library.updating import UpdateReport, update
    from visir.library.watch import Watcher

__getattr__, __dir__ = lazy(
    __name__,
    {
        "DuplicatePictures": "visir.library.results",
        "FilterError": "visir.library.filters",
        "Item": "visir.library.check",
        "ItemFile": "visir.library.check",
        "Library": "visir.library.library",
        "LibraryError": "visir.library.layout",
        "LibraryHit": "visir.library.results",
        "LibraryPicture": "visir.library.results",
        "LibraryResults": "visir.library.results",
        "LibrarySnapshot": "visir.library.snapshot",
        "Query": "visir.library.query",
        "QueryError": "visir.library.query",
        "RunningService": "visir.library.service.running",
        "UnknownItemError": "visir.library.layout",
        "UpdateReport": "visir.library.updating",
        "Watcher": "visir.library.watch",
        "index": "visir.library.library",
        "openapi": "visir.library.service.running",
        "update": "visir.library.updating",
    },
)

__all__ = [
    "DuplicatePictures",
    "FilterError",
    "Item",
    "ItemFile",
    "Library",
    "LibraryError",
    "LibraryHit",
    "LibraryPicture",
    "LibraryResults",
    "LibrarySnapshot",
    "Query",
    "QueryError",
    "RunningService",
    "UnknownItemError",
    "UpdateReport",
    "Watcher",
    "index",
    "openapi",
    "update",
]
