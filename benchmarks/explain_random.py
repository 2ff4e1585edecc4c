"""False statements: numbers drawn at random are explained, and what `visir explain` states of them is counted.

    VISIR_DATA=../shared/data python benchmarks/explain_random.py [--draws 300] [--way vectors] [--out runs/explain]

Four kinds, in turn. *Moved*: each value of the result is off by a few queries. *Another model*: the same data with
noise on the vectors, or with some of their dimensions. *Another set*: images or captions drawn at random, in ways that
no reading has. For these no protocol may be stated. *A reading*: one of the table of readings, or two, drawn at random;
it may be stated, or one that gives exactly the same numbers, before they are rounded, and no other.

The data are Flickr8k and trained heads (`explain_worlds.py`): in each of six rounds other images, so other ranks.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

import visir
from explain_setups import Numbers, best_ranks, of_part, printed, ranks_of
from explain_worlds import KS, Data, Part, World, features, small, unit
from visir.evaluation.explaining import Material
from visir.evaluation.explaining.readings import Reading, pairs, singles
from visir.evaluation.explaining.search import Bench, Search

KINDS = ("moved", "another model", "another set", "a reading")
ROUNDS = 6
SAME = 1e-6
UNCLEAR = ("ties", "any order")
"""A choice that gives bounds, and no numbers."""


def some_images(data: Data, random: np.random.Generator) -> World:
    """400 images of the test split, and 400 each of the others."""
    collection, images, texts = data
    splits = np.array(collection.images["split"].to_pylist())
    keep = np.zeros(len(splits), bool)
    for name in ("train", "val", "test"):
        of_split = np.flatnonzero(splits == name)
        keep[random.choice(of_split, min(400, len(of_split)), replace=False)] = True
    part = collection.keep_images(keep)
    return World("random", part, images.select(part.images["id"]), texts.select(part.captions["id"]), {})


def moved(part: Part, random: np.random.Generator) -> Numbers:
    """Each value a few queries off; recalls still rise with the cutoff."""
    values = []
    for ranks in (best_ranks(part.cosines, part.owner), ranks_of(part.cosines, part.owner)):
        counts = np.array([(ranks <= k).sum() for k in KS])
        counts = np.maximum.accumulate(np.clip(counts + random.integers(-12, 13, len(KS)), 1, len(ranks)))
        values.append(dict(zip(KS, 100 * counts / len(ranks), strict=True)))
    return printed(values[0], values[1], 1)


def another_model(part: Part, random: np.random.Generator) -> Numbers:
    """Noise on the vectors of a side, or some dimensions of both."""
    if random.random() < 0.5:
        chosen = random.choice(part.images.shape[1], int(random.integers(24, 100)), replace=False)
        return of_part(replace(part, images=part.images[:, chosen], texts=part.texts[:, chosen]))
    side = str(random.choice(["images", "texts"]))
    vectors = unit(getattr(part, side))
    noise = random.normal(size=vectors.shape) * random.uniform(0.1, 0.8) / np.sqrt(vectors.shape[1])
    return of_part(replace(part, **{side: (vectors + noise).astype(np.float32)}))


def another_set(part: Part, random: np.random.Generator) -> Numbers:
    """Some images, or some captions, at random."""
    if random.random() < 0.5:
        count = int(random.integers(len(part.images) // 4, len(part.images) - 5))
        chosen = np.sort(random.choice(len(part.images), count, replace=False))
        keep = np.isin(part.owner, chosen)
        owner = np.searchsorted(chosen, part.owner[keep])
        return of_part(Part(part.images[chosen], part.texts[keep], owner, [part.ids[place] for place in chosen]))
    keep = random.random(len(part.owner)) < random.uniform(0.3, 0.9)
    keep[np.unique(part.owner, return_index=True)[1]] = True  # no image without a caption
    return of_part(part.keep(keep))


def of_reading(bench: Bench, reading: Reading, decimals: int) -> tuple[Numbers, dict[tuple[str, str], float]] | None:
    """The numbers under a reading, printed and as they are; None where it cannot be computed, or is not exact."""
    labels = {task: {f"R@{k}": 0.0 for k in KS} for task in ("i2t", "t2i")}
    search = Search(bench, labels, decimals)
    trials = [search.trial(task, reading) for task in labels]
    exact = all(trial is not None and trial.slack < 1.0001 for trial in trials)
    if not exact:
        return None
    own = {(value.task, value.label): value.ours for trial in trials if trial for value in trial.values}
    more = 2 if reading["unit"] == "fraction" else 0
    cut = reading["digits"] == "cut"
    shown = {
        key: np.floor(value * 10 ** (decimals + more) + 1e-9) / 10 ** (decimals + more) if cut else value
        for key, value in own.items()
    }
    return {f"{task} {label}": f"{value:.{decimals + more}f}" for (task, label), value in shown.items()}, own


def states(explanation: visir.evaluation.Explanation, own: dict[tuple[str, str], float]) -> str:
    """ "silent", "several", "right" or "FALSE"; `own` are the values under the right reading, before rounding."""
    if explanation.verdict != "named":
        return "several" if explanation.verdict == "several" else "silent"
    statement = explanation.best.values
    is_same = own and all(abs(value.ours - own[value.task, value.label]) < SAME for value in statement)
    return "right" if is_same else f"FALSE: {explanation.best.reading}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/explain"), help="where vectors are kept")
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--way", choices=("folder", "vectors"), default="folder")
    parser.add_argument("--quick", action="store_true", help="200 images of each split")
    options = parser.parse_args(arguments)
    data = features(options.out)
    data = small(*data) if options.quick else data
    random = np.random.default_rng(options.seed)
    readings = [reading for reading in (*singles(), *pairs()) if UNCLEAR not in reading.choices]
    if options.way == "folder":
        readings = [reading for reading in readings if not reading.needs_vectors]
    counts: Counter[tuple[str, str]] = Counter()
    seconds, drawn = [], 0
    for number in range(ROUNDS):
        world = some_images(data, random)
        part, evaluation = world.part(), world.evaluate()
        vectors = (
            {"source": world.collection, "vectors": (world.images, world.texts)} if options.way == "vectors" else {}
        )
        plain = of_part(part)
        bench = Bench(Material.of(evaluation, vectors.get("vectors"), vectors.get("source")))
        while drawn < (number + 1) * options.draws // ROUNDS:
            kind, right, own = KINDS[drawn % len(KINDS)], None, {}
            if kind == "a reading":
                right = readings[int(random.integers(len(readings)))]
                made = of_reading(bench, right, int(random.choice([1, 2])))
                if made is None:
                    continue
                numbers, own = made
            else:
                make = {"moved": moved, "another model": another_model, "another set": another_set}[kind]
                numbers = make(part, random)
                if numbers == plain:
                    continue
            drawn += 1
            started = time.process_time()
            explanation = visir.explain(evaluation, numbers, **vectors)
            seconds.append(time.process_time() - started)
            statement = states(explanation, own)
            counts[kind, statement.partition(":")[0]] += 1
            if statement.startswith("FALSE"):
                print(
                    f"{kind} {right or ''}\n  {numbers}\n  {statement} "
                    f"({explanation.accidents:.2g} expected by accident)"
                )
    for kind in KINDS:
        told = ", ".join(f"{count} {statement}" for (of, statement), count in sorted(counts.items()) if of == kind)
        print(f"{kind}: {told}")
    false = sum(count for (_, statement), count in counts.items() if statement == "FALSE")
    print(f"{drawn} draws ({options.way}), {false} false statements; "
          f"{np.median(seconds):.1f} s of one processor at the median, {max(seconds):.1f} s at most")  # fmt: skip


if __name__ == "__main__":
    main()
