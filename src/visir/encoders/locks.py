"""The locks of `visir.locks`, under the name they had when only this room had them."""

from visir.locks import locked, locked_or

__all__ = ["locked", "locked_or"]
