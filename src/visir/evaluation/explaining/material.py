"""What is at hand to explain a number: runs, judgements, and where given the collection and its vectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from visir.display import Displayed
from visir.evaluation.results import Evaluation
from visir.records import Collection, Protocol, Qrels, Run, Vectors

GIVE = "its vectors are not at hand (give the collection and the model)"
"""Why a reading of other items, or of other scores, cannot be computed from a result folder."""


class NotComputable(Exception):
    """What is at hand does not allow a reading; the text is the reason."""


@dataclass(frozen=True, eq=False, repr=False)
class Material(Displayed):
    """The data that readings are computed from.

    Attributes:
        runs: By task.
        qrels: By task: the judgements.
        captions: Columns id, image_id of the split in the source's order; without it, captions cannot be chosen and
            folds cannot be cut.
        vectors: (images, texts), dense or sparse, of the split or of the whole collection. With them every reading is
            searched again; without them it is cut out of the run.
        fixed: By task and measure: values of the run as it is (an imported `dcg_cm@10`, an exact `mrr`).
        protocol: The protocol of the runs, if it is known.
        source: The collection of the runs, with all its splits.
    """

    runs: Mapping[str, Run]
    qrels: Mapping[str, Qrels]
    captions: pa.Table | None = None
    vectors: tuple[Vectors, Vectors] | None = None
    fixed: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    protocol: Protocol | None = None
    source: Collection | None = None

    @classmethod
    def of(
        cls,
        evaluation: Evaluation,
        vectors: tuple[Vectors, Vectors] | None = None,
        source: Collection | None = None,
    ) -> Material:
        """Collect the data of an evaluation.

        Args:
            evaluation: The evaluation.
            vectors: (images, texts), if at hand.
            source: The collection, if at hand.

        Returns:
            The material.
        """
        result = evaluation.result
        fixed = {
            task: {name: value for name, value in result.aggregates[task].items() if not result.last_rank(task, name)}
            for task in evaluation.runs
        }  # a rank beyond the answers is not known
        return cls(
            evaluation.runs, evaluation.qrels, evaluation.captions, vectors, fixed, result.protocol, source
        )  # fmt: skip
