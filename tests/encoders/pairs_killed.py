"""Run as a script: match 30 pictures with 30 texts, slowly, with every call on disk at once. usage: FOLDER CACHE"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np

from matching_toys import Nearness, reds
from visir.encoders import pairs
from visir.encoders.pairs import match_pairs

COUNT = 30


def collection(folder: Path):  # type: ignore[no-untyped-def]
    return reds(folder, [8 * at for at in range(COUNT)], [str(at) for at in range(COUNT)], list(range(COUNT)))


def sides(collection):  # type: ignore[no-untyped-def]
    """The images, and the captions."""
    return collection.items("image"), collection.items("text")


def every_pair():  # type: ignore[no-untyped-def]
    image, text = np.divmod(np.arange(COUNT * COUNT), COUNT)
    return image, text


if __name__ == "__main__":
    pairs._FLUSH_SECONDS = 0.0
    match_pairs(Nearness(pause=0.01), *sides(collection(Path(sys.argv[1]))), *every_pair(), root=sys.argv[2])
