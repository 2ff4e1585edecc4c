"""The weight of the text in a query of text and image, chosen on a validation split."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyarrow as pa

from visir.display import Tabular, brief
from visir.encoders import load
from visir.encoders.base import Encoder
from visir.encoders.composed import ComposedEncoder, CompositionRule
from visir.encoders.encoding import EncodeOptions, encode_items
from visir.errors import ConfigurationError, raise_faults
from visir.evaluation.assembly import assemble
from visir.evaluation.measures import aggregate, parse
from visir.evaluation.measures import measure as measure_ranks
from visir.evaluation.scoring import score, skips_first, ties_of, without_first_answers
from visir.evaluation.sources import open_tasks
from visir.evaluation.systems.base import System
from visir.evaluation.systems.vectors import EncoderSystem, VectorSystem
from visir.records import Items, Protocol, Qrels, Ranks, Role, Run, Task, Ties, Vectors
from visir.retrieval.fusion import Fusion, Normalisation, fuse
from visir.retrieval.ranks import ranks_of
from visir.retrieval.scan import Similarity

# The weights of two systems in a fusion, chosen on validation queries.

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


MEASURE = "mrr"
"""What decides where tasks have no measure of their own, or different ones."""


@dataclass(frozen=True, repr=False)
class ChosenWeight(Tabular):
    """The weight of the text that does best on a split.

    Attributes:
        text_weight: The weight; of equals the one that is nearest to 0.5.
        split: The split.
        measure: The measure that decided.
        values: The measure at each weight, the mean over the tasks.
    """

    text_weight: float
    split: str
    measure: str
    values: Mapping[float, float]

    def __repr__(self) -> str:
        best, only_text, only_image = (self.values.get(weight, np.nan) for weight in (self.text_weight, 1.0, 0.0))
        return brief(
            self,
            f"{self.compose}: {self.measure} {best:.3f} on {self.split}",
            f"the text alone: {only_text:.3f}, the image alone: {only_image:.3f}",
        )

    @property
    def compose(self) -> str:
        """The rule, as `visir.evaluate` takes it: "sum(0.35)"."""
        return str(CompositionRule("sum", self.text_weight))

    def to_arrow(self) -> pa.Table:
        """Return the columns `text_weight` and the measure."""
        return pa.table({"text_weight": list(self.values), self.measure: list(self.values.values())})


def choose_weight(
    source: Any,
    model: Any,
    split: str = "val",
    *,
    tasks: Sequence[str] | str | None = None,
    relevance: str | None = None,
    ties: Ties | None = None,
    similarity: Similarity | None = None,
    measure: str | None = None,
    weights: Sequence[float] = WEIGHTS,
    images: Any = None,
    device: str | None = None,
    **encoding: Any,
) -> ChosenWeight:
    """Choose the weight of the text in `compose="sum(weight)"` on a validation split.

    Everything is encoded once, whatever the number of weights.

    Args:
        source: As of `visir.evaluate`.
        model: A model that reads texts and images, or its name.
        split: The split that decides. A test split is refused: what is chosen on it says nothing of new queries.
        tasks: The tasks that decide; None takes all whose queries have a text and an image. The mean decides.
        relevance: The set of judgements, as of `visir.evaluate`; None is the usual one of each task.
        ties: How equal scores are counted, as of `visir.evaluate`; None is what the tasks say.
        similarity: "cosine" or "dot", as of `visir.evaluate`.
        measure: The measure that decides; None is the first that the tasks themselves name (CIRCO: capped_map@5), or
            MRR where they name none or different ones.
        weights: The weights that are tried, from 0 to 1.
        images: Where the pictures of the source are.
        device: Where a model that is named is run.
        **encoding: Options of `visir.encoders.encode_items`.

    Returns:
        The weight: `chosen.compose` is the option.

    Raises:
        ConfigurationError: The split is a test split; no query has a text and an image; a weight is out of range; the
            tasks count equal scores in different ways.
        CollectionError: The split is empty, or the relevance is unknown.

    Example:
        >>> import visir
        >>> from visir.evaluation import choose_weight
        >>> def colours(images):
        ...     return [image.resize((1, 1)).getpixel((0, 0)) for image in images]
        >>> def words(texts):
        ...     return [[1 + 99 * (name in text) for name in ("red", "green", "blue")] for text in texts]
        >>> mine = visir.Encoder.wrap("mine", image=colours, text=words)
        >>> chosen = choose_weight("scenes:30?task=composed&size=64", mine, weights=(0, 0.5, 1))
        >>> chosen.split, sorted(chosen.values)
        ('val', [0, 0.5, 1])
    """
    faults = [weight for weight in weights if not 0 <= weight <= 1]
    if faults or not len(weights):
        raise ConfigurationError(f"weights = {list(weights)}: a weight is a number from 0 to 1.", hint="0.5")
    if split.lower().startswith("test"):
        raise ConfigurationError(
            f"a weight that is chosen on {split!r} says nothing of new queries.",
            hint='choose on "val" or "train"',
            code="weight-chosen-says-nothing",
        )
    wanted = [tasks] if isinstance(tasks, str) else tasks
    assembly = assemble(open_tasks(source, images), split=split, relevance=relevance, tasks=wanted)
    composed = composed_tasks(assembly.tasks)
    if not composed:
        raise ConfigurationError("no query of this source has a text and an image.", hint="there is nothing to weigh")
    rule = ties or ties_of(composed.values())
    first = {task.measures[0] if task.measures else MEASURE for task in composed.values()}
    measure = parse([measure or (first.pop() if len(first) == 1 else MEASURE)])[0].name
    encoder = load(model, device=device)
    options = cast(EncodeOptions, encoding)
    ranks: dict[float, dict[str, list[Ranks]]] = {weight: {} for weight in weights}
    for name, task in composed.items():
        for weight, of_task in _ranks(encoder, task, weights, rule, similarity, options).items():
            ranks[weight][name] = of_task
    protocol = Protocol(assembly.source, assembly.fingerprint, split, ties=rule)
    labels = {name: [task.labels] for name, task in composed.items()}
    values = {}
    for weight, by_task in ranks.items():
        result = score(str(weight), by_task, protocol, measures=[measure], labels=labels)
        values[weight] = float(np.mean([result.aggregates[name][measure] for name in by_task]))
    best = max(values, key=lambda weight: (values[weight], -abs(weight - 0.5)))
    return ChosenWeight(float(best), split, measure, values)


def composed_tasks(tasks: Mapping[str, Task]) -> dict[str, Task]:
    """The tasks whose queries have a text and an image."""
    return {name: task for name, task in tasks.items() if "text+image" in task.queries.kinds}


def _ranks(
    encoder: Encoder,
    task: Task,
    weights: Sequence[float],
    ties: Ties,
    similarity: Similarity | None,
    options: EncodeOptions,
) -> dict[float, list[Ranks]]:
    """The ranks of the positives of one task at each weight."""
    queries = _by_weight(encoder, task.queries, "query", options)
    documents = _by_weight(encoder, task.documents, "document", options)
    folds = {task.name: [task]}
    ranks = {}
    for weight in weights:
        composed = ComposedEncoder(encoder, CompositionRule("sum", float(weight)))
        system = VectorSystem({"query": queries(composed), "document": documents(composed)}, similarity)
        ranked = system.rank(folds, depth=1 + skips_first(folds), ties=ties)
        ranks[weight] = list(without_first_answers(ranked, folds)[0][task.name])
    return ranks


def _by_weight(
    encoder: Encoder, items: Items, role: Role, options: EncodeOptions
) -> Callable[[ComposedEncoder], Vectors]:
    """The vectors of one side for an encoder of any weight; what is encoded is encoded now, once."""
    first = ComposedEncoder(encoder, CompositionRule("sum", 0.5))
    parts = first.parts(items)
    if parts is None:
        vectors = encode_items(first, items, role, **options)
        return lambda composed: vectors
    below = {modality: encode_items(encoder, part.items, role, **options) for modality, part in parts.items()}
    return lambda composed: composed.join_parts(items, parts, below, role)


# How a model answers queries of a text and an image: the rule that composes them, or the model itself.

_CHOSEN_ON = re.compile(r"sum\(\s*(?P<split>[A-Za-z][\w.+-]*)\s*\)")


def composed_system(
    subject: System,
    compose: CompositionRule | str,
    tasks: Mapping[str, Task],
    source: Any,
    split: str | None,
    *,
    relevance: str | None = None,
    ties: Ties | None = None,
) -> EncoderSystem:
    """The system with the rule by which it composes queries: "sum(0.5)", …; "sum(val)" chooses it on that split."""
    if not isinstance(subject, EncoderSystem):
        raise ConfigurationError(
            f"compose = {compose!r} goes with a model; given is a {type(subject).__name__}.",
            hint="vectors and runs are composed already: leave compose out",
            code="compose-goes-model",
        )
    if not any_of_both(tasks):
        raise ConfigurationError(
            f"compose = {compose!r}: no query and no document of these tasks has a text and an image.",
            hint="leave compose out",
            code="no-query-no-document",
        )
    match = _CHOSEN_ON.fullmatch(str(compose).strip())
    if match is None:
        return subject.composed(CompositionRule.parse(compose))
    if match["split"] in (split or "all").split("+") or split in (None, "all"):
        raise ConfigurationError(
            f"compose = {compose!r}: the weight is chosen on {match['split']!r}, which is measured too "
            f"({'split ' + repr(split) if split else 'all splits'}).",
            hint="measure another split: split=…",
            code="weight-chosen-measured-too",
        )
    chosen = choose_weight(
        source,
        subject.encoder,
        match["split"],
        tasks=list(composed_tasks(tasks)),
        relevance=relevance,
        ties=ties,
        similarity=subject.asked_similarity,
        **subject.options,
    )
    how_chosen = f"weight chosen on {chosen.split} by {chosen.measure}"
    return subject.composed(CompositionRule.parse(chosen.compose), how_chosen)


def any_of_both(tasks: Mapping[str, Task]) -> bool:
    """Whether some query or document has a text and an image."""
    return any("text+image" in side.kinds for task in tasks.values() for side in (task.queries, task.documents))
