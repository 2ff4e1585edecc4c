"""Fourteen objectives on Flickr8k, three seeds: does decoding the caption help, as a second term or as a constraint?

    VISIR_DATA=../shared/data python benchmarks/flickr8k_objectives.py [--jobs 2] [--out runs/flickr8k-objectives]
    python benchmarks/flickr8k_objectives.py --quick        # a smoke run: one epoch, one seed

Trains the recipes `flickr8k-gru*` with the seeds 0, 1, 2, evaluates every checkpoint on the test split (1,000 photos,
5,000 captions), prints a table and draws the trajectories beside the published ones (LTD, Figure 2). Every training is
a process of its own on one thread, so that its figures do not depend on how many run side by side. What is finished is
kept: run it again, and it goes on where it was stopped; a checkpoint of another recipe than today's is refused.

Significance: every objective against its contrastive baseline, over photos and seeds together
(`visir.stats.difference`), Holm over all of them.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from flickr8k_tables import show, spread
from flickr8k_trajectories import KINDS, draw
from visir.evaluation.measures import RSUM_CUTOFFS as CUTOFFS
from visir.evaluation.results import load_evaluation, rsum_by_image
from visir.files import read_json
from visir.records import TASKS
from visir.stats import adjust, difference
from visir.studies.trial import CHECKPOINT, DualEncoderTrial, run_trials
from visir.training.recipe import read_recipe
from visir.training.shipped import find_recipe
from visir.training.trained import CURVE_FILE

STUDY: dict[str, tuple[str, str | None]] = {
    "flickr8k-gru": ("InfoNCE", None),
    "flickr8k-gru-ltd-dual": ("+ LTD, dual, β 1", "flickr8k-gru"),
    "flickr8k-gru-ltd-constraint": ("+ LTD, constraint, η 0.2", "flickr8k-gru"),
    "flickr8k-gru-ltd-constraint-loose": ("+ LTD, constraint, η 0.3", "flickr8k-gru"),
    "flickr8k-gru-itd-dual": ("+ ITD, dual, β 1", "flickr8k-gru"),
    "flickr8k-gru-itd-constraint": ("+ ITD, constraint, η 6", "flickr8k-gru"),
    "flickr8k-gru-ifm": ("+ IFM, ε 0.05", "flickr8k-gru"),
    "flickr8k-gru-ifm-ltd-constraint": ("+ IFM + LTD, constraint", "flickr8k-gru"),
    "flickr8k-gru-triplet": ("triplet", None),
    "flickr8k-gru-triplet-ltd-dual": ("+ LTD, dual, β 1", "flickr8k-gru-triplet"),
    "flickr8k-gru-triplet-ltd-constraint": ("+ LTD, constraint, η 0.2", "flickr8k-gru-triplet"),
    "flickr8k-gru-triplet-ltd-constraint-loose": ("+ LTD, constraint, η 0.3", "flickr8k-gru-triplet"),
    "flickr8k-gru-triplet-itd-dual": ("+ ITD, dual, β 1", "flickr8k-gru-triplet"),
    "flickr8k-gru-triplet-itd-constraint": ("+ ITD, constraint, η 6", "flickr8k-gru-triplet"),
}
"""Recipe -> what the table calls it, and the contrastive baseline that it is compared with."""
FAMILIES = {"InfoNCE": "flickr8k-gru", "triplet": "flickr8k-gru-triplet"}
TEST = "test"


def trial_of(recipe: str, seed: int, quick: bool) -> DualEncoderTrial:
    """One training and its evaluation."""
    changes = (f"seed={seed}", *(("optimiser.epochs=1",) if quick else ()))
    return DualEncoderTrial(f"{recipe}/seed{seed}", read_recipe(find_recipe(recipe), changes), {TEST: None})


def rows_of(trials: dict[str, list[DualEncoderTrial]], out: Path) -> list[list[str]]:
    """The table: hits and rsum as mean ± sd over seeds, difference to the baseline, corrected p, seconds."""
    found = {name: [load_evaluation(one.folder(out) / TEST) for one in some] for name, some in trials.items()}
    photos = {name: np.stack([rsum_by_image(one) for one in some]) for name, some in found.items()}
    compared = [name for name in trials if STUDY[name][1] in trials]
    several = all(len(some) > 1 for some in trials.values())
    raw = [difference(photos[name] - photos[str(STUDY[name][1])], 0).p for name in compared] if several else []
    p = dict(zip(compared, adjust(raw), strict=True)) if several else {}
    rows = []
    for name, some in trials.items():
        hits = [[100 * one.result.mean(d, f"hit@{k}") for one in found[name]] for d in TASKS for k in CUTOFFS]
        label, baseline = STUDY[name]
        gain = photos[name].mean() - photos[baseline].mean() if baseline in trials else None
        curves = [read_json(one.folder(out) / CHECKPOINT / CURVE_FILE) for one in some]
        seconds = [sum(epoch["seconds"] for epoch in curve) for curve in curves]
        rows.append(
            [
                label,
                *(spread(values) for values in hits),
                spread(photos[name].mean(1).tolist()),
                "" if gain is None else f"{gain:+.1f}",
                f"{p[name]:.2g}" if name in p else "",
                f"{np.mean(seconds):,.0f}",
            ]
        )
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/flickr8k-objectives"))
    parser.add_argument("--jobs", type=int, default=2, help="trainings side by side, one thread each")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--only", nargs="+", choices=STUDY, default=list(STUDY), metavar="RECIPE")
    parser.add_argument("--quick", action="store_true", help="one epoch, seed 0; into OUT-quick")
    asked: Any = parser.parse_args(arguments)
    out = asked.out.with_name(asked.out.name + "-quick") if asked.quick else asked.out
    seeds = [0] if asked.quick else asked.seeds
    trials = {name: [trial_of(name, seed, asked.quick) for seed in seeds] for name in asked.only}
    # Seeds outermost: after a third of the time there is a whole table of one seed.
    run_trials([one for some in zip(*trials.values(), strict=True) for one in some], out, jobs=asked.jobs)
    head = ["objective", *(f"{d} @{k}" for d in TASKS for k in CUTOFFS), "rsum", "Δ rsum", "p (Holm)", "seconds"]
    show("Flickr8k, test split: hit@k in percent, mean ± sd over seeds", head, rows_of(trials, out), out / "table.md")
    for title, base in FAMILIES.items():
        kept = {suffix: trials.get(base + suffix, []) for suffix in KINDS}
        if any(kept.values()):
            folders = {suffix: [one.folder(out) / CHECKPOINT for one in some] for suffix, some in kept.items()}
            print(f"trajectories: {', '.join(map(str, draw(folders, title, out)))}")


if __name__ == "__main__":
    main()
