"""What is searched: image–caption collections, one file per published format.

Names are imported when first used: the readers are not needed to render a scene or to decode a picture.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from visir.lazy import lazy

if TYPE_CHECKING:
    from visir.collections.open import attach_judgements, open_collection

__all__ = ["attach_judgements", "open_collection"]

__getattr__ = lazy(
    __name__, {"attach_judgements": "visir.collections.open", "open_collection": "visir.collections.open"}
)
