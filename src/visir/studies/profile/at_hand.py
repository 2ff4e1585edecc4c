"""Known data sets under `VISIR_DATA`: those that are there take part in every profile. A new one is a line here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from visir.collections import open_source
from visir.files import data_directory


@dataclass(frozen=True)
class DataAtHand:
    """A data set at its place under `VISIR_DATA`."""

    name: str  # what a profile calls it
    path: str  # where it is
    images: str = ""  # where its pictures are, when they are not beside it; without them it takes no part
    splits: str = ""  # where its division into splits is, when its own files do not say it; other pictures are left out
    ability: str = ""  # what its tasks show, where that is another ability than tasks of this kind usually show

    def is_there(self, folder: Path) -> bool:
        """Whether its files are in a folder."""
        return all((folder / place).exists() for place in (self.path, self.images, self.splits) if place)

    def open(self, folder: Path) -> Any:
        """Open it."""
        images = str(folder / self.images) if self.images else None
        options: dict[str, Any] = {"splits": folder / self.splits, "unlisted": "drop"} if self.splits else {}
        return open_source(str(folder / self.path), images=images, **options)


_FLICKR8K = "flickr8k/images_test_224.zip"
_COCO = "coco/images_154_256.zip"
CAPTIONS = "flickr8k/Flickr8k.token.txt.xz"
"""Captions of which the language model of the blind baseline is made."""

DATA_SETS = (
    DataAtHand("flickr8k", "flickr8k/dataset_flickr8k.karpathy_schema.json.xz", _FLICKR8K),
    DataAtHand("sugarcrepe-pp", "choice/sugarcrepe_pp", _COCO),
    DataAtHand("valse", "choice/valse", _COCO),
    DataAtHand("flickr8k-cn", "multilingual/flickr8k-cn", _FLICKR8K, splits="flickr8k", ability="language"),
    DataAtHand("mnist", "mnist"),
)


def data_at_hand(folder: Path | None = None) -> list[tuple[DataAtHand, Path]]:
    """The data sets that are in the folder of data, with that folder."""
    place = data_directory() if folder is None else folder
    return [(known, place) for known in DATA_SETS if known.is_there(place)]


def captions_at_hand(folder: Path | None = None) -> str:
    """Captions for a language model; "" where there are none."""
    file = (data_directory() if folder is None else folder) / CAPTIONS
    return str(file) if file.is_file() else ""
