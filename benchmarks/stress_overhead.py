"""What the brittleness study costs beside the encoder: all thirteen perturbations of 5,000 captions, and the page.

    VISIR_DATA=../shared/data python benchmarks/stress_overhead.py [--warm]

The captions are Flickr8k's test split. The encoder is a stand-in of known answers (words hashed to 512 dimensions)
whose own time is left out, so what remains is the study's: cutting into words and tagging, perturbing, the store,
searching, measuring, resampling, drawing. All in processor time (a second thread counts as well), with a fresh cache
each time, so captions are tagged once; `--warm` keeps the words that were cut before.

An encoder of 1,000 captions a second takes 13 × 5 s = 65 s for as many; below 20 % of that is 13 s.
"""

from __future__ import annotations

import sys
import tempfile
import time
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from visir.collections import open_collection
from visir.encoders import Store
from visir.encoders.base import Encoder
from visir.evaluation.stress.stress import stress
from visir.files import data_directory
from visir.records import EncoderCard
from visir.reports.stress import stress_report

DIMENSION = 512


class Stand(Encoder):
    """Sums of random vectors of words; pictures get random vectors. `spent`: its own processor time."""

    def __init__(self) -> None:
        self.card = EncoderCard("stand-in", "benchmark", weights="stand-in")
        self.dimension, self.modalities, self.spent = DIMENSION, frozenset({"image", "text"}), 0.0
        self._words: dict[str, NDArray[np.float32]] = {}

    def preprocess(self, image: Image.Image) -> NDArray[Any]:
        """A few grey levels."""
        return np.asarray(image.resize((8, 8)), np.float32).ravel()

    def embed_images(self, batch: Sequence[NDArray[Any]]) -> NDArray[np.float32]:
        """The same again and again, to the length of a vector."""
        return np.stack([np.resize(one - one.mean() + 0.1, DIMENSION) for one in batch]).astype(np.float32)

    def embed_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Sums of the vectors of their words."""
        begun = time.process_time()
        vectors = np.stack([sum((self._of(word) for word in text.split()), self._of("")) for text in texts])
        self.spent += time.process_time() - begun
        return vectors.astype(np.float32)

    def _of(self, word: str) -> NDArray[np.float32]:
        if word not in self._words:
            seed = zlib.crc32(word.encode())
            self._words[word] = np.random.default_rng(seed).normal(size=DIMENSION).astype(np.float32)
        return self._words[word]


def main() -> None:
    source = data_directory().resolve() / "flickr8k" / "dataset_flickr8k.karpathy_schema.json.xz"
    whole = open_collection(f"karpathy:{source}")
    part = whole.split("test")
    for turn in range(3):
        with tempfile.TemporaryDirectory() as cache:
            _once(part, Path(cache), turn)


def _once(part: Any, cache: Path, turn: int) -> None:
    import os

    if "--warm" not in sys.argv:
        os.environ["VISIR_CACHE"] = str(cache)
    store, encoder = Store(cache / "vectors"), Stand()
    stress(
        part, encoder, perturbations=["distraction_true"], corruptions=[], store=store
    )  # compiles the search; encodes
    encoder.spent, begun = 0.0, time.process_time()
    found = stress(part, encoder, corruptions=[], store=store)
    studied = time.process_time() - begun - encoder.spent
    begun = time.process_time()
    page = stress_report(found, part).write(cache / "stress.html")
    drawn = time.process_time() - begun
    seconds = sum(one.outcome.changed.sum() for one in found.effects) / 1_000
    shares = [100 * one / (one + seconds) for one in (studied, studied + drawn)]
    print(
        f"turn {turn}: {len(found.effects)} perturbations of {part.captions.num_rows:,} captions. "
        f"Study {studied:.1f} s (perturbing {found.timing['perturb']:.1f} s of wall time), "
        f"page {drawn:.1f} s ({page.stat().st_size:,} bytes), stand-in {encoder.spent:.1f} s. "
        f"Beside {seconds:.0f} s of encoding at 1,000 captions a second: {shares[0]:.1f} % of all, "
        f"{shares[1]:.1f} % with the page."
    )


if __name__ == "__main__":
    main()
