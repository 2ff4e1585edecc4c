"""How often the tests of `visir compare` find a difference where there is none, and how often intervals hold the truth.

    python benchmarks/significance.py            # the table of docs/background/significance.md

Pairs of systems that do not differ are simulated: a caption is found by one, by the other, or alike (−1, 1, 0 with
chances ¼, ¼, ½), and captions of one image are alike with the given correlation. Then the tests look, over images and
over captions. 5 % is what they promise; an interval should hold 0 in 95 %.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from visir.evaluation.significance import mean_interval, paired_t, randomisation

IMAGES = (8, 20, 100, 500)
CAPTIONS = ("1", "5", "1 to 20")
CORRELATIONS = (0.0, 0.3, 0.9)
LEVEL = 0.05


def simulated(
    images: int, captions: str, correlation: float, rng: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The differences of all captions, and the image of each.

    A caption takes its image's value with the chance √correlation, otherwise one of its own: so two captions of one
    image correlate by just that.
    """
    sizes = rng.choice([1, 2, 5, 20], images, p=[0.5, 0.2, 0.2, 0.1]) if " " in captions else int(captions)
    owners = np.repeat(np.arange(images), sizes)
    shared, own = (rng.choice([-1.0, 0.0, 1.0], count, p=[0.25, 0.5, 0.25]) for count in (images, len(owners)))
    return np.where(rng.random(len(owners)) < np.sqrt(correlation), shared[owners], own), owners


def measured(images: int, captions: str, correlation: float, pairs: int, seed: int) -> dict[str, float]:
    """Shares of pairs: false positives of each test, coverage of each interval, and what could not be tested."""
    rng = np.random.default_rng([seed, images, len(captions), int(captions[0]), int(10 * correlation)])
    counts = dict.fromkeys(("t image", "t caption", "r image", "r caption", "in image", "in caption", "untested"), 0)
    for pair in range(pairs):
        differences, owners = simulated(images, captions, correlation, rng)
        outcome = paired_t(differences, owners)
        counts["untested"] += bool(outcome.reason)
        counts["t image"] += outcome.p < LEVEL
        counts["t caption"] += paired_t(differences).p < LEVEL
        counts["r image"] += randomisation(differences, owners, samples=1_000, seed=pair).p < LEVEL
        counts["r caption"] += randomisation(differences, samples=1_000, seed=pair).p < LEVEL
        for name, clusters in (("image", owners), ("caption", None)):
            low, high = mean_interval(differences, clusters)
            counts[f"in {name}"] += bool(np.isnan(low) or low <= 0 <= high)
    return {name: count / pairs for name, count in counts.items()}


def settings() -> Iterator[tuple[int, str, float]]:
    """(images, captions, correlation); a single caption correlates with none."""
    for images in IMAGES:
        for captions in CAPTIONS:
            yield from ((images, captions, one) for one in (CORRELATIONS[:1] if captions == "1" else CORRELATIONS))


def main() -> None:
    """Print the table as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    print(f"{asked.pairs:,} pairs each, seed {asked.seed}; in percent\n")
    print("| images | captions of each | correlation | t, by image | randomisation, by image | t, by caption |")
    print("| randomisation, by caption | interval by image holds 0 | by caption | not testable |", flush=True)
    for images, captions, correlation in settings():
        found = measured(images, captions, correlation, asked.pairs, asked.seed)
        names = ("t image", "r image", "t caption", "r caption", "in image", "in caption", "untested")
        cells = " | ".join(f"{100 * found[name]:.1f}" for name in names)
        print(f"| {images} | {captions} | {correlation:g} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
