"""The trajectories of a training with latent target decoding beside the published ones (LTD, Figure 2).

    VISIR_DATA=../shared/data python benchmarks/flickr8k_trajectories.py [runs/flickr8k-objectives]

Draws what `flickr8k_objectives.py` trained, which also draws it by itself at its end. On the left Flickr8k here, on the
right the paper's own logs of COCO: validation rsum, λ, reconstruction loss and contrastive loss over the epochs, for
the contrastive loss alone, with LTD as a dual loss (β 1) and as a constraint (η 0.2; a bound that is met within these
few steps, 0.3, beside the loosest that was published, 0.25). Every seed is a line, bounds are dotted.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visir.errors import VisirError
from visir.files import read_json
from visir.reports.plots import INK, SERIES, drawing
from visir.storage import new_file
from visir.studies.trial import CHECKPOINT
from visir.training.trained import CURVE_FILE, STEPS_FILE, read_steps
from visir_papers.figures import Trajectory, ltd_trajectories

KINDS = {
    "": ("contrastive alone", INK, "baseline"),
    "-ltd-dual": ("LTD, dual, β 1", SERIES[1], "dual"),
    "-ltd-constraint": ("LTD, constraint, η 0.2", SERIES[0], "η=0.2"),
    "-ltd-constraint-loose": ("η 0.3 (published: 0.25)", SERIES[2], "η=0.25"),
}
"""Suffix of the recipe -> label, colour, training in the published logs."""
PANELS = {
    "validation rsum": ("rsum", "rsum"),
    "λ": ("ltd multiplier", "multiplier"),
    "reconstruction loss": ("ltd", "reconstruction"),
    "contrastive loss": ("contrastive", "contrastive"),
}
"""Title -> what visir calls it, and what the reader of the published logs does."""
BOUNDS = (((0.2, SERIES[0]), (0.3, SERIES[2])), ((0.2, SERIES[0]), (0.25, SERIES[2])))
"""The bounds η of the left and of the right plots."""
PUBLISHED_STEPS = 4426  # per epoch: one rsum is logged at the end of each
SMOOTH = 0.01  # of a trajectory's length: batches differ more from one another than the curve moves within that

Line = tuple[NDArray[np.float64], NDArray[np.float64]]


def draw(checkpoints: Mapping[str, Sequence[Path]], title: str, out: Path) -> list[Path]:
    """Write `trajectories-TITLE.svg` and `.png` into `out`; `checkpoints` by the suffix of their recipe."""
    published = logged()
    with drawing(7.6, 9.2, rows=len(PANELS), columns=2) as (figure, axes):
        for row, (panel, (key, quantity)) in enumerate(PANELS.items()):
            left, right = axes[row]
            for suffix, (label, colour, training) in KINDS.items():
                for seed, folder in enumerate(checkpoints.get(suffix, [])):
                    plot(left, ours(folder, key), colour, label if seed == 0 and row == 0 else "")
                plot(right, theirs(published.get(quantity, {}).get(training)), colour, "")
            dress(left, right, panel)
        axes[0][0].set_title(f"Flickr8k, {title}, visir")
        axes[0][1].set_title("COCO, InfoNCE, published" if published else "(no published logs in VISIR_DATA)")
        for one in axes[-1]:
            one.set_xlabel("epoch")
        figure.legend(loc="outside lower center", ncols=2)
        written = []
        for suffix in ("svg", "png"):
            path = out / f"trajectories-{title.lower()}.{suffix}"
            with new_file(path, replace=True) as temporary:
                figure.savefig(temporary, format=suffix, dpi=110, facecolor="white")
            written.append(path)
    return written


def ours(folder: Path, key: str) -> Line | None:
    """Epochs and values of one training; rsum is known at the ends of epochs."""
    curve = read_json(folder / CURVE_FILE)
    if key == "rsum":
        return as_line([(one["epoch"], one["validation"]["rsum"]) for one in curve])
    steps = list(read_steps(folder / STEPS_FILE))
    per_epoch = len(steps) / len(curve)
    values = [(step.step / per_epoch, (step.losses | step.facts).get(key)) for step in steps]
    return as_line([(at, value) for at, value in values if value is not None])


def logged() -> Mapping[str, Mapping[str, Trajectory]]:
    """The published logs; nothing where they are not at hand."""
    try:
        return ltd_trajectories()
    except VisirError:
        return {}


def theirs(one: Trajectory | None) -> Line | None:
    """Epochs and values of a published log."""
    if one is None:
        return None
    return as_line(list(zip(one.steps / PUBLISHED_STEPS, one.values, strict=True)))


def as_line(points: Sequence[tuple[float, float]]) -> Line | None:
    if not points:
        return None
    epochs, values = np.array(points, np.float64).T
    width = int(SMOOTH * len(values))
    if width > 1:
        values = np.convolve(values, np.ones(width) / width, "valid")
        epochs = epochs[width // 2 :][: len(values)]
    return epochs, values


def plot(axes: Any, line: Line | None, colour: str, label: str) -> None:
    if line is not None:
        axes.plot(*line, color=colour, linewidth=1.3, label=label or None)


def dress(left: Any, right: Any, panel: str) -> None:
    """What the paper's figure has: λ on a logarithmic scale that reaches 0, the bound in the reconstruction loss."""
    left.set_ylabel(panel)
    for axes, bounds in zip((left, right), BOUNDS, strict=True):
        if panel == "λ":
            axes.set_yscale("symlog", linthresh=0.1)
            axes.set_yticks([0, 0.1, 1, 10, 100], ["0", "0.1", "1", "10", "100"])
            axes.set_ylim(0, 100)
        elif panel == "reconstruction loss":
            for bound, colour in bounds:
                axes.axhline(bound, color=colour, linewidth=0.8, linestyle=(0, (2, 2)))
            axes.set_ylim(0, 1)
        elif panel == "contrastive loss":
            axes.set_ylim(bottom=0)


def main() -> None:
    out = Path(sys.argv[1] if len(sys.argv) > 1 else "runs/flickr8k-objectives")
    for title, base in (("InfoNCE", "flickr8k-gru"), ("triplet", "flickr8k-gru-triplet")):
        found = {
            suffix: sorted(one.parent for one in out.glob(f"{base}{suffix}/seed*/{CHECKPOINT}/{CURVE_FILE}"))
            for suffix in KINDS
        }
        if not any(found.values()):
            print(f"{out}: no training of {base} there; run benchmarks/flickr8k_objectives.py first")
            continue
        print(", ".join(map(str, draw(found, title, out))))


if __name__ == "__main__":
    main()
