"""Read the numbers behind a plotted figure: whether what the paper says of it is true of its own numbers."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from visir.errors import VisirError, nearest
from visir.studies.papers.act import Act, Measured, Work

SETUPS = {"I": "none", "II": "unique", "III images": "images", "III captions": "captions"}
"""Setups of thesis section 4.3 → what the reader of its figure calls them; "IV 3" is "bits 3"."""
TRAININGS = {"BL, L_con": "baseline", "LTD, L_dual β=1": "dual"}
"""Rows of the LTD paper → what the reader of its figure calls them; "LTD, L_lag η=0.2" is "η=0.2"."""


class Plotted(Act):
    """One bar pair of thesis Figure 4.5 (VSE++), or one training of LTD Figure 2, as its authors have it.

    Nothing is measured: these are quoted numbers, and they count as nothing else.
    """

    run: Literal["plotted"] = "plotted"
    figure: Literal["thesis-figure-4-5", "ltd-figure-2"]

    def what(self) -> str:
        """In a line."""
        return f"the authors' numbers behind {self.figure}"

    def measure(self, work: Work) -> Measured:
        """See `Act.measure`."""
        values = self._bars() if self.figure == "thesis-figure-4-5" else self._trajectory()
        ran = {"system": f"{self.system}, by its authors", "collection": f"{self.collection}, by its authors"}
        return Measured(values, ran)

    def _bars(self) -> dict[str, float]:
        from visir.evaluation.published.figures import shortcut_bars

        setup = SETUPS.get(self.system, self.system.replace("IV", "bits"))
        bars = [one for one in shortcut_bars() if (one.model, one.collection) == ("VSE++", self.collection)]
        found = {
            label: [one.rsum for one in bars if one.setup == setup and one.with_shortcuts == shown]
            for label, shown in (("both rsum", False), ("with rsum", True))
        }
        if not any(found.values()):
            raise VisirError(
                f"the figure has no setup {setup!r} on {self.collection}.",
                hint=nearest(setup, {one.setup for one in bars}),
            )
        return {label: float(np.mean(some)) for label, some in found.items() if some}

    def _trajectory(self) -> dict[str, float]:
        from visir.evaluation.published.figures import ltd_trajectories

        training = TRAININGS.get(self.system, self.system.removeprefix("LTD, L_lag "))
        series: dict[str, NDArray[np.float64]] = {
            quantity: some[training].values for quantity, some in ltd_trajectories().items() if training in some
        }
        if not series:
            raise VisirError(f"the figure has no training {training!r}.", hint="η=0.05 to η=0.25, dual, baseline")
        values = {"validation rsum": float(series["rsum"][-1])} if "rsum" in series else {}
        for label, quantity in (("λ", "multiplier"), ("reconstruction", "reconstruction"), ("contrastive",) * 2):
            if quantity in series:
                last = series[quantity][-max(1, len(series[quantity]) // 50) :]
                values[f"{label}, last"] = float(last.mean())
        if "multiplier" in series:
            values["λ, largest"] = float(series["multiplier"].max())
        return values
