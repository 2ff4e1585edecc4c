"""The plots of chapter 3; each returns a complete SVG document, the same bytes for the same input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from visir.reports.svg import DASHES, FAINT, INK, MARKERS, SERIES, drawing, to_svg
from visir.reports.table import one_line

Point = tuple[float, float, float]
"""(η, FLOPs, value in percent)."""


def cost_and_effect(curves: Mapping[str, Sequence[Point]], dense: float, measure: str = "R@1") -> str:
    """Fig. 3.2a: effectiveness over FLOPs (logarithmic), one curve per variant through its η, the dense model a line.

    - `curves`: name → points; each is marked with its η
    - `dense`: the dense model's value in percent
    """
    with drawing(5.6, 3.8) as (figure, axes):
        axes.axhline(dense, color=FAINT, linewidth=1.2, linestyle=DASHES[2], zorder=1)
        axes.annotate("dense", (1, dense), (-2, 3), xycoords=("axes fraction", "data"), textcoords="offset points",
                      ha="right", fontsize=8.5, color=FAINT)  # fmt: skip
        for number, (name, points) in enumerate(curves.items()):
            ordered = sorted(points)[::-1]
            look = number % len(DASHES)
            axes.plot(
                [max(cost, 1e-3) for _, cost, _ in ordered],
                [value for *_, value in ordered],
                color=SERIES[number % len(SERIES)],
                linestyle=DASHES[look],
                marker=MARKERS[look],
                markersize=5.5,
                linewidth=1.7,
                label=one_line(name),
            )
            # Names of η alternate above and below, so that those of neighbouring curves keep apart.
            for eta, cost, value in ordered:
                axes.annotate(_eta(eta), (max(cost, 1e-3), value), (0, 6 if number % 2 else -12),
                              textcoords="offset points", ha="center", fontsize=7.5, color=INK)  # fmt: skip
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.margins(x=0.1, y=0.12)
        axes.set_xlabel("FLOPs: terms that a text and an image have in common")
        axes.set_ylabel(f"{measure}, text to image, %")
        axes.legend(loc="lower right", fontsize=8.5)
        return to_svg(figure)


def overlap_histogram(shares: NDArray[np.float64], k: int = 10) -> str:
    """Fig. 3.2b: how many queries have which share of the first `k` answers in common with the dense model.

    - `shares`: (n,) of `visir.evaluation.faithfulness.overlap_at`, multiples of 1/k
    """
    counts = np.bincount(np.rint(k * shares).astype(int), minlength=k + 1)
    with drawing(5.6, 3.2) as (figure, axes):
        bars = axes.bar(range(k + 1), 100 * counts / len(shares), 0.85, color=SERIES[0])
        axes.bar_label(bars, fmt="%.0f", fontsize=7.5, padding=1.5, color=INK)
        mean = k * float(shares.mean())
        axes.axvline(mean, color=SERIES[1], linewidth=1.5, linestyle=DASHES[1], label=f"mean: {100 * mean / k:.0f} %")
        axes.set_xticks(range(k + 1))
        axes.tick_params(axis="x", length=0)
        axes.grid(visible=False, axis="x")
        axes.set_xlabel(f"images that both rankings have among their first {k}")
        axes.set_ylabel("queries, %")
        axes.legend(loc="upper left", fontsize=8.5)
        return to_svg(figure)


def _eta(eta: float) -> str:
    return f"η={eta:.0e}".replace("e-0", "e-").replace("e+00", "")
