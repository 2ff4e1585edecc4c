"""The weights of two systems in a fusion, chosen on validation queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from visir.errors import ConfigurationError, raise_faults
from visir.evaluation.measures import aggregate, parse
from visir.evaluation.measures import measure as measure_ranks
from visir.records import Qrels, Run
from visir.retrieval.fusion import Fusion, Normalisation, fuse
from visir.retrieval.ranks import ranks_of

WEIGHTS = tuple(number / 20 for number in range(21))
"""0, 0.05, …, 1."""


@dataclass(frozen=True)
class FusionWeights:
    """The weights that do best on the validation queries.

    Attributes:
        weights: The weight of each system, as `fuse` takes them.
        measure: The measure that decided.
        values: The mean of the measure at each weight of the first system.
    """

    weights: dict[str, float]
    measure: str
    values: dict[float, float]


def choose_fusion_weights(
    runs: Mapping[str, Run],
    qrels: Qrels,
    *,
    measure: str = "ndcg@10",
    fusion: Fusion = "weighted",
    normalisation: Normalisation = "maximum",
    weights: Sequence[float] = WEIGHTS,
) -> FusionWeights:
    """Choose the weights of two systems: w for the first and 1 − w for the second.

    Args:
        runs: The runs of two systems for the validation queries, over one gallery.
        qrels: The judgements of these queries. Report on other queries: the chosen weight fits these.
        measure: The measure that decides, as `visir.evaluate` takes it.
        fusion: As of `visir.retrieval.fusion.fuse`.
        normalisation: As of `fuse`.
        weights: The weights w that are tried, from 0 to 1; of equally good ones the nearest to 0.5 is taken.

    Raises:
        ConfigurationError: There are not two runs, a weight is out of range, or the measure is unknown.
        RunError: The runs differ in gallery or task.

    Example:
        >>> from visir.records import Gallery
        >>> gallery = Gallery.of("text", ["a", "b"])
        >>> words = Run.ranked("words", "t2t", ["q", "q"], ["a", "b"], [2.0, 1.0], gallery)
        >>> dense = Run.ranked("dense", "t2t", ["q", "q"], ["b", "a"], [0.9, 0.1], gallery)
        >>> choose_fusion_weights({"words": words, "dense": dense}, Qrels.of(["q"], ["a"])).weights
        {'words': 0.65, 'dense': 0.35}
    """
    faults = [] if len(runs) == 2 else [f"two runs are needed, not {len(runs)}"]
    faults += [f"the weight {weight} is not from 0 to 1" for weight in weights if not 0 <= weight <= 1]
    faults += [] if len(weights) else ["no weight is given"]
    raise_faults(ConfigurationError, "fusion weights", faults)
    first, second = runs
    (named,) = parse([measure])
    name = named.name
    values = {}
    for weight in weights:
        fused = fuse(runs, fusion=fusion, weights={first: weight, second: 1 - weight}, normalisation=normalisation)
        values[weight] = aggregate(measure_ranks(ranks_of(fused, qrels), [name]))[name]
    best = min(values, key=lambda weight: (-round(values[weight], 12), abs(weight - 0.5), weight))
    return FusionWeights({first: best, second: 1 - best}, name, values)
