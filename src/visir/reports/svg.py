"""SVG in visir's style: the same input gives the same bytes, and the colours survive a colour-blind reader.

Colours are those of Okabe and Ito (2008), which stay apart under the common colour-vision deficiencies; lines differ in
dash and marker as well, so that a black-and-white print still reads.
"""

from __future__ import annotations

import html
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from visir.reports.plot import Plot

INK, FAINT, GRID = "#444b55", "#7a828e", "#d5d9df"
SERIES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Okabe and Ito's colours, the darker ones first."""
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (5, 2, 1, 2)))
MARKERS = ("o", "s", "^", "D")
_THEME = {
    INK: "var(--plot-ink, #444b55)",
    FAINT: "var(--plot-faint, #7a828e)",
    GRID: "var(--plot-grid, #d5d9df)",
    **{colour: f"var(--plot-{number}, {colour})" for number, colour in enumerate(SERIES, 1)},
}
_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "visir",
    "font.family": ["sans-serif"],
    "font.size": 10.0,
    "text.color": INK,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.titlesize": 10.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "white",
    "path.simplify": True,
    "text.usetex": False,
    "text.parse_math": False,  # a "$" in a system's name is a dollar
}


def themed(plot: Figure, prefix: str, label: str) -> str:
    """The plot as an inline fragment of SVG, whose colours are CSS variables of the page."""
    # Texts take the page's font. The variables: `--plot-ink`, `--plot-faint`, `--plot-grid`, `--plot-1` … `--plot-6`.
    return fragment(to_svg(plot), prefix, label)


def fragment(svg: str, prefix: str, label: str) -> str:
    """The SVG document of a plot as `themed` says."""
    body = svg[svg.index("<svg") :]
    for colour, variable in _THEME.items():
        body = re.sub(re.escape(colour), variable, body, flags=re.IGNORECASE)
    body = re.sub(r"\s*<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    used = set(re.findall(r"(?:url\(|href=\")#([^)\"]+)", body))
    body = re.sub(r' id="([^"]+)"', lambda match: f' id="{prefix}-{match[1]}"' if match[1] in used else "", body)
    body = re.sub(r"(url\(|href=\")#", rf"\g<1>#{prefix}-", body)
    view = re.search(r'viewBox="[\d.]+ [\d.]+ ([\d.]+) [\d.]+"', body)
    # On a narrow screen a wide plot is scrolled: its letters stay readable.
    sizes = f"min-width: {0.85 * float(view[1]):.0f}px; max-width: {1.4 * float(view[1]):.0f}px" if view else ""
    size = f"{sizes}; stroke-linejoin: round; stroke-linecap: butt" if view else ""
    head = f'<svg {view[0] if view else ""} style="{size}" role="img" aria-label="{html.escape(label)}">'
    body = re.sub(r"^<svg[^>]*>", lambda _: head, body)
    # matplotlib's own style sheet would apply to the whole page, and its coordinates go to a millionth of a point.
    body = re.sub(r"\s*<defs>\s*<style.*?</style>\s*</defs>", "", body, flags=re.DOTALL)
    body = re.sub(r"font-family: [^;\"]+;? ?", "", body)
    return re.sub(r' d="[^"]*"', lambda match: _shorter(match[0]), body).strip()


@contextmanager
def drawing(width: float, height: float, rows: int = 1, columns: int = 1) -> Iterator[tuple[Plot, Any]]:
    """A plot in visir's style; matplotlib's own settings are back as they were afterwards."""
    import matplotlib

    from visir.reports.plot import Plot

    settings = {**matplotlib.rcParamsDefault, **_SETTINGS}
    with matplotlib.rc_context(settings):
        figure = Plot(figsize=(width, height), layout="constrained")
        figure.settings = settings
        yield figure, figure.subplots(rows, columns)


def to_svg(plot: Figure) -> str:
    """The plot as an SVG document without a date."""
    stream = io.StringIO()
    nothing = {"Date": None, "Creator": None, "Format": None, "Type": None}
    plot.savefig(stream, format="svg", metadata=nothing, facecolor="none")
    return stream.getvalue()


def _shorter(path: str) -> str:
    rounded = re.sub(r"-?\d+\.\d{3,}", lambda number: f"{float(number[0]):.2f}", path)
    return re.sub(r"\s+", " ", rounded)
