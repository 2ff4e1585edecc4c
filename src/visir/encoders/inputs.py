"""What a model takes: the type of an image that is ready for its forward pass."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

Pixels = NDArray[Any]
"""One preprocessed image, in whatever shape and type the model's forward pass takes (usually float32 (3, H, W))."""
