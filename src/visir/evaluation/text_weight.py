"""The weight of the text in a query of text and image, chosen on a validation split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyarrow as pa

from visir.display import Tabular, brief
from visir.encoders import load
from visir.encoders.base import Encoder
from visir.encoders.composed.encoder import ComposedEncoder
from visir.encoders.composed.rule import CompositionRule
from visir.encoders.encoding import EncodeOptions, encode_items
from visir.errors import ConfigurationError
from visir.evaluation.assembly import assemble
from visir.evaluation.measures.measure import aggregate
from visir.evaluation.measures.measure import measure as per_query
from visir.evaluation.measures.registry import parse
from visir.evaluation.sources import open_tasks
from visir.evaluation.systems.vectors import VectorSystem
from visir.records import Task

WEIGHTS = tuple(number / 20 for number in range(21))
"""0, 0.05, …, 1."""
MEASURE = "mrr"


@dataclass(frozen=True, repr=False)
class ChosenWeight(Tabular, view="visir.reports.views.chosen_weight"):
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
    measure: str = MEASURE,
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
        measure: The measure that decides.
        weights: The weights that are tried, from 0 to 1.
        images: Where the pictures of the source are.
        device: Where a model that is named is run.
        **encoding: Options of `visir.encoders.encode_items`.

    Returns:
        The weight: `chosen.compose` is the option.

    Raises:
        ConfigurationError: The split is a test split; no query has a text and an image; a weight is out of range.

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
            f"a weight that is chosen on {split!r} says nothing of new queries.", hint='choose on "val" or "train"'
        )
    wanted = [tasks] if isinstance(tasks, str) else tasks
    assembly = assemble(
        open_tasks(source, images), split=split, relevance=None, captions="all", gallery="split", tasks=wanted, folds=1
    )
    composed = composed_tasks(assembly.tasks)
    if not composed:
        raise ConfigurationError("no query of this source has a text and an image.", hint="there is nothing to weigh")
    encoder = load(model, device=device)
    measure = parse([measure])[0].name
    options = cast(EncodeOptions, encoding)
    means = [_values(encoder, task, weights, measure, options) for task in composed.values()]
    totals = {weight: float(np.mean([mean[weight] for mean in means])) for weight in weights}
    best = max(totals, key=lambda weight: (totals[weight], -abs(weight - 0.5)))
    return ChosenWeight(float(best), split, measure, totals)


def composed_tasks(tasks: Mapping[str, Task]) -> dict[str, Task]:
    """The tasks whose queries have a text and an image.

    Args:
        tasks: Tasks by name.
    """
    return {name: task for name, task in tasks.items() if "text+image" in task.queries.kinds}


def _values(
    encoder: Encoder, task: Task, weights: Sequence[float], measure: str, options: EncodeOptions
) -> dict[float, float]:
    """The measure of one task at each weight."""
    first = ComposedEncoder(encoder, CompositionRule("sum", 0.5))
    parts = first.parts(task.queries) or {}
    below = {modality: encode_items(encoder, part.items, "query", **options) for modality, part in parts.items()}
    documents = encode_items(first, task.documents, "document", **options)
    values = {}
    for weight in weights:
        composed = ComposedEncoder(encoder, CompositionRule("sum", float(weight)))
        queries = composed.join_parts(task.queries, parts, below, "query")
        ranks, _ = VectorSystem({"query": queries, "document": documents}).rank({task.name: [task]}, depth=1, ties="id")
        values[weight] = aggregate(per_query(ranks[task.name][0], [measure]))[measure]
    return values
