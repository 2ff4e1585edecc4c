"""Faithfulness of one system to another: correlations and overlaps, worked by hand and against SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from evaluation_toys import make_collection, random_pair
from scipy.stats import pearsonr

import visir
from refusals import refused
from visir.errors import ProtocolError, RunError
from visir.evaluation.faithfulness import correlations, overlap_at
from visir.evaluation.results import Evaluation
from visir.records import Gallery, Run

MEASURES = ["hit@1", "hit@5", "mrr@10"]


def evaluated(seed: int, noise: float, depth: int = 20) -> Evaluation:
    collection = make_collection(images=40)
    return visir.evaluate(
        collection, random_pair(collection, seed=seed, noise=noise), measures=MEASURES, depth=depth, name=f"{noise}"
    )


def test_correlations_are_pearsons() -> None:
    one, other = evaluated(0, 1.0).result, evaluated(0, 1.5).result
    found = correlations(one, other)
    assert list(found) == MEASURES
    for name, rho in found.items():
        assert rho == pytest.approx(pearsonr(one.values("t2i", name), other.values("t2i", name)).statistic)
    assert correlations(one, one) == pytest.approx({"hit@1": 1, "hit@5": 1, "mrr@10": 1})


def test_what_does_not_vary_has_no_correlation() -> None:
    perfect = evaluated(0, 0.0).result
    assert np.isnan(list(correlations(perfect, evaluated(0, 1.0).result).values())).all()


def test_other_protocols_are_refused_but_not_another_similarity() -> None:
    collection = make_collection(images=40)
    pair = random_pair(collection)
    one = visir.evaluate(collection, pair, measures=MEASURES).result
    assert correlations(one, visir.evaluate(collection, pair, measures=MEASURES, similarity="dot").result)
    with refused(ProtocolError, "ties", "id", "pessimistic"):
        correlations(one, visir.evaluate(collection, pair, measures=MEASURES, ties="pessimistic").result)


GALLERY = Gallery.of("image", ["a", "b", "c", "d"])


def run(name: str, answers: dict[str, str], gallery: Gallery = GALLERY) -> Run:
    """{"q": "ab"}: query q is answered with a, then b."""
    rows = [(query, one, -float(at)) for query, order in answers.items() for at, one in enumerate(order)]
    return Run.ranked(name, "t2i", *map(list, zip(*rows, strict=True)), gallery)  # type: ignore[arg-type]


def test_overlap_by_hand() -> None:
    # q: {a, b} and {b, c} share one of 2; r: {c, d} and {d, c} both. The other run numbers documents otherwise.
    dense = run("dense", {"q": "abc", "r": "cda"})
    sparse = run("sparse", {"q": "bca", "r": "dcb", "s": "abc"})
    assert overlap_at(dense, sparse, 2).tolist() == [0.5, 1.0]
    assert overlap_at(dense, sparse, 1).tolist() == [0.0, 0.0]
    assert overlap_at(dense, sparse, 3).tolist() == [1.0, pytest.approx(2 / 3)]  # {c, d, a} and {d, c, b}


def test_a_gallery_smaller_than_k_is_all_there_is() -> None:
    one, other = run("dense", {"q": "abcd"}), run("sparse", {"q": "dcba"})
    assert overlap_at(one, other, 10).tolist() == [1.0]


def test_overlap_of_searches_equals_sets() -> None:
    one, other = evaluated(0, 1.0).runs["t2i"], evaluated(1, 1.5).runs["t2i"]
    expected = [
        len({d for d, _ in one.answer(q, 10)} & {d for d, _ in other.answer(q, 10)}) / 10
        for q in one.queries.to_pylist()
    ]
    assert overlap_at(one, other).tolist() == expected


def test_faults_are_named() -> None:
    one = run("dense", {"q": "abc"})
    with refused(RunError, code="candidates-not-search-same", hint=False):
        overlap_at(one, run("sparse", {"q": "abc"}, Gallery.of("image", ["a", "b", "c", "e"])), 2)
    with refused(RunError, "sparse", "3", code="run-answers-fewer-documents"):
        overlap_at(one, run("sparse", {"q": "ab"}), 3)
    with refused(RunError, "sparse", "1 query", "dense", "q", code="run-not-answer", hint=False):
        overlap_at(one, run("sparse", {"r": "abc"}), 3)
