"""A `transformers` image processor with its backend chosen, declared, and safe to call from threads."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from visir.errors import EncoderError, ImageError

if TYPE_CHECKING:
    from PIL.Image import Image

BACKENDS = ("pil", "torchvision")
"""The two implementations of one processor: first the one taken unless another is asked for.

They differ by a grey level of 255 here and there after resizing (PIL and torchvision round bicubic interpolation
differently), which can move a rank. "pil" is what OpenAI's CLIP and Salesforce's BLIP resize with and what transformers
used by itself before version 5; "torchvision" ("fast") is the default there since.
"""

_SETTINGS = ("do_", "rescale_", "image_", "crop_", "include_", "patch_", "temporal_", "merge_", "min_", "max_")

MAX_RESIZED_PIXELS = 1 << 27  # 134 million: PIL warns of a decompression bomb at 89 million, and refuses at twice that


class ImageProcessor:
    """The image processor saved in a model's folder: PIL in, float32 (3, H, W) out."""

    def __init__(self, folder: Path, backend: str) -> None:
        from transformers import AutoImageProcessor

        # The keyword was renamed within version 5, and the old one warns; unknown keywords are swallowed silently.
        renamed = find_spec("transformers.image_processing_backends") is not None
        choice: dict[str, Any] = {"backend": backend} if renamed else {"use_fast": backend == "torchvision"}
        self._processor = AutoImageProcessor.from_pretrained(folder, **choice)
        self.backend = backend
        if _backend_of(self._processor) != backend:
            other = BACKENDS[1 - BACKENDS.index(backend)]
            raise EncoderError(
                f"{folder}: {type(self._processor).__name__} cannot run on {backend!r} here.",
                hint=f"use the other implementation: ?processor={other} (it gives slightly different pixels)",
            )

        settings = self._processor.to_dict()
        size = dict(settings.get("size") or {}) if settings.get("do_resize", True) else {}
        self._shortest_edge: int | None = size.get("shortest_edge")
        self._table: NDArray[np.float32] | None = None
        if backend == "pil":  # torchvision is as fast by itself
            self._table = self._levels_table()

    def pixels(self, image: Image) -> NDArray[np.float32]:
        """One RGB image as the model wants it. Pure: the processor holds nothing but its settings."""
        check_sliver(image, self._shortest_edge)
        if self._table is None:
            return self._plain_call(image)
        levels = self._levels(image)
        result = np.empty(levels.shape, np.float32)
        for channel, table in enumerate(self._table):
            np.take(table, levels[channel], out=result[channel], mode="clip")
        return result

    def _plain_call(self, image: Image) -> NDArray[np.float32]:
        values = self._processor(images=image, return_tensors="np")["pixel_values"][0]
        return np.ascontiguousarray(values, dtype=np.float32)

    def _levels(self, image: Image) -> NDArray[Any]:
        """Resized and cropped, but still grey levels 0 … 255: uint8 (3, H, W)."""
        answer = self._processor(images=image, do_rescale=False, do_normalize=False, return_tensors="np")
        levels: NDArray[Any] = answer["pixel_values"][0]
        return levels

    def _levels_table(self) -> NDArray[np.float32] | None:
        """What the processor makes of each grey level of each channel, (3, 256), found by asking it.

        Rescaling and normalising a whole image in NumPy costs 0.8 to 2.6 ms (224 to 384 pixels), up to tower of all
        preprocessing; looking values up costs a fraction of that and gives the same bits. None when a trial image does
        not come out the same: the processor then does more to values than that.
        """
        from PIL import Image

        trial = Image.fromarray(np.random.default_rng(0).integers(0, 256, (41, 67, 3), dtype=np.uint8))
        if self._levels(trial).dtype != np.uint8:
            return None
        ramp = np.repeat(np.arange(256, dtype=np.uint8).reshape(16, 16, 1), 3, axis=2)
        still = {key: False for key in ("do_resize", "do_center_crop") if key in self._processor.to_dict()}
        answer = self._processor(images=Image.fromarray(ramp), return_tensors="np", **still)["pixel_values"][0]
        if answer.shape != (3, 16, 16):
            return None
        self._table = answer.reshape(3, 256).astype(np.float32)
        return self._table if np.array_equal(self.pixels(trial), self._plain_call(trial)) else None

    def values(self) -> dict[str, Any]:
        """Every setting as plain values, for the card; "backend" and "class" among them."""
        return plain_settings(self._processor)


def plain_settings(processor: Any) -> dict[str, Any]:
    """Every setting of an image processor of transformers as plain values; "backend" and "class" among them."""
    from PIL.Image import Resampling

    settings = {
        key: _plain(value)
        for key, value in processor.to_dict().items()
        if key.startswith(_SETTINGS) or key in ("size", "resample")
    }
    settings.pop("image_processor_type", None)
    if isinstance(settings.get("resample"), int):
        settings["resample"] = Resampling(settings["resample"]).name.lower()
    name = type(processor).__name__.removesuffix("Pil").removesuffix("Fast")
    return {"class": name, "backend": _backend_of(processor), **settings}


def check_sliver(image: Image, shortest_edge: int | None) -> None:
    """Raise `ImageError` for an image that becomes enormous when its shortest edge is scaled to `shortest_edge`.

    Scaling to a shortest edge of 224 makes an image of 10,000 × 1 pixels one of 2,240,000 × 224: 1.5 GB, of which the
    centre crop keeps a ten-thousandth. None: the preprocessing does not scale that way.
    """
    if shortest_edge is None:
        return
    short, long = sorted(image.size)
    if shortest_edge * shortest_edge * long > MAX_RESIZED_PIXELS * short:
        raise ImageError(
            f"an image of {image.width} × {image.height} pixels is too narrow: scaled to a shortest edge of "
            f"{shortest_edge} it would have {shortest_edge * shortest_edge * long // short / 1e6:,.0f} million pixels.",
            hint="crop it, or set it aside (--skip-broken)",
        )


def _backend_of(processor: Any) -> str:
    if hasattr(processor, "backend"):
        return str(processor.backend)
    return "torchvision" if type(processor).__name__.endswith("Fast") else "pil"


def _plain(value: Any) -> Any:
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, (int, float)):
        return int(value) if isinstance(value, int) else float(value)
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    if hasattr(value, "items"):
        return {str(key): _plain(entry) for key, entry in value.items() if entry is not None}
    return str(value)
