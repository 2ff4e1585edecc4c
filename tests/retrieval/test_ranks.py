"""Ranks of the positives in a given run, worked by hand."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from refusals import refused
from visir.errors import RunError
from visir.records import Gallery, Qrels, Run
from visir.retrieval.ranks import ranks_of

GALLERY = Gallery.of("image", ["a", "b", "c", "d", "e", "f"], "six")


def run(answers: dict[str, list[tuple[str, float]]], gallery: Gallery = GALLERY) -> Run:
    """A run in the given order (not re-sorted)."""
    documents = sorted({d for answer in answers.values() for d, _ in answer})
    return Run(
        "toy",
        "t2i",
        pa.array(list(answers)),
        np.cumsum([0, *map(len, answers.values())]),
        pa.array(documents),
        np.array([documents.index(d) for answer in answers.values() for d, _ in answer], np.int32),
        np.array([s for answer in answers.values() for _, s in answer], np.float64),
        gallery,
        max(map(len, answers.values())),
    )


def test_by_hand() -> None:
    # q1 answers c a b: positives a (rank 2), b (rank 3), f (not retrieved: 0, last). q2 is judged and not answered.
    # q0 is answered and not judged: left out.
    answers = {"q1": [("c", 3.0), ("a", 2.0), ("b", 1.0)], "q0": [("a", 1.0)]}
    qrels = Qrels.of(["q1", "q1", "q1", "q1", "q2"], ["f", "b", "a", "c", "a"], [1, 2, 3, 0, 1])
    ranks = ranks_of(run(answers), qrels)
    assert ranks.queries.to_pylist() == ["q1", "q2"]
    assert ranks.offsets.tolist() == [0, 3, 4]
    assert ranks.ranks.tolist() == [2, 3, 0, 0]
    assert ranks.grades.tolist() == [3.0, 2.0, 1.0, 1.0]
    assert (ranks.depth, ranks.gallery_size) == (3, 6)


def test_ties() -> None:
    # Scores: e 2 | b 1, d 1, a 1, c 1 | f 0. Positives d, a, f. The run's order stands under "id": e1 b2 d3 a4 c5 f6.
    # Pessimistic: among the tied, b and c first, then d, a in the run's order: d4 a5. Optimistic: d2 a3.
    answers = {"q": [("e", 2.0), ("b", 1.0), ("d", 1.0), ("a", 1.0), ("c", 1.0), ("f", 0.0)]}
    qrels = Qrels.of(["q", "q", "q"], ["a", "d", "f"])
    for ties, expected in (("id", [3, 4, 6]), ("pessimistic", [4, 5, 6]), ("optimistic", [2, 3, 6])):
        assert ranks_of(run(answers), qrels, ties).ranks.tolist() == expected  # type: ignore[arg-type]


def test_equal_scores_of_neighbouring_queries_are_no_tie() -> None:
    answers = {"q1": [("a", 1.0), ("b", 1.0)], "q2": [("a", 1.0), ("b", 1.0)]}
    qrels = Qrels.of(["q1", "q2"], ["a", "a"])
    assert ranks_of(run(answers), qrels, "pessimistic").ranks.tolist() == [2, 2]


def test_a_run_over_the_whole_gallery_has_no_depth() -> None:
    two = Gallery.of("image", ["a", "b"], "two")
    qrels = Qrels.of(["q"], ["b"])
    assert ranks_of(run({"q": [("a", 1.0), ("b", 0.5)]}, two), qrels).depth is None
    assert ranks_of(run({"q": [("a", 1.0)]}, two), qrels).depth == 1


def test_documents_and_queries_that_the_run_does_not_know() -> None:
    qrels = Qrels.of(["q", "q", "r"], ["zz", "a", "zz"])
    assert ranks_of(run({"q": [("a", 1.0)]}), qrels).ranks.tolist() == [1, 0, 0]


def test_nothing_in_common_is_refused() -> None:
    with refused(RunError, "1", "links", "q", "judgements", "7", code="none-queries-judged-queries"):
        ranks_of(run({"q": [("a", 1.0)]}), Qrels.of(["7"], ["a"]))
