"""The negative cosine: images are brought to fixed caption vectors; nothing is contrasted."""

from __future__ import annotations

from typing import Literal

from visir.training.settings import Settings


class CosineSettings(Settings):
    """1 - cosine between image and caption; see `Cosine`."""

    name: Literal["cosine"] = "cosine"
