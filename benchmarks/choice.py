"""How long choice tasks take with given vectors, and what a blind system reaches on real ones.

    python benchmarks/choice.py                  # the times
    python benchmarks/choice.py --blind          # the table of docs/how-to/evaluate-choices.md

The times are of `visir.evaluate` in one process, without imports, the best of three: SugarCrepe's layout (one picture,
two captions) and Winoground's (two pictures, two captions, both directions), random vectors of 512 numbers.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import numpy as np

import visir
from visir.collections.draft import NOT_LOOKED_FOR, ChoiceDraft
from visir.evaluation.language import language_model
from visir.evaluation.systems.blind import BlindSystem
from visir.records import Embeddings, EncoderCard, TaskFile, TaskSet

DATA = Path(os.environ.get("VISIR_DATA", "../shared/data"))


def made(items: int, pictures: int) -> TaskFile | TaskSet:
    """A choice task of generated names: one or two pictures, and two captions for each item."""
    measures = ("all_first",) if pictures == 1 else ("all_first", "item_score", "group_score")
    draft = ChoiceDraft("made", Path(), "made", measures=measures, notes=[NOT_LOOKED_FOR])
    for item in range(items):
        names = {"": f"{item}.jpg"} if pictures == 1 else {f"image_{side}": f"{item}_{side}.jpg" for side in (0, 1)}
        captions = {f"caption_{side}": f"caption {side} of {item}" for side in (0, 1)}
        right = [[0]] if pictures == 1 else [[0], [1]]
        draft.add(str(item), names, captions, right, {"category": f"part {item % 7}"})
    return draft.build()


def vectors_of(source: TaskFile | TaskSet, dimension: int) -> dict[str, Embeddings]:
    """Random vectors of all pictures and captions."""
    task = source.task("i2t")
    card = EncoderCard("random", "benchmark", revision="1")
    rng = np.random.default_rng(0)
    sides = {"image": task.queries.ids, "text": task.documents.ids}
    return {
        side: Embeddings(side, ids, rng.standard_normal((len(ids), dimension), np.float32), card)  # type: ignore[arg-type]
        for side, ids in sides.items()
    }


def times(items: int) -> None:
    """Print the times of both layouts."""
    for pictures, title in ((1, "one picture, two captions"), (2, "two pictures, two captions, both directions")):
        source = made(items, pictures)
        vectors = vectors_of(source, 512)
        best, by = np.inf, np.inf
        for _ in range(3):
            started, used = time.perf_counter(), time.process_time()
            evaluation = visir.evaluate(source, vectors=vectors)
            best = min(best, time.perf_counter() - started)
            cpu = time.process_time() - used
            started = time.perf_counter()
            evaluation.by("category")
            by = min(by, time.perf_counter() - started)
        print(f"{items:,} items, {title}: {best:.2f} s ({cpu:.2f} s of one core), by category {by:.2f} s")


def blind() -> None:
    """Print what a blind system reaches on VALSE and SugarCrepe++, without a picture.

    It learns from Flickr8k: captions of COCO are what the benchmarks were made from, and would give the answers away.
    """
    corpus = DATA / "flickr8k" / "dataset_flickr8k.karpathy_schema.json.xz"
    system = BlindSystem(language_model(f"{corpus}?split=train"), name="3-grams of Flickr8k")
    for part in ("valse", "sugarcrepe_pp"):
        source = visir.open(DATA / "choice" / part, images="none")
        evaluation = visir.evaluate(source, system, tasks="i2t")
        print(
            f"\n{part}: {100 * evaluation['all_first']:.1f} %\n{evaluation.by('category', 'all_first').to_markdown()}"
        )


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=7_500)
    parser.add_argument("--blind", action="store_true")
    arguments = parser.parse_args()
    if arguments.blind:
        blind()
    else:
        times(arguments.items)


if __name__ == "__main__":
    main()
