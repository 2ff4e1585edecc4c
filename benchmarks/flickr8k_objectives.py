"""Fourteen objectives on Flickr8k, three seeds: does decoding the caption help, as a second term or as a constraint?

    VISIR_DATA=../shared/data python benchmarks/flickr8k_objectives.py [--jobs 2] [--out runs/flickr8k-objectives]
    python benchmarks/flickr8k_objectives.py --quick        # a smoke run: 300 photos, two epochs, one seed

Trains the recipes `flickr8k-gru*` with the seeds 0, 1, 2, evaluates every checkpoint on the test split (1,000 photos,
5,000 captions), prints a table and draws the trajectories beside the published ones (LTD, Figure 2). Every training is
a process of its own on one thread, so that its figures do not depend on how many run side by side. What is finished is
kept: run it again, and it goes on where it was stopped; a checkpoint of another recipe than today's is refused.

**Significance.** The question is whether an objective is better than its contrastive baseline for further photos *and*
further seeds. A test over queries alone takes these three trainings for the objective itself, and finds differences
between two seeds of one recipe; a test over three seeds alone throws 6,000 queries away. So both are counted: the
squared standard errors of the mean difference in rsum over photos (a photo with its captions is one observation,
averaged over seeds) and over seeds (averaged over photos) are added, and Satterthwaite gives the degrees of freedom.
That is Clark's minF′ (1973), the usual test for two crossed random factors. (Simulated studies without a true
difference, per-photo differences of 2.6 points' deviation, seeds' of 0.15: p < 0.05 in 6 %; by photos alone in 25 %.)
Seed i is paired with seed i, which has the same batches. One test per objective, Holm over all of them.
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

import visir
from flickr8k_trajectories import draw
from visir.encoders.families import CHECKPOINT_FILE
from visir.errors import VisirError
from visir.evaluation.results import is_result, load_evaluation, save
from visir.evaluation.significance import corrected
from visir.files import read_json, write_bytes
from visir.progress import Progress
from visir.records import Collection
from visir.training.recipe import Recipe, expand, read_recipe
from visir.training.run import CURVE_FILE, RECIPE_FILE
from visir.training.shipped import find_recipe

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
DIRECTIONS = ("i2t", "t2i")
CUTOFFS = (1, 5, 10)
QUICK = {"train": 300, "val": 100, "test": 100}
QUICK_CHANGES = ("optimiser.epochs=2",)

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Run:
    """One training: a recipe and a seed, and where it is kept."""

    name: str
    seed: int
    folder: Path
    quick: bool

    @property
    def checkpoint(self) -> Path:
        """The folder that is trained into."""
        return self.folder / self.name / f"seed{self.seed}"

    @property
    def result(self) -> Path:
        """The folder of the test split's result."""
        return self.folder / self.name / f"seed{self.seed}-test"

    def recipe(self) -> Recipe:
        """The shipped recipe with this seed."""
        changes = (f"seed={self.seed}", *(QUICK_CHANGES if self.quick else ()))
        return read_recipe(find_recipe(self.name), changes)

    @property
    def is_finished(self) -> bool:
        """Whether it is trained and evaluated."""
        return (self.checkpoint / CHECKPOINT_FILE).is_file() and is_result(self.result)


def carry_out(run: Run) -> None:
    """Train and evaluate, as far as that is not done yet."""
    recipe = run.recipe()
    refuse_another(run, recipe)
    collection = collection_of(recipe, run.quick)
    if not (run.checkpoint / CHECKPOINT_FILE).is_file():
        visir.train(recipe, run.checkpoint, collection=collection, resume=True)
    if not is_result(run.result):
        encoder = visir.load(str(run.checkpoint), device="cpu")
        save(visir.evaluate(collection, encoder, split="test", depth=10, name=run.name), run.result)


def refuse_another(run: Run, recipe: Recipe) -> None:
    """What lies there must have been trained by today's recipe: a table of two recipes under one name is none."""
    written = run.checkpoint / RECIPE_FILE
    if written.is_file() and what_counts(read_recipe(written)) != what_counts(recipe):
        raise VisirError(
            f"{run.checkpoint} was trained by another version of {run.name}.",
            hint="remove the folder, or keep it and choose another one: --out DIR",
        )


def what_counts(recipe: Recipe) -> dict[str, Any]:
    """All of a recipe but the words on where the data can be had."""
    return recipe.model_dump(exclude={"data": {"obtain"}})


def collection_of(recipe: Recipe, quick: bool) -> Collection:
    """Flickr8k; for a smoke run the first photos of every split."""
    whole = visir.open_collection(expand(recipe.data.collection))
    if not quick:
        return whole
    splits = np.array(whole.images["split"].to_pylist())
    kept = np.zeros(len(splits), bool)
    for name, count in QUICK.items():
        kept[np.flatnonzero(splits == name)[:count]] = True
    return whole.keep_images(kept)


def carry_out_all(runs: Sequence[Run], jobs: int) -> None:
    """Every unfinished run in a process of its own, `jobs` side by side; faults are told when all are done."""
    for run in runs:
        refuse_another(run, run.recipe())
    waiting = [run for run in runs if not run.is_finished]
    if not waiting:
        return
    faults: list[str] = []

    def start(run: Run) -> None:
        run.checkpoint.parent.mkdir(parents=True, exist_ok=True)
        log = run.checkpoint.with_name(f"seed{run.seed}.log")
        command = [sys.executable, __file__, "--out", str(run.folder), "--one", run.name, str(run.seed)]
        with log.open("ab") as stream:
            done = subprocess.run(
                [*command, *(["--quick"] if run.quick else [])],
                env={**os.environ, "OMP_NUM_THREADS": "1"},
                stdout=stream,
                stderr=subprocess.STDOUT,
                check=False,
            )
        if done.returncode:
            tail = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
            faults.append(f"{run.name}, seed {run.seed}: {' '.join(tail)} (see {log})")

    with Progress("training", len(waiting), "trainings") as advance, ThreadPoolExecutor(jobs) as pool:
        for _ in pool.map(start, waiting):
            advance()
    if faults:
        raise VisirError("not all trainings ended well:\n  " + "\n  ".join(faults))


def rsum_of_photos(run: Run) -> Floats:
    """(photos,) what each photo adds to rsum, in points: its own hits, and the mean hits of its captions.

    With equally many captions per photo, as in Flickr8k, the mean over photos is the rsum of the result.
    """
    evaluation = load_evaluation(run.result)
    result, captions = evaluation.result, evaluation.captions
    assert captions is not None
    hits = {one: sum(result.values(one, f"hit@{k}") for k in CUTOFFS) for one in DIRECTIONS}
    photos = result.per_query["i2t"]["query_id"].to_pylist()
    place = {photo: at for at, photo in enumerate(photos)}
    owner = dict(zip(captions["id"].to_pylist(), captions["image_id"].to_pylist(), strict=True))
    at = np.array([place[owner[caption]] for caption in result.per_query["t2i"]["query_id"].to_pylist()])
    mean = np.bincount(at, hits["t2i"], len(photos)) / np.bincount(at, minlength=len(photos))
    values: Floats = 100 * (hits["i2t"] + mean)
    return values


def crossed_test(differences: Floats) -> float:
    """Two-sided p of the mean of (seeds, photos) paired differences, both being samples (minF′, Clark 1973)."""
    from scipy.stats import t as student

    parts = [differences.mean(axis).var(ddof=1) / differences.shape[1 - axis] for axis in (0, 1)]
    freedom = [differences.shape[1 - axis] - 1 for axis in (0, 1)]
    total = sum(parts)
    if total == 0:
        return 1.0 if differences.mean() == 0 else 0.0
    degrees = total**2 / sum(part**2 / free for part, free in zip(parts, freedom, strict=True))
    return float(2 * student.sf(abs(differences.mean()) / np.sqrt(total), degrees))


def rows_of(runs: dict[str, list[Run]]) -> list[list[str]]:
    """The table: hits and rsum as mean ± sd over seeds, difference to the baseline, corrected p, seconds."""
    photos = {name: np.stack([rsum_of_photos(run) for run in some]) for name, some in runs.items()}
    compared = [name for name in runs if STUDY[name][1] in runs]
    several = all(len(some) > 1 for some in runs.values())
    raw = [crossed_test(photos[name] - photos[str(STUDY[name][1])]) for name in compared] if several else []
    p = dict(zip(compared, corrected(raw), strict=True)) if several else {}
    rows = []
    for name, some in runs.items():
        results = [load_evaluation(run.result).result for run in some]
        hits = [[100 * one.mean(d, f"hit@{k}") for one in results] for d in DIRECTIONS for k in CUTOFFS]
        label, baseline = STUDY[name]
        gain = photos[name].mean() - photos[baseline].mean() if baseline in runs else None
        seconds = [sum(epoch["seconds"] for epoch in read_json(run.checkpoint / CURVE_FILE)) for run in some]
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


def spread(values: Sequence[float]) -> str:
    if len(values) == 1:
        return f"{values[0]:.1f}"
    return f"{np.mean(values):.1f} ± {np.std(values, ddof=1):.1f}"


def show(rows: list[list[str]], out: Path) -> None:
    head = ["objective", *(f"{d} @{k}" for d in DIRECTIONS for k in CUTOFFS), "rsum", "Δ rsum", "p (Holm)", "seconds"]
    table = Table(*head, title="Flickr8k, test split: hit@k in percent, mean ± sd over seeds")
    for row in rows:
        table.add_row(*row)
    Console(width=max(150, Console().width)).print(table)
    lines = ["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows)]
    write_bytes(out / "table.md", ("\n".join(lines) + "\n").encode())


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/flickr8k-objectives"))
    parser.add_argument("--jobs", type=int, default=2, help="trainings side by side, one thread each")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--only", nargs="+", choices=STUDY, default=list(STUDY), metavar="RECIPE")
    parser.add_argument("--quick", action="store_true", help="300 photos, two epochs, seed 0; into OUT-quick")
    parser.add_argument("--one", nargs=2, metavar=("RECIPE", "SEED"), help=argparse.SUPPRESS)
    asked: Any = parser.parse_args(arguments)
    if asked.one:
        carry_out(Run(asked.one[0], int(asked.one[1]), asked.out, asked.quick))
        return
    out = asked.out.with_name(asked.out.name + "-quick") if asked.quick else asked.out
    seeds = [0] if asked.quick else asked.seeds
    # Seeds outermost: after a third of the time there is a whole table of one seed.
    runs = [Run(name, seed, out, asked.quick) for seed, name in itertools.product(seeds, asked.only)]
    carry_out_all(runs, asked.jobs)
    by_name = {name: [run for run in runs if run.name == name] for name in asked.only}
    show(rows_of(by_name), out)
    for title, base in FAMILIES.items():
        kept = {suffix: by_name.get(base + suffix, []) for suffix in ("", "-ltd-dual", "-ltd-constraint")}
        if any(kept.values()):
            drawn = draw({one: [run.checkpoint for run in some] for one, some in kept.items()}, title, out)
            print(f"trajectories: {', '.join(map(str, drawn))}")


if __name__ == "__main__":
    main()
