"""How many generated scenes a second one core makes: facts, picture and five captions.

    python benchmarks/scenes.py [--scenes 3000] [--seed 0]

The first line includes filling the caches of drawn parts (a cold start); the others are the steady state of a new seed.
"""

from __future__ import annotations

import argparse
import time

from visir.collections.scenes import describe, render, sample_scene, scenes


def rate(count: int, seed: int, size: int) -> float:
    """Scenes per second: sampled, rendered at `size` pixels, described."""
    start = time.perf_counter()
    for index in range(count):
        scene = sample_scene(seed, index)
        render(scene, size)
        describe(scene)
    return count / (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenes", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    for size in (128, 64, 224):
        cold = rate(asked.scenes, asked.seed, size)
        warm = rate(asked.scenes, asked.seed + 1, size)
        print(f"{size:4d} px: {cold:7.0f} scenes/s from a cold start, {warm:7.0f} scenes/s after (one thread)")
    start = time.perf_counter()
    made = scenes(asked.scenes, seed=asked.seed, near_duplicates=0.25)
    taken = time.perf_counter() - start
    print(f"collection of {made.images.num_rows} (facts, captions, judgements; no picture drawn): {taken:.2f} s")


if __name__ == "__main__":
    main()
