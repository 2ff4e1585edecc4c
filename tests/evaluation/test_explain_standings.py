"""Ranks counted from scores, from lists, and one by one."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from visir.evaluation.explaining import ranks
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
    cut = replace(
        whole, documents=whole.documents[:, :5], values=whole.values[:, :5], whole=np.zeros(len(whole.values), bool)
    )
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


def _all_ranks(seed: int) -> list[tuple[np.ndarray, np.ndarray, bool]]:
    rng = np.random.default_rng(seed)
    parts, matrix = _parts(rng), _matrix(rng)
    return [ranks_of_pairs(scores, part, RULES[tie])
            for part in parts for scores in (matrix, _sorted(matrix)) for tie in TIES if tie in RULES]  # fmt: skip


@pytest.mark.parametrize("compared", [2**20, 40])
def test_without_a_compiler_the_ranks_are_the_same(compared: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "_COMPARED", compared)
    found = []
    for compiled in (True, False):
        monkeypatch.setattr(ranks, "pays", lambda numbers, *loops, compiled=compiled: compiled)
        found.append(_all_ranks(compared))
    assert len(found[0]) > 60 and any(has_ties for *_, has_ties in found[0])
    for one, other in zip(*found, strict=True):
        for first, second in zip(one, other, strict=True):
            np.testing.assert_array_equal(first, second)


def test_on_a_new_machine_no_rank_waits_for_the_compiler(tmp_path: Path) -> None:
    program = f"""
import sys; sys.path[:0] = {[str(Path(__file__).parent), str(Path(__file__).parents[1])]!r}
from test_explain_standings import _all_ranks
from visir import jit
from visir.evaluation.explaining import ranks

loops = ranks._find, ranks._count
jit.FEW = 1000  # what is much work on a new machine
_all_ranks(1)
assert not any(loop.signatures for loop in loops), "it waited for the compiler"
[thread] = jit._rehearsed.values()
thread.join()
_all_ranks(1)
assert all(len(loop.signatures) == 1 and not loop.own.stats.cache_misses for loop in loops), "it was compiled here"
"""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
