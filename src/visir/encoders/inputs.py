"""What a model takes: pictures in a list, and the type of one that is ready for its forward pass."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from visir.errors import EncoderError

if TYPE_CHECKING:
    from PIL.Image import Image

Pixels = NDArray[Any]
"""One preprocessed image, in whatever shape and type the model's forward pass takes (usually float32 (3, H, W))."""


def valid_pictures(pictures: Iterable[Image]) -> list[Image]:
    """Return the pictures as a list."""
    from PIL.Image import Image

    files = "visir.encode(model, files) reads files; or open each: PIL.Image.open(file)"
    if isinstance(pictures, Image):
        raise EncoderError("a list of pictures is wanted, not one picture.", hint="put it in a list: [picture]")
    if isinstance(pictures, str | Path):
        raise EncoderError(f"a list of pictures is wanted, not {str(pictures)!r}.", hint=files)
    if isinstance(pictures, Mapping | bytes) or not isinstance(pictures, Iterable):
        raise EncoderError(
            f"a list of pictures is wanted, not {type(pictures).__name__}.", hint="e.g. [PIL.Image.open(file)]"
        )
    pictures = list(pictures)
    for number, picture in enumerate(pictures):
        if not isinstance(picture, Image):
            is_file = isinstance(picture, str | Path)
            raise EncoderError(
                f"number {number:,} of the pictures is {repr(str(picture)) if is_file else type(picture).__name__}, "
                "no picture of PIL.",
                hint=files if is_file else "PIL.Image.fromarray(array), or PIL.Image.open(io.BytesIO(data))",
            )
    return pictures
