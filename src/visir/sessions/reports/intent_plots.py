"""Plots of a prediction study: F1 over steps (Figure 6.7) and what the forest goes by (Figure 6.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visir.reports.plots import DASHES, INK, SERIES, drawing
from visir.sessions.features import FEATURE_SETS
from visir.sessions.prediction.models import TITLES, all_bought
from visir.sessions.prediction.study import Summary

if TYPE_CHECKING:
    from visir.reports.plot import Plot

MARKERS = ("o", "s", "^", "D", "v", "P")


def f1_over_steps(summary: Summary, scheme: str = "grouped") -> Plot:
    """A panel per setting, a colour and marker per model; extended sets solid, baseline sets dashed and hollow."""
    # Dotted: what calling every session a purchase scores.
    settings = settings_of(summary)
    with drawing(4.6 * len(settings), 4.2, columns=len(settings)) as (figure, several):
        panels = [several] if len(settings) == 1 else list(several)
        for axes, setting in zip(panels, settings, strict=True):
            for number, model in enumerate(models_of(summary)):
                for feature_set in FEATURE_SETS:
                    rows = [
                        row
                        for row in summary.rows
                        if (row.setting, row.scheme, row.model, row.feature_set)
                        == (setting, scheme, model, feature_set)
                    ]
                    solid = feature_set == "extended"
                    axes.plot(
                        [row.step for row in rows],
                        [row.means["f1"] for row in rows],
                        color=SERIES[number],
                        linestyle="-" if solid else DASHES[1],
                        marker=MARKERS[number],
                        markersize=4.5,
                        fillstyle="full" if solid else "none",
                        linewidth=1.7 if solid else 1.2,
                        label=TITLES[model] if solid else None,
                    )
            drawn = summary.card["drawn"][setting]
            share = drawn["purchases"] / drawn["sessions"]
            axes.axhline(all_bought(share)["f1"], color=INK, linestyle=DASHES[2], linewidth=1.4)
            axes.set_title(setting, loc="left")
            axes.set_xlabel("step: pages opened so far")
            axes.xaxis.get_major_locator().set_params(integer=True)
        panels[0].set_ylabel("F1 of the purchase class")
        panels[0].plot([], [], color=INK, label="extended")
        panels[0].plot([], [], color=INK, linestyle=DASHES[1], label="baseline")
        panels[0].plot([], [], color=INK, linestyle=DASHES[2], label="all called a purchase")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(
            handles,
            labels,
            loc="outside upper center",
            ncols=9 if len(settings) > 1 else 3,
            fontsize=8.5,
            columnspacing=1.1,
        )
        return figure


def importances(summary: Summary, setting: str) -> Plot:
    """Two bars per feature: impurity importance, and what ROC-AUC loses when the feature is shuffled."""
    impurity = summary.importance["impurity"][setting]
    permutation = summary.importance["permutation"][setting]
    names = sorted(impurity, key=lambda name: impurity[name])
    with drawing(7.4, 0.9 + 0.34 * len(names), columns=2) as (figure, (left, right)):
        left.barh(names, [100 * impurity[name] for name in names], color=SERIES[0], height=0.62)
        right.barh(names, [100 * permutation[name] for name in names], color=SERIES[1], height=0.62)
        left.set_xlabel("impurity importance, %")
        right.set_xlabel("lost ROC-AUC when shuffled, points")
        right.set_yticklabels([])
        for axes in (left, right):
            axes.tick_params(axis="y", length=0)
            axes.grid(axis="y", visible=False)
        return figure


def static_share(summary: Summary) -> Plot:
    """The share of importance that static features have, over steps; anonymous setting, random forest."""
    with drawing(4.6, 2.8) as (figure, axes):
        steps = list(summary.static_share)
        shares = [100 * share for share in summary.static_share.values()]
        axes.plot(steps, shares, color=SERIES[0], marker="o", linewidth=1.8)
        axes.set_ylim(0, 104)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set_xlabel("step: pages opened so far")
        axes.set_ylabel("static features, %")
        return figure


def settings_of(summary: Summary) -> list[str]:
    """The settings of a study that have cells."""
    return list(dict.fromkeys(row.setting for row in summary.rows))


def models_of(summary: Summary) -> list[str]:
    """The models of a study, in the order of its plan."""
    return [model for model in summary.card["plan"]["models"] if any(row.model == model for row in summary.rows)]
