"""Thesis Tables 4.1 and 4.2 in miniature: does LTD, or IFM, keep what unique shortcuts would destroy?

    VISIR_DATA=../shared/data python benchmarks/shortcuts_objectives.py [--recipe vsepp-scenes-infonce] [--seeds 0 1 2]

Trains a recipe under InfoNCE alone, with LTD and with IFM, each without and with unique shortcuts, and evaluates the
test split *without* them, as the tables do, and, where they were trained with, also with them. rsum as mean ± standard
deviation over seeds; an arrow where the difference to InfoNCE under the same training is significant over images and
seeds together (`visir.stats.difference`, Holm over all rows). Finished trainings are kept.

    --recipe flickr8k-heads --set shortcuts.shuffles=4        # heads over frozen encoders: what came trained stays
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from visir.evaluation.results import load_evaluation, rsum_by_image
from visir.stats import adjust, difference
from visir.studies.trial import DualEncoderTrial, run_trials
from visir.training.recipe import Recipe, read_recipe
from visir.training.shipped import find_recipe

WITHOUT, WITH = "without", "with"
OBJECTIVES: Mapping[str, Sequence[str]] = {
    "InfoNCE": (),
    "+ LTD, dual, β 1": ("auxiliary.ltd.join=dual", "auxiliary.ltd.beta=1.0"),
    "+ LTD, constraint, η 0.2": ("auxiliary.ltd.bound=0.2",),
    "+ LTD, constraint, η 0.1": ("auxiliary.ltd.bound=0.1",),
    "+ IFM, ε 0.05": ("objective.name=ifm", "objective.epsilon=0.05"),
    "+ IFM, ε 0.1": ("objective.name=ifm", "objective.epsilon=0.1"),
}
"""What the table calls an objective, and what it changes in the recipe. The temperature stays the recipe's."""
SIGNIFICANT = 0.05


def trial_of(path: Path, changes: Sequence[str], objective: str, shortcuts: bool, seed: int) -> DualEncoderTrial:
    """One training; the last epoch is kept, as the thesis does."""
    own = [f"seed={seed}", "selection.keep=last"]
    if any(one.startswith("objective.name") for one in OBJECTIVES[objective]):
        # Of another kind of objective nothing stays; the temperature is to be the same.
        usual: Any = read_recipe(path).objective
        own += [f"objective.temperature={usual.temperature}"]
        own += [f"objective.learn_temperature={str(usual.learn_temperature).lower()}"]
    own += ["shortcuts.kind=unique"] if shortcuts else []
    asked = [one for one in changes if shortcuts or not one.startswith("shortcuts.")]
    recipe: Recipe = read_recipe(path, [*OBJECTIVES[objective], *own, *asked])
    evaluations: dict[str, str | None] = {WITHOUT: None}
    if recipe.shortcuts is not None:
        evaluations[WITH] = str(recipe.shortcuts.record())
    folder = re.sub("[ +]", "", objective).replace(",", "-")
    return DualEncoderTrial(
        f"{recipe.name}/{folder}/{'unique' if shortcuts else 'none'}/seed{seed}", recipe, evaluations
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", default="vsepp-scenes-infonce", help="a shipped recipe or a TOML file")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change one of its keys")
    parser.add_argument("--only", nargs="+", choices=OBJECTIVES, default=list(OBJECTIVES), metavar="OBJECTIVE")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--jobs", type=int, default=2, help="trainings side by side, one thread each")
    parser.add_argument("--out", type=Path, default=Path("runs/shortcuts-objectives"))
    asked: Any = parser.parse_args(arguments)
    path = find_recipe(asked.recipe)
    trials = {
        (shortcuts, one): [trial_of(path, asked.set, one, shortcuts, seed) for seed in asked.seeds]
        for shortcuts in (False, True)
        for one in asked.only
    }
    run_trials([one for some in zip(*trials.values(), strict=True) for one in some], asked.out, jobs=asked.jobs)
    images = {
        (*row, label): np.stack([rsum_by_image(load_evaluation(one.folder(asked.out) / label)) for one in some])
        for row, some in trials.items()
        for label in some[0].evaluations
    }
    compared = [row for row in images if row[1] != "InfoNCE" and (row[0], "InfoNCE", row[2]) in images]
    raw = (
        [difference(images[row] - images[row[0], "InfoNCE", row[2]], 0).p for row in compared]
        if asked.seeds[1:]
        else []
    )
    p = dict(zip(compared, adjust(raw), strict=True)) if raw else {}
    name = next(iter(trials.values()))[0].recipe.name
    table = Table("loss", "trained with", "evaluated", "rsum", "Δ InfoNCE", "p (Holm)", title=f"{name}: rsum of 600")
    for row, values in images.items():
        shortcuts, objective, label = row
        baseline = images.get((shortcuts, "InfoNCE", label))
        gain = "" if objective == "InfoNCE" or baseline is None else f"{values.mean() - baseline.mean():+.1f}"
        arrow = ("↑" if gain.startswith("+") else "↓") if row in p and p[row] < SIGNIFICANT else ""
        means = values.mean(1)
        spread = f" ± {means.std(ddof=1):.1f}" if len(means) > 1 else ""
        table.add_row(
            objective,
            "unique shortcuts" if shortcuts else "none",
            label,
            f"{means.mean():.1f}{spread}{arrow}",
            gain,
            f"{p[row]:.2g}" if row in p else "",
        )
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
