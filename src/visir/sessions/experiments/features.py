"""Which features there are, which of them change during a session, which are in the baseline set: Table 6.7."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

import numpy as np

from visir.sessions.experiments.logged import OfLog, sessions_of, told_of
from visir.studies.experiment import Measurement, Work


class Features(OfLog):
    """visir's own feature set beside the ticks of the table: 1 for a tick, 0 for a dash.

    - `gives`: "dynamic" or "baseline", the columns
    - `log`: where one is given, a feature counts as dynamic when its values on `sessions` identified sessions change
      from one step to another; without one, when visir declares it so

    Labels: "session: …" and "history: …", as in the table.
    """

    run: Literal["features"] = "features"
    gives: Literal["dynamic", "baseline"]
    log: str = ""
    sessions: int = 500

    def what(self) -> str:
        """In a line."""
        return f"which features are {self.gives}" + (f", seen on {self.log}" if self.log else "")

    def measure(self, work: Work) -> Measurement:
        """See `Experiment.measure`."""
        from visir.sessions.features import FEATURES

        declared = {one.name: one.dynamic if self.gives == "dynamic" else one.baseline for one in FEATURES}
        ran, protocol = {"system": "visir's features"}, {"features": "as declared"}
        if self.log and self.gives == "dynamic":
            folder = sessions_of(self, work)
            told = told_of(folder)
            declared = self._changing(folder / "log", work)
            ran, protocol = self.ran(told), {**self.protocol(told), "features": "dynamic where values change"}
        values = {f"{one.scope}: {one.name}": float(declared[one.name]) for one in FEATURES}
        return Measurement(values, ran, protocol)

    def _changing(self, log: object, work: Work) -> dict[str, bool]:
        """Which features have, for any session, one value at a step and another at a later one."""
        from visir.sessions.examples import Sample, draw
        from visir.sessions.features import Learnt, features_of

        sample = Sample("identified", self.sessions, work.seed)
        examples, features = draw(str(log), sample), features_of("identified")
        learnt = Learnt.of(features, examples, np.ones(len(examples), bool))
        matrices = [learnt.matrix(examples, step) for step in sample.steps]
        return {
            one.name: any(
                not np.array_equal(before[:, at], after[:, at], equal_nan=True) for before, after in pairwise(matrices)
            )
            for at, one in enumerate(features)
        }
