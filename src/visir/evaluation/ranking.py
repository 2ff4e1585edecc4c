"""Ranks of the positives, fold by fold: by searching vectors, or from runs that somebody made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from visir.evaluation.folds import joined_runs
from visir.evaluation.gallery_check import check
from visir.evaluation.restrict import restrict
from visir.records import Direction, Gallery, Qrels, Ranks, Run, Ties
from visir.search.exact import Searched, Vectors, search, search_both
from visir.search.ranks import ranks_of
from visir.search.vectors import Similarity

Ranked = tuple[dict[Direction, list[Ranks]], dict[Direction, Run]]
"""Per direction the ranks of each fold, and one run."""


def search_vectors(
    vectors: tuple[Vectors, Vectors],
    directions: Sequence[Direction],
    qrels: Mapping[Direction, Sequence[Qrels]],
    pools: Sequence[Mapping[Direction, Gallery]],
    depth: int,
    similarity: Similarity,
    ties: Ties,
    name: str,
) -> Ranked:
    """Search image and text vectors over the galleries of each fold; ranks are exact to the end of the gallery."""
    images, texts = vectors
    found: dict[Direction, list[Searched]] = {one: [] for one in directions}
    for fold, pool in enumerate(pools):
        judged = {one: qrels[one][fold] for one in directions}
        if len(directions) == 2:
            both = search_both(
                images, texts, galleries=pool, depth=depth, similarity=similarity, ties=ties, qrels=judged, name=name
            )
            for one in directions:
                found[one].append(both[one])
        else:
            (one,) = directions
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
    runs: Mapping[Direction, Run],
    qrels: Mapping[Direction, Sequence[Qrels]],
    pools: Sequence[Mapping[Direction, Gallery]],
    declared: Mapping[Direction, Gallery],
    ties: Ties,
    notes: list[str],
) -> Ranked:
    """Ranks in ready runs, after refusing those of another gallery; what a reader must know is added to `notes`."""
    ranks: dict[Direction, list[Ranks]] = {}
    for direction, parts in qrels.items():
        run = runs[direction]
        note = check(run, declared[direction], len(parts))
        notes += [note] if note else []
        judged = pa.concat_arrays([part.queries for part in parts])
        unanswered = len(judged) - int(pc.sum(pc.is_in(judged, run.queries)).as_py())
        if unanswered:
            notes.append(
                f"{direction}: {unanswered:,} of {len(judged):,} queries are not answered; they count as failed"
            )
        ranks[direction] = [
            ranks_of(run if len(parts) == 1 else restrict(run, pool[direction], part.queries), part, ties)
            for part, pool in zip(parts, pools, strict=True)
        ]
    return ranks, {direction: runs[direction] for direction in qrels}


def missing_positives(
    qrels: Mapping[Direction, Sequence[Qrels]],
    pools: Sequence[Mapping[Direction, Gallery]],
    ranks: Mapping[Direction, Sequence[Ranks]],
) -> list[str]:
    """Notes on queries that cannot succeed: without a positive, or with positives outside the gallery."""
    notes = []
    for direction, parts in qrels.items():
        none = sum(int((part.positives == 0).sum()) for part in ranks[direction])
        if none:
            notes.append(f"{direction}: {none:,} queries have no positive; they count as failed")
        outside = 0
        for part, pool in zip(parts, pools, strict=True):
            ids = pool[direction].ids
            if ids is not None:
                known = pc.is_in(part.documents, ids).to_numpy(zero_copy_only=False)
                outside += int(((part.grades > 0) & ~known).sum())
        if outside:
            notes.append(f"{direction}: {outside:,} positives are outside the gallery and cannot be found")
    return notes
