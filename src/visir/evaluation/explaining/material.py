"""What is at hand to explain a number: runs, judgements, and where given the collection and its vectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from visir.display import Displayed
from visir.evaluation.explaining.axes import AXES, BY_NAME, AxisChoice
from visir.evaluation.results import Evaluation
from visir.records import Collection, Protocol, Qrels, Run, Vectors

# One reading: a choice on some axes, the plain one on all others.

PLAIN = "the protocol of the result"
PAIR_COST = 2
"""What a second choice costs beyond its own cost, so that every single choice is plainer than every pair."""

_ORDER = {axis.name: number for number, axis in enumerate(AXES)}


@dataclass(frozen=True)
class Reading:
    """A reading of a published number."""

    # (axis, name of the choice) of the axes on which it differs from the result, in the order of `AXES`.
    choices: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, **choices: str) -> Reading:
        """Make a reading of names of choices by axis."""
        return cls(tuple(sorted(choices.items(), key=lambda pair: _ORDER[pair[0]])))

    def __getitem__(self, axis: str) -> str | None:
        """The name of the choice on an axis; None where it is the plain one."""
        return dict(self.choices).get(axis)

    def __str__(self) -> str:
        return "; ".join(choice.words for choice in self.parts) or PLAIN

    @property
    def parts(self) -> tuple[AxisChoice, ...]:
        """The choices themselves."""
        return tuple(BY_NAME[axis][name] for axis, name in self.choices)

    @property
    def departures(self) -> int:
        """On how many axes it differs from the result."""
        return len(self.choices)

    @property
    def cost(self) -> int:
        """How far it is from plain: the sum of the costs, and `PAIR_COST` for each choice after the first."""
        return sum(choice.cost for choice in self.parts) + PAIR_COST * max(len(self.choices) - 1, 0)

    @property
    def needs_vectors(self) -> bool:
        """Whether the result folder does not suffice."""
        return any(choice.needs in ("vectors", "collection") for choice in self.parts)

    def value(self, axis: str) -> object:
        """What the computation takes on an axis: the value of the choice, or its name; None where it is plain."""
        name = self[axis]
        if name is None:
            return None
        choice = BY_NAME[axis][name]
        return name if choice.value is None else choice.value

    def only(self, axes: tuple[str, ...]) -> Reading:
        """The reading with its choices on these axes only."""
        return Reading(tuple(pair for pair in self.choices if pair[0] in axes))

    def joined(self, other: Reading) -> Reading:
        """Both readings at once."""
        return Reading.of(**dict(self.choices), **dict(other.choices))


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
