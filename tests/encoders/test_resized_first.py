"""Pictures scaled by PIL before the processor sees them are, to the bit, those that the processor scales itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_transformers as tiny
import transformers
from PIL import Image
from transformers.image_utils import PILImageResampling

from visir.collections.images import to_rgb
from visir.encoders.models.image_processors import BACKENDS, ImageProcessor, ResizedFirst, image_processor


@pytest.mark.parametrize("family", ["clip", "siglip", "blip", "align"])
def test_pixels_are_those_of_the_processor_alone(family: str, tmp_path: Path) -> None:
    tiny.save(family, tmp_path)
    ours = image_processor(tmp_path, BACKENDS[0])
    assert isinstance(ours, ImageProcessor)
    assert getattr(ours._levels, "__func__", None) is ResizedFirst.levels  # nothing is left to the processor
    theirs = transformers.AutoImageProcessor.from_pretrained(tmp_path, backend="pil")
    random = np.random.default_rng(0)
    noise = [Image.fromarray(random.integers(0, 256, (*random.integers(9, 300, 2), 3), np.uint8)) for _ in range(30)]
    pictures = [to_rgb(picture) for picture in tiny.photos()] + noise
    for picture in pictures:
        expected = np.asarray(theirs(images=picture, return_tensors="np")["pixel_values"][0], np.float32)
        assert np.array_equal(ours.pixels(picture), expected), picture.size


@pytest.mark.parametrize(
    "settings",
    [
        {"size": {"shortest_edge": 32, "longest_edge": 48}},  # the longer side has a limit, too
        {"do_resize": False},
    ],
)
def test_other_ways_of_scaling_stay_with_the_processor(settings: dict[str, Any]) -> None:
    processor = transformers.CLIPImageProcessorPil(**settings)
    assert ResizedFirst.of(processor, lambda *_, **__: pytest.fail("nothing is tried")) is None


def test_a_processor_that_scales_otherwise_than_it_says_is_found() -> None:
    class Smoother(transformers.CLIPImageProcessorPil):  # type: ignore[misc]
        def resize(self, image: Any, size: Any, resample: Any = None, **settings: Any) -> Any:
            return super().resize(image, size, PILImageResampling.BILINEAR, **settings)

    ours, other = (ImageProcessor(kind(), "pil") for kind in (transformers.CLIPImageProcessorPil, Smoother))
    assert ours._levels != ours._processor_levels and other._levels == other._processor_levels


class Corner(transformers.CLIPImageProcessorPil):  # type: ignore[misc]
    """Cuts out a corner, not the middle."""

    def center_crop(self, image: Any, size: Any, **settings: Any) -> Any:
        return image[..., : size["height"], : size["width"]]


@pytest.mark.parametrize(
    ("kind", "shortest", "way"),
    [(Corner, 70, "by_both"), (transformers.CLIPImageProcessorPil, 31, "levels")],  # scaled before; filled with black
)
def test_a_crop_that_is_not_the_middle_of_the_picture(kind: Any, shortest: int, way: str) -> None:
    processor = kind(size={"shortest_edge": shortest}, crop_size={"height": 48, "width": 56})
    ours, random = ImageProcessor(processor, "pil"), np.random.default_rng(2)
    assert ours._levels.__name__ == way
    for shape in ((50, 90), (33, 32), (300, 47)):
        picture = Image.fromarray(random.integers(0, 256, (*shape, 3), np.uint8))
        expected = np.asarray(processor(images=picture, return_tensors="np")["pixel_values"][0], np.float32)
        assert np.array_equal(ours.pixels(picture), expected)
