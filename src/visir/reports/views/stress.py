"""A stress study: what each perturbation costs, as a table and as bars."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from visir.errors import VisirError
from visir.evaluation.stress.stress import Stress
from visir.reports.page import Block, Fold, Notice, Paragraph
from visir.reports.stress_tables import degradation_bars, effects_table, jaccard_table
from visir.reports.table import Table
from visir.reports.views.parts import facts

if TYPE_CHECKING:
    from visir.reports.plot import Plot

Side = Literal["captions", "pictures"]
_TASKS: dict[Side, str] = {"captions": "t2i", "pictures": "i2t"}


def blocks(study: Stress) -> list[Block]:
    """The table of effects; how alike the perturbations are, folded."""
    effects = effects_table(study)
    units, test, *_ = effects.notes
    shown: list[Block] = [
        facts(study.system, f"on {study.collection}", f"{len(study.effects)} perturbations"),
        replace(effects, caption="", notes=(units, test)),
    ]
    if study.notes:
        shown.append(Notice(study.notes))
    if study.jaccard is not None:
        shown.append(Fold("Do they break the same captions?", [jaccard_table([study])]))
    return [*shown, Paragraph("study.plot() draws the changes.", "soft")]


def table(study: Stress) -> Table:
    """One row for each perturbation."""
    return effects_table(study, wide=True)


def plot(study: Stress, *, side: Side | None = None) -> Plot:
    """A bar for each perturbation: how many percent of rsum it costs, with the 95 % interval."""
    by_side = {
        name: [effect for effect in study.effects if effect.outcome.task == task] for name, task in _TASKS.items()
    }
    perturbed = [name for name, effects in by_side.items() if effects]
    if not perturbed or (side is not None and side not in perturbed):
        raise VisirError(
            f"no perturbation of {side or 'anything'} in this study.", hint=f"perturbed: {', '.join(perturbed)}"
        )
    chosen = side or perturbed[0]
    return degradation_bars(by_side[chosen], chosen)
