"""Ranks of the positives, fold by fold: by searching vectors, or from runs that somebody made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from visir.evaluation.folds import joined_runs
from visir.evaluation.gallery_check import check
from visir.evaluation.restrict import restrict
from visir.records import Gallery, Qrels, Ranks, Run, Ties, Vectors
from visir.search.exact import Searched, search, search_both
from visir.search.ranks import ranks_of
from visir.search.vectors import Similarity

Ranked = tuple[dict[str, list[Ranks]], dict[str, Run]]
"""Per task the ranks of each fold, and one run."""


def search_vectors(
    vectors: tuple[Vectors, Vectors],
    tasks: Sequence[str],
    qrels: Mapping[str, Sequence[Qrels]],
    pools: Sequence[Mapping[str, Gallery]],
    depth: int,
    similarity: Similarity,
    ties: Ties,
    name: str,
) -> Ranked:
    """Search image and text vectors over the galleries of each fold; ranks are exact to the end of the gallery."""
    images, texts = vectors
    found: dict[str, list[Searched]] = {one: [] for one in tasks}
    for fold, pool in enumerate(pools):
        judged = {one: qrels[one][fold] for one in tasks}
        if len(tasks) == 2:
            both = search_both(
                images, texts, galleries=pool, depth=depth, similarity=similarity, ties=ties, qrels=judged, name=name
            )
            for one in tasks:
                found[one].append(both[one])
        else:
            (one,) = tasks
            queries, candidates = (images, texts) if one == "i2t" else (texts, images)
            found[one].append(
                search(
                    queries,
                    candidates,
                    one,
                    gallery=pool[one],
                    depth=depth,
                    similarity=similarity,
                    ties=ties,
                    qrels=judged[one],
                    name=name,
                )
            )
    ranks = {one: [part.ranks for part in parts if part.ranks is not None] for one, parts in found.items()}
    return ranks, {one: joined_runs([part.run for part in parts]) for one, parts in found.items()}


def rank_runs(
    runs: Mapping[str, Run],
    qrels: Mapping[str, Sequence[Qrels]],
    pools: Sequence[Mapping[str, Gallery]],
    declared: Mapping[str, Gallery],
    ties: Ties,
    notes: list[str],
) -> Ranked:
    """Ranks in ready runs, after refusing those of another gallery; what a reader must know is added to `notes`."""
    ranks: dict[str, list[Ranks]] = {}
    for task, parts in qrels.items():
        run = runs[task]
        note = check(run, declared[task], len(parts))
        notes += [note] if note else []
        judged = pa.concat_arrays([part.queries for part in parts])
        unanswered = len(judged) - int(pc.sum(pc.is_in(judged, run.queries)).as_py())
        if unanswered:
            notes.append(f"{task}: {unanswered:,} of {len(judged):,} queries are not answered; they count as failed")
        ranks[task] = [
            ranks_of(run if len(parts) == 1 else restrict(run, pool[task], part.queries), part, ties)
            for part, pool in zip(parts, pools, strict=True)
        ]
    return ranks, {task: runs[task] for task in qrels}


def missing_positives(
    qrels: Mapping[str, Sequence[Qrels]],
    pools: Sequence[Mapping[str, Gallery]],
    ranks: Mapping[str, Sequence[Ranks]],
) -> list[str]:
    """Notes on queries that cannot succeed: without a positive, or with positives outside the gallery."""
    notes = []
    for task, parts in qrels.items():
        none = sum(int((part.positives == 0).sum()) for part in ranks[task])
        if none:
            notes.append(f"{task}: {none:,} queries have no positive; they count as failed")
        outside = 0
        for part, pool in zip(parts, pools, strict=True):
            ids = pool[task].ids
            if ids is not None:
                known = pc.is_in(part.documents, ids).to_numpy(zero_copy_only=False)
                outside += int(((part.grades > 0) & ~known).sum())
        if outside:
            notes.append(f"{task}: {outside:,} positives are outside the gallery and cannot be found")
    return notes
