"""A plot of a live model's reliability: mean probability beside the share that buys, on later sessions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from visir.reports.svg import INK, SERIES, drawing

if TYPE_CHECKING:
    from visir.reports.plot import Plot

CAPTION = (
    "Filled: the share of later sessions that buys; hollow: the mean probability. The line is the 95 % interval of "
    "their difference, laid from the mean probability: where it reaches the hollow mark, no difference is shown. "
    "Right: all are scored at the first page, when nobody knows how long the session will be, so short sessions are "
    "given too much there and long ones too little. The axis is linear up to 1 %, logarithmic from there."
)
_TICKS = (0, 0.5, 1, 2, 5, 10, 20, 50, 100)


def reliability(report: dict[str, Any]) -> Plot:
    """Two panels: by pages opened, and by the length that sessions came to have."""
    rows = report["reliability"]
    by_page = [row for row in rows if row["group"] == f"page {row['step']}"]
    by_length = [row for row in rows if row not in by_page]
    with drawing(8.6, 1.5 + 0.36 * max(len(by_page), len(by_length)), columns=2) as (figure, panels):
        largest = max((100 * max(row["mean_p"], row["rate"]) for row in rows), default=1.0)
        for axes, title, own in zip(panels, ("pages opened", "pages in all"), (by_page, by_length), strict=True):
            _panel(axes, own)
            axes.set_title(title, loc="left")
            axes.set_xscale("symlog", linthresh=1.0, linscale=0.6)
            limit = min((tick for tick in _TICKS[3:] if tick > 1.2 * largest), default=100)
            axes.set_xlim(-0.04, 1.08 * limit)
            axes.set_xticks([tick for tick in _TICKS if tick <= limit], minor=False)
            axes.set_xticks([], minor=True)
            axes.xaxis.set_major_formatter("{x:g}")
            axes.set_xlabel("% of sessions")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=2, fontsize=9)
        return figure


def _panel(axes: Any, rows: Sequence[dict[str, Any]]) -> None:
    places = list(range(len(rows)))
    shares, means = ([100 * row[name] for row in rows] for name in ("rate", "mean_p"))
    for place, row in zip(places, rows, strict=True):
        _, low, high = row["difference"]
        if low is not None:
            ends = [max(0.0, 100 * (row["mean_p"] - end)) for end in (high, low)]
            axes.plot(ends, [place, place], color=SERIES[0], linewidth=2.2, alpha=0.55, solid_capstyle="butt")
    axes.plot(shares, places, "o", color=SERIES[0], markersize=6, label="share that buys, 95 %")
    axes.plot(means, places, "D", color=SERIES[1], markersize=7, fillstyle="none", label="mean probability")
    names = [row["group"].removeprefix("page ").removesuffix(" in all") for row in rows]
    axes.set_yticks(places, [f"{name}  ({row['sessions']:,})" for name, row in zip(names, rows, strict=True)])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0, labelcolor=INK)
    axes.grid(axis="y", visible=False)
