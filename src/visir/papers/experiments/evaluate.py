"""Evaluate a model as it is: chapter 2 of the thesis, and the dense rows of chapter 3."""

from __future__ import annotations

from typing import Literal

from visir.encoders.base import Encoder
from visir.papers.published_values import nearest_reading, values_of
from visir.papers.query_draws import query_draws
from visir.papers.small_xvlm import SmallXvlm, small_of
from visir.studies.experiment import Experiment, ExperimentContext, Measurement
from visir.studies.shared_training import PriorTraining, system_of
from visir.training.recipe import expand


class EvaluateExperiment(Experiment):
    """Search a collection in both tasks and measure it (`visir evaluate`)."""

    experiment: Literal["evaluate"] = "evaluate"
    model: str | None = None  # as `visir.load` takes it
    training: PriorTraining | None = None  # instead of a model: a recipe whose checkpoint is evaluated
    # Instead of a model: a small X-VLM that is trained first; it re-ranks where `k_test` is set.
    small_xvlm: SmallXvlm | None = None
    source: str  # the collection
    images: str | None = None  # where its pictures are
    split: str | None = "test"  # the split that is searched
    captions: str = "all"  # which captions of each image take part
    rerank: str | None = None  # a model with a matching head that re-ranks the best `k_test`
    k_test: int | None = None  # how many candidates are re-ranked

    def describe(self) -> str:
        """See `Experiment.describe`."""
        system = self.model or (
            f"the checkpoint of {self.training.recipe}"
            if self.training
            else "a small X-VLM"
            if self.small_xvlm
            else "nothing"
        )
        return f"{system} on {self.source}, {self.captions} captions" + (
            f", the best {self.k_test} re-ranked" if self.rerank or (self.small_xvlm and self.k_test) else ""
        )

    def measure(self, context: ExperimentContext) -> Measurement:
        """See `Experiment.measure`."""
        from visir.collections import open_collection
        from visir.encoders import load
        from visir.evaluation.evaluate import evaluate
        from visir.evaluation.results import save

        name = (
            small_of(self.small_xvlm, context)
            if self.small_xvlm
            else system_of(self.model, self.training, context, self.describe())
        )
        with context.locks.process:
            encoder = load(name)
            collection = open_collection(
                expand(self.source), images=None if self.images is None else expand(self.images)
            )
            evaluation = evaluate(
                collection,
                encoder,
                split=self.split,
                captions=self.captions,
                measures=MEASURES,
                rerank=self._second(encoder),
                k_test=self.k_test,
                name=self._name(),
            )
            save(evaluation, context.folder / "evaluation", replace=True)
        protocol = evaluation.result.protocol
        if protocol.matcher:  # by name: a checkpoint's own is its path
            protocol = protocol.changed(matcher=f"{self.rerank or self._name()}, itm")
        provenance = {"system": evaluation.result.system, "collection": protocol.collection}
        return Measurement(
            values_of(evaluation.result.aggregates, context.row),
            {**provenance, "fingerprint": protocol.collection_fingerprint[:12]},
            dict(protocol.card()),
            nearest_reading(evaluation, context),
            tuple(note for note in evaluation.result.notes if not note.startswith("re-ranking: ")),  # which is a time
            draws=query_draws(evaluation.result, context.row),
        )

    def _second(self, encoder: Encoder) -> Encoder | None:
        """Whose matching head re-ranks."""
        from visir.encoders import load

        if self.rerank is not None and self.rerank != self.model:
            return load(expand(self.rerank))
        return encoder if self.rerank or (self.small_xvlm and self.k_test) else None

    def _name(self) -> str | None:
        """The name of the system; a checkpoint is named by its recipe, because its path differs between machines."""
        return self.model or (self.training.recipe if self.training else "small X-VLM" if self.small_xvlm else None)


MEASURES = ("hit@1", "hit@5", "hit@10", "recall@1", "recall@5", "recall@10", "mrr@10", "rprecision", "median_rank")
