"""Which features there are, which of them change during a session, which are in the baseline set: Table 6.7."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

import numpy as np

from visir.sessions.experiments.log_experiment import SessionLogExperiment, counts_of, sessions_of
from visir.studies.experiment import ExperimentContext, Measurement


class FeaturesExperiment(SessionLogExperiment):
    """visir's own feature set beside the ticks of the table: 1 for a tick, 0 for a dash."""

    # Labels: "session: …" and "history: …", as in the table.

    experiment: Literal["features"] = "features"
    column: Literal["dynamic", "baseline"]  # "dynamic" or "baseline", the columns
    # A log; a feature then counts as dynamic when its values on `sessions` identified sessions change from one step to
    # another. Without a log, when visir declares it so.
    log: str = ""
    sessions: int = 500  # how many sessions

    def describe(self) -> str:
        """See `Experiment.describe`."""
        return f"which features are {self.column}" + (f", seen on {self.log}" if self.log else "")

    def measure(self, context: ExperimentContext) -> Measurement:
        """See `Experiment.measure`."""
        from visir.sessions.features import FEATURES

        declared = {
            feature.name: feature.dynamic if self.column == "dynamic" else feature.baseline for feature in FEATURES
        }
        provenance, protocol = {"system": "visir's features"}, {"features": "as declared"}
        if self.log and self.column == "dynamic":
            folder = sessions_of(self, context)
            counts = counts_of(folder)
            declared = self._changing(folder / "log", context)
            provenance, protocol = (
                self.provenance(counts),
                {**self.protocol(counts), "features": "dynamic where values change"},
            )
        values = {f"{feature.scope}: {feature.name}": float(declared[feature.name]) for feature in FEATURES}
        return Measurement(values, provenance, protocol)

    def _changing(self, log: object, context: ExperimentContext) -> dict[str, bool]:
        """Which features have, for any session, one value at a step and another at a later one."""
        from visir.sessions.examples import Sample, draw
        from visir.sessions.features import LearntFeatures, features_of

        sample = Sample("identified", self.sessions, context.seed)
        examples, features = draw(str(log), sample), features_of("identified")
        learnt = LearntFeatures.of(features, examples, np.ones(len(examples), bool))
        matrices = [learnt.matrix(examples, step) for step in sample.steps]
        return {
            feature.name: any(
                not np.array_equal(before[:, column], after[:, column], equal_nan=True)
                for before, after in pairwise(matrices)
            )
            for column, feature in enumerate(features)
        }
