"""What a corruption of pictures is: a function of a picture, a stream of random numbers and a severity."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

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


def scale(picture: Image) -> float:
    """How many of this picture's pixels one pixel of a 224-pixel input is."""
    return min(picture.size) / INPUT
