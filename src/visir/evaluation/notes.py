"""Notes of an evaluation: what a reader must know before taking the numbers for what they seem."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow.compute as pc

from visir.display import counted
from visir.evaluation.systems import EncoderSystem, System, VectorSystem
from visir.records import MultiVectorEmbeddings, Ranks, SparseEmbeddings, Task, Vectors


def equal_vectors(subject: System) -> list[str]:
    """A note for each side whose vectors are all the same: a collapsed model has numbers too, and they mean nothing."""
    if not isinstance(subject, (VectorSystem, EncoderSystem)):
        return []
    return [
        f"all {len(vectors):,} {side} vectors are equal: the order of the answers is that of the ids, not of a model"
        for side, vectors in subject.by_modality().items()
        if len(vectors) > 1 and _all_equal(vectors)
    ]


def _all_equal(vectors: Vectors) -> bool:
    if isinstance(vectors, SparseEmbeddings):
        return False
    matrix = vectors.vectors
    if isinstance(vectors, MultiVectorEmbeddings):
        count = int(vectors.counts[0])
        if (vectors.counts != count).any():
            return False
        matrix = matrix.reshape(len(vectors), count * vectors.dimension)
    return bool((matrix[0] == matrix[1]).all() and (matrix[0] == matrix).all())


def same_items(task: Task) -> list[str]:
    """A note when queries are documents too: a search then finds the query itself."""
    if task.queries.modality != task.documents.modality or task.gallery.ids is None:
        return []
    if task.pools is not None or task.excluded is not None or task.skip_first:
        return []
    same = int(pc.sum(pc.is_in(task.measured_queries(), task.gallery.ids)).as_py() or 0)
    count = counted(same, "queries", "have")
    note = f"{task.name}: {count} the id of a document; where it is the same item, it finds itself first"
    return [note] if same else []


def missing_positives(folds: Mapping[str, Sequence[Task]], ranks: Mapping[str, Sequence[Ranks]]) -> list[str]:
    """Notes on queries that cannot succeed: without a positive, or with positives outside the gallery."""
    notes = []
    for name, tasks in folds.items():
        without = sum(int((part.positives == 0).sum()) for part in ranks[name])
        if without:
            notes.append(f"{name}: {without:,} queries have no positive; they count as failed")
        outside = 0
        for task in tasks:
            if task.gallery.ids is not None:
                qrels = task.judgements()
                listed = pc.is_in(qrels.documents, task.gallery.ids).to_numpy(zero_copy_only=False)
                outside += int(((qrels.grades > 0) & ~listed).sum())
            if task.pools is not None:
                unpooled = int(pc.sum(pc.invert(pc.is_in(task.measured_queries(), task.pools.queries))).as_py() or 0)
                if unpooled:
                    notes.append(f"{name}: {unpooled:,} judged queries have no pool; they count as failed")
        if outside:
            notes.append(f"{name}: {outside:,} positives are outside the gallery and cannot be found")
    return notes
