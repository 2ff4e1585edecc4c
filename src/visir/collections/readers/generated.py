"""Generated scenes behind the same door as everything else: "scenes:2000", "scenes:2000?seed=1&size=128"."""

from __future__ import annotations

import re
from pathlib import Path

from visir.collections.descriptor import Format, Option
from visir.errors import CollectionError
from visir.records import Collection


def read(path: Path, *, seed: int = 0, size: int = 128, near_duplicates: float = 0.0) -> Collection:
    """Make as many scenes as the "path" says; see `visir.collections.scenes.scenes`."""
    from visir.collections.scenes import scenes

    # Digits may be grouped in threes; "120,60,60" means three splits to somebody, not a million scenes.
    if not re.fullmatch(r"\d+|\d{1,3}([,_]\d{3})+", str(path)):
        raise CollectionError(f"scenes:{path}: not a number of scenes.", hint="for example scenes:2000?seed=1")
    count = int(re.sub("[,_]", "", str(path)))
    return scenes(count, seed=seed, size=size, near_duplicates=near_duplicates)


FORMAT = Format(
    name="scenes",
    title="generated scenes with known facts",
    layout="scenes:NUMBER; nothing on disk: pictures are drawn when looked at",
    reference="visir.collections.scenes",
    sniff=lambda path: False,
    options=(
        Option("seed", "a whole number; scene i of a seed is always the same", 0, int),
        Option("size", "pixels of a side, 64 to 224", 128, int),
        Option("near_duplicates", "share of hard negatives, 0 to 0.5", 0.0, float),
    ),
    read=read,
)
