"""What is searched: image–caption collections and tasks from elsewhere, one file per published format.

Names are imported when first used: the readers are not needed to render a scene or to decode a picture.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from visir.lazy import lazy

if TYPE_CHECKING:
    from visir.collections.opening import attach_judgements as attach_judgements
    from visir.collections.opening import open as open
    from visir.collections.opening import open_collection as open_collection
    from visir.collections.opening import open_source as open_source
    from visir.collections.qrels_reading import read_qrels as read_qrels

__getattr__, __dir__, __all__ = lazy(__name__)
