"""What is searched: image–caption collections, one file per published format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from visir.collections.open import attach_judgements, open_collection

__all__ = ["attach_judgements", "open_collection"]


def __getattr__(name: str) -> Any:
    """Import on first use: the readers are not needed to render a scene or to decode a picture."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from visir.collections import open as door

    return getattr(door, name)
