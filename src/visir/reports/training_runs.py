"""A training as it is drawn: columns of numbers over its steps, and over its epochs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from visir.display import Displayed
from visir.encoders.checkpoints import ENCODER, read_description
from visir.storage import read_written_json
from visir.training.step_log import STEPS_FILE, read_steps

_FIRST = " hit@1"
Columns = Mapping[str, NDArray[np.float64]]


@dataclass(frozen=True, eq=False, repr=False)
class TrainingRun(Displayed):
    """The numbers of one training; those of another program fit in as well, whatever part of them there is."""

    label: str  # what it is called in a legend
    # Columns over steps: "step" (from 1), "loss", its parts ("contrastive", "ltd", "itd"), what the objective stood at
    # ("temperature", "ltd multiplier", …), "learning rate"; NaN where there is none.
    steps: Columns
    # Columns over epochs: "step" (the epoch's last), "epoch", "rsum", "i2t hit@1", …
    epochs: Columns = field(default_factory=dict)
    # The bound η of each loss that is a constraint: {"ltd": 0.2}.
    bounds: Mapping[str, float] = field(default_factory=dict)
    chosen: int | None = None  # the epoch (from 1) whose weights were kept, when that is known

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks that validation measures: "i2t" and "t2i", or "it2i" alone."""
        return tuple(name.removesuffix(_FIRST) for name in self.epochs if name.endswith(_FIRST))

    @property
    def auxiliaries(self) -> tuple[str, ...]:
        """The names of its reconstruction losses."""
        return tuple(name for name in ("ltd", "itd") if name in self.steps)


def read_training_run(folder: str | Path, label: str = "") -> TrainingRun:
    """The training that made a checkpoint folder: from its `steps.jsonl`, `curve.json` and `visir.json`."""
    # `label` is the folder's name when it is left out. Raises `VisirError` naming the file that is missing.
    folder = Path(folder)
    with ENCODER.reading(folder):
        facts = read_description(folder)["facts"]
    curve = read_written_json(folder / "curve.json")
    steps = _columns(
        [
            {"step": step.step, "epoch": step.epoch, "learning rate": step.learning_rate, **step.losses, **step.facts}
            for step in read_steps(folder / STEPS_FILE)
        ]
    )
    last = {int(epoch): step for epoch, step in zip(steps["epoch"], steps["step"], strict=True)}
    epochs = _columns(
        [{"step": last[epoch["epoch"]], "epoch": epoch["epoch"], **epoch["validation"]} for epoch in curve]
    )
    with ENCODER.reading(folder):
        constraints = {
            name: options
            for name, options in facts["recipe"]["auxiliary"].items()
            if options and options["join"] == "constraint"
        }
        bounds = {name: float(options["bound"]) for name, options in constraints.items()}
        return TrainingRun(label or folder.name, steps, epochs, bounds, facts["chosen_epoch"])


def _columns(rows: Sequence[Mapping[str, float]]) -> dict[str, NDArray[np.float64]]:
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: np.array([row.get(name, np.nan) for row in rows], np.float64) for name in names}
