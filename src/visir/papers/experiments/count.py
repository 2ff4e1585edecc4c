"""Count the features of a collection's captions: Table 1 of the brittleness paper."""

from __future__ import annotations

from typing import Literal

from visir.robustness.granularity import Profile
from visir.studies.draws import unit_means
from visir.studies.experiment import Experiment, ExperimentContext, Measurement
from visir.training.recipe import expand


class CountExperiment(Experiment):
    """How fine-grained captions are (`visir granularity`)."""

    experiment: Literal["count"] = "count"
    source: str  # the collection
    split: str | None = "test"  # the split whose captions count
    captions: str = "first 5"  # which captions of each image count
    profile: Profile = "paper"  # how features are counted; "paper" as in the table

    def describe(self) -> str:
        """See `Experiment.describe`."""
        return f"granularity of {self.source}, {self.captions} captions"

    def measure(self, context: ExperimentContext) -> Measurement:
        """See `Experiment.measure`."""
        from visir.collections import open_collection
        from visir.evaluation.granularity import granularity as study

        with context.locks.process:
            collection = open_collection(expand(self.source))
            result = study(collection, profiles=[self.profile], split=self.split, captions=self.captions)
        values = {mean.feature: mean.mean for mean in result.means[0][self.profile]}
        counted = result.counted[0][self.profile]
        provenance = {"collection": counted.name, "fingerprint": counted.fingerprint[:12]}
        draws = unit_means(counted.images.to_pylist(), counted.values)
        return Measurement(values, provenance, {**dict(result.protocol), "profile": self.profile}, draws=draws)
