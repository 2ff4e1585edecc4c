"""Late interaction on Flickr8k beside one vector for each item, over the same frozen networks: three seeds.

    VISIR_DATA=../shared/data python benchmarks/flickr8k_late.py [--jobs 2] [--out runs/flickr8k-late]
    python benchmarks/flickr8k_late.py --quick                # a smoke run: one epoch, one seed
    python benchmarks/flickr8k_late.py --overlays q1 q2 …      # which word looked where, for captions of the test split

Trains `flickr8k-late` and `flickr8k-heads` (over the same two views, with and without its bag of words) with the seeds
0, 1, 2, evaluates every checkpoint on the test split, and prints a table: hits, significance over photos and seeds
(`visir.stats.difference`), bytes for each photo, milliseconds for each query. Photos of the late models are
measured with token pooling too (`visir.retrieval.pool_tokens`), which is applied to what is searched and needs no
training. What is finished is taken as it is: run it again, and it goes on where it was stopped. Overlays are pages
with Flickr8k's photos: do not commit them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

import visir
from flickr8k_tables import show, spread
from visir.collections.images import ImageReader
from visir.encoders import encode, load
from visir.encoders.base import Encoder
from visir.evaluation.measures import RSUM_CUTOFFS as CUTOFFS
from visir.evaluation.results import Evaluation, load_evaluation, rsum_by_image
from visir.records import TASKS, Collection, MultiVectorEmbeddings
from visir.reports.examples import region_figure, word_regions
from visir.reports.page import thumbnails
from visir.retrieval import pool_tokens
from visir.retrieval.exact import search
from visir.stats import adjust, difference
from visir.storage import write_new
from visir.studies.trial import CHECKPOINT, DualEncoderTrial, run_trials
from visir.training.recipe import expand, read_recipe
from visir.training.shipped import find_recipe

VIEWS = 'image.views=["whole", "mirrored"]'
STUDY: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "heads": ("one vector", "flickr8k-heads", (VIEWS, 'text.encoder=["st:all-MiniLM-L6-v2"]')),
    "heads-bow": ("one vector, bag of words beside", "flickr8k-heads", (VIEWS,)),
    "late": ("late interaction", "flickr8k-late", ()),
}
"""Name -> what the table calls it, its recipe, and what is changed in it."""
BASELINE = "heads-bow"
FACTORS = (2, 4)
"""Token pooling: a half and a quarter of a photo's vectors."""
TEST = "test"
DATA = "karpathy:$VISIR_DATA/flickr8k/dataset_flickr8k.karpathy_schema.json.xz"


def trial_of(name: str, seed: int, quick: bool) -> DualEncoderTrial:
    """One training and its evaluation."""
    _, recipe, changes = STUDY[name]
    more = ("optimiser.epochs=1",) if quick else ()
    return DualEncoderTrial(
        f"{name}/seed{seed}", read_recipe(find_recipe(recipe), (f"seed={seed}", *changes, *more)), {TEST: None}
    )


def pooled(encoder: Encoder, photos: Collection, factor: int) -> Evaluation:
    """The evaluation of a late model whose photos are pooled, as queries and as documents."""
    images, texts = encode(encoder, photos, "image"), encode(encoder, photos, "text")
    assert isinstance(images, MultiVectorEmbeddings)
    return visir.evaluate(photos, vectors={"image": pool_tokens(images, factor), "text": texts})


def cost(encoder: Encoder, photos: Collection, factor: int = 1) -> tuple[float, float]:
    """Bytes for each photo as they are searched, and milliseconds for each caption as query, vectors at hand."""
    images, texts = encode(encoder, photos, "image"), encode(encoder, photos, "text")
    if isinstance(images, MultiVectorEmbeddings):
        images = pool_tokens(images, factor)
    size = images.vectors.nbytes / len(images)
    queries = texts.select(texts.ids[:200])
    search(queries, images, "t2i", depth=10)  # compiles and reads
    began = time.perf_counter()
    search(queries, images, "t2i", depth=10)
    return size, 1000 * (time.perf_counter() - began) / len(queries)


def rows_of(trials: dict[str, list[DualEncoderTrial]], out: Path, photos: Collection) -> list[list[str]]:
    """The table: hits and rsum as mean ± sd over seeds, difference to one vector, corrected p, cost."""
    evaluations: dict[str, list[Evaluation]] = {}
    costs: dict[str, tuple[float, float]] = {}
    for name, some in trials.items():
        encoders = [load(trial.folder(out) / CHECKPOINT) for trial in some]
        evaluations[STUDY[name][0]] = [load_evaluation(trial.folder(out) / TEST) for trial in some]
        costs[STUDY[name][0]] = cost(encoders[0], photos)
        for factor in FACTORS if encoders[0].form == "multi-vector" else ():
            label = f"{STUDY[name][0]}, 1/{factor} of the vectors"
            evaluations[label] = [pooled(encoder, photos, factor) for encoder in encoders]
            costs[label] = cost(encoders[0], photos, factor)
    by_photo = {
        label: np.stack([rsum_by_image(evaluation) for evaluation in some]) for label, some in evaluations.items()
    }
    baseline = STUDY[BASELINE][0]
    others = [label for label in evaluations if label != baseline and baseline in evaluations]
    several = all(len(some) > 1 for some in evaluations.values())
    raw = [difference(by_photo[label] - by_photo[baseline], 0).p for label in others] if several else []
    p = dict(zip(others, adjust(raw), strict=True)) if several else {}
    rows = []
    for label, some in evaluations.items():
        hits = [[100 * evaluation.result.mean(d, f"hit@{k}") for evaluation in some] for d in TASKS for k in CUTOFFS]
        gain = by_photo[label].mean() - by_photo[baseline].mean() if label in others else None
        rows.append(
            [
                label,
                *(spread(values) for values in hits),
                spread(by_photo[label].mean(1).tolist()),
                "" if gain is None else f"{gain:+.1f}",
                f"{p[label]:.2g}" if label in p else "",
                f"{costs[label][0]:,.0f}",
                f"{costs[label][1]:.2f}",
            ]
        )
    return rows


def draw_overlays(encoder: Encoder, photos: Collection, captions: Sequence[str], out: Path) -> Path:
    """A page with, for each caption, its own photo and what each word matched there."""
    rows = {row["id"]: row for row in photos.captions.to_pylist()}
    items = photos.items("image")
    parts = []
    for caption in captions:
        row = rows[caption]
        place = items.take(np.array([items.ids.index(row["image_id"]).as_py()]))
        image = ImageReader(place).open(0)
        [query] = encoder.encode_texts([row["text"]], "query")
        [document] = encoder.encode_images([image])
        regions = word_regions(encoder, row["text"], query, document, image)
        small = thumbnails([row["image_id"]], lambda _, picture=image: picture, budget=200_000)[row["image_id"]]  # type: ignore[misc]
        figure = region_figure(regions, small, title=row["text"], name=caption)
        parts.append(f"<h2>{escape(row['text'])}</h2>{figure.svg}<p>{escape(figure.caption)}</p>")
    path = out / "overlays.html"
    write_new(path, ("<!doctype html><meta charset=utf-8>" + "".join(parts)).encode(), replace=True)
    return path


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/flickr8k-late"))
    parser.add_argument("--jobs", type=int, default=2, help="trainings side by side, one thread each")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--only", nargs="+", choices=STUDY, default=list(STUDY), metavar="NAME")
    parser.add_argument("--overlays", nargs="+", default=[], metavar="CAPTION", help="ids of captions to draw")
    parser.add_argument("--quick", action="store_true", help="one epoch, seed 0; into OUT-quick")
    options: Any = parser.parse_args(arguments)
    out = options.out.with_name(options.out.name + "-quick") if options.quick else options.out
    seeds = [0] if options.quick else options.seeds
    trials = {name: [trial_of(name, seed, options.quick) for seed in seeds] for name in options.only}
    run_trials([trial for some in zip(*trials.values(), strict=True) for trial in some], out, jobs=options.jobs)
    photos = visir.open(expand(DATA)).split(TEST)
    head = ["model", *(f"{d} @{k}" for d in TASKS for k in CUTOFFS), "rsum", "Δ rsum", "p (Holm)", "bytes", "ms"]
    show(
        "Flickr8k, test split: hit@k in percent; bytes for a photo, milliseconds for a query",
        head,
        rows_of(trials, out, photos),
        out / "table.md",
    )
    if options.overlays:
        encoder = load(trials["late"][0].folder(out) / CHECKPOINT)
        print(f"overlays: {draw_overlays(encoder, photos, options.overlays, out)}")


if __name__ == "__main__":
    main()
