"""A training: what it led to, and its curve."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import pyarrow as pa

from visir.reports.page import Block, Fold, Paragraph, inline
from visir.reports.plots import training_curves
from visir.reports.table import Column, Table
from visir.reports.views.parts import facts
from visir.reports.views.plot import blocks as plot_blocks
from visir.training.step_log import TrainingCurve
from visir.training.trained import TrainedModel

if TYPE_CHECKING:
    from visir.reports.plot import Plot


def blocks(training: TrainedModel | TrainingCurve) -> list[Block]:
    """The figures of the chosen epoch, the curve, and every epoch folded."""
    curve = _curve(training)
    chosen = f"epoch {curve.chosen} of {len(curve)} was chosen by validation"
    figures = next((epoch.validation for epoch in curve if epoch.epoch == curve.chosen), {})
    shown: list[Block] = [
        facts(curve.name, chosen, ", ".join(f"{name} {value:.1f}" for name, value in figures.items()))
    ]
    if len(curve) > 1:
        shown += plot_blocks(plot(curve))
    shown.append(Fold("Every epoch", [table(curve)]))
    if isinstance(training, TrainedModel):
        shown.append(Paragraph(inline("<code>visir.load({})</code>", repr(str(training.path))), "soft"))
    return shown


def table(training: TrainedModel | TrainingCurve) -> Table:
    """One row per epoch."""
    rows = _curve(training).rows()
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = [Column(name, _DIGITS.get(name, 1 if "@" in name or "rsum" in name else 3)) for name in names]
    return Table.of(columns, [[row.get(name) for name in names] for row in rows])


def arrow(training: TrainedModel | TrainingCurve) -> pa.Table:
    """One row per epoch: losses, what the learner stood at, figures of validation, seconds, and rate."""
    return pa.Table.from_pylist(_curve(training).rows())


def plot(training: TrainedModel | TrainingCurve) -> Plot:
    """Losses and validation over the epochs."""
    return training_curves([asdict(epoch) for epoch in _curve(training)])


def _curve(training: TrainedModel | TrainingCurve) -> TrainingCurve:
    return training.curve if isinstance(training, TrainedModel) else training


_DIGITS = {"epoch": 0, "seconds": 1, "rate": 0}
