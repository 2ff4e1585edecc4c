"""The values behind figures that the papers plot, which are stored outside visir, and how a training's curves end."""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from visir.errors import VisirError
from visir.files import data_directory, read_json

# A training under a constraint in a few numbers: where its curves end, and what λ does (LTD, Figure 2).

_END = 0.02
"""The share of the steps that counts as the end: one batch differs more from the next than a curve moves in that."""


def curve_end(values: NDArray[np.float64]) -> float:
    """The mean of the last fiftieth of a curve."""
    # values: (n,) the curve.
    return float(values[-max(1, int(_END * len(values))) :].mean())


def multiplier_course(values: NDArray[np.float64]) -> dict[str, float]:
    """What the multiplier λ does."""
    # values: (n,) λ over the steps, 0 and above.
    after = values[int(values.argmax()) :]
    zero = np.flatnonzero(after <= 0)
    course = {"last": curve_end(values), "largest": float(values.max()), "least after its peak": float(after.min())}
    if len(zero):
        course["largest after 0"] = float(after[zero[0] :].max())
    return {f"λ, {name}": value for name, value in course.items()}


# Readers of plotted figures whose values are stored outside visir.

_COLLECTIONS = {"f30k": "Flickr30k", "coco": "MS-COCO"}
_SETUPS = {
    "images": ("images_only", "img_only"),
    "captions": ("captions_only", "cap_only"),
    "unique": ("unique",),
    "zero-shot": ("zero-shot",),
}
_BOUNDS = {
    "swa_coco_ltd_constraint_b005_tl": "η=0.05",
    "swa_coco_ltd_constraint_b010_tl": "η=0.1",
    "swa_coco_ltd_constraint_b015_tl": "η=0.15",
    "swa_coco_ltd_constraint_tl": "η=0.2",
    "swa_coco_ltd_constraint_b025_tl": "η=0.25",
    "swa_coco_ltd_tl": "dual",
    "swa_coco_baseline": "baseline",
}
_QUANTITIES = {
    "rsum": ("rsum",),
    "multiplier": ("multiplier",),
    "reconstruction": ("reconstruction_loss",),
    "contrastive": ("contrastive", "contrastive_baseline"),
}
_SYSTEMS = {"none": "I", "unique": "II", "images": "III images", "captions": "III captions"}
_TRAININGS = {"baseline": "BL, L_con", "dual": "LTD, L_dual β=1"}
Figure = Literal["thesis-figure-4-5", "ltd-figure-2"]


@dataclass(frozen=True)
class ShortcutBar:
    """One bar of thesis Figure 4.5: a trained model, evaluated with or without the shortcuts of its training."""

    model: str  # "CLIP" or "VSE++"
    collection: str  # "Flickr30k" or "MS-COCO" (test splits)
    # "none" (I), "zero-shot" (CLIP only), "unique" (II), "images" and "captions" (III: on one side only), "bits 0" to
    # "bits 13" (IV).
    setup: str
    with_shortcuts: bool  # whether the evaluation had the shortcuts
    run: int  # the number of the training, from 0, if a setup has several
    i2t: tuple[float, float, float]  # R@1, R@5, R@10 in percent, one decimal
    t2i: tuple[float, float, float]  # the same of text-to-image search
    rsum: float  # their unrounded sum, of 600


def shortcut_bars() -> tuple[ShortcutBar, ...]:
    """Read the values behind thesis Figure 4.5, from `$VISIR_DATA/svl-figure.json`."""
    path = _present(data_directory() / "svl-figure.json", "thesis Figure 4.5")
    bars: list[ShortcutBar] = []
    for panel, values in read_json(path).items():
        model, _, collection = panel.partition("/")
        for value in values:
            name = {"VSE": "VSE++"}.get(model, model), _COLLECTIONS[collection], _setup(path, value["model"])
            shown = bool(value["shortcuts_at_evaluation"])
            run = sum((bar.model, bar.collection, bar.setup, bar.with_shortcuts) == (*name, shown) for bar in bars)
            bars.append(ShortcutBar(*name, shown, run, tuple(value["i2t"]), tuple(value["t2i"]), value["rsum"]))
    return tuple(bars)


@dataclass(frozen=True)
class Trajectory:
    """Values of one training on COCO over its steps: LTD Figure 2 plots one for each η."""

    steps: NDArray[np.int64]  # (n,) the logged steps; the training has 60 epochs of 4,426 steps
    values: NDArray[np.float64]  # (n,) the values


def ltd_trajectories() -> Mapping[str, Mapping[str, Trajectory]]:
    """Read the values behind LTD Figure 2, from `$VISIR_DATA/ltd-trajectories`."""
    # The caption of the figure names η 0.05, 0.1, 0.2 and 0.3. The logs hold 0.05, 0.1, 0.15, 0.2 and 0.25, and their
    # first λ is that of these bounds: 1 + 0.005 · (L_rec / 0.25 − 1), and not that of 0.3.
    # Returns: Quantity → training → trajectory. Quantities: "rsum" (validation, at the ends of epochs), "multiplier"
    # (λ), "reconstruction" and "contrastive" (the losses, every 100th step). Trainings: "η=0.05" … "η=0.25" (LTD as a
    # constraint), "dual", "baseline"; only the constraint has λ.
    folder = data_directory() / "ltd-trajectories"
    trajectories: dict[str, dict[str, Trajectory]] = {}
    for quantity, files in _QUANTITIES.items():
        for name in files:
            path = _present(folder / f"{name}.csv.gz", "LTD Figure 2")
            with gzip.open(path, "rt", encoding="utf-8", newline="") as stream:
                rows = list(csv.DictReader(stream))
            steps = np.array([int(row["Step"]) for row in rows], dtype=np.int64)
            for column, label in _BOUNDS.items():
                if column in rows[0]:
                    values = np.array([float(row[column]) for row in rows])
                    trajectories.setdefault(quantity, {})[label] = Trajectory(steps, values)
    return trajectories


def plotted(figure: Figure) -> dict[tuple[str, str], dict[str, float]]:
    """The values of a figure in the form of a table."""
    # Returns: (system, collection) → label → value, of every bar or training.
    return _bars() if figure == "thesis-figure-4-5" else _courses()


def _bars() -> dict[tuple[str, str], dict[str, float]]:
    by_system: dict[tuple[str, str], dict[str, list[float]]] = {}
    for shortcut_bar in shortcut_bars():
        setup = _SYSTEMS.get(shortcut_bar.setup, shortcut_bar.setup.replace("bits", "IV"))
        key = (f"{shortcut_bar.model}, {setup}", shortcut_bar.collection)
        label = "with rsum" if shortcut_bar.with_shortcuts else "both rsum"
        by_system.setdefault(key, {}).setdefault(label, []).append(shortcut_bar.rsum)
    return {key: {label: float(np.mean(values)) for label, values in part.items()} for key, part in by_system.items()}


def _courses() -> dict[tuple[str, str], dict[str, float]]:
    by_training: dict[tuple[str, str], dict[str, float]] = {}
    for quantity, trainings in ltd_trajectories().items():
        for training, course in trainings.items():
            part = by_training.setdefault((_TRAININGS.get(training, f"LTD, L_lag {training}"), "COCO"), {})
            if quantity == "rsum":
                part["validation rsum"] = float(course.values[-1])
                continue
            part |= (
                multiplier_course(course.values)
                if quantity == "multiplier"
                else {f"{quantity}, last": curve_end(course.values)}
            )
    return by_training


def _setup(path: Path, name: str) -> str:
    bits = re.search(r"bits_shortcuts_nb_(\d+)$", name)
    if bits:
        return f"bits {int(bits[1])}"
    for setup, marks in _SETUPS.items():
        if any(mark in name for mark in marks):
            return setup
    if not re.search(r"baseline_finetune$|infonce(_run_\d+)?$", name):
        raise VisirError(
            f"{path}: {name!r} is no setup of the figure.",
            hint="is it the file behind Figure 4.5?",
            code="no-setup-figure",
        )
    return "none"


def _present(path: Path, figure: str) -> Path:
    if not path.is_file():
        raise VisirError(
            f"{path}: the values behind {figure} are not there.",
            hint="set VISIR_DATA to the folder of them",
            code="values-behind-not",
        )
    return path
