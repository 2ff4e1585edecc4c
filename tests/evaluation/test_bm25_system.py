"""BM25 over any texts: by hand, ties, pools, and what it refuses."""

from __future__ import annotations

from math import log

import numpy as np
import pyarrow as pa
import pytest

import visir
from refusals import refused
from visir.errors import ConfigurationError
from visir.evaluation.systems.bm25 import Bm25System
from visir.records import Items, Pools, Qrels, Task
from visir.retrieval.bm25 import Bm25

TEXTS = {"d1": "red boat", "d2": "red dog on a red rug", "d3": "green tree", "d4": "boats"}


def task(pools: Pools | None = None, **fields: object) -> Task:
    """Three queries and four documents; "plane" is in no document."""
    queries = Items.of_texts({"q1": "a red boat", "q2": "plane", "q3": "boat"}, title="queries")
    qrels = Qrels.of(["q1", "q1", "q2", "q3", "q3"], ["d1", "d2", "d3", "d1", "d4"])
    return Task("t2t", queries, Items.of_texts(TEXTS, title="texts"), {"hand": qrels}, pools, **fields)  # type: ignore[arg-type]


def test_scores_and_measures_by_hand() -> None:
    evaluation = visir.evaluate(task(), Bm25System(), measures=["hit@1", "recall@2", "mrr"])
    # Words without stop words: 2, 4 ("red dog red rug"), 2, 1; the mean is 2.25. Both words are in 2 of 4 texts.
    idf = log(1 + (4 - 2 + 0.5) / (2 + 0.5))

    def weight(count: int, length: int) -> float:
        return idf * count / (count + 1.5 * (0.25 + 0.75 * length / 2.25))

    answer = evaluation.runs["t2t"].answer("q1")
    assert [document for document, _ in answer] == ["d1", "d4", "d2"]
    expected = [2 * weight(1, 2), weight(1, 1), weight(2, 4)]
    np.testing.assert_allclose([score for _, score in answer], expected, rtol=1e-5)
    assert evaluation.runs["t2t"].answer("q2") == []
    assert [document for document, _ in evaluation.runs["t2t"].answer("q3")] == ["d4", "d1"]
    # q1: positives at 1 and 3; q2: its positive has no rank; q3: 1 and 2.
    assert evaluation.result.aggregates["t2t"] == {
        "hit@1": pytest.approx(2 / 3), "recall@2": pytest.approx((0.5 + 0 + 1) / 3), "mrr": pytest.approx(2 / 3)
    }  # fmt: skip
    assert evaluation.result.protocol.similarity == "BM25 (Lucene), k1 1.5, b 0.75"
    assert evaluation.result.protocol.text_preprocessing == "stemming s, stop words english"
    assert evaluation.result.system == "BM25"


def test_pools_hold_what_may_be_found() -> None:
    pools = Pools.of(["q1", "q1", "q3"], ["d2", "d4", "d1"])
    evaluation = visir.evaluate(task(pools), Bm25System(), measures=["hit@1", "mrr"])
    assert [document for document, _ in evaluation.runs["t2t"].answer("q1")] == ["d4", "d2"]
    assert [document for document, _ in evaluation.runs["t2t"].answer("q3")] == ["d1"]
    assert evaluation.result.per_query["t2t"]["mrr"].to_pylist() == [0.5, 0.0, 1.0]


def test_ties() -> None:
    queries = Items.of_texts({"q": "boat"}, title="queries")
    documents = Items.of_texts(dict.fromkeys(("a", "b", "c", "d"), "boat"), title="texts")
    equal = Task("t2t", queries, documents, {"hand": Qrels.of(["q", "q"], ["b", "c"])})
    ranks = {
        ties: visir.evaluate(equal, Bm25System(), ties=ties, measures=["mean_rank", "mrr"]).result.mean("t2t", "mrr")  # type: ignore[arg-type]
        for ties in ("id", "optimistic", "pessimistic")
    }
    assert ranks == {"id": 1 / 2, "optimistic": 1.0, "pessimistic": pytest.approx(1 / 3)}


def test_its_run_measures_the_same_again() -> None:
    evaluation = visir.evaluate(task(), Bm25System(Bm25(stemming="none")), measures=["hit@1", "recall@2"])
    again = visir.evaluate(task(), evaluation.runs, measures=["hit@1", "recall@2"])
    assert again.result.aggregates == evaluation.result.aggregates
    assert again.result.protocol.similarity == evaluation.result.protocol.similarity


def test_images_have_no_words() -> None:
    images = Items(pa.array(["i"]), None, pa.table({"path": ["i.jpg"], "archive": [None]}), title="photos")
    search = Task("t2i", Items.of_texts({"q": "boat"}), images, {"hand": Qrels.of(["q"], ["i"])})
    with refused(ConfigurationError, "BM25", "photos", "images", code="compares-texts"):
        visir.evaluate(search, Bm25System())
