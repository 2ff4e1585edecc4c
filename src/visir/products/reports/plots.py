"""Plots of category-to-image search: systems by setting, seen and unseen, and where wrong answers lie in the tree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from visir.products.evaluation import CategoryEvaluation
from visir.products.first_answers import FirstAnswers
from visir.products.relevance import Setting
from visir.products.reports.tables import SETTING_WORDS, systems_in_setting
from visir.reports.svg import FAINT, INK, SERIES, drawing
from visir.reports.table import one_line

if TYPE_CHECKING:
    from visir.reports.plot import Plot

# Shape differs as well as colour, so that a black-and-white print still reads.
_MARKS: Mapping[Setting, dict[str, Any]] = {
    "all": {"color": SERIES[0], "marker": "o"},
    "general": {"color": SERIES[1], "marker": "s"},
    "specific": {"color": SERIES[2], "marker": "^"},
}
_HATCHES: Mapping[Setting, str] = {"all": "", "general": "//", "specific": "xx"}
_WIDEST = 34


def setting_dots(evaluation: CategoryEvaluation, name: str = "rprecision") -> Plot:
    """A line per system: its mean in each setting, with one standard deviation of the splits to either side."""
    systems = evaluation.systems
    with drawing(6.4, 1.35 + 0.46 * len(systems)) as (figure, axes):
        for number, setting in enumerate(evaluation.settings):
            label: str | None = SETTING_WORDS[setting].lower()
            for system in systems_in_setting(evaluation, setting):
                spread = evaluation.spread(system, setting, name)
                height = systems.index(system) + 0.17 * (number - (len(evaluation.settings) - 1) / 2)
                if spread.sd == spread.sd:  # NaN for a single split
                    ends = [100 * (spread.mean - spread.sd), 100 * (spread.mean + spread.sd)]
                    axes.plot(ends, [height, height], color=_MARKS[setting]["color"], linewidth=1.4)
                axes.plot(100 * spread.mean, height, linestyle="none", markersize=6.5, label=label, **_MARKS[setting])
                label = None
        axes.set_yticks(range(len(systems)), [_short(system) for system in systems])
        axes.set_ylim(len(systems) - 0.5, -0.5)
        axes.set_xlim(0, 101)
        axes.tick_params(axis="y", length=0)
        axes.grid(visible=False, axis="y")
        axes.set_xlabel("R-precision, %")
        figure.legend(loc="outside upper center", ncols=3, fontsize=9)
        return figure


def seen_lines(evaluation: CategoryEvaluation, name: str = "rprecision") -> Plot:
    """A line per system and setting from its value on unseen (hollow) to that on seen categories (filled)."""
    rows = [(setting, system) for setting in evaluation.settings for system in systems_in_setting(evaluation, setting)]
    with drawing(6.4, 1.3 + 0.34 * len(rows)) as (figure, axes):
        for place, (setting, system) in enumerate(rows):
            parts = {part: 100 * value for part, (value, _) in evaluation.by_seen(system, setting, name).items()}
            mark = _MARKS[setting]
            if len(parts) == 2:
                axes.plot(list(parts.values()), [place, place], color=mark["color"], linewidth=2, alpha=0.5)
            for part, value in parts.items():
                axes.plot(
                    value,
                    place,
                    linestyle="none",
                    markersize=7,
                    fillstyle="full" if part == "seen" else "none",
                    markeredgewidth=1.6,
                    **mark,
                )
        for fill, label in (("full", "seen"), ("none", "unseen")):
            axes.plot([], [], "o", color=INK, fillstyle=fill, markeredgewidth=1.6, label=label)
        axes.set_yticks(range(len(rows)), [f"{setting}: {_short(system)}" for setting, system in rows])
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.set_xlim(-1, 101)
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel("R-precision, %")
        figure.legend(loc="outside upper center", ncols=2, fontsize=9)
        return figure


def depth_bars(answers: Mapping[Setting, FirstAnswers]) -> Plot:
    """Figure 7.2: wrong first answers in the same tree by depth(c_p) − depth(c), in percent of each setting's."""
    shown = {setting: first for setting, first in answers.items() if first.errors.same_tree}
    return _bars(
        {setting: first.errors.depth_differences for setting, first in shown.items()},
        "levels that the answer lies deeper (+) or higher (−)",
        signed=True,
    )


def distance_bars(answers: Mapping[Setting, FirstAnswers]) -> Plot:
    """All wrong first answers by the plain distance in the tree, in percent of each setting's."""
    return _bars(
        {setting: first.errors.distances for setting, first in answers.items()}, "edges in the tree", signed=False
    )


def _bars(counts: Mapping[Setting, Mapping[int, int]], label: str, *, signed: bool) -> Plot:
    counts = {setting: count for setting, count in counts.items() if count}
    with drawing(6.4, 3.1) as (figure, axes):
        keys = sorted({key for count in counts.values() for key in count})
        places = range(keys[0], keys[-1] + 1) if keys else range(0)
        width = 0.8 / max(len(counts), 1)
        for number, (setting, count) in enumerate(counts.items()):
            total = sum(count.values())
            positions = [key - 0.4 + width * (number + 0.5) for key in places]
            heights = [100 * count.get(key, 0) / total for key in places]
            words = f"{SETTING_WORDS[setting].lower()} ({total:,} wrong)"
            axes.bar(
                positions,
                heights,
                width * 0.92,
                color=_MARKS[setting]["color"],
                hatch=_HATCHES[setting],
                edgecolor="white",
                linewidth=0,
                label=words,
            )
        if not counts:
            axes.text(0.5, 0.5, "no wrong answer to show", ha="center", transform=axes.transAxes, color=FAINT)
        axes.set_xticks(list(places), [f"{key:+d}".replace("+0", "0") if signed else str(key) for key in places])
        axes.grid(visible=False, axis="x")
        axes.tick_params(axis="x", length=0)
        axes.set_xlabel(label)
        axes.set_ylabel("of the wrong answers, %")
        if counts:
            figure.legend(loc="outside upper center", ncols=1 if len(counts) > 2 else 2, fontsize=9)
        return figure


def _short(name: str) -> str:
    flat = one_line(name)
    return flat if len(flat) <= _WIDEST else flat[: _WIDEST - 1] + "…"
