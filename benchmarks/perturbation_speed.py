"""How many captions a second each perturbation breaks, on one core, once captions are tagged.

    python benchmarks/perturbation_speed.py [COLLECTION] [--captions 20000]

COLLECTION: any with captions (default: Flickr30k's test captions under VISIR_DATA), repeated until there are enough,
each time under other ids. Processor time, best of three, draws included; tagging is measured by itself beside it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence

from visir.collections import open_collection
from visir.files import data_directory
from visir.robustness.language.tagged_captions import TaggedCaption
from visir.robustness.language.tagging import cut
from visir.robustness.perturbations import PERTURBATIONS
from visir.robustness.random_stream import RandomStream

FLOOR = 40_000


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("collection", nargs="?", default=str(data_directory() / "flickr30k/flickr30k_test_1k.json.xz"))
    parser.add_argument("--captions", type=int, default=20_000)
    chosen = parser.parse_args(arguments)
    texts = open_collection(chosen.collection, images="none").captions["text"].to_pylist()
    began = time.process_time()
    tagged = cut(texts).sentences()
    tagging = time.process_time() - began
    captions = (tagged * (chosen.captions // len(tagged) + 1))[: chosen.captions]
    print(f"{len(texts):,} captions of {chosen.collection}, {len(captions):,} timed")
    print(f"finding parts of speech: {len(texts) / tagging:,.0f} captions/s (tens of thousands: from the cache)")
    print(f"\n{'':<30}{'sound':>12}{'changed':>9}{'paper':>12}{'changed':>9}   captions/s/core")
    slow = []
    for name, one in PERTURBATIONS.items():
        assert one.paper is not None
        sound, changed = timed(name, one.change, captions)
        paper, changed_paper = timed(name, one.paper, captions)
        print(f"{name:<30}{sound:>12,.0f}{changed:>9.1%}{paper:>12,.0f}{changed_paper:>9.1%}")
        slow += [name] if sound < FLOOR else []
    print(f"\nbelow {FLOOR:,}: {', '.join(slow) or 'none'}")


def timed(
    name: str, change: Callable[[TaggedCaption, RandomStream, int], str], captions: Sequence[TaggedCaption]
) -> tuple[float, float]:
    """Captions per second, and the share that changed."""
    keys = [str(i) for i in range(len(captions))]
    best = float("inf")
    for _ in range(3):
        began = time.process_time()
        out = [change(caption, RandomStream(0, name, key), 1) for caption, key in zip(captions, keys, strict=True)]
        best = min(best, time.process_time() - began)
    return len(captions) / best, sum(a != b.text for a, b in zip(out, captions, strict=True)) / len(captions)


if __name__ == "__main__":
    main()
