"""Perturb captions and search with them: the brittleness study on models of one's own."""

from __future__ import annotations

import statistics
from typing import Literal

from visir.papers.experiments.logs import GROUPS
from visir.studies.experiment import Experiment, ExperimentContext, Measurement
from visir.studies.shared_training import PriorTraining, system_of
from visir.training.recipe import expand


class StressExperiment(Experiment):
    """All thirteen perturbations of captions, text to image (`visir stress`); means over several models.

    - `models`, as `visir.load` takes them, or `training`: a recipe whose checkpoint is stressed
    - `source`, `images`, `split`, `gallery`: what is searched; the paper's candidates are the whole "collection"
    - `quantity`: "decrease", percent of rsum lost (positive for a loss, as printed); "rsum" under each perturbation;
      "jaccard", how alike the sets of captions are that perturbations harm, help or leave
    - `profile`: "paper" perturbs as the released code did
    """

    experiment: Literal["stress"] = "stress"
    models: tuple[str, ...] = ()
    training: PriorTraining | None = None
    source: str
    images: str | None = None
    split: str | None = "test"
    gallery: Literal["split", "collection"] = "split"
    quantity: Literal["decrease", "rsum", "jaccard"]
    profile: Literal["sound", "paper"] = "paper"

    def describe(self) -> str:
        """See `Experiment.describe`."""
        systems = ", ".join(self.models) or (
            f"the checkpoint of {self.training.recipe}" if self.training else "nothing"
        )
        return f"{systems} on {self.source}, thirteen perturbations"

    def measure(self, context: ExperimentContext) -> Measurement:
        """See `Experiment.measure`."""
        from visir.collections import open_collection
        from visir.encoders import load
        from visir.evaluation.stress.jaccard import GROUPS as SETS
        from visir.evaluation.stress.stress import stress

        names = [expand(one) for one in self.models] or [system_of(None, self.training, context, self.describe())]
        with context.locks.process:
            where = None if self.images is None else expand(self.images)
            collection = open_collection(expand(self.source), images=where)
            found = [
                stress(
                    collection, load(one), split=self.split, gallery=self.gallery, profile=self.profile,
                    pictures=[], seed=context.seed, name=self.training.recipe if self.training else one,
                )
                for one in names
            ]  # fmt: skip
        if self.quantity == "jaccard":
            alike = [one.jaccard for one in found if one.jaccard is not None]
            values = {name: statistics.fmean(one.mean(name) for one in alike) for name in SETS}
        else:
            values = {
                name: statistics.fmean(
                    -one.effect(name).overall.percent if self.quantity == "decrease" else one.effect(name).overall.after
                    for one in found
                )
                for name in [one.name for one in found[0].effects]
            }
            if self.quantity == "rsum":
                values["rsum"] = statistics.fmean(one.plain.mean("t2i", "rsum") for one in found)
            for group, parts in GROUPS.items():
                values[group] = statistics.fmean(values[one] for one in parts)
        protocol = found[0].protocol
        return Measurement(
            {f"t2i {name}": value for name, value in values.items()},
            {
                "system": ", ".join(dict.fromkeys(one.system for one in found)),
                "collection": protocol.collection,
                "fingerprint": protocol.collection_fingerprint[:12],
            },
            {**dict(protocol.card()), "perturbations": f"severity 1, seed {context.seed}, {self.profile} profile"},
            notes=tuple(dict.fromkeys(note for one in found for note in one.notes)),
        )
