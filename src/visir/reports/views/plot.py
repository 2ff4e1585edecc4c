"""A plot on its own."""

from __future__ import annotations

import hashlib

from visir.reports.page import Block, Figure
from visir.reports.plot import Plot
from visir.reports.plots import fragment, to_svg


def blocks(plot: Plot) -> list[Block]:
    """The drawing, in the colours of the notebook."""
    svg = to_svg(plot)
    # Ids of a drawing must be its own among all that a notebook holds.
    prefix = "p" + hashlib.blake2b(svg.encode(), digest_size=4).hexdigest()
    texts = [axes.get_title(loc) for axes in plot.axes for loc in ("left", "center")]
    texts += [name for axes in plot.axes for name in (axes.get_xlabel(), axes.get_ylabel())]
    return [Figure(fragment(svg, prefix, "Plot. " + ", ".join(filter(None, texts))), "", "")]
