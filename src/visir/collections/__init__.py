"""What is searched: image–caption collections and tasks from elsewhere, one file per published format.

Names are imported when first used: the readers are not needed to render a scene or to decode a picture.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from visir.lazy import lazy

if TYPE_CHECKING:
    from visir.collections.open import attach_judgements, open_collection, open_source

__all__ = ["attach_judgements", "open_collection", "open_source"]

__getattr__, __dir__ = lazy(
    __name__, dict.fromkeys(("attach_judgements", "open_collection", "open_source"), "visir.collections.open")
)
