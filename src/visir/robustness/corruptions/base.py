"""Corruptions of pictures: each is a function of a picture, a stream of random numbers and a severity."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from visir.plugins import CORRUPTIONS as GROUP
from visir.registry import Registry
from visir.robustness.random_stream import RandomStream

if TYPE_CHECKING:
    from PIL.Image import Image

Family = Literal["blur", "compression", "noise", "occlusion", "geometry"]

SEVERITIES = (1, 2, 3, 4, 5)
INPUT = 224
"""Sizes below are those of a picture whose shorter side has so many pixels: what most models look at."""


@dataclass(frozen=True)
class Corruption:
    """One way to corrupt a picture.

    As in ImageNet-C (Hendrycks & Dietterich, ICLR 2019, appendix B), severities are five fixed steps. Its pictures are
    all of 224 pixels; ours are of any size, so everything but compression is measured by the shorter side, and the same
    severity looks alike on a thumbnail and on a photograph of twelve megapixels.

    Args:
        name: "gaussian_blur".
        title: Its name in tables.
        family: What kind of damage it does.
        change: (upright RGB picture, random numbers, severity 1–5) → a new picture of the same size. Equal arguments
            give equal pixels (of one version of Pillow and NumPy), and the picture itself is never altered.
        steps: (5,) what severities 1 to 5 mean.
        step_format: How one of the steps is written: "quality {:g}".
        about: What it does, in one sentence.
    """

    name: str
    title: str
    family: Family
    change: Callable[[Image, RandomStream, int], Image]
    steps: tuple[float, float, float, float, float]
    step_format: str
    about: str

    def describe(self, severity: int) -> str:
        """A severity in words: "σ 3 px of 224", "quality 15"."""
        return self.step_format.format(self.steps[severity - 1])


CORRUPTIONS: Registry[Corruption] = Registry("corruption of pictures", group=GROUP, of=Corruption)
"""All corruptions, in the order in which tables list them."""


GREY = (127, 127, 127)


def scale(picture: Image) -> float:
    """How many of this picture's pixels one pixel of a 224-pixel input is."""
    return min(picture.size) / INPUT


# Gaussian blur: a picture out of focus.

BLUR = (1.0, 2.0, 3.0, 4.0, 6.0)
"""ImageNet-C's, in pixels of a picture whose shorter side has 224."""


def blur(picture: Image, random: RandomStream, severity: int) -> Image:
    """The picture convolved with a Gaussian (Pillow's: three box filters, which come within a few percent of one)."""
    from PIL import ImageFilter

    return picture.filter(ImageFilter.GaussianBlur(BLUR[severity - 1] * scale(picture)))


# Gaussian noise: a picture taken in the dark.

NOISE = (0.08, 0.12, 0.18, 0.26, 0.38)
"""ImageNet-C's, as fractions of the range from black to white."""


def add_noise(picture: Image, random: RandomStream, severity: int) -> Image:
    """The picture plus independent normal noise for each channel, cut to 0 … 255."""
    # The grain has the size of one pixel of a 224-pixel input: noise of single pixels on a large photograph would be
    # averaged away as soon as a model scales it down, and the severity would mean something else for every size. A
    # picture whose shorter side is at most 224 gets noise on every pixel. The noise is NumPy's PCG64, whose seed comes
    # from the stream.
    from PIL import Image as Pictures

    rng = np.random.Generator(np.random.PCG64(random.below(1 << 63)))
    width, height = picture.size
    factor = max(1.0, scale(picture))
    grains = (max(1, round(height / factor)), max(1, round(width / factor)))
    noise = rng.standard_normal((*grains, 3), dtype=np.float32)
    if grains != (height, width):
        rows = np.arange(height) * grains[0] // height
        columns = np.arange(width) * grains[1] // width
        noise = noise[rows][:, columns]
    noisy = np.asarray(picture, np.float32) + 255 * NOISE[severity - 1] * noise
    return Pictures.fromarray(np.rint(np.clip(noisy, 0, 255)).astype(np.uint8))


# JPEG compression: a picture saved too often, or too small.

QUALITY = (25.0, 18.0, 15.0, 10.0, 7.0)
"""ImageNet-C's, on Pillow's (libjpeg's) scale from 1 to 95."""


def compress(picture: Image, random: RandomStream, severity: int) -> Image:
    """The picture saved as JPEG and read again, colours halved in resolution (4:2:0), which is Pillow's default."""
    # At the picture's own size, because that is how pictures are compressed: blocks have 8 × 8 of *its* pixels, and a
    # large photograph that a model sees at 224 pixels loses less than a small one. That is so outside a test, too.
    from PIL import Image as Pictures

    stream = io.BytesIO()
    picture.save(stream, "JPEG", quality=int(QUALITY[severity - 1]))
    with Pictures.open(stream) as opened:
        return opened.convert("RGB")


# Occlusion: something stands before a part of the picture.

COVERED = (5.0, 10.0, 20.0, 35.0, 50.0)
"""Percent of the picture's area."""


def occlude(picture: Image, random: RandomStream, severity: int) -> Image:
    """The picture with a mid-grey rectangle of its own proportions somewhere on it, wholly inside."""
    # Where is drawn before the size is known (as two fractions of the room there is), so a higher severity covers about
    # the same place, and more of it.
    across, down = random.unit(), random.unit()
    width, height = picture.size
    side = (COVERED[severity - 1] / 100) ** 0.5
    wide, high = max(1, round(side * width)), max(1, round(side * height))
    left, top = round(across * (width - wide)), round(down * (height - high))
    covered = picture.copy()
    covered.paste(GREY, (left, top, left + wide, top + high))
    return covered


# Rotation: a picture taken with a tilted camera.

DEGREES = (5.0, 10.0, 20.0, 30.0, 45.0)


def rotate(picture: Image, random: RandomStream, severity: int) -> Image:
    """The picture turned about its middle, to the left or to the right as drawn, at its size (bicubic)."""
    # What comes in at the corners is mid-grey. The other way, cutting the largest upright rectangle out of the turned
    # picture, would also lose its margin, and a fall of retrieval would not say which of the two it was.
    from PIL import Image as Pictures

    angle = DEGREES[severity - 1] * random.choice((-1, 1))
    return picture.rotate(angle, Pictures.Resampling.BICUBIC, fillcolor=GREY)


for _one in (
    Corruption(
        "gaussian_blur",
        "Gaussian Blur",
        "blur",
        blur,
        BLUR,
        "σ {:g} px of 224",
        "Out of focus: what tells things apart by texture goes first.",
    ),
    Corruption(
        "gaussian_noise",
        "Gaussian Noise",
        "noise",
        add_noise,
        NOISE,
        "σ {:g} of the range",
        "Sensor noise of a dark scene: every grain its own random colour.",
    ),
    Corruption(
        "jpeg",
        "JPEG",
        "compression",
        compress,
        QUALITY,
        "quality {:g}",
        "Heavy JPEG compression: blocks of eight pixels, washed-out colours.",
    ),
    Corruption(
        "occlusion",
        "Occlusion",
        "occlusion",
        occlude,
        COVERED,
        "{:g} % of the area",
        "A grey rectangle covers a part of the picture.",
    ),
    Corruption(
        "rotation",
        "Rotation",
        "geometry",
        rotate,
        DEGREES,
        "{:g}°",
        "A tilted camera: the horizon slants, the corners are grey.",
    ),
):
    CORRUPTIONS.add(_one.name, _one)
