"""Read the numbers behind a plotted figure: whether what the paper says of it is true of its own numbers."""

from __future__ import annotations

from typing import Literal

from visir.errors import VisirError, nearest
from visir.evaluation.published.figures import Figure, plotted
from visir.studies.experiment import Experiment, ExperimentContext, Measurement


class PlottedExperiment(Experiment):
    """One pair of bars of thesis Figure 4.5, or one training of LTD Figure 2: the authors' numbers."""

    # These numbers are quoted; nothing is measured.

    experiment: Literal["plotted"] = "plotted"
    figure: Figure  # which figure

    def describe(self) -> str:
        """See `Experiment.describe`."""
        return f"the authors' numbers behind {self.figure}"

    def measure(self, context: ExperimentContext) -> Measurement:
        """See `Experiment.measure`."""
        values = plotted(self.figure)
        if (self.system, self.collection) not in values:
            systems = [system for system, collection in values if collection == self.collection]
            raise VisirError(
                f"{self.figure} has no {self.system!r} on {self.collection!r}.", hint=nearest(self.system, systems)
            )
        provenance = {"system": f"{self.system}, by its authors", "collection": f"{self.collection}, by its authors"}
        return Measurement(values[self.system, self.collection], provenance)
