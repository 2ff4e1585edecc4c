"""Evaluate a model as it is: chapter 2 of the thesis, and the dense rows of chapter 3."""

from __future__ import annotations

from typing import Literal

from visir.studies.papers.act import Act, Measured, Work
from visir.studies.papers.printed import nearest_reading, values_of
from visir.studies.papers.trained import First, system_of
from visir.training.recipe import expand


class Evaluate(Act):
    """Search a collection in both directions and measure it (`visir evaluate`).

    - `model`: as `visir.load` takes it; or `first`: a recipe whose checkpoint is evaluated
    - `source`, `images`, `split`, `captions`: what is searched, and which captions of each image take part
    - `rerank`: a model with a matching head that re-ranks the best `k_test`
    """

    run: Literal["evaluate"] = "evaluate"
    model: str | None = None
    first: First | None = None
    source: str
    images: str | None = None
    split: str | None = "test"
    captions: str = "all"
    rerank: str | None = None
    k_test: int | None = None

    def what(self) -> str:
        """In a line."""
        system = self.model or (f"the checkpoint of {self.first.recipe}" if self.first else "nothing")
        return f"{system} on {self.source}, {self.captions} captions" + (
            f", the best {self.k_test} re-ranked" if self.rerank else ""
        )

    def measure(self, work: Work) -> Measured:
        """See `Act.measure`."""
        from visir.collections import open_collection
        from visir.encoders import load
        from visir.evaluation.evaluate import evaluate
        from visir.evaluation.results import save

        name = system_of(self.model, self.first, work, self.what())
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
                rerank=None if self.rerank is None else load(expand(self.rerank)),
                k_test=self.k_test,
                name=self.model or (self.first.recipe if self.first else None),  # a checkpoint's own name is its path
            )
            save(found, work.folder / "evaluation")
        protocol = found.result.protocol
        ran = {"system": found.result.system, "collection": protocol.collection}
        return Measured(
            values_of(found.result.aggregates, work.row),
            {**ran, "fingerprint": protocol.collection_fingerprint[:12]},
            dict(protocol.card()),
            nearest_reading(found, work),
            tuple(found.result.notes),
        )


MEASURES = ("hit@1", "hit@5", "hit@10", "recall@1", "recall@5", "recall@10", "mrr@10", "rprecision", "median_rank")
