"""Evaluate a model as it is: chapter 2 of the thesis, and the dense rows of chapter 3."""

from __future__ import annotations

from typing import Literal

from visir.encoders.base import Encoder
from visir.papers.printed import nearest_reading, values_of
from visir.papers.small_xvlm import SmallXvlm, small_of
from visir.studies.experiment import Experiment, Measurement, Work
from visir.studies.shared_training import PriorTraining, system_of
from visir.training.recipe import expand


class Evaluate(Experiment):
    """Search a collection in both tasks and measure it (`visir evaluate`).

    - `model`: as `visir.load` takes it; or `first`: a recipe whose checkpoint is evaluated; or `small`: a small X-VLM
      that is trained before, and which re-ranks where `k_test` is said
    - `source`, `images`, `split`, `captions`: what is searched, and which captions of each image take part
    - `rerank`: a model with a matching head that re-ranks the best `k_test`
    """

    run: Literal["evaluate"] = "evaluate"
    model: str | None = None
    first: PriorTraining | None = None
    small: SmallXvlm | None = None
    source: str
    images: str | None = None
    split: str | None = "test"
    captions: str = "all"
    rerank: str | None = None
    k_test: int | None = None

    def what(self) -> str:
        """In a line."""
        system = self.model or (
            f"the checkpoint of {self.first.recipe}" if self.first else "a small X-VLM" if self.small else "nothing"
        )
        return f"{system} on {self.source}, {self.captions} captions" + (
            f", the best {self.k_test} re-ranked" if self.rerank or (self.small and self.k_test) else ""
        )

    def measure(self, work: Work) -> Measurement:
        """See `Experiment.measure`."""
        from visir.collections import open_collection
        from visir.encoders import load
        from visir.evaluation.evaluate import evaluate
        from visir.evaluation.results import save

        name = small_of(self.small, work) if self.small else system_of(self.model, self.first, work, self.what())
        with work.locks.here:
            encoder = load(name)
            collection = open_collection(
                expand(self.source), images=None if self.images is None else expand(self.images)
            )
            found = evaluate(
                collection,
                encoder,
                split=self.split,
                captions=self.captions,
                measures=MEASURES,
                rerank=self._second(encoder),
                k_test=self.k_test,
                name=self._name(),
            )
            save(found, work.folder / "evaluation")
        protocol = found.result.protocol
        if protocol.matcher:  # by name: a checkpoint's own is its path
            protocol = protocol.changed(matcher=f"{self.rerank or self._name()}, itm")
        ran = {"system": found.result.system, "collection": protocol.collection}
        return Measurement(
            values_of(found.result.aggregates, work.row),
            {**ran, "fingerprint": protocol.collection_fingerprint[:12]},
            dict(protocol.card()),
            nearest_reading(found, work),
            tuple(one for one in found.result.notes if not one.startswith("re-ranking: ")),  # which is a time
        )

    def _second(self, encoder: Encoder) -> Encoder | None:
        """Whose matching head re-ranks."""
        from visir.encoders import load

        if self.rerank is not None and self.rerank != self.model:
            return load(expand(self.rerank))
        return encoder if self.rerank or (self.small and self.k_test) else None

    def _name(self) -> str | None:
        """What the system is called: a checkpoint's own name is its path, which is another on every machine."""
        return self.model or (self.first.recipe if self.first else "small X-VLM" if self.small else None)


MEASURES = ("hit@1", "hit@5", "hit@10", "recall@1", "recall@5", "recall@10", "mrr@10", "rprecision", "median_rank")
