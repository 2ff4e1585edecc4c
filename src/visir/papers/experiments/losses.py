"""Work a table out of another printed one: the losses of Table 4 of the brittleness paper from thesis Table 5.3."""

from __future__ import annotations

import statistics
from typing import Literal

from visir.errors import VisirError
from visir.studies.experiment import Experiment, ExperimentContext, Measurement

_PLAIN = "rsum"


class LossesExperiment(Experiment):
    """The mean over models of the share of rsum that a perturbation takes, in percent, from printed rsums."""

    # It shows whether two published tables fit together; nothing is measured. Labels that are means of several
    # perturbations in one table and single ones in the other (typos) are left out.

    experiment: Literal["losses"] = "losses"
    # A published table of retrieval results that has, for each model on `collection`, the label "rsum" and labels of
    # perturbations.
    table: str

    def describe(self) -> str:
        """See `Experiment.describe`."""
        return f"losses in percent, from the printed rsums of {self.table}"

    def measure(self, context: ExperimentContext) -> Measurement:
        """See `Experiment.measure`."""
        from visir.evaluation.published import load

        rows = [row.values["t2i"] for row in load(self.table).rows if row.collection == self.collection]
        if not rows:
            raise VisirError(
                f"{self.table} has nothing on {self.collection}.", hint=", ".join(load(self.table).collections)
            )
        labels = set(rows[0]) - {_PLAIN} if context.row is None else set(rows[0]) & set(context.row.values["t2i"])
        values = {
            f"t2i {label}": statistics.fmean(100 * (1 - row[label] / row[_PLAIN]) for row in rows)
            for label in rows[0]
            if label in labels
        }
        return Measurement(values, {"system": f"{len(rows)} models, by the authors", "collection": self.collection})
