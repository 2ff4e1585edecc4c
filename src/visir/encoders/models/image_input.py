"""What a backbone wants to see: size, resize rule, normalisation and layout, declared and checked.

Nothing about the normalisation is guessed. A backbone fed with the wrong one still gives vectors, merely worse ones,
and nobody notices.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from visir.errors import EncoderError, nearest, raise_faults

NORMALISATIONS: dict[str, tuple[tuple[float, float, float], tuple[float, float, float]]] = {
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "clip": ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)),
    "half": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),  # to [-1, 1], the same as pixel/127.5 - 1
    "unit": ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),  # to [0, 1]
    "none": ((0.0, 0.0, 0.0), (1 / 255, 1 / 255, 1 / 255)),  # stays in [0, 255]
}
"""Named (mean, standard deviation) per channel: the input is (pixel/255 - mean) / deviation."""
RESIZES = ("squash", "crop", "pad")
INTERPOLATIONS = {
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}
LAYOUTS = ("NCHW", "NHWC")
CHANNELS = ("RGB", "BGR")


@dataclass(frozen=True)
class ImageInput:
    """From an upright RGB image to the input of a backbone."""

    size: tuple[int, int]  # (height, width) of the input
    normalise: str  # a key of `NORMALISATIONS`, or "m,m,m/s,s,s" with mean and deviation in units of [0, 1]
    # "crop" scales the shorter side to `shorter` (default: the size) and cuts out the centre, as torchvision's
    # evaluation transforms do; "squash" scales both sides at once, so nothing is lost at the edges; "pad" scales the
    # longer side and fills up with grey 127.
    resize: str = "crop"
    shorter: int | None = None
    interpolation: str = "bicubic"  # pillow's filters, which smooth when scaling down
    layout: str = "NCHW"  # order of the axes and of the colours
    channels: str = "RGB"

    @classmethod
    def declared(cls, options: Mapping[str, Any], where: str) -> ImageInput:
        """From options as text or as JSON values; every fault is listed in one `EncoderError` that names `where`."""
        faults: list[str] = []
        field_names = cls.__dataclass_fields__
        faults += [
            f"unknown option {name!r}: {nearest(name, field_names)}" for name in options if name not in field_names
        ]
        values: dict[str, Any] = {name: value for name, value in options.items() if name in field_names}
        for name, allowed in (
            ("resize", RESIZES),
            ("interpolation", INTERPOLATIONS),
            ("layout", LAYOUTS),
            ("channels", CHANNELS),
        ):
            if name in values and values[name] not in allowed:
                faults.append(f"{name} {values[name]!r}: {nearest(str(values[name]), allowed)}")
        if "size" not in values:
            faults.append("size is missing: the graph leaves it open; declare size=224 or size=HEIGHTxWIDTH")
        else:
            values["size"] = _size(values["size"], faults)
        if "shorter" in values:
            values["shorter"] = _size(values["shorter"], faults)[0]
            if values.get("resize", cls.resize) != "crop":
                faults.append("shorter has a meaning for resize=crop only")
            elif not faults and values["shorter"] < max(values["size"]):
                faults.append(f"shorter {values['shorter']} is smaller than the size {values['size']}")
        if "normalise" not in values:
            faults.append(f"normalise is missing: declare one of {', '.join(NORMALISATIONS)}, or m,m,m/s,s,s")
        elif _normalisation(str(values["normalise"])) is None:
            hint = nearest(str(values["normalise"]), NORMALISATIONS)
            faults.append(f"normalise {values['normalise']!r}: neither a name nor m,m,m/s,s,s; {hint}")
        raise_faults(
            EncoderError,
            f"{where}: how images become inputs is not fully declared",
            faults,
            hint="as options (onnx:FILE?normalise=imagenet&resize=crop#TENSOR) or as JSON in FILE.json",
        )
        return cls(**values)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a card."""
        return {**asdict(self), "size": list(self.size)}

    def prepare(self, image: Image.Image) -> NDArray[np.uint8]:
        """One RGB image to (height, width, 3) bytes: the part that threads do ahead of the model."""
        height, width = self.size
        filter_ = INTERPOLATIONS[self.interpolation]
        if image.size == (width, height) and self.shorter in (None, min(width, height)):
            return np.asarray(image)
        if self.resize == "squash":
            return np.asarray(image.resize((width, height), filter_))
        if self.resize == "pad":
            scale = min(height / image.height, width / image.width)
            scaled = image.resize((max(1, round(image.width * scale)), max(1, round(image.height * scale))), filter_)
            canvas = Image.new("RGB", (width, height), (127, 127, 127))
            canvas.paste(scaled, ((width - scaled.width) // 2, (height - scaled.height) // 2))
            return np.asarray(canvas)
        # As torchvision's Resize + CenterCrop: the longer side is truncated, the crop's corner is rounded.
        short = self.shorter or max(height, width)
        if image.width <= image.height:
            scaled = image.resize((short, int(short * image.height / image.width)), filter_)
        else:
            scaled = image.resize((int(short * image.width / image.height), short), filter_)
        left, top = round((scaled.width - width) / 2.0), round((scaled.height - height) / 2.0)
        return np.asarray(scaled.crop((left, top, left + width, top + height)))

    def shown(self, size: tuple[int, int]) -> tuple[float, float, float, float]:
        """Which part of an image of this size (width, height) the input shows: x0, y0, x1, y1 as fractions of it."""
        # "crop" shows less than the image, "pad" reaches beyond it.
        if self.resize == "squash":
            return (0.0, 0.0, 1.0, 1.0)
        height, width = self.size
        if self.resize == "pad":
            scale = min(height / size[1], width / size[0])
        else:
            scale = (self.shorter or max(height, width)) / min(size)
        across, down = width / (scale * size[0]), height / (scale * size[1])
        return ((1 - across) / 2, (1 - down) / 2, (1 + across) / 2, (1 + down) / 2)

    def batch(self, images: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
        """Prepared images to the (n, …) float32 input of the model, normalised, in its layout."""
        normalisation = _normalisation(self.normalise)
        if normalisation is None:
            raise EncoderError(f"normalise {self.normalise!r}: {nearest(self.normalise, NORMALISATIONS)}")
        mean, deviation = (np.array(values, dtype=np.float64) for values in normalisation)
        stacked = np.stack(images)
        if self.channels == "BGR":
            stacked = stacked[..., ::-1]
            mean, deviation = mean[::-1], deviation[::-1]
        if self.layout == "NCHW":
            stacked = stacked.transpose(0, 3, 1, 2)
            mean, deviation = mean[:, None, None], deviation[:, None, None]
        # One multiplication and one subtraction per value, folded in float64: (p/255 - m)/s = p·1/(255 s) - m/s.
        result = np.multiply(stacked, (1 / (255 * deviation)).astype(np.float32), dtype=np.float32, order="C")
        result -= (mean / deviation).astype(np.float32)
        return result


def _size(value: Any, faults: list[str]) -> tuple[int, int]:
    if isinstance(value, (list, tuple)):
        value = "x".join(map(str, value))
    match = re.fullmatch(r"(\d+)(?:x(\d+))?", str(value))
    if match is None or int(match[1]) == 0:
        faults.append(f"size {value!r}: not a number of pixels, nor HEIGHTxWIDTH")
        return (1, 1)
    return int(match[1]), int(match[2] or match[1])


def _normalisation(text: str) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
    if text in NORMALISATIONS:
        return NORMALISATIONS[text]
    try:
        mean, deviation = (tuple(float(part) for part in side.split(",")) for side in text.split("/"))
    except ValueError:
        return None
    return (mean, deviation) if len(mean) == len(deviation) == 3 and min(deviation) > 0 else None
