"""Perturb captions and search with them: the brittleness study on models of one's own."""

from __future__ import annotations

import statistics
from typing import Literal

import numpy as np

from visir.papers.experiments.logs import GROUPS
from visir.papers.stress_draws import jaccard_draws, rsum_draws
from visir.studies.draws import Draws, finite
from visir.studies.experiment import Experiment, ExperimentContext, Measurement
from visir.studies.shared_training import PriorTraining, system_of
from visir.training.recipe import expand


class StressExperiment(Experiment):
    """All thirteen perturbations of captions, text to image (`visir stress`); means over several models."""

    experiment: Literal["stress"] = "stress"
    models: tuple[str, ...] = ()  # as `visir.load` takes them
    training: PriorTraining | None = None  # instead of models: a recipe whose checkpoint is stressed
    source: str  # the collection
    images: str | None = None  # where its pictures are
    split: str | None = "test"  # the split that is searched
    gallery: Literal["split", "collection"] = "split"  # the candidates; the paper's are the whole "collection"
    # "decrease", percent of rsum lost (positive for a loss, as printed); "rsum" under each perturbation; "jaccard", how
    # similar the sets of captions are that perturbations harm, help or leave.
    quantity: Literal["decrease", "rsum", "jaccard"]
    profile: Literal["sound", "paper"] = "paper"  # "paper" perturbs as the released code did

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

        names = [expand(model) for model in self.models] or [system_of(None, self.training, context, self.describe())]
        with context.locks.process:
            where = None if self.images is None else expand(self.images)
            collection = open_collection(expand(self.source), images=where)
            studies = [
                stress(
                    collection, load(model), split=self.split, gallery=self.gallery, profile=self.profile,
                    corruptions=[], seed=context.seed, name=self.training.recipe if self.training else model,
                )
                for model in names
            ]  # fmt: skip
        if self.quantity == "jaccard":
            similarities = [study.jaccard for study in studies if study.jaccard is not None]
            values = {name: statistics.fmean(similarity.mean(name) for similarity in similarities) for name in SETS}
            drawn = [jaccard_draws(study) for study in studies]
        else:
            values = {
                name: statistics.fmean(
                    -overall.percent if self.quantity == "decrease" else overall.after
                    for overall in (study.effect(name).overall for study in studies)
                )
                for name in [effect.name for effect in studies[0].effects]
            }
            if self.quantity == "rsum":
                values["rsum"] = statistics.fmean(study.plain.mean("t2i", "rsum") for study in studies)
            drawn = [self._losses(rsum_draws(study)) for study in studies]
            for group, parts in GROUPS.items():
                values[group] = statistics.fmean(values[part] for part in parts)
                for draws in drawn:
                    draws |= (
                        {group: np.mean([draws[part] for part in parts], axis=0)} if set(parts) <= set(draws) else {}
                    )
        common = [label for label in values if all(label in draws for draws in drawn)]
        protocol = studies[0].protocol
        return Measurement(
            {f"t2i {name}": value for name, value in values.items()},
            {
                "system": ", ".join(dict.fromkeys(study.system for study in studies)),
                "collection": protocol.collection,
                "fingerprint": protocol.collection_fingerprint[:12],
            },
            {**dict(protocol.card()), "perturbations": f"severity 1, seed {context.seed}, {self.profile} profile"},
            notes=tuple(dict.fromkeys(note for study in studies for note in study.notes)),
            draws={f"t2i {label}": np.mean([draws[label] for draws in drawn], axis=0) for label in common},
        )

    def _losses(self, rsums: dict[str, Draws]) -> dict[str, Draws]:
        """Of draws of rsums those of the quantity: the rsums, or the percentages lost."""
        if self.quantity == "rsum":
            return rsums
        plain = rsums["rsum"]
        return finite({name: 100 * (1 - rsum / plain) for name, rsum in rsums.items() if name != "rsum"})
