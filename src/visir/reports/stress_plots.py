"""The plots of the brittleness study; each returns a complete SVG document, the same bytes for the same input."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import TYPE_CHECKING

from visir.evaluation.stress.effect import Effect, RsumChange
from visir.evaluation.stress.jaccard import Jaccard
from visir.reports.svg import FAINT, INK, SERIES, drawing

if TYPE_CHECKING:
    from visir.reports.plot import Plot


def degradation_bars(effects: Sequence[Effect], queries: str) -> Plot:
    """A bar for each perturbation: percent of rsum lost or gained, with its 95 % interval."""
    # A diamond is the change over the queries that the perturbation could change. Families stand apart.
    places, position, families = [], 0.0, ""
    for effect in effects:
        if effect.outcome.family != families:
            position += 0.45 if families else 0.0
            families = effect.outcome.family
        places.append(position)
        position += 1.0
    with drawing(7.6, 0.9 + 0.3 * position) as (figure, axes):
        for place, effect in zip(places, effects, strict=True):
            change = effect.overall
            if not isnan(change.percent):
                axes.barh(place, change.percent, 0.62, color=SERIES[0], alpha=0.85)
                low, high = change.percent_interval
                axes.plot([low, high], [place, place], color=INK, linewidth=1.3, solid_capstyle="butt")
                for end in (low, high):
                    axes.plot([end, end], [place - 0.15, place + 0.15], color=INK, linewidth=1.3)
            only = effect.on_changed
            if only is not None and effect.coverage < 1 and not isnan(only.percent):
                axes.plot(
                    only.percent, place, "D", color=SERIES[1], markersize=5, fillstyle="none", markeredgewidth=1.4
                )
            axes.annotate(
                f"{100 * effect.coverage:.0f} %",
                (1.01, place),
                xycoords=("axes fraction", "data"),
                va="center",
                fontsize=8.5,
                color=FAINT,
            )
        axes.annotate(
            "changed", (1.01, -0.75), xycoords=("axes fraction", "data"), va="center", fontsize=8.5, color=FAINT
        )
        axes.set_yticks(places, [effect.outcome.title for effect in effects])
        axes.set_ylim(position - 0.3, -1.0)
        axes.axvline(0, color=FAINT, linewidth=1)
        ends = [end for effect in effects for end in _ends(effect)]
        room = max((max(ends) - min(ends)) * 0.04, 0.5) if ends else 1
        axes.set_xlim(min([0.0, *ends]) - room, max([0.0, *ends]) + room)
        axes.grid(visible=False, axis="y")
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel(f"change of rsum, % of what {queries} as they are find")
        bar = axes.barh(0, 0, color=SERIES[0], alpha=0.85, label=f"all {queries}, with 95 % interval")
        labels = [bar]
        if any(effect.on_changed is not None and effect.coverage < 1 for effect in effects):
            labels += axes.plot(
                [], [], "D", color=SERIES[1], fillstyle="none", markeredgewidth=1.4, label=f"changed {queries} only"
            )
        figure.legend(handles=labels, loc="outside upper left", ncols=2, fontsize=8.5)
        return figure


def similarity_map(jaccard: Jaccard, titles: Sequence[str], group: str = "decreased") -> Plot:
    """The similarity of every two perturbations' sets of one group, in percent: the deeper the blue, the more alike."""
    count = len(jaccard.names)
    values = jaccard.pairwise[group]
    least, most = jaccard.range(group)
    side = max(3.2, 0.36 * count + 2.0)
    with drawing(side + 0.6, side - 0.4) as (figure, axes):
        from matplotlib.patches import Rectangle

        for row in range(1, count):
            for column in range(row):
                value = values[row, column]
                if isnan(value):
                    continue
                depth = 0.08 + 0.55 * (value - least) / (most - least if most > least else 1)
                axes.add_patch(Rectangle((column - 0.47, row - 0.47), 0.94, 0.94, color=SERIES[0], alpha=depth, lw=0))
                axes.text(column, row, f"{100 * value:.0f}", ha="center", va="center", fontsize=7.5, color=INK)
        axes.set_xlim(-0.5, count - 1.5)
        axes.set_ylim(count - 0.5, 0.5)
        axes.set_yticks(range(1, count), titles[1:], fontsize=8.5)
        axes.set_xticks(range(count - 1), titles[:-1], rotation=90, fontsize=8.5)
        axes.tick_params(length=0)
        axes.grid(visible=False)
        for spine in axes.spines.values():
            spine.set_visible(False)
        return figure


def _ends(effect: Effect) -> list[float]:
    changes: list[RsumChange] = [effect.overall, *([effect.on_changed] if effect.on_changed is not None else [])]
    values = [changes[0].percent, *changes[0].percent_interval, *(change.percent for change in changes[1:])]
    return [value for value in values if not isnan(value)]
