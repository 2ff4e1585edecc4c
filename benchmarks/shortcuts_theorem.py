"""Thesis section 4.2.2, measured: does a role make a fact be learnt, or is it that kind of fact?

    python benchmarks/shortcuts_theorem.py [--seeds 0 1 2] [--jobs 2] [--out runs/shortcuts-theorem]
    python benchmarks/shortcuts_theorem.py --quick        # a smoke run: two worlds, one seed, one epoch

In the usual scenes the subject is always shared and the horizon always irrelevant. Here the roles rotate over six
worlds (`scenes:…?roles=0` to `5`), so every fact is shared once; in a seventh (`roles=shared`) all captions tell every
fact. `vsepp-scenes-infonce` is trained in each world, without shortcuts and with unique ones, and facts are read from
image vectors of other scenes (`visir.probe`).

Two controls. *Untrained*: what random weights let through is taken away, of stamped pictures beside unique shortcuts.
*Learnability*: what the same towers learn of
the same fact in the world where it is shared like all others; a fact that is not learnt there is not suppressed
elsewhere. Facts are compared with themselves: shared minus specific is the mean over facts of each fact's own
difference, with the 95 % interval of t over the 18 facts, of means over seeds.

7 worlds × 2 setups × 3 seeds are 42 trainings, beside 3 untrained models: about 75 minutes on two cores. What is
finished is kept.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from flickr8k_tables import show
from visir import probe
from visir.collections.scenes.captions import ROLES, SHARED, facts_by_caption
from visir.collections.scenes.facts import FACTS
from visir.files import json_bytes, read_json
from visir.storage import FolderKind, put
from visir.studies.trial import CHECKPOINT, DualEncoderTrial, run_trials
from visir.training.recipe import read_recipe
from visir.training.shipped import find_recipe

RECIPE = "vsepp-scenes-infonce"
SETUPS: Mapping[str, tuple[str, ...]] = {
    "untrained": ("optimiser.epochs=1", "optimiser.rate=1e-9"),
    "without": (),
    "unique": ("shortcuts.kind=unique", "shortcuts.digits=sklearn"),
}
STAMPED = "untrained, stamped"
"""The untrained model, read from pictures that carry the shortcuts."""
UNTRAINED = {"without": "untrained", "unique": STAMPED}
"""Setup → what its gains are measured from."""
PROBED = FolderKind("probed", "a folder of probed facts")
NAMES = {0: "irrelevant", 1: "specific", 5: "shared"}
"""How many captions tell a fact → its role."""

Read = dict[tuple[str, str, int], dict[str, float]]
"""(setup, world, seed) → fact → normalised accuracy from images, in percent."""


def trial_of(setup: str, roles: str, seed: int, quick: bool) -> DualEncoderTrial:
    """One training in one world."""
    setup = "untrained" if setup == STAMPED else setup
    changes = [*SETUPS[setup], f"data.collection=scenes:2500?size=64&roles={roles}", f"seed={seed}"]
    changes += ["optimiser.epochs=1", "data.collection=scenes:400?size=64&roles=" + roles] if quick else []
    return DualEncoderTrial(
        f"{setup}/roles-{roles}/seed{seed}", read_recipe(find_recipe(RECIPE), changes), {"test": None}
    )


def probed(trial: DualEncoderTrial, setup: str, roles: str, out: Path, quick: bool) -> dict[str, float]:
    """Fact → normalised accuracy in percent, read from images of scenes of another seed; kept in the trial's folder."""
    folder = out / "probed" / setup / trial.name
    if not (folder / "facts.json").is_file():
        source = f"scenes:{400 if quick else 2000}?seed=1&size=64&roles={roles}"
        shortcuts = "unique?digits=sklearn" if setup in ("unique", STAMPED) else None
        result = probe(source, str(trial.folder(out) / CHECKPOINT), shortcuts=shortcuts)
        read = {fact.name: 100 * fact.readings["image"].normalised for fact in result.facts if fact.role != "shortcut"}
        put(folder, PROBED, {"facts.json": json_bytes(read)})
    facts: dict[str, float] = read_json(folder / "facts.json")
    return facts


def gains(read: Read, setup: str, seeds: Sequence[int], worlds: Sequence[str], first: str) -> dict[str, np.ndarray]:
    """Role → (18,) what training adds to each fact where it has the role, mean over worlds and seeds; NaN for none."""
    sums: dict[str, list[list[float]]] = {role: [[] for _ in FACTS] for role in NAMES.values()}
    for world in worlds:
        for place, fact in enumerate(FACTS):
            role = NAMES[sum(fact.name in names for names in facts_by_caption(world))]
            for seed in seeds:
                untrained = read[UNTRAINED[setup], first, seed][fact.name]
                sums[role][place].append(read[setup, world, seed][fact.name] - untrained)
    return {
        role: np.array([np.mean(values) if values else np.nan for values in by_fact]) for role, by_fact in sums.items()
    }


def interval(differences: np.ndarray) -> str:
    """Mean with the 95 % interval of t over facts."""
    from scipy.stats import t as student

    values = differences[~np.isnan(differences)]
    if len(values) < 2:
        return "–"
    half = student.ppf(0.975, len(values) - 1) * values.std(ddof=1) / len(values) ** 0.5
    return f"{values.mean():+.1f} ({values.mean() - half:+.1f} to {values.mean() + half:+.1f})"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--jobs", type=int, default=2, help="trainings side by side, one thread each")
    parser.add_argument("--out", type=Path, default=Path("runs/shortcuts-theorem"))
    parser.add_argument("--quick", action="store_true", help="two worlds, one seed, one epoch; into OUT-quick")
    options: Any = parser.parse_args(arguments)
    out = options.out.with_name(options.out.name + "-quick") if options.quick else options.out
    seeds, worlds = ([0], ["0", SHARED]) if options.quick else (options.seeds, list(ROLES))
    rotations = [world for world in worlds if world != SHARED]
    # Image vectors of random weights do not depend on the captions: one world will do.
    keys = [(setup, rotations[0], seed) for seed in seeds for setup in UNTRAINED.values()]
    keys += [(setup, world, seed) for seed in seeds for setup in ("without", "unique") for world in worlds]
    trials = {key: trial_of(*key, options.quick) for key in keys}
    run_trials(list({trial.name: trial for trial in trials.values()}.values()), out, jobs=options.jobs)
    read = {key: probed(trial, key[0], key[1], out, options.quick) for key, trial in trials.items()}
    rows = []
    for setup in ("without", "unique"):
        by_role = gains(read, setup, seeds, rotations, rotations[0])
        shared = gains(read, setup, seeds, [SHARED], rotations[0])["shared"]
        rows.append(
            [
                setup,
                *(interval(by_role[role]) for role in ("shared", "specific", "irrelevant")),
                interval(by_role["shared"] - by_role["specific"]),
                interval(by_role["specific"] - by_role["irrelevant"]),
                interval(shared),
                interval(by_role["specific"] - shared),
            ]
        )
    head = ["trained", "shared", "specific", "irrelevant", "shared − specific", "specific − irrelevant",
            "all facts shared", "specific − itself where all are shared"]  # fmt: skip
    show(
        "What training adds to what an image vector says of a fact, normalised accuracy in points",
        head,
        rows,
        out / "table.md",
    )


if __name__ == "__main__":
    main()
