"""Losses that see several captions of an image at once, or hard negatives: do they learn what InfoNCE leaves out?

    VISIR_DATA=../shared/data python benchmarks/finetuning_objectives.py [--study flickr8k shortcuts probes] [--jobs 2]
    python benchmarks/finetuning_objectives.py --quick        # a smoke run: one epoch, one seed

Three studies of the same rows (thesis, section 4.8):

- flickr8k: heads over frozen MobileNetV2 and MiniLM vectors (the recipe `flickr8k-sentences`), the test split.
- shortcuts: the same with unique shortcuts on the training pictures and captions (four fixed assignments), evaluated
  without them and with them. How much does a loss lose that could have read the shortcut alone?
- probes: `scenes-vse` on generated scenes, whose facts are known: which shared, specific and irrelevant facts are
  in the vectors of images and captions.

Every training is a process of its own on one thread; what is finished is kept, and the same command goes on where it
was stopped. rsum and probes as mean ± standard deviation over seeds; Δ against InfoNCE, p over images and seeds
together (`visir.stats.difference`), Holm over the rows of a table. Tables go into OUT/STUDY.md.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import visir
from flickr8k_tables import show, spread
from visir.evaluation.probes import probe
from visir.evaluation.results import load_evaluation, rsum_by_image
from visir.stats import adjust, difference
from visir.studies.trial import CHECKPOINT, DualEncoderTrial, run_trials
from visir.training.recipe import read_recipe
from visir.training.shipped import find_recipe

Floats = NDArray[np.float64]

BASELINE = "InfoNCE"
SEVERAL = ("objective.name=multi-positive", "optimiser.per_image=5")
SWAPPED = "negatives.swapped.kinds=shuffle_nouns_and_adj"
OBJECTIVES: Mapping[str, Sequence[str]] = {
    BASELINE: (),
    "InfoNCE, siblings together": ("optimiser.per_image=5",),
    "sigmoid": ("objective.name=sigmoid",),
    "sigmoid, siblings positive": (
        "objective.name=sigmoid",
        "objective.false_negatives=positives",
        "optimiser.per_image=5",
    ),
    "several positives, every": (*SEVERAL, "objective.demand=every"),
    "several positives, any": (*SEVERAL, "objective.demand=any"),
    "+ mined": ("negatives.mined.count=1",),
    "+ swapped": (SWAPPED, "negatives.swapped.variants=4"),
    "+ mined and swapped": ("negatives.mined.count=1", SWAPPED, "negatives.swapped.variants=4"),
    "several, every + swapped": (*SEVERAL, SWAPPED, "negatives.swapped.variants=4"),
    "prompts, drawn": ('text.prompts=["{}", "a photo of {}", "a picture of {}", "this shows {}"]',),
    "+ LTD, dual, β 1": ("auxiliary.ltd.join=dual", "auxiliary.ltd.beta=1.0"),
}
"""What a row is called, and what it changes in the recipe."""
WITHOUT_SHORTCUTS = ("prompts, drawn",)
"""Rows that a study with shortcuts does not have: captions end in their digits."""
SHORTCUTS = ("shortcuts.kind=unique", "shortcuts.shuffles=4", 'image.views=["whole"]', "selection.keep=last")
STUDIES: Mapping[str, tuple[str, Sequence[str]]] = {
    "flickr8k": ("flickr8k-sentences", ()),
    "shortcuts": ("flickr8k-sentences", SHORTCUTS),
    "probes": ("scenes-vse", ("selection.keep=last",)),
}
"""A study's recipe, and what it changes for every row."""
SCENES = "scenes:1000?seed=1&size=64"
"""What is probed: scenes that no training used."""
CHOICES = "scenes:1000?task=choice&seed=1&size=64"
"""Choices between the caption of such a scene and a caption that is almost the same and wrong."""
SIGNIFICANT = 0.05


def trial_of(study: str, row: str, seed: int, quick: bool, more: Sequence[str]) -> DualEncoderTrial:
    """One training and its evaluations."""
    name, changes = STUDIES[study]
    path = find_recipe(name)
    own = list(OBJECTIVES[row])
    if any(change == "objective.name=multi-positive" for change in own):
        # Of another kind of objective nothing stays; the temperature is to be the same. A sigmoid has its own.
        usual: Any = read_recipe(path).objective
        own += [f"objective.temperature={usual.temperature}"]
        own += [f"objective.learn_temperature={str(usual.learn_temperature).lower()}"]
    short = ("optimiser.epochs=1",) if quick else ()
    recipe = read_recipe(path, [*own, f"seed={seed}", *changes, *short, *more])
    evaluations: dict[str, str | None] = {"without": None}
    if recipe.shortcuts is not None:
        evaluations["with"] = str(recipe.shortcuts.record())
    folder = re.sub(r"[ +,]+", "-", row).strip("-")
    split = "test" if study != "probes" else "val"
    return DualEncoderTrial(f"{study}/{folder}/seed{seed}", recipe, evaluations, split)


def retrieval_rows(trials: Mapping[str, Sequence[DualEncoderTrial]], out: Path) -> list[list[str]]:
    """A row for each objective and each way to evaluate it: rsum, difference and p."""
    images = {
        (row, label): np.stack([rsum_by_image(load_evaluation(trial.folder(out) / label)) for trial in some])
        for row, some in trials.items()
        for label in some[0].evaluations
    }
    several = all(len(values) > 1 for values in images.values())
    compared = [key for key in images if key[0] != BASELINE and (BASELINE, key[1]) in images] if several else []
    raw = [difference(images[key] - images[BASELINE, key[1]], 0).p for key in compared]
    p = dict(zip(compared, adjust(raw), strict=True)) if raw else {}
    rows = []
    for (row, label), values in images.items():
        baseline = images.get((BASELINE, label))
        gain = "" if row == BASELINE or baseline is None else f"{values.mean() - baseline.mean():+.1f}"
        sure = p.get((row, label))
        arrow = ("↑" if gain.startswith("+") else "↓") if sure is not None and sure < SIGNIFICANT else ""
        rows.append([row, label, spread(values.mean(1)) + arrow, gain, "" if sure is None else f"{sure:.2g}"])
    return rows


def probe_table(trials: Mapping[str, Sequence[DualEncoderTrial]], quick: bool, out: Path) -> list[list[str]]:
    """The head and a row for each objective: what of the facts of each role is in the vectors, in percent."""
    scenes = SCENES.replace("1000", "300") if quick else SCENES
    means = {
        row: [probe(scenes, str(trial.folder(out) / CHECKPOINT)).roles for trial in some]
        for row, some in trials.items()
    }
    parts = [(mean.role, mean.source) for mean in next(iter(means.values()))[0]]
    table = [["loss", *(f"{role} facts, from {source}" for role, source in parts)]]
    for row, of_seeds in means.items():
        values = [[100 * mean.mean for mean in of_seed] for of_seed in of_seeds]
        table.append([row, *(spread(column) for column in np.transpose(values))])
    return table


def choice_table(trials: Mapping[str, Sequence[DualEncoderTrial]], quick: bool, out: Path) -> list[list[str]]:
    """The head and a row for each objective: the share of right choices in each category, in percent.

    ↑ and ↓: another share than the baseline's, over items and seeds together (p < 0.05, Holm over the whole table).
    """
    task = visir.open(CHOICES.replace("1000", "300") if quick else CHOICES)
    right: dict[str, Floats] = {}
    of_item: list[str] = []
    for row, some in trials.items():
        evaluations = [visir.evaluate(task, str(trial.folder(out) / CHECKPOINT)) for trial in some]
        right[row] = np.stack([100 * evaluation.values("i2t", "all_first") for evaluation in evaluations])
        of_item = evaluations[0].labels["i2t"]["category"].to_pylist()
    parts = {category: np.array([category == own for own in of_item]) for category in dict.fromkeys(of_item)}
    parts["all"] = np.ones(len(of_item), bool)
    compared = [(row, part) for row in right for part in parts if row != BASELINE and len(right[row]) > 1]
    p = adjust([difference((right[row] - right[BASELINE])[:, parts[part]], 0).p for row, part in compared])
    sure = {key for key, value in zip(compared, p, strict=True) if value < SIGNIFICANT}
    table = [["loss", *parts]]
    for row, values in right.items():
        cells = []
        for part, items in parts.items():
            gain = values[:, items].mean() - right[BASELINE][:, items].mean()
            cells.append(
                spread(values[:, items].mean(1)) + ("" if (row, part) not in sure else "↑" if gain > 0 else "↓")
            )
        table.append([row, *cells])
    return table


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", nargs="+", choices=STUDIES, default=list(STUDIES))
    parser.add_argument("--only", nargs="+", choices=OBJECTIVES, default=list(OBJECTIVES), metavar="ROW")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change a key of every recipe")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--jobs", type=int, default=2, help="trainings side by side, one thread each")
    parser.add_argument("--out", type=Path, default=Path("runs/finetuning-objectives"))
    parser.add_argument("--quick", action="store_true", help="one epoch, seed 0; into OUT-quick")
    options: Any = parser.parse_args(arguments)
    out = options.out.with_name(options.out.name + "-quick") if options.quick else options.out
    seeds = [0] if options.quick else options.seeds
    for study in options.study:
        chosen = [row for row in options.only if study != "shortcuts" or row not in WITHOUT_SHORTCUTS]
        trials = {row: [trial_of(study, row, seed, options.quick, options.set) for seed in seeds] for row in chosen}
        # Seeds outermost: after a third of the time there is a whole table of one seed.
        run_trials([trial for some in zip(*trials.values(), strict=True) for trial in some], out, jobs=options.jobs)
        head = ["loss", "evaluated", "rsum", f"Δ {BASELINE}", "p (Holm)"]
        show(f"{study}: rsum of 600", head, retrieval_rows(trials, out), out / f"{study}.md")
        if study == "probes":
            head, *rows = probe_table(trials, options.quick, out)
            show("probes: (accuracy − chance) / (1 − chance), percent", head, rows, out / "probes-facts.md")
            head, *rows = choice_table(trials, options.quick, out)
            show("choices: right ones, percent", head, rows, out / "probes-choices.md")


if __name__ == "__main__":
    main()
