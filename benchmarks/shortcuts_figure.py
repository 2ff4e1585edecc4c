"""Thesis Figure 4.5 at two-core scale: retrieval with and without synthetic shortcuts, beside the published figure.

    VISIR_DATA=../shared/data python benchmarks/shortcuts_figure.py [--recipe vsepp-scenes-infonce] [--bits 0 1 2 …]

Trains a recipe in the four setups of section 4.3: I without shortcuts; II unique ones; III on one modality alone; IV of
n bits. Evaluates the test split without shortcuts and, where it was trained with some, also with them; prints a table,
says whether the four shapes of the figure came out, and draws it beside the thesis's own sums (VSE++ on Flickr30k,
`svl-figure.json`), where those are at hand. Finished trainings are kept, in the folders in which `visir shortcuts audit
RECIPE --out runs/shortcuts/RECIPE` looks for them; the same command goes on.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from visir.errors import VisirError
from visir.evaluation.measures import RSUM_CUTOFFS as CUTOFFS
from visir.evaluation.results import load_evaluation
from visir.reports.evaluation import expected_by_chance
from visir.reports.plots import DASHES, FAINT, MARKERS, SERIES, drawing
from visir.storage import new_file
from visir.studies.shortcut_audit import setup_trial
from visir.studies.trial import WITH, WITHOUT, DualEncoderTrial, run_trials
from visir.training.recipe import read_recipe
from visir.training.shipped import find_recipe
from visir_papers.figures import shortcut_bars

NAMES = {"baseline": "I none", "images": "III images", "captions": "III captions", "unique": "II unique"}
"""Setups that are no number of bits, and what they are called."""
BITS = (0, 1, 2, 3, 4, 5, 6, 8, 10)

Sums = dict[str, dict[str, float]]
"""Setup ("baseline", …, "bits3") → "without" and "with" → rsum."""


def sums_of(trials: Mapping[str, Sequence[DualEncoderTrial]], out: Path) -> Sums:
    """Mean rsum over seeds."""
    found: Sums = {}
    for setup, some in trials.items():
        results = [one.results(out) for one in some]
        found[setup] = {
            label: float(np.mean([one[label].mean("both", "rsum") for one in results])) for label in results[0]
        }
    return found


def published() -> Sums:
    """The sums of VSE++ on Flickr30k behind the thesis's figure; nothing where the file is not at hand."""
    try:
        bars = shortcut_bars()
    except VisirError:
        return {}
    found: Sums = {}
    for one in bars:
        if (one.model, one.collection) == ("VSE++", "Flickr30k"):
            setup = one.setup.replace("bits ", "bits").replace("none", "baseline")
            found.setdefault(setup, {})[WITH if one.with_shortcuts else WITHOUT] = one.rsum
    return found


def chance(trial: DualEncoderTrial, out: Path) -> float:
    """rsum of rankings in random order of what a trial was evaluated on: no model falls below it for long."""
    one = load_evaluation(trial.folder(out) / WITHOUT)
    curves = expected_by_chance(one.result, one.runs, one.qrels).values()
    return 100 * sum(float(curve[cutoff - 1]) for curve in curves for cutoff in CUTOFFS)


def verdicts(sums: Sums, chance: float) -> list[tuple[str, bool, str]]:
    """The four shapes: what it says, whether it came out, and the numbers."""
    baseline = sums["baseline"][WITHOUT]
    told = []
    for one in ("images", "captions"):
        share = sums[one][WITHOUT] / baseline
        told.append((f"I ≈ III: {one} alone change little (within 10 %)", abs(share - 1) <= 0.1, f"{share:.3f} of I"))
    unique = sums["unique"]
    told.append(("II with shortcuts: at least 590 of 600", unique[WITH] >= 590, f"{unique[WITH]:.1f}"))
    share = unique[WITHOUT] / baseline
    told.append(
        (
            "II without: at most 5 % of I",
            share <= 0.05,
            f"{100 * share:.1f} % (chance: {100 * chance / baseline:.1f} %)",
        )
    )
    bits = sorted(int(one.removeprefix("bits")) for one in sums if one.startswith("bits"))
    for label, sign in ((WITHOUT, -1), (WITH, 1)):
        steps = np.diff([sums[f"bits{one}"][label] for one in bits]) * sign
        word = "falls" if sign < 0 else "rises"
        worst = f"{steps.min():+.1f} at worst" if len(steps) else "too few bits"
        told.append((f"IV {label} {word} with every bit", bool((steps > 0).all()), worst))
    return told


def draw(panels: Mapping[str, Sums], out: Path) -> list[Path]:
    """Ours and theirs side by side; the maximum, 600, is a thin line."""
    with drawing(10.6, 3.9, rows=1, columns=len(panels)) as (figure, axes):
        for axis, (title, sums) in zip(np.atleast_1d(axes).ravel(), panels.items(), strict=True):
            panel(axis, sums)
            axis.set_title(title)
        np.atleast_1d(axes).ravel()[0].set_ylabel("rsum")
        handles = np.atleast_1d(axes).ravel()[0].get_legend_handles_labels()
        figure.legend(*handles, loc="outside lower center", ncols=2)
        written = []
        for suffix in ("svg", "png"):
            path = out / f"figure-4.5.{suffix}"
            with new_file(path, replace=True) as temporary:
                figure.savefig(temporary, format=suffix, dpi=110, facecolor="white")
            written.append(path)
        return written


_APART = 3.4  # places between two bars: their names need the room of several numbers


def panel(axes: Any, sums: Sums) -> None:
    """Bars for the setups without bits, lines for those with."""
    names = [one for one in NAMES if one in sums]
    bits = sorted(int(one.removeprefix("bits")) for one in sums if one.startswith("bits"))
    start = _APART * len(names)
    for number, label in enumerate((WITHOUT, WITH)):
        colour, shift = SERIES[number], 0.55 * (2 * number - 1)
        there = [
            (_APART * at + shift * (len(sums[one]) - 1), sums[one][label])
            for at, one in enumerate(names)
            if label in sums[one]
        ]
        axes.bar(
            [at for at, _ in there],
            [value for _, value in there],
            width=1.0,
            color=colour,
            hatch="" if number == 0 else "////",
            edgecolor="white",
            linewidth=0,
            label=f"evaluated {label} shortcuts",
        )
        axes.plot(
            [start + one for one in bits],
            [sums[f"bits{one}"].get(label, np.nan) for one in bits],
            color=colour,
            linestyle=DASHES[number],
            marker=MARKERS[number],
            markersize=4,
        )
    axes.axhline(600, color=FAINT, linewidth=0.8)
    axes.set_ylim(0, 620)
    places = [*(_APART * at for at in range(len(names))), *(start + one for one in bits)]
    words = [*(NAMES[one].replace(" ", "\n") for one in names), *map(str, bits)]
    axes.set_xticks(places, words, fontsize=7.5)
    axes.set_xlabel("setup; on the right IV, by bits")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", default="vsepp-scenes-infonce", help="a shipped recipe or a TOML file")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change one of its keys")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--bits", type=int, nargs="+", default=list(BITS))
    parser.add_argument("--jobs", type=int, default=2, help="trainings side by side, one thread each")
    parser.add_argument("--out", type=Path, default=Path("runs/shortcuts"))
    asked: Any = parser.parse_args(arguments)
    recipe = read_recipe(find_recipe(asked.recipe), asked.set)
    out = asked.out / recipe.name
    setups = [*NAMES, *(f"bits{one}" for one in asked.bits)]
    trials = {one: [setup_trial(recipe, one, seed) for seed in asked.seeds] for one in setups}
    run_trials([one for some in trials.values() for one in some], out, jobs=asked.jobs)
    sums = sums_of(trials, out)
    table = Table("setup", "without", "with", title=f"{recipe.name}: rsum of 600, {len(asked.seeds)} seed(s)")
    for setup, values in sums.items():
        table.add_row(setup, *(f"{values[one]:.1f}" if one in values else "" for one in (WITHOUT, WITH)))
    console = Console()
    console.print(table)
    for said, came_out, figures in verdicts(sums, chance(trials["baseline"][0], out)):
        console.print(f"{'yes' if came_out else 'NO ':3} {said}: {figures}", highlight=False)
    panels = {f"{recipe.name}, visir": sums}
    if theirs := published():
        panels["VSE++ on Flickr30k, published"] = theirs
    print(*draw(panels, out), sep="\n")


if __name__ == "__main__":
    main()
