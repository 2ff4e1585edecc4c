"""Cross-modal DCG: a true pair has gain 1, any other answer the gain that an estimator gives it.

Brittleness paper, section 4.2: DCG_CM at p = Σ_{i=1..p} rel_i / log2(i + 1), with rel_i = 1 if query and document are a
true pair, otherwise the cosine similarity of the two *in the space of an encoder*, image on one side, text on the
other. It is not normalised: with p = 10 and one positive, a perfect system whose other answers have cosine c scores
1 + 3.54 c. The other reading, DCG over graded judgements alone, is `ndcg@k`.

The estimator is part of the protocol. The paper uses CLIP ViT-B/32 as the estimator for all systems, including CLIP
itself. Then the system's own confidence in its wrong answers counts as their gain, and a system that is more confident
in its mistakes scores higher. That is circular: it is allowed, and noted on the protocol card.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.encoders.base import Encoder
from visir.encoders.composed import ComposedEncoder, CompositionRule
from visir.encoders.sources import check_accepted
from visir.errors import ConfigurationError, ProtocolError
from visir.evaluation.text_weight import choose_weight, composed_tasks
from visir.records import (
    SIDES,
    Embeddings,
    Modality,
    MultiVectorEmbeddings,
    Qrels,
    Run,
    SparseEmbeddings,
    Task,
    Ties,
    Vectors,
)
from visir.retrieval.vectors import Side, Similarity, check_same_dimension, score_places

# How a model answers queries of a text and an image: the rule that composes them, or the model itself.

_CHOSEN_ON = re.compile(r"sum\(\s*(?P<split>[A-Za-z][\w.+-]*)\s*\)")


def composed_system(
    given: Any,
    compose: CompositionRule | str | None,
    tasks: Mapping[str, Task],
    source: Any,
    split: str | None,
    *,
    relevance: str | None = None,
    ties: Ties | None = None,
    similarity: Similarity | None = None,
    **encoding: Any,
) -> tuple[Any, str]:
    """The system of an evaluation, with the rule by which it composes queries."""
    # compose: "sum(0.5)", "text", "image"; "sum(val)" chooses the weight on that split; None leaves it to the model.
    if compose is None:
        return given, ""
    if not isinstance(given, Encoder):
        raise ConfigurationError(
            f"compose = {compose!r} goes with a model; given is a {type(given).__name__}.",
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
        return ComposedEncoder(given, CompositionRule.parse(compose)), ""
    if match["split"] in (split or "all").split("+") or split in (None, "all"):
        raise ConfigurationError(
            f"compose = {compose!r}: the weight is chosen on {match['split']!r}, which is measured too "
            f"({'split ' + repr(split) if split else 'all splits'}).",
            hint="measure another split: split=…",
            code="weight-chosen-measured-too",
        )
    chosen = choose_weight(
        source,
        given,
        match["split"],
        tasks=list(composed_tasks(tasks)),
        relevance=relevance,
        ties=ties,
        similarity=similarity,
        **encoding,
    )
    return (
        ComposedEncoder(given, CompositionRule.parse(chosen.compose)),
        f"weight chosen on {chosen.split} by {chosen.measure}",
    )


def any_of_both(tasks: Mapping[str, Task]) -> bool:
    """Whether some query or document has a text and an image."""
    return any("text+image" in side.kinds for task in tasks.values() for side in (task.queries, task.documents))


def check_takes(given: Any, tasks: Mapping[str, Task]) -> None:
    """Raise at once what a model cannot encode of the tasks, before it encodes anything."""
    if isinstance(given, Encoder) and not given.precomputed:
        check_accepted(given, [side for task in tasks.values() for side in (task.queries, task.documents)])


NAME = re.compile(r"dcg_cm@([1-9]\d*)")


@dataclass(frozen=True)
class Estimator:
    """The estimator of the similarity of a query and a wrong answer: image and text vectors of one space."""

    images: Embeddings  # the vectors of the images
    texts: Embeddings  # the vectors of the captions
    is_system: bool = False  # whether the estimator is the system under test
    _sides: dict[Modality, Side] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_same_dimension(self.images, self.texts)

    @classmethod
    def of(cls, vectors: Mapping[str, Vectors], *, is_system: bool = False) -> Estimator:
        """The estimator with the vectors of a system, by modality."""
        return cls(_dense(vectors["image"]), _dense(vectors["text"]), is_system=is_system)

    def side(self, modality: Modality) -> Side:
        """The unit vectors of one side, computed once for both tasks."""
        if modality not in self._sides:
            embeddings = self.images if modality == "image" else self.texts
            self._sides[modality] = Side(embeddings, np.arange(len(embeddings)), "cosine")
        return self._sides[modality]

    @property
    def line(self) -> str:
        """The estimator's line in the protocol."""
        name = " + ".join(dict.fromkeys([self.images.encoder.name, self.texts.encoder.name]))
        return f"self (circular): {name}" if self.is_system else name


def _dense(vectors: Vectors) -> Embeddings:
    """Check that vectors are dense: sparse ones have no cosines."""
    if isinstance(vectors, MultiVectorEmbeddings):
        raise ConfigurationError(
            f"dcg_cm takes cosines for gains; {vectors.encoder.name} makes several vectors for each item.",
            hint="name an encoder with one vector for each item as the estimator",
            code="dcg-cm-takes-cosines",
        )
    if isinstance(vectors, SparseEmbeddings):
        raise ConfigurationError(
            f"dcg_cm takes cosines for gains; the vectors of {vectors.encoder.name} are sparse.",
            hint="name a dense encoder as the estimator, the one that was made sparse for instance",
            code="dcg-cm-takes",
        )
    return vectors


def split_names(measures: Sequence[str] | None, has_estimator: bool) -> tuple[list[str] | None, list[int]]:
    """Separate the measures of ranks from the "dcg_cm@p"."""
    # Returns: (names of the measures of ranks, the cutoffs p).
    if measures is None:
        return None, [10] if has_estimator else []
    cutoffs = []
    measures = [str(name) for name in measures]
    for name in measures:
        if name.startswith("dcg_cm"):
            match = NAME.fullmatch(name)
            if not match:
                raise ConfigurationError(f"{name!r}: write dcg_cm@p with a whole number p from 1.", hint="dcg_cm@10")
            cutoffs.append(int(match[1]))
    return [name for name in measures if not name.startswith("dcg_cm")] or None, cutoffs


def dcg_cm(run: Run, qrels: Qrels, cutoffs: Sequence[int], estimator: Estimator | None) -> pa.Table:
    """Measure the cross-modal DCG of each query."""
    # A cosine below 0 stays below 0, as in the formula. A query without answer scores 0.
    matrix = gains(run, qrels, max(cutoffs), estimator)
    discounts = np.log2(np.arange(2, matrix.shape[1] + 2))
    return pa.table(
        {"query_id": qrels.queries} | {f"dcg_cm@{p}": (matrix[:, :p] / discounts[:p]).sum(axis=1) for p in cutoffs}
    )


def gains(run: Run, qrels: Qrels, p: int, estimator: Estimator | None) -> NDArray[np.float64]:
    """The gain of each of the first p answers."""
    # Returns: (judged queries, p) the gains; 0 where there is no answer.
    if p > run.depth and not run.gallery.ends_by(run.depth):
        raise ProtocolError(
            f"dcg_cm@{p} looks deeper than the run {run.name} ({run.task}), which is {run.depth} deep.",
            hint=f"search deeper, or measure dcg_cm@{run.depth}",
            code="dcg-cm-looks-deeper",
        )
    lengths = np.diff(run.offsets)
    place = np.arange(len(run.scores)) - np.repeat(run.offsets[:-1], lengths)
    query_row = (
        pc.fill_null(pc.index_in(run.queries, qrels.queries), -1).to_numpy(zero_copy_only=False).astype(np.int64)
    )
    row = np.repeat(query_row, lengths)
    top = (place < p) & (row >= 0)
    row, place, document = row[top], place[top], run.indices[top].astype(np.int64)
    worth = _own_scores(run)[top] if estimator is None else _estimated(run, qrels, row, document, estimator)
    query = np.repeat(np.arange(len(qrels)), np.diff(qrels.offsets))
    listed = pc.fill_null(pc.index_in(qrels.documents, run.documents), -1).to_numpy(zero_copy_only=False)
    true = (qrels.grades > 0) & (listed >= 0)
    # Arrow's hash look-up: NumPy's isin would sort all answers.
    pairs = pa.array(query[true] * len(run.documents) + listed[true])
    positive = pc.is_in(pa.array(row * len(run.documents) + document), pairs).to_numpy(zero_copy_only=False)
    matrix = np.zeros((len(qrels), p))
    matrix[row, place] = np.where(positive, 1.0, worth)
    return matrix


def _own_scores(run: Run) -> NDArray[np.float64]:
    highest = float(np.abs(run.scores).max()) if len(run.scores) else 0.0
    if highest > 1 + 1e-4:
        raise ConfigurationError(
            f"the scores of run {run.name} ({run.task}) reach {highest:.3g}; they are no cosines.",
            hint="give an estimator: an encoder, or the pair of its image and text embeddings",
            code="scores-run-reach-no",
        )
    return run.scores.astype(np.float64)


def _estimated(
    run: Run, qrels: Qrels, row: NDArray[np.int64], document: NDArray[np.int64], estimator: Estimator
) -> NDArray[np.float64]:
    queries, documents = SIDES[run.task]
    query_rows = _places(estimator, queries, qrels.queries, row)
    document_rows = _places(estimator, documents, run.documents, document)
    return score_places(estimator.side(queries), query_rows, estimator.side(documents), document_rows).astype(
        np.float64
    )


def _places(
    estimator: Estimator, modality: Modality, ids: pa.StringArray, used: NDArray[np.int64]
) -> NDArray[np.int64]:
    """(m,) the row of each of `ids[used]` on one side; only ids that are used need a vector."""
    embeddings = estimator.images if modality == "image" else estimator.texts
    places = pc.fill_null(pc.index_in(ids, embeddings.ids), -1).to_numpy(zero_copy_only=False).astype(np.int64)
    used_rows: NDArray[np.int64] = places[used]
    if (used_rows < 0).any():
        embeddings.rows(ids.take(pa.array(np.unique(used[used_rows < 0]))))  # raises, naming them
    return used_rows
