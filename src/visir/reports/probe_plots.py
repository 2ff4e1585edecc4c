"""Plots of probes: a dot per fact and source, and the means of the roles; each returns a complete SVG document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from visir.evaluation.latent_facts import ROLES, Role
from visir.evaluation.probe_examples import SOURCES, Source
from visir.evaluation.probes import ProbeResult
from visir.reports.svg import DASHES, FAINT, SERIES, drawing
from visir.reports.table import one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from visir.reports.plot import Plot

ROLE_WORDS: Mapping[Role, str] = {
    "shared": "shared: every caption tells it",
    "specific": "specific: one caption tells it",
    "irrelevant": "irrelevant: no caption tells it",
    "shortcut": "shortcut: digits of a number",
}
SOURCE_WORDS: Mapping[Source, str] = {
    "image": "image",
    "told": "caption telling it",
    "untold": "other caption",
}
# Shape and filling differ as well as colour, so that a black-and-white print still reads.
_MARKS: Mapping[Source, dict[str, Any]] = {
    "image": {"marker": "o", "color": SERIES[0], "markersize": 6},
    "told": {"marker": "s", "color": SERIES[1], "markersize": 5},
    "untold": {"marker": "D", "color": SERIES[2], "markersize": 4.5, "fillstyle": "none"},
}


def fact_dots(result: ProbeResult) -> Plot:
    """A line per fact, grouped by role: accuracy from each source with its 95 % interval, and an upright at chance."""
    places: list[float] = []
    names: list[str] = []
    heads: list[tuple[float, Role]] = []
    position = 0.0
    for role in ROLES:
        facts = [fact for fact in result.facts if fact.role == role]
        if facts:
            heads.append((position, role))
            places += [position + 1 + place for place in range(len(facts))]
            names += [one_line(fact.name.replace("_", " ")) for fact in facts]
            position += len(facts) + 1.4
    with drawing(5.4, 0.9 + 0.25 * position) as (figure, axes):
        ordered = [fact for role in ROLES for fact in result.facts if fact.role == role]
        for place, fact in zip(places, ordered, strict=True):
            for source, reading in fact.readings.items():
                axes.plot(100 * reading.chance, place, "|", color=FAINT, markersize=11, markeredgewidth=1.4, zorder=1)
                # A little apart, so that what is named every time from both does not hide one below the other.
                height = place + {"image": -0.15, "told": 0.15, "untold": 0.0}[source]
                ends = [100 * reading.low, 100 * reading.high]
                axes.plot(ends, [height, height], color=_MARKS[source]["color"], linewidth=1.3)
                axes.plot(100 * reading.accuracy, height, linestyle="none", **_MARKS[source])
        for place, role in heads:
            axes.text(0, place, ROLE_WORDS[role], va="center", weight="bold", fontsize=9.5)
        axes.set_yticks(places, names)
        axes.tick_params(axis="y", length=0)
        axes.set_ylim(position - 0.4, -0.7)
        axes.set_xlim(-1.5, 101.5)
        axes.set_xlabel("held-out examples named rightly, %")
        _legend(figure, axes, result, "chance", "|")
        return figure


def role_means(result: ProbeResult) -> Plot:
    """Mean normalised accuracy of each role from each source, with its 95 % interval; 0 is chance, 100 perfect."""
    roles = [role for role in ROLES if any(mean.role == role for mean in result.roles)]
    with drawing(5.4, 2.9) as (figure, axes):
        axes.axhline(0, color=FAINT, linewidth=1.2, linestyle=DASHES[2], zorder=1)
        for mean in result.roles:
            x = roles.index(mean.role) + 0.2 * (SOURCES.index(mean.source) - 1)
            axes.plot([x, x], [100 * mean.low, 100 * mean.high], color=_MARKS[mean.source]["color"], linewidth=1.6)
            axes.plot(x, 100 * mean.mean, linestyle="none", **_MARKS[mean.source])
        axes.set_xticks(range(len(roles)), [f"{role}\n{_count(result, role)}" for role in roles])
        axes.tick_params(axis="x", length=0)
        axes.grid(visible=False, axis="x")
        axes.set_xlim(-0.5, len(roles) - 0.5)
        axes.set_ylim(min(-8.0, 110 * min(mean.mean if np.isnan(mean.low) else mean.low for mean in result.roles)), 104)
        axes.set_ylabel("from chance (0) to perfect, %")
        _legend(figure, axes, result, "chance", DASHES[2])
        return figure


def _count(result: ProbeResult, role: Role) -> str:
    count = sum(fact.role == role for fact in result.facts)
    return f"{count} fact{'s' if count > 1 else ''}"


def _legend(figure: Any, axes: Axes, result: ProbeResult, chance: str, mark: Any) -> None:
    sources = {source for fact in result.facts for source in fact.readings}
    for source in SOURCES:
        if source in sources:
            axes.plot([], [], linestyle="none", label=SOURCE_WORDS[source], **_MARKS[source])
    if mark == "|":
        axes.plot([], [], "|", color=FAINT, markersize=11, markeredgewidth=1.4, label=chance)
    else:
        axes.plot([], [], color=FAINT, linewidth=1.2, linestyle=mark, label=chance)
    figure.legend(loc="outside upper center", fontsize=8.5, ncols=2)
