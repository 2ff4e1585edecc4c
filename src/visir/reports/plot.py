"""The figure of matplotlib that visir draws on. It imports matplotlib: import this file where something is drawn."""

from __future__ import annotations

from typing import Any

import matplotlib
from matplotlib.backend_bases import RendererBase
from matplotlib.figure import Figure

from visir.display import Displayed


class Plot(Displayed, Figure):
    """A figure in visir's style, which shows itself in a notebook, in its colours. pyplot is not used."""

    settings: dict[Any, Any]  # the settings of matplotlib with which it is drawn, whatever others are set

    def draw(self, renderer: RendererBase) -> None:
        """Draw with the figure's own settings."""
        with matplotlib.rc_context(self.settings):
            super().draw(renderer)

    def savefig(self, fname: Any, **options: Any) -> None:
        """Write the figure to a file, as matplotlib does: the suffix says in which format."""
        with matplotlib.rc_context(self.settings):
            super().savefig(fname, **options)

    def __repr__(self) -> str:
        width, height = self.get_size_inches()
        return f'Plot({width:g} × {height:g} inches; figure.savefig("plot.pdf") writes it)'
