"""A `transformers` image processor with its backend chosen, declared, and safe to call from threads."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image as images

from visir.encoders.models.hub import only_errors
from visir.errors import EncoderError, ImageError, nearest, raise_faults

if TYPE_CHECKING:
    import torch
    from PIL.Image import Image
    from torch import Tensor


NORMALISATIONS: dict[str, tuple[tuple[float, float, float], tuple[float, float, float]]] = {
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "clip": ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)),
    "half": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),  # to [-1, 1], the same as pixel/127.5 - 1
    "unit": ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),  # to [0, 1]
    "none": ((0.0, 0.0, 0.0), (1 / 255, 1 / 255, 1 / 255)),  # stays in [0, 255]
}
"""Named (mean, standard deviation) per channel: the input is (pixel/255 - mean) / deviation."""
INTERPOLATIONS = {
    "bilinear": images.Resampling.BILINEAR,
    "bicubic": images.Resampling.BICUBIC,
    "lanczos": images.Resampling.LANCZOS,
}
_CHOICES: dict[str, Collection[str]] = {
    "resize": ("squash", "crop", "pad"),
    "interpolation": INTERPOLATIONS,
    "layout": ("NCHW", "NHWC"),
    "channels": ("RGB", "BGR"),
}


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
        known = cls.__dataclass_fields__
        values: dict[str, Any] = {name: value for name, value in options.items() if name in known}
        faults = [f"unknown option {name!r}: {nearest(name, known)}" for name in options if name not in known]
        faults += [
            f"{name} {values[name]!r}: {nearest(str(values[name]), allowed)}"
            for name, allowed in _CHOICES.items()
            if name in values and values[name] not in allowed
        ]
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

    def prepare(self, image: Image) -> NDArray[np.uint8]:
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
            canvas = images.new("RGB", (width, height), (127, 127, 127))
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


_PREFIXES = ("do_", "rescale_", "image_", "crop_", "include_", "patch_", "temporal_", "merge_", "min_", "max_")


def backend_of(processor: Any) -> str:
    """The implementation of an image processor: "pil" or "torchvision"."""
    if hasattr(processor, "backend"):
        return str(processor.backend)
    return "torchvision" if type(processor).__name__.endswith("Fast") else "pil"


def processor_values(processor: Any, backend: str | None = None) -> dict[str, Any]:
    """Every setting of an image processor that changes its pixels, as plain values."""
    data = getattr(processor, "data_config", None)  # timm's
    settings = {
        key: _plain(value)
        for key, value in (processor.to_dict() if data is None else data).items()
        if data is not None or key.startswith(_PREFIXES) or key in ("size", "resample")
    }
    settings.pop("image_processor_type", None)
    if isinstance(settings.get("resample"), int):
        settings["resample"] = images.Resampling(settings["resample"]).name.lower()
    name = type(processor).__name__.removesuffix("Pil").removesuffix("Fast")
    return {"class": name, "backend": backend or backend_of(processor), **settings}


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


class GreyLevels:
    """The numbers that a preprocessing makes of each grey level of each channel, once a picture has its size."""

    # Rescaling and normalising look at one value at a time, so a table says all that they do. Looking up gives the same
    # bits as computing, on the CPU and on a GPU alike, and costs a fraction of it; and a picture of bytes is a quarter
    # of one of float32, where it waits, is stacked and is copied to a GPU.

    def __init__(self, table: NDArray[np.float32]) -> None:
        self._table = table

    @classmethod
    def of(
        cls, sized: Callable[[Image], NDArray[Any]], answer: NDArray[Any], whole: Callable[[Image], NDArray[np.float32]]
    ) -> GreyLevels | None:
        """The levels of a preprocessing; None when it does more to values than a table can say."""
        # sized: Its first half: from an upright RGB image to bytes (3, H, W) in the model's size.
        trial = images.fromarray(np.random.default_rng(0).integers(0, 256, (41, 67, 3), dtype=np.uint8))
        levels = sized(trial)
        if answer.shape != (3, 16, 16) or levels.dtype != np.uint8:
            return None
        made = cls(answer.reshape(3, 256).astype(np.float32))
        return made if np.array_equal(made.pixels(levels), whole(trial)) else None

    def pixels(self, levels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """(3, H, W) float32 of one picture's levels."""
        result = np.empty(levels.shape, np.float32)
        for channel, table in enumerate(self._table):
            np.take(table, levels[channel], out=result[channel], mode="clip")
        return result

    def on_device(self, levels: Tensor) -> Tensor:
        """(n, 3, H, W) float32 of a batch of levels, on their device: the bits that `pixels` gives."""
        import torch

        table = torch.from_numpy(self._table).to(levels.device, non_blocking=True)
        first = torch.arange(0, 768, 256, dtype=torch.int32, device=levels.device).view(3, 1, 1)
        return table.flatten()[levels.int() + first]


def ramp() -> Image:
    """16 × 16 pixels with every grey level once."""
    return images.fromarray(np.repeat(np.arange(256, dtype=np.uint8).reshape(16, 16, 1), 3, axis=2))


class NaFlexProcessor:
    """A picture to a grid of patches: float32 (rows, columns, values of a patch)."""

    # The picture is scaled to the largest grid of its own proportions that has at most so many patches (Dehghani et al.
    # 2023). The library pads every picture to the most; here a batch is padded to its largest, and the rest is masked
    # either way.

    def __init__(self, processor: Any, backend: str, patches: int | None = None) -> None:
        self._processor, self.backend = processor, backend
        self.patches = patches or int(processor.max_num_patches)

    def pixels(self, image: Image) -> NDArray[np.float32]:
        """One RGB image as the model wants it."""
        made = self._processor(images=image, max_num_patches=self.patches, return_tensors="np")
        rows, columns = (int(number) for number in made["spatial_shapes"][0])
        patches = np.asarray(made["pixel_values"][0][: rows * columns], np.float32)
        return patches.reshape(rows, columns, -1)

    def values(self) -> dict[str, Any]:
        """Every setting as plain values, for the card."""
        return {**processor_values(self._processor, self.backend), "max_num_patches": self.patches}


def collate_patches(grids: Sequence[NDArray[np.float32]]) -> dict[str, torch.Tensor]:
    """The inputs of a NaFlex model: patches (n, most, values), their mask, and the shapes of the grids (n, 2)."""
    import torch

    shapes = np.array([grid.shape[:2] for grid in grids], np.int64)
    counts = shapes.prod(axis=1)
    values = np.zeros((len(grids), counts.max(), grids[0].shape[2]), np.float32)
    mask = np.zeros(values.shape[:2], np.int64)
    for row, (grid, count) in enumerate(zip(grids, counts.tolist(), strict=True)):
        values[row, :count], mask[row, :count] = grid.reshape(count, -1), 1
    return {
        "pixel_values": torch.from_numpy(values),
        "pixel_attention_mask": torch.from_numpy(mask),
        "spatial_shapes": torch.from_numpy(shapes),
    }


# Pictures scaled before an image processor of `transformers` sees them: the same bits, large ones in half the time.

_TRIALS = ((67, 41), (41, 67), (640, 427), (7, 5))
"""Widths and heights of the pictures that are compared."""


class ResizedFirst:
    """The first steps of a processor, taken by PIL alone: it scales, and cuts out the middle where the processor does
    that in the usual way."""

    def __init__(self, size: int | tuple[int, int], resample: Any, crop: tuple[int, int] | None) -> None:
        self._size, self._resample, self._crop = size, resample, crop

    @classmethod
    def of(cls, processor: Any, levels: Callable[..., NDArray[Any]]) -> Callable[[Image], NDArray[Any]] | None:
        """From an upright RGB image to bytes (3, H, W) in the model's size, as `levels` makes them with a processor;
        None where it scales in another way, or where trial pictures come out otherwise."""
        # levels: The same from an image and settings of the processor.
        settings = processor.to_dict()
        size, resample = dict(settings.get("size") or {}), settings.get("resample")
        if not settings.get("do_resize") or resample is None:
            return None
        crop = dict(settings.get("crop_size") or {}) if settings.get("do_center_crop") else {}
        middle = (crop["height"], crop["width"]) if set(crop) == {"height", "width"} else None
        if set(size) == {"height", "width"}:
            made = cls((size["height"], size["width"]), resample, middle)
        elif set(size) == {"shortest_edge"}:
            made = cls(size["shortest_edge"], resample, middle)
        else:
            return None
        random = np.random.default_rng(0)
        trials = [images.fromarray(random.integers(0, 256, (*shape[::-1], 3), np.uint8)) for shape in _TRIALS]
        expected = list(map(levels, trials))

        def by_both(image: Image) -> NDArray[Any]:
            return levels(made.resize(image), do_resize=False)

        for way in (made.levels, by_both):
            if all(np.array_equal(way(trial), answer) for trial, answer in zip(trials, expected, strict=True)):
                return way
        return None

    def levels(self, image: Image) -> NDArray[Any]:
        """One RGB image as bytes (3, H, W), without the processor."""
        scaled = self.resize(image)
        if self._crop is not None:
            height, width = self._crop
            left, top = (scaled.width - width) // 2, (scaled.height - height) // 2
            scaled = scaled.crop((left, top, left + width, top + height))
        return np.ascontiguousarray(np.asarray(scaled).transpose(2, 0, 1))  # layouts choose kernels, and so last bits

    def resize(self, image: Image) -> Image:
        """One RGB image in the size that the processor would scale it to."""
        if isinstance(self._size, tuple):
            height, width = self._size
            return image.resize((width, height), self._resample)
        short, long = sorted(image.size)
        scaled = self._size, int(self._size * long / short)  # the longer side is truncated, as the processors do it
        return image.resize(scaled if image.width <= image.height else scaled[::-1], self._resample)


BACKENDS = ("pil", "torchvision")
"""The two implementations of one processor: first the one taken unless another is asked for.

They differ by a grey level of 255 here and there after resizing (PIL and torchvision round bicubic interpolation
differently), which can move a rank. "pil" is what OpenAI's CLIP and Salesforce's BLIP resize with and what transformers
used by itself before version 5; "torchvision" ("fast") is the default there since.
"""

MAX_RESIZED_PIXELS = 1 << 27  # 134 million: PIL warns of a decompression bomb at 89 million, and refuses at twice that


def image_processor(
    folder: Path, backend: str | None, patches: int | None = None, *, code: bool = False
) -> ImageProcessor | NaFlexProcessor:
    """The image processor saved in a model's folder."""
    from transformers import AutoImageProcessor

    # The keyword was renamed within version 5, and the old one warns; unknown keywords are swallowed silently.
    renamed, wanted = find_spec("transformers.image_processing_backends") is not None, backend or BACKENDS[0]
    choice: dict[str, Any] = {"backend": wanted} if renamed else {"use_fast": wanted == "torchvision"}
    choice["trust_remote_code"] = code  # unless it is told no, transformers asks on the terminal
    with only_errors():  # it warns that there is no other implementation
        processor: Any = AutoImageProcessor.from_pretrained(folder, **choice)
    _check_channels(folder, processor)
    runs_on = backend_of(processor)
    if backend not in (None, runs_on):
        raise EncoderError(
            f"{folder}: {type(processor).__name__} cannot run on {backend!r} here.",
            hint=f"use the other implementation: ?processor={runs_on} (it gives slightly different pixels)",
            code="cannot-run",
        )
    if "spatial_shapes" in getattr(processor, "model_input_names", ()):
        return NaFlexProcessor(processor, runs_on, patches)
    if patches is not None:
        raise EncoderError(
            f"{folder}: patches={patches}: this model takes pictures of one size.",
            hint="leave patches out; NaFlex models take any number (google/siglip2-base-patch16-naflex)",
            code="one-size-of-pictures",
        )
    return ImageProcessor(processor, runs_on)


def processor_file(folder: Path) -> Path:
    """The file with the settings of a model's image processor."""
    names = ("preprocessor_config.json", "processor_config.json")
    return next((folder / name for name in names if (folder / name).is_file()), folder / "config.json")


def _check_channels(folder: Path, processor: Any) -> None:
    """Raise `EncoderError` for a mean or deviation that has not a number for each of the three channels."""
    for name in ("image_mean", "image_std"):
        value = getattr(processor, name, None)
        numbers = value if isinstance(value, list | tuple) else [0.5] * 3 if value is None else [value] * 3
        usable = all(isinstance(number, int | float) and math.isfinite(number) for number in numbers)
        if len(numbers) != 3 or not usable or (name == "image_std" and 0 in numbers):
            raise EncoderError(
                f"{processor_file(folder)}: {name}={value}: three numbers are wanted, one for each channel of a picture"
                f"{', and none of them 0' if name == 'image_std' else ''}.",
                hint="fetch that file again from where the model comes",
            )


class ImageProcessor:
    """An image processor of `transformers`: PIL in, float32 (3, H, W) out."""

    def __init__(self, processor: Any, backend: str) -> None:
        self._processor, self.backend = processor, backend
        self._timm: dict[str, Any] | None = getattr(processor, "data_config", None)
        if self._timm is not None:
            edge: int | None = int(min(self._timm["input_size"][1:]) / float(self._timm.get("crop_pct") or 1))
        else:
            settings = processor.to_dict()
            edge = dict(settings.get("size") or {}).get("shortest_edge") if settings.get("do_resize", True) else None
        self._shortest_edge = edge  # what it is scaled to; None where pictures are not scaled so
        self.levels: GreyLevels | None = None
        """What it makes of each grey level; None where it does more to values than that."""
        self._levels: Callable[[Image], NDArray[Any]] = self._processor_levels
        if backend == "pil" and self._timm is None:  # torchvision is as fast by itself
            # Found by asking for each grey level: rescaling and normalising a whole image in NumPy costs 0.8 to 2.6 ms
            # (224 to 384 pixels), up to half of all preprocessing.
            still = {key: False for key in ("do_resize", "do_center_crop") if key in processor.to_dict()}
            answer = processor(images=ramp(), return_tensors="np", **still)["pixel_values"][0]
            self.levels = GreyLevels.of(self._processor_levels, answer, self._plain_call)
            if self.levels is not None:
                self._levels = ResizedFirst.of(processor, self._processor_levels) or self._processor_levels

    def pixels(self, image: Image) -> NDArray[np.float32]:
        """One RGB image as the model wants it. Pure: the processor holds nothing but its settings."""
        check_sliver(image, self._shortest_edge)
        return self._plain_call(image) if self.levels is None else self.levels.pixels(self._levels(image))

    def grey_levels(self, image: Image) -> NDArray[np.uint8]:
        """One RGB image as bytes, resized and cropped: what `levels` looks up."""
        check_sliver(image, self._shortest_edge)
        return self._levels(image)

    def _plain_call(self, image: Image) -> NDArray[np.float32]:
        # timm's preprocessing gives torch tensors only.
        values = self._processor(images=image, return_tensors="np" if self._timm is None else "pt")["pixel_values"][0]
        return np.ascontiguousarray(values, dtype=np.float32)

    def _processor_levels(self, image: Image, **settings: bool) -> NDArray[Any]:
        """Resized and cropped, but still grey levels 0 … 255: uint8 (3, H, W); or without some of these steps."""
        answer = self._processor(images=image, do_rescale=False, do_normalize=False, return_tensors="np", **settings)
        levels: NDArray[Any] = answer["pixel_values"][0]
        return levels

    def values(self) -> dict[str, Any]:
        """Every setting as plain values, for the card; "backend" and "class" among them."""
        return processor_values(self._processor, self.backend)


def check_sliver(image: Image, shortest_edge: int | None) -> None:
    """Raise `ImageError` for an image that becomes enormous when its shortest edge is scaled to `shortest_edge`."""
    # Scaling to a shortest edge of 224 makes an image of 10,000 × 1 pixels one of 2,240,000 × 224: 1.5 GB, of which the
    # centre crop keeps a ten-thousandth. None: the preprocessing does not scale that way.
    if shortest_edge is None:
        return
    short, long = sorted(image.size)
    if shortest_edge * shortest_edge * long > MAX_RESIZED_PIXELS * short:
        raise ImageError(
            f"an image of {image.width} × {image.height} pixels is too narrow: scaled to a shortest edge of "
            f"{shortest_edge} it would have {shortest_edge * shortest_edge * long // short / 1e6:,.0f} million pixels.",
            hint="crop it, or set it aside (--skip-broken)",
            code="scaled-shortest-edge-million",
        )
