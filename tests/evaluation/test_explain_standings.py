"""Ranks counted from scores, from lists, and one by one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from visir.evaluation.explaining.ranks import Scores, ranks_of_pairs
from visir.evaluation.explaining.readings import RULES
from visir.evaluation.explaining.world import Part

QUERIES, DOCUMENTS = 12, 17
TIES = (
    "list", "id", "trec", "source order", "reverse order", "optimistic", "pessimistic", "average", "at most",
    "any order", "average of all", "average down", "any alike",
)  # fmt: skip


def _parts(rng: np.random.Generator) -> list[Part]:
    """A part of everything, of some candidates, in folds, and with copies."""
    queries = np.arange(QUERIES)
    right = rng.random((QUERIES, DOCUMENTS)) < 0.2
    everything = np.append(np.ones(DOCUMENTS, bool), False)
    some = everything & np.append(rng.random(DOCUMENTS) < 0.7, False)
    few = everything & np.append(rng.random(DOCUMENTS) < 0.3, False)
    copies = np.append(rng.integers(1, 4, DOCUMENTS), 0)
    query_fold, document_fold = rng.integers(0, 2, QUERIES), np.append(rng.integers(0, 2, DOCUMENTS), -1)
    weights = np.full(QUERIES, 1 / QUERIES)

    def part(candidates: np.ndarray, among: np.ndarray, **more: object) -> Part:
        pairs = np.nonzero(among & candidates[:-1])
        return Part(
            None, "t2i", queries, queries, queries, queries=queries, candidates=candidates, pairs=pairs,
            weights=weights, **more,
        )  # type: ignore[arg-type]  # fmt: skip

    in_fold = query_fold[:, None] == document_fold[None, :-1]
    return [
        part(everything, right),
        part(some, right),
        part(few, right),
        part(everything, right & in_fold, query_fold=query_fold, document_fold=document_fold, folds=2),
        part(some, right, copies=copies),
    ]


def _matrix(rng: np.random.Generator) -> Scores:
    values = rng.integers(0, 4, (QUERIES, DOCUMENTS)).astype(np.float32)
    documents = np.arange(DOCUMENTS, dtype=np.int32)[None]
    return Scores(np.arange(QUERIES), documents, values, rng.permutation(DOCUMENTS))


def _sorted(matrix: Scores) -> Scores:
    order = np.array([np.lexsort((matrix.id_place, -row)) for row in matrix.values])
    values = np.take_along_axis(matrix.values, order, axis=1)
    return Scores(matrix.queries, order.astype(np.int32), values, matrix.id_place, is_list=True)


def _one_by_one(matrix: Scores, part: Part, ties: str) -> list[tuple[float, float]]:
    """The lowest and the highest rank of each right candidate, by plain loops."""
    ranks = []
    pairs = list(zip(*part.pairs, strict=True))
    key = np.arange(DOCUMENTS) if ties in ("source order", "reverse order") else matrix.id_place
    key = -key if ties in ("reverse order", "trec") else key
    for query, own in pairs:
        inside = [
            document
            for document in np.flatnonzero(part.candidates[:-1])
            if part.query_fold is None or part.document_fold[document] == part.query_fold[query]  # type: ignore[index]
            for _ in range(1 if part.copies is None else part.copies[document])
        ]
        score = matrix.values[query]
        better = sum(score[document] > score[own] for document in inside)
        equal = sum(score[document] == score[own] for document in inside)
        others = [document for asking, document in pairs if asking == query and score[document] == score[own]]
        nth, wrong = sum(key[document] < key[own] for document in others), equal - len(others)
        before = sum(score[document] == score[own] and key[document] < key[own] for document in inside)
        lowest = {
            "optimistic": better + nth + 1,
            "any order": better + nth + 1,
            "pessimistic": better + wrong + nth + 1,
            "average": better + nth + 1 + wrong / 2,
            "at most": better + equal,
            "average of all": better + (equal + 1) / 2,
            "average down": max(np.floor(better + (equal + 1) / 2), 1),
            "any alike": better + 1,
        }.get(ties, better + before + 1)
        ranks.append((lowest, better + wrong + nth + 1 if ties == "any order" else lowest))
    return ranks


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("seed", range(5))
def test_a_rank_is_the_same_from_scores_from_lists_and_one_by_one(ties: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    matrix = _matrix(rng)
    lists = _sorted(matrix)
    for part in _parts(rng):
        expected = _one_by_one(matrix, part, ties)
        for source in (matrix, lists):
            lowest, highest, has_ties = ranks_of_pairs(source, part, RULES[ties])
            assert has_ties
            assert list(zip(lowest, highest, strict=True)) == expected


def test_lists_that_end_early_give_bounds_that_hold() -> None:
    rng = np.random.default_rng(1)
    matrix = _matrix(rng)
    whole = _sorted(matrix)
    cut = replace(whole, documents=whole.documents[:, :5], values=whole.values[:, :5], is_whole=False)
    known = unknown = 0
    for part in _parts(rng):
        row = part.pairs[0]
        for ties in TIES:
            # Behind the end nobody knows which right candidate is which: bounds are of the first, the second, …
            lowest, highest = (ends[np.lexsort((ends, row))] for ends in ranks_of_pairs(cut, part, RULES[ties])[:2])
            true_low, true_high = (
                ends[np.lexsort((ends, row))] for ends in ranks_of_pairs(matrix, part, RULES[ties])[:2]
            )
            assert (lowest <= true_low).all() and (true_high <= highest).all()
            known += int(np.isfinite(highest).sum())
            unknown += int(np.isinf(highest).sum())
    assert known and unknown
