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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.encoders import load
from visir.encoders.base import Encoder
from visir.errors import ConfigurationError, ProtocolError
from visir.evaluation.assembly import Assembly
from visir.evaluation.systems.base import System
from visir.evaluation.systems.given import system_of
from visir.evaluation.systems.runs import RunSystem
from visir.evaluation.systems.vectors import EncoderSystem, VectorSystem
from visir.records import (
    SIDES,
    Embeddings,
    Modality,
    MultiVectorEmbeddings,
    Protocol,
    Qrels,
    Run,
    SparseEmbeddings,
    Task,
    Vectors,
)
from visir.retrieval.scan import Side, check_same_dimension, score_places


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


@dataclass(frozen=True)
class Gains:
    """What an evaluation measures dcg_cm with: at which cutoffs, and who says what a wrong answer is worth."""

    cutoffs: list[int]
    estimator: Any  # an encoder, embeddings, or "self", the system under test
    encoding: Mapping[str, Any]

    @classmethod
    def of(
        cls,
        measures: Sequence[str] | None,
        estimator: Any,
        subject: System,
        is_reranked: bool,
        device: str | None,
        dtype: str,
        encoding: Mapping[str, Any],
    ) -> tuple[list[str] | None, Gains | None]:
        """The other measures, and the gains that are measured, if any."""
        if is_reranked and isinstance(estimator, str) and estimator == "self" and isinstance(subject, RunSystem):
            raise ConfigurationError(
                "a run's own scores cannot be the gains of dcg_cm once it is re-ranked: matching scores are no "
                "cosines.",
                hint="name an encoder as the estimator, or leave it out",
                code="matching-scores-no-cosines",
            )
        typed = ["dcg_cm@10"] if measures is None else [str(name) for name in measures]
        cutoffs = [int(name.partition("@")[2]) for name in typed if name.startswith("dcg_cm")]
        others = [name for name in typed if not name.startswith("dcg_cm")] or None
        if not cutoffs:
            return others, None
        if estimator is None:
            raise ConfigurationError(
                "dcg_cm needs an estimator: who says what a wrong answer is worth?",
                hint="estimator=another encoder, or 'self' (circular)",
                code="says-wrong-answer-worth",
            )
        if isinstance(estimator, str) and estimator != "self":
            estimator = load(estimator, device=device, dtype=dtype)
        return others, cls(cutoffs, estimator, encoding)

    def measured(
        self, assembly: Assembly, subject: System, runs: Mapping[str, Run], label: str, protocol: Protocol
    ) -> tuple[dict[str, pa.Table], Protocol, list[str]]:
        """By task dcg_cm of each query; the protocol with the estimator; notes."""
        if assembly.collection is None:
            raise ConfigurationError(
                "dcg_cm compares images with captions: it goes with collections of these only.", code="goes-collections"
            )
        judge = self._judge(assembly.tasks, subject)
        tables = {task: dcg_cm(runs[task], assembly.qrels[task], self.cutoffs, judge) for task in assembly.folds}
        line = judge.line if judge else f"self (circular): {label}"
        notes = ["dcg_cm is circular: the system under test says itself what its wrong answers are worth"]
        return tables, protocol.changed(estimator=line), notes if "(circular)" in line else []

    def _judge(self, tasks: Mapping[str, Task], subject: System) -> Estimator | None:
        """The estimator; None if the run's own cosines are used."""
        own_vectors = subject.by_modality() if isinstance(subject, (VectorSystem, EncoderSystem)) else None
        if isinstance(self.estimator, str):
            return None if own_vectors is None else Estimator.of(own_vectors, is_system=True)
        judge = system_of(self.estimator, **(self.encoding if isinstance(self.estimator, Encoder) else {}))
        if not isinstance(judge, (VectorSystem, EncoderSystem)):
            raise ConfigurationError(
                f"a {type(self.estimator).__name__} cannot be an estimator.", hint="give an encoder, or its embeddings"
            )
        judge.prepare(list(tasks.values()))
        vectors = judge.by_modality()
        cards = {side: vectors[side].encoder.fingerprint for side in ("image", "text")}
        is_system = own_vectors is not None and cards == {
            side: own_vectors[side].encoder.fingerprint for side in ("image", "text")
        }
        return Estimator.of(vectors, is_system=is_system)


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
