"""The plots of chapter 3; each returns a complete SVG document, the same bytes for the same input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from visir.reports.plots import DASHES, FAINT, INK, MARKERS, SERIES, drawing
from visir.reports.table import one_line

if TYPE_CHECKING:
    from visir.reports.plot import Plot

Point = tuple[float, float, float]
"""(η, FLOPs, value in percent)."""
_SHAPES = (*MARKERS, "v", "P")


def cost_and_effect(curves: Mapping[str, Sequence[Point]], dense: float, measure: str = "R@1") -> Plot:
    """Fig. 3.2a: effectiveness over FLOPs (logarithmic), one curve per variant through its η, the dense model a
    line."""
    # Colour and dash tell variants apart, markers η.
    # - `curves`: name → points
    # - `dense`: the dense model's value in percent
    etas = sorted({eta for points in curves.values() for eta, *_ in points}, reverse=True)
    shape = {eta: _SHAPES[position % len(_SHAPES)] for position, eta in enumerate(etas)}
    with drawing(6.6, 3.8) as (figure, axes):
        axes.axhline(dense, color=FAINT, linewidth=1.0, zorder=1, label="dense")
        for number, (name, points) in enumerate(curves.items()):
            ordered = sorted(points, reverse=True)
            colour = SERIES[number % len(SERIES)]
            places = [(max(cost, 1e-3), value) for _, cost, value in ordered]
            look = {"color": colour, "linestyle": DASHES[number % len(DASHES)], "linewidth": 1.7}
            axes.plot(*zip(*places, strict=True), label=one_line(name), **look)
            for (eta, *_), place in zip(ordered, places, strict=True):
                axes.plot(*place, shape[eta], color=colour, markersize=6)
        for eta in etas:
            axes.plot([], [], shape[eta], color=INK, markersize=5, label=_eta(eta))
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.margins(x=0.08, y=0.08)
        axes.set_xlabel("FLOPs: terms that a text and an image have in common")
        axes.set_ylabel(f"{measure}, text to image, %")
        figure.legend(loc="outside right upper", fontsize=8.5)
        return figure


def overlap_histogram(shares: NDArray[np.float64], k: int = 10) -> Plot:
    """Fig. 3.2b: how many queries have which share of the first `k` answers in common with the dense model."""
    # - `shares`: (n,) of `visir.evaluation.faithfulness.overlap_at`, multiples of 1/k
    counts = np.bincount(np.rint(k * shares).astype(int), minlength=k + 1)
    heights = 100 * counts / len(shares)
    mean = float(shares.mean())
    with drawing(5.6, 3.2) as (figure, axes):
        bars = axes.bar(range(k + 1), heights, 0.85, color=SERIES[0])
        axes.bar_label(bars, fmt="%.0f", fontsize=7.5, padding=1.5, color=INK)
        mark = f"mean: {100 * mean:.0f} %"
        axes.plot(k * mean, 1.12 * heights.max(), "v", color=SERIES[1], markersize=7, linestyle="none", label=mark)
        axes.set_ylim(0, 1.18 * heights.max())
        axes.set_xticks(range(k + 1))
        axes.tick_params(axis="x", length=0)
        axes.grid(visible=False, axis="x")
        axes.set_xlabel(f"images that both rankings have among their first {k}")
        axes.set_ylabel("queries, %")
        axes.legend(loc="upper left", fontsize=8.5)
        return figure


def _eta(eta: float) -> str:
    return f"η={eta:.0e}".replace("e-0", "e-").replace("e+00", "")
