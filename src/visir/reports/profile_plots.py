"""The plot of a profile: every task as a dot between chance and perfect, ability by ability."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING

from visir.reports.blocks import Figure
from visir.reports.svg import DASHES, FAINT, SERIES, drawing, themed
from visir.reports.table import one_line
from visir.studies.profile.result import ModelProfile, SkillScore

if TYPE_CHECKING:
    from visir.reports.plot import Plot

_LONGEST = 40
"""Letters of a name that are shown."""
_FLOOR = -20.0
"""Strengths below this are drawn at it."""


def strength_dots(profile: ModelProfile) -> Plot:
    """A line for each task: the strength of the model with its interval, and that of the reference."""
    several = len({row.source for row in profile.scores}) > 1
    places: list[float] = []
    heads: list[tuple[float, str]] = []
    position = 0.0
    for ability in profile.abilities:
        heads.append((position, ability))
        count = len(profile.of(ability))
        places += [position + 1 + place for place in range(count)]
        position += count + 1.4
    lowest = min([0.0, *(_percent(row, value) for row in profile.scores for value in (row.score, row.low))])
    left = max(_FLOOR, lowest) - 1.5
    with drawing(5.2, 1.0 + 0.235 * position) as (figure, axes):
        axes.axvline(0, color=FAINT, linewidth=1.2, linestyle=DASHES[2], zorder=1)
        for place, row in zip(places, profile.scores, strict=True):
            if row.reference is not None:
                axes.plot(_drawn(row, row.reference), place, "s", color=SERIES[1], markersize=5, fillstyle="none")
            ends = [_drawn(row, value) for value in (row.low, row.high) if not isnan(value)]
            axes.plot(ends, [place] * len(ends), color=SERIES[0], linewidth=1.6)
            axes.plot(_drawn(row, row.score), place, "o", color=SERIES[0], markersize=5.5)
        labels = [*(ability for _, ability in heads), *(_label(row, several) for row in profile.scores)]
        axes.set_yticks([*(place for place, _ in heads), *places], labels)
        for head in axes.get_yticklabels()[: len(heads)]:
            head.set_weight("bold")
        axes.tick_params(axis="y", length=0)
        axes.grid(visible=False, axis="y")
        axes.set_ylim(position - 0.4, -0.7)
        axes.set_xlim(left, 101.5)
        axes.set_xlabel("strength, %: 0 is chance, 100 no mistake")
        axes.plot([], [], "o", color=SERIES[0], markersize=5.5, label=one_line(profile.model)[:40])
        if profile.reference:
            axes.plot([], [], "s", color=SERIES[1], markersize=5, fillstyle="none",
                      label=one_line(profile.reference)[:40])  # fmt: skip
        figure.legend(loc="outside upper center", fontsize=8.5, ncols=2)
        return figure


def strength_figure(profile: ModelProfile) -> Figure:
    """The plot for a page."""
    label = "Strength of each task: " + ", ".join(
        f"{row.name} {100 * row.strength:.0f} %" for row in profile.scores if not isnan(row.strength)
    )
    caption = (
        "A dot is the model, with its 95 % interval; a square is the reference. 0 is what chance reaches, 100 is no "
        "mistake. Strengths below −20 % are drawn at −20 %."
    )
    return Figure(themed(strength_dots(profile), "strength", label), "", caption)


def _percent(row: SkillScore, value: float) -> float:
    strength = row.between(value)
    return 0.0 if isnan(strength) else 100 * strength


def _drawn(row: SkillScore, value: float) -> float:
    return max(_FLOOR, _percent(row, value))


def _label(row: SkillScore, several: bool) -> str:
    shown = one_line(row.name if several else row.skill)
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 1]}…"
