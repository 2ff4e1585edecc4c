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
    from visir.library.check import Item as Item
    from visir.library.check import ItemFile as ItemFile
    from visir.library.filters import FilterError as FilterError
    from visir.library.layout import LibraryError as LibraryError
    from visir.library.layout import UnknownItemError as UnknownItemError
    from visir.library.library import Library as Library
    from visir.library.library import index as index
    from visir.library.query import Query as Query
    from visir.library.query import QueryError as QueryError
    from visir.library.results import DuplicatePictures as DuplicatePictures
    from visir.library.results import LibraryHit as LibraryHit
    from visir.library.results import LibraryPicture as LibraryPicture
    from visir.library.results import LibraryResults as LibraryResults
    from visir.library.service.running import RunningService as RunningService
    from visir.library.service.running import openapi as openapi
    from visir.library.snapshot import LibrarySnapshot as LibrarySnapshot
    from visir.library.updating import UpdateReport as UpdateReport
    from visir.library.updating import update as update
    from visir.library.watch import Watcher as Watcher

__getattr__, __dir__, __all__ = lazy(__name__)
