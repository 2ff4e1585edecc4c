"""The learner of a combiner: composed queries against right images, judged by a search of the whole gallery."""

from __future__ import annotations

from functools import partial

import numpy as np

from visir.encoders.composed.combiner import Combiner
from visir.encoders.towers.base import Tower
from visir.training.combining.examples import ComposedExamples
from visir.training.dual_encoder import DualEncoder
from visir.training.inputs.base import TrainingExamples
from visir.training.objectives.objective import Objective
from visir.training.validation import encode_source, figures_of, ranks_of

TASK = "it2i"


class CombinerLearner(DualEncoder):
    """A combiner and the head of its documents under a contrastive objective."""

    def __init__(self, combiner: Combiner, objective: Objective) -> None:
        super().__init__({"combiner": combiner, "documents": Tower(None, combiner.head)}, objective)

    def validate(self, examples: TrainingExamples) -> dict[str, float]:
        """hit@1, @5 and @10 among all documents of each task, in percent, and "rsum", their sum (0 to 300)."""
        assert isinstance(examples, ComposedExamples) and examples.documents is not None
        queries = encode_source(examples.anchors, partial(self._vectors_of, "anchor"))
        documents = encode_source(examples.documents, partial(self._vectors_of, "positive"))
        ranks = []
        for gallery in examples.galleries:
            scores = queries[gallery.queries] @ documents[gallery.documents].T
            scores[gallery.excluded] = -np.inf
            right = gallery.right & ~gallery.excluded
            ranks.append(ranks_of(scores, right)[right.any(axis=1)])
        return figures_of({TASK: np.concatenate(ranks)})
