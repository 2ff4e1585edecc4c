"""What it costs that a model does not read the end of long captions: how many are cut, what is lost, and the hits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from visir.display import Plotted, Tabular, brief, counted
from visir.encoders import load
from visir.errors import ConfigurationError, VisirError
from visir.evaluation.assembly import assemble
from visir.evaluation.by_label import ByLabel, LabelDifferences, LabelRow
from visir.evaluation.evaluate import evaluate as evaluate_source
from visir.evaluation.results import Evaluation
from visir.evaluation.sources import CUT, LENGTH, TRUNCATION, WHOLE, open_tasks, read_texts, texts_of
from visir.records import Task


@dataclass(frozen=True, eq=False)
class Truncation(Tabular, Plotted):
    """What truncation costs a model on a source."""

    system: str  # the name of the model
    limit: int | None  # how many tokens of a text it reads; None where it reads all of it
    captions: int  # how many texts there are
    cut: int  # how many of them are longer than the limit
    longest: int  # the tokens of the longest text, and `median`, of the one in the middle
    median: float  # see `longest`
    words_lost: float  # the share of the words of cut texts that are not read
    # The measures of all cut and of all whole texts, as queries; None where one kind is missing, or the model was not
    # evaluated.
    by_truncation: ByLabel | None = None
    by_length: ByLabel | None = None  # the measures of texts by the number of their tokens, likewise
    # Cut minus whole, with its interval. Where images have both kinds, it is taken over these images alone, so its
    # means are others than those of `by_truncation`.
    differences: LabelDifferences | None = None
    evaluation: Evaluation | None = None  # the evaluation, where there was one

    @property
    def share(self) -> float:
        """The share of texts that are cut."""
        return self.cut / self.captions if self.captions else 0.0

    def __repr__(self) -> str:
        if self.limit is None:
            return brief(self, f"{self.system} reads all of every text, or cannot tell")
        row = None if self.differences is None else self.differences[CUT, WHOLE]
        measured = "" if row is None or self.differences is None else (
            f"{self.differences.measure}: cut {row.first_mean:.4g}, whole {row.second_mean:.4g}, difference "
            f"{row.difference:+.4g} ({row.low:.4g} to {row.high:.4g})"
            + (f", over the {counted(row.units, 'images')} that have both" if row.paired else "")
        )  # fmt: skip
        lost = f"; {100 * self.words_lost:.1f} % of their words are not read" if self.cut else ""
        return brief(
            self,
            f"{self.system} reads {self.limit} tokens",
            f"{self.cut:,} of {self.captions:,} texts ({100 * self.share:.1f} %) are cut{lost}",
            f"tokens: median {self.median:g}, longest {self.longest:,}",
            measured,
        )


def truncation(
    source: Any,
    model: Any,
    *,
    split: str | None = None,
    measures: Sequence[str] | str | None = None,
    evaluate: bool = True,
    images: Any = None,
    device: str | None = None,
    dtype: str = "float32",
    **options: Any,
) -> Truncation:
    """Measure what truncation costs: how many captions a model cuts, what is lost, and the hits of cut and whole ones.

    That cut captions find their image less often is no proof that the cut is the reason: long captions may be of other
    images, or harder. The difference by length shows whether the loss begins at the limit.

    Args:
        source: A collection or another source of tasks with texts, as `visir.evaluate` takes it; or a list of texts.
        model: A model, or its name.
        split: The split that is measured.
        measures: Names as people type them; the difference is of the first. None takes R@1, R@5 and R@10.
        evaluate: Whether the model is evaluated too. Otherwise texts are only counted.
        images: Where the pictures are.
        device: Where the model runs: "cpu", "cuda", …
        dtype: The arithmetic of the model.
        **options: Further options of `visir.evaluate`.

    Returns:
        The counts, and the measures of whole and cut captions and by length, with intervals.

    Raises:
        ConfigurationError: The model takes no texts, or the source has none.

    Example:
        >>> import visir
        >>> visir.truncation(["a dog", "two cats on a mat"], "bow")
        Truncation(bow:4096 reads all of every text, or cannot tell)
    """
    encoder = load(model, device=device, dtype=dtype) if isinstance(model, str) else model
    if "text" not in encoder.modalities:
        raise ConfigurationError(
            f"{encoder.card.name} reads no texts.", hint="name a model that takes texts", code="reads-no-texts"
        )
    limit = encoder.root_encoder("text").text_limit()
    listed = isinstance(source, (list, tuple)) and all(isinstance(text, str) for text in source)
    if listed:
        texts, opened = list(source), None
    else:
        opened = open_tasks(source, images)
        assembly = assemble(opened, split=split)
        texts = _all_texts(assembly.tasks)
    if not texts:
        raise ConfigurationError(
            "there are no texts to measure.", hint="give captions, or a list of texts", code="no-texts-measure"
        )
    if limit is None:
        return Truncation(encoder.card.name, None, len(texts), 0, 0, float("nan"), float("nan"))
    reading = read_texts(texts, limit)
    counts = (int(reading.cut.sum()), int(reading.tokens.max()), float(np.median(reading.tokens)), reading.words_lost)
    counted = Truncation(encoder.card.name, limit.tokens, len(texts), *counts)
    if not evaluate or listed or not counts[0]:
        return counted
    evaluation = evaluate_source(opened, encoder, split=split, measures=measures, **options)
    return _measured(counted, evaluation, measures)


def _all_texts(tasks: Mapping[str, Task]) -> list[str]:
    """The texts of all tasks, each item once."""
    by_id: dict[tuple[int, str], str] = {}
    for task in tasks.values():
        for items in (task.queries, task.documents):
            ids = task.measured_queries() if items is task.queries else task.gallery.ids
            shown = items if ids is None else items.select(ids)
            if items.texts is not None:
                key = id(items)
                by_id |= {(key, item): text for item, text in zip(shown.ids.to_pylist(), texts_of(shown), strict=True)}
    return list(by_id.values())


def _measured(counted: Truncation, evaluation: Evaluation, measures: Sequence[str] | str | None) -> Truncation:
    if not any(TRUNCATION in labels.column_names for labels in evaluation.result.labels.values()):
        return replace(counted, evaluation=evaluation)
    first = measures if isinstance(measures, str) or measures is None else next(iter(measures), None)
    try:
        differences = evaluation.differences(TRUNCATION, first, WHOLE)
    except VisirError:
        differences = None  # every caption is cut
    by_length = evaluation.by(LENGTH, measures)
    return replace(
        counted,
        by_truncation=evaluation.by(TRUNCATION, measures),
        by_length=replace(by_length, rows=tuple(sorted(by_length.rows, key=_first_length))),
        differences=differences,
        evaluation=evaluation,
    )


def _first_length(row: LabelRow) -> tuple[str, int]:
    return row.task, int(row.label.replace("–", " ").split()[0])
